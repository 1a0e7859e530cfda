"""The descriptions of clusters and their revisions; what executions ask of a cluster's graph."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import UtcDateTime

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.create_table(
        "cluster_descriptions",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("claimed_by", sa.Text),
        sa.Column("proof", sa.Text),
        sa.Column("message", sa.Text),
        sa.Column("by_agent", sa.Boolean, nullable=False),
        sa.Column("digest", sa.Text),
        sa.Column("inventory", sa.JSON),
        sa.Column("document", sa.LargeBinary),
        sa.Column("folded", sa.LargeBinary),
    )
    op.create_index("ix_cluster_descriptions_digest", "cluster_descriptions", ["digest"])
    op.add_column("cluster_states", sa.Column("description", sa.Text))
    op.add_column("executions", sa.Column("asks", sa.Text))


def downgrade() -> None:
    # An older admin knows neither such events nor a cutoff of descriptions.
    op.execute("DELETE FROM cluster_events WHERE type = 'DESCRIBED'")
    op.execute("DELETE FROM retention_cutoffs WHERE name = 'descriptions'")
    op.drop_column("executions", "asks")
    op.drop_column("cluster_states", "description")
    op.drop_table("cluster_descriptions")
