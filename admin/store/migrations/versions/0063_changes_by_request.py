"""What one request changed, switched and registered is found however much others did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0063"
down_revision = "0062"

#: What numbers the rows of each table.
_NUMBERS = {
    "revisions": "number",
    "cluster_events": "number",
    "workflows": "id",
    "launch_plans": "id",
    "launch_plan_activations": "id",
}


def upgrade() -> None:
    has_request = sa.text("request_id IS NOT NULL")
    for table, number in _NUMBERS.items():
        op.create_index(
            f"ix_{table}_request_id",
            table,
            ["request_id", number],
            postgresql_where=has_request,
            sqlite_where=has_request,
        )


def downgrade() -> None:
    for table in _NUMBERS:
        op.drop_index(f"ix_{table}_request_id", table)
