"""Vacuuming of executions that does not get in the way of leases, however many have ended."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    if _is_postgresql():
        # It reads every index from end to end: with a million executions it took a core for seconds, every few
        # thousand leases. With pauses it takes twice as long and nobody notices; what left the queue can wait for it,
        # since scans mark in the indexes what they found dead.
        op.execute(
            "ALTER TABLE executions SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 20)"
        )


def downgrade() -> None:
    if _is_postgresql():
        op.execute("ALTER TABLE executions SET (autovacuum_vacuum_scale_factor = 0.01)")
        op.execute("ALTER TABLE executions RESET (autovacuum_vacuum_cost_delay)")


def _is_postgresql() -> bool:
    return op.get_context().dialect.name == "postgresql"
