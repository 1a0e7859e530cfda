"""Sessions of the console."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import UtcDateTime

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("user_name", sa.Text, nullable=False),
        sa.Column("proof", sa.Text, nullable=False),
        sa.Column("token", sa.Text),
        sa.Column("token_hash", sa.Text),
        sa.Column("groups", sa.JSON, nullable=False),
        sa.Column("issued_at", sa.Float),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("expires_at", UtcDateTime, nullable=False),
    )
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])


def downgrade() -> None:
    op.drop_table("sessions")
