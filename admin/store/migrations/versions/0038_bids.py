"""Rounds of bids, the bids, how good they were, and which agents can bid."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import RowId, UtcDateTime

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    op.create_table(
        "bid_rounds",
        sa.Column("id", RowId, primary_key=True),
        sa.Column("execution_id", RowId, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("asked_at", UtcDateTime, nullable=False),
        sa.Column("deadline", UtcDateTime, nullable=False),
        sa.Column("present", sa.Text),
        sa.Column("decided_at", UtcDateTime),
        sa.Column("outcome", sa.Text),
        sa.Column("decision", sa.Integer),
        sa.Column("cluster", sa.Text),
        sa.Column("promised_seconds", sa.Float),
        sa.Column("settled", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("ask_again_at", UtcDateTime),
        sa.UniqueConstraint("execution_id", "number", name="uq_bid_rounds_execution_id_number"),
    )
    op.create_table(
        "bids",
        sa.Column("id", RowId, primary_key=True),
        sa.Column("round", RowId, nullable=False),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("answer", sa.Text),
        sa.Column("start_seconds", sa.Float),
        sa.Column("cost", sa.Float),
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
        sa.Column("answered_at", UtcDateTime),
        sa.UniqueConstraint("round", "cluster", name="uq_bids_round_cluster"),
    )
    op.create_table(
        "bid_records",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("promised", sa.BigInteger, nullable=False),
        sa.Column("kept", sa.BigInteger, nullable=False),
        sa.Column("late_seconds", sa.Float, nullable=False),
    )
    _index("bid_rounds", "open", ["deadline"], "decided_at IS NULL")
    _index("bid_rounds", "promised", ["id"], "cluster IS NOT NULL AND NOT settled")
    _index("bid_rounds", "due", ["ask_again_at"], "ask_again_at IS NOT NULL")
    _index("bids", "unanswered", ["cluster", "id"], "answered_at IS NULL")
    _index("bids", "last", ["cluster", "id"], "start_seconds IS NOT NULL")
    op.add_column("cluster_states", sa.Column("can_bid", sa.Boolean, nullable=False, server_default=sa.false()))


def _index(table: str, name: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(f"ix_{table}_{name}", table, columns, postgresql_where=condition, sqlite_where=condition)


_definitions = sa.table(
    "fleet_definitions", *(sa.column(name) for name in ("kind", "name")), sa.column("payload", sa.JSON)
)
_trails = sa.table("trails", sa.column("digest"), sa.column("body", sa.JSON))
_POOL_FIELDS = ("ask_deadline", "choose_by", "seconds_weight", "cost_weight", "rebalance")


def _stop_asking() -> None:
    """Give pools that ask, and decisions by them, a strategy that an older admin knows."""
    connection = op.get_bind()
    for kind, name, payload in connection.execute(sa.select(_definitions)).all():
        if kind == "POOL" and payload.get("strategy") == "ask":
            kept = {field: value for field, value in payload.items() if field not in _POOL_FIELDS}
            is_pool = (_definitions.c.kind == kind, _definitions.c.name == name)
            connection.execute(sa.update(_definitions).where(*is_pool).values(payload={**kept, "strategy": "soonest"}))
    by_asking = sa.select(_trails).where(_trails.c.body["strategy"].as_string() == "ask")
    for digest, body in connection.execute(by_asking).all():
        candidates = [
            {**candidate, "verdicts": [verdict for verdict in candidate["verdicts"] if verdict["filter"] != "bid"]}
            for candidate in body["candidates"]
        ]
        changed = {**body, "strategy": "soonest", "candidates": candidates}
        connection.execute(sa.update(_trails).where(_trails.c.digest == digest).values(body=changed))


def downgrade() -> None:
    # An older admin asks nobody: what waits for bids is decided by it again, and its pools choose the soonest.
    op.execute("UPDATE executions SET reason = 'UNDECIDED' WHERE phase = 'QUEUED' AND reason = 'ASKING'")
    _stop_asking()
    op.execute("DELETE FROM retention_cutoffs WHERE name = 'bids'")
    op.drop_column("cluster_states", "can_bid")
    for table in ("bid_records", "bids", "bid_rounds"):
        op.drop_table(table)
