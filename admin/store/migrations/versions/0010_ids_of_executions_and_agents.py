"""Random ids of executions and agents, who holds a lease, and how many syncs each cluster has had."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_TIME = sa.DateTime(timezone=True)


def _columns() -> dict[str, tuple[sa.Column[Any], ...]]:
    return {
        "executions": (
            sa.Column("uid", sa.Text, nullable=False, server_default=""),
            sa.Column("lease_instance", sa.Text, nullable=False, server_default=""),
            sa.Column("silent_since", _TIME),
            sa.Column("unstarted", sa.Integer, nullable=False, server_default="0"),
        ),
        "cluster_states": (
            sa.Column("agent_instance", sa.Text, nullable=False, server_default=""),
            sa.Column("agent_host", sa.Text, nullable=False, server_default=""),
            sa.Column("agent_since", _TIME),
            sa.Column("syncs", sa.BigInteger, nullable=False, server_default="0"),
        ),
    }


def upgrade() -> None:
    for table, columns in _columns().items():
        for column in columns:
            op.add_column(table, column)


def downgrade() -> None:
    for table, columns in _columns().items():
        for column in columns:
            op.drop_column(table, column.name)
