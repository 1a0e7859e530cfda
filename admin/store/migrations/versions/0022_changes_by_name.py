"""Changes of clusters, pools and labels are found by their names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

_IS_NAMED = sa.text("name <> ''")


def upgrade() -> None:
    op.create_index(
        "ix_revision_changes_name",
        "revision_changes",
        ["kind", "name", "revision"],
        postgresql_where=_IS_NAMED,
        sqlite_where=_IS_NAMED,
    )


def downgrade() -> None:
    op.drop_index("ix_revision_changes_name", "revision_changes")
