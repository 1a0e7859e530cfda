"""The requests that switched clusters, registered and activated, as revisions have them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0053"

_TABLES = ("cluster_events", "workflows", "launch_plans", "launch_plan_activations")


def upgrade() -> None:
    for table in _TABLES:
        op.add_column(table, sa.Column("request_id", sa.Text))


def downgrade() -> None:
    for table in _TABLES:
        op.drop_column(table, "request_id")
