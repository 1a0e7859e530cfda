"""Rollbacks say what they rolled back, and events of clusters are found by their types."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

_NO_REPORT = sa.text("type <> 'REPORTED'")


def upgrade() -> None:
    op.add_column("revisions", sa.Column("undone", sa.BigInteger))
    op.add_column("revisions", sa.Column("restored", sa.BigInteger))
    op.create_index("ix_cluster_events_cluster_type_number", "cluster_events", ["cluster", "type", "number"])
    op.create_index(
        "ix_cluster_events_no_report",
        "cluster_events",
        ["number"],
        postgresql_where=_NO_REPORT,
        sqlite_where=_NO_REPORT,
    )


def downgrade() -> None:
    op.execute("DELETE FROM cluster_events WHERE cluster = ''")
    op.drop_index("ix_cluster_events_no_report", "cluster_events")
    op.drop_index("ix_cluster_events_cluster_type_number", "cluster_events")
    op.drop_column("revisions", "restored")
    op.drop_column("revisions", "undone")
