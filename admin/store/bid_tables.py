"""The tables of rounds of bids: what clusters were asked, what they answered, and how good their promises were."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, Table, Text, UniqueConstraint, false, text

from admin.store.database import RowId, UtcDateTime, metadata

#: One round of questions about one execution. No foreign keys, as of decisions: retention deletes them together.
bid_rounds = Table(
    "bid_rounds",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("execution_id", RowId, nullable=False),
    Column("number", Integer, nullable=False),
    Column("asked_at", UtcDateTime, nullable=False),
    Column("deadline", UtcDateTime, nullable=False),
    Column("present", Text),  # the cluster at which the execution waits meanwhile; NULL where it has none
    Column("decided_at", UtcDateTime),  # NULL while it is open
    Column("outcome", Text),  # one of core.placement.rounds.RoundOutcome
    Column("decision", Integer),  # the number of the decision that it led to; NULL where it led to none
    Column("cluster", Text),  # the one that was chosen
    Column("promised_seconds", Float),  # its start, from `decided_at` on
    Column("settled", Boolean, nullable=False, server_default=false()),  # whether the promise was compared
    Column("ask_again_at", UtcDateTime),  # when the next round is due; NULL where none is
    UniqueConstraint("execution_id", "number"),
)

#: A cluster that is asked in a round, and its answer.
bids = Table(
    "bids",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("round", RowId, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("answer", Text),  # one of core.placement.bids.BidAnswer; NULL until it is there or the round is decided
    Column("start_seconds", Float),
    Column("cost", Float),
    Column("reason", Text, nullable=False, server_default=""),
    Column("answered_at", UtcDateTime),
    UniqueConstraint("round", "cluster"),
)

#: How often the clusters that were chosen by their bids started work as promised.
bid_records = Table(
    "bid_records",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("promised", BigInteger, nullable=False),  # starts that were promised and came about
    Column("kept", BigInteger, nullable=False),  # those that were not late
    Column("late_seconds", Float, nullable=False),  # in all
)


def _index(table: Table, name: str, *columns: Column[object], where: str) -> None:
    condition = text(where)
    Index(f"ix_{table.name}_{name}", *columns, postgresql_where=condition, sqlite_where=condition)


#: A query must repeat these conditions literally, for the planner to use the index.
IS_OPEN, IS_PROMISED, IS_DUE = "decided_at IS NULL", "cluster IS NOT NULL AND NOT settled", "ask_again_at IS NOT NULL"
IS_UNANSWERED, IS_BID = "answered_at IS NULL", "start_seconds IS NOT NULL"
_index(bid_rounds, "open", bid_rounds.c.deadline, where=IS_OPEN)
_index(bid_rounds, "promised", bid_rounds.c.id, where=IS_PROMISED)
_index(bid_rounds, "due", bid_rounds.c.ask_again_at, where=IS_DUE)
_index(bids, "unanswered", bids.c.cluster, bids.c.id, where=IS_UNANSWERED)
_index(bids, "last", bids.c.cluster, bids.c.id, where=IS_BID)
