"""Which clusters are to be reconciled with a restored database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "reconciliations",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("synced_at", sa.DateTime(timezone=True)),
        sa.Column("unknown", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("reconciliations")
