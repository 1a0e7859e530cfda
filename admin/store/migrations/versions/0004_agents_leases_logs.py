"""Tokens and syncs of agents, leases of executions, what they print and what they leave."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_TIME = sa.DateTime(timezone=True)
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")

_STATE: tuple[sa.Column[Any], ...] = (
    sa.Column("health", sa.Text, nullable=False, server_default="expected"),
    sa.Column("admitted", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("draining", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("drain_deadline", _TIME),
    sa.Column("last_sync_at", _TIME),
    sa.Column("agent", sa.Text),
)
_EXECUTION: tuple[sa.Column[Any], ...] = (
    sa.Column("tier", sa.Integer, nullable=False, server_default="3"),
    sa.Column("priority", sa.Integer, nullable=False, server_default="50"),
    sa.Column("not_before", _TIME),
    sa.Column("lease_expires_at", _TIME),
    sa.Column("confirmed", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("native_id", sa.Text),
    sa.Column("nodes", sa.JSON),
    sa.Column("exit_code", sa.Integer),
    sa.Column("avoid", sa.JSON, nullable=False, server_default="[]"),
)


def upgrade() -> None:
    with op.batch_alter_table("cluster_states") as states:
        for column in _STATE:
            states.add_column(column)
    with op.batch_alter_table("executions") as executions:
        for column in _EXECUTION:
            executions.add_column(column)
    op.create_index("ix_executions_lease", "executions", ["cluster", "phase", "tier", "priority", "id"])
    op.create_table(
        "cluster_tokens",
        sa.Column("prefix", sa.Text, primary_key=True),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("last_used_at", _TIME),
        sa.Column("expires_at", _TIME),
        sa.Column("revoked_at", _TIME),
    )
    op.create_index("ix_cluster_tokens_cluster", "cluster_tokens", ["cluster"])
    op.create_table(
        "execution_logs",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("execution_id", _ID, sa.ForeignKey("executions.id"), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("start", sa.BigInteger, nullable=False),
        sa.Column("end", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("execution_id", "attempt", "stream", "start", name="uq_execution_logs_place"),
    )
    op.create_table(
        "execution_outputs",
        sa.Column("execution_id", _ID, sa.ForeignKey("executions.id"), primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("truncated", sa.Boolean, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    for table in ("execution_outputs", "execution_logs", "cluster_tokens"):
        op.drop_table(table)
    op.drop_index("ix_executions_lease", "executions")
    with op.batch_alter_table("executions") as executions:
        for column in _EXECUTION:
            executions.drop_column(column.name)
    with op.batch_alter_table("cluster_states") as states:
        for column in _STATE:
            states.drop_column(column.name)
