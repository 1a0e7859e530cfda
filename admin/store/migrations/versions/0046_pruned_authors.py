"""Who made revisions that retention deletes, for rows that are as these left them and have no author of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import UtcDateTime

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    op.create_table(
        "pruned_authors",
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("project", sa.Text, primary_key=True),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("claimed_by", sa.Text),
        sa.Column("proof", sa.Text),
        sa.Column("message", sa.Text),
    )


def downgrade() -> None:
    op.drop_table("pruned_authors")
