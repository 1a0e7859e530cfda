"""Since when each execution has its phase; none is filled in for those of before, whose events tell it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import UtcDateTime

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.add_column("executions", sa.Column("phase_since", UtcDateTime))


def downgrade() -> None:
    op.drop_column("executions", "phase_since")
