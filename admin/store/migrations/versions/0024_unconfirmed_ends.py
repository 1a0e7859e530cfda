"""Executions that were ended without their agent are marked so, and clusters keep what their agents were told to end.

Since when an unfinished execution has its phase is filled in from its events.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

#: A part of the messages of such ends, and of no others.
_UNCONFIRMED = "Nobody has confirmed that its job has ended."


def upgrade() -> None:
    op.add_column("executions", sa.Column("unconfirmed", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("cluster_states", sa.Column("ending", sa.JSON, nullable=False, server_default="[]"))
    executions = sa.table(
        "executions",
        sa.column("phase", sa.Text),
        sa.column("reason", sa.Text),
        sa.column("reason_message", sa.Text),
        sa.column("unconfirmed", sa.Boolean),
    )
    columns = executions.c
    is_lost = sa.and_(columns.phase == "FAILED", columns.reason == "CLUSTER_LOST")
    is_told = sa.func.replace(columns.reason_message, _UNCONFIRMED, "") != columns.reason_message
    op.execute(
        sa.update(executions).where(sa.or_(is_lost, columns.phase == "ABORTED"), is_told).values(unconfirmed=True)
    )

    _fill_phase_since()


def _fill_phase_since() -> None:
    """Since when unfinished executions have their phase, of those which came to it before that was kept."""
    other = "SELECT MAX(number) FROM execution_events WHERE execution_id = executions.id AND phase <> executions.phase"
    first = f"SELECT MIN(at) FROM execution_events WHERE execution_id = executions.id AND number > ({other})"
    is_before = "phase_since IS NULL AND finished_at IS NULL"
    op.execute(f"UPDATE executions SET phase_since = ({first}) WHERE {is_before}")


def downgrade() -> None:
    op.drop_column("cluster_states", "ending")
    op.drop_column("executions", "unconfirmed")
