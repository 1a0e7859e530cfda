"""Who activated or deactivated launch plans, and rollbacks are found among revisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import RowId, UtcDateTime

revision = "0029"
down_revision = "0028"

_IS_ROLLBACK = sa.text("(undone IS NOT NULL OR restored IS NOT NULL)")
_TABLE = "launch_plan_activations"


def upgrade() -> None:
    op.create_index(
        "ix_revisions_rollbacks", "revisions", ["number"], postgresql_where=_IS_ROLLBACK, sqlite_where=_IS_ROLLBACK
    )
    op.create_table(
        _TABLE,
        sa.Column("id", RowId, primary_key=True, autoincrement=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("project", "domain", "name", "version")),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("replaced_by", sa.Text),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("claimed_by", sa.Text),
        sa.Column("message", sa.Text),
    )
    op.create_index(f"ix_{_TABLE}_version", _TABLE, ["project", "domain", "name", "version", "id"])
    op.create_index(f"ix_{_TABLE}_created_at", _TABLE, ["created_at", "id"])


def downgrade() -> None:
    op.drop_table(_TABLE)
    op.drop_index("ix_revisions_rollbacks", "revisions")
