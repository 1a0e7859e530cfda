"""An index of the places of executions that wait, by which quotas count them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"

_INDEX = "ix_executions_waiting"


def upgrade() -> None:
    condition = sa.text("(phase = 'QUEUED' AND lease_expires_at IS NULL) IS TRUE")
    columns = ["project", "domain", "workflow", "launch_plan"]
    op.create_index(_INDEX, "executions", columns, postgresql_where=condition, sqlite_where=condition)


def downgrade() -> None:
    op.drop_index(_INDEX, "executions")
