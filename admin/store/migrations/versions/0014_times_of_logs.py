"""When each piece of a log was stored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("execution_logs", sa.Column("stored_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    op.drop_column("execution_logs", "stored_at")
