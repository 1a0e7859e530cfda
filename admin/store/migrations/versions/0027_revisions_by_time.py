"""Revisions are found by the time at which they were made."""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.create_index("ix_revisions_created_at", "revisions", ["created_at", "number"])


def downgrade() -> None:
    op.drop_index("ix_revisions_created_at", "revisions")
