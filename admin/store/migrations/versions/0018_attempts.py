"""How each attempt ended is kept with its last event, and of the last one that another follows beside its execution."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("execution_events", sa.Column("attempt", sa.JSON(none_as_null=True)))
    op.add_column("executions", sa.Column("last_failure", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    op.drop_column("executions", "last_failure")
    op.drop_column("execution_events", "attempt")
