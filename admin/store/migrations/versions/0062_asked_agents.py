"""Clusters keep which open questions the process of their agent was told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0062"
down_revision = "0060"


def upgrade() -> None:
    op.add_column("cluster_states", sa.Column("asked", sa.JSON, nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("cluster_states", "asked")
