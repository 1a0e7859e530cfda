"""Who defined clusters, pools and labels last; every revision that a rollback undoes; executions by their end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import UtcDateTime

revision = "0036"
down_revision = "0035"

_INDEX = "ix_executions_finished"
#: The new columns of definitions, each with the column of the revision that it is filled from.
_COLUMNS = {"updated_at": "created_at", "updated_by": "author", "claimed_by": "claimed_by"}


def upgrade() -> None:
    for name in _COLUMNS:
        op.add_column("fleet_definitions", sa.Column(name, UtcDateTime if name == "updated_at" else sa.Text))
    definitions = sa.table("fleet_definitions", sa.column("version"), *map(sa.column, _COLUMNS))
    revisions = sa.table("revisions", sa.column("number"), *map(sa.column, _COLUMNS.values()))
    is_version = revisions.c.number == definitions.c.version
    values = {
        name: sa.select(revisions.c[source]).where(is_version).scalar_subquery() for name, source in _COLUMNS.items()
    }
    op.execute(sa.update(definitions).values(values))
    op.add_column("revisions", sa.Column("also_undone", sa.JSON(none_as_null=True)))
    condition = sa.text("finished_at IS NOT NULL")
    op.create_index(_INDEX, "executions", ["finished_at", "id"], postgresql_where=condition, sqlite_where=condition)


def downgrade() -> None:
    op.drop_index(_INDEX, "executions")
    op.drop_column("revisions", "also_undone")
    for name in reversed(_COLUMNS):
        op.drop_column("fleet_definitions", name)
