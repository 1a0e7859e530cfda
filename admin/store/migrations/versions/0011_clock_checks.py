"""How far the clock may be believed when something is deleted by it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "clock_checks",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("believed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("steady_seconds", sa.Float, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("clock_checks")
