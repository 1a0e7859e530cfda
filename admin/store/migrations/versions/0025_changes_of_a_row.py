"""The changes of one row are found newest first, without sorting all of them."""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"

_NAME, _TABLE = "ix_revision_changes_scope", "revision_changes"
_COLUMNS = ["project", "domain", "workflow", "launch_plan", "kind"]


def upgrade() -> None:
    op.drop_index(_NAME, _TABLE)
    op.create_index(_NAME, _TABLE, [*_COLUMNS, "revision"])


def downgrade() -> None:
    op.drop_index(_NAME, _TABLE)
    op.create_index(_NAME, _TABLE, _COLUMNS)
