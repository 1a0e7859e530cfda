"""Rounds of bids: opened, decided by one transaction, and followed by others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, and_, bindparam, exists, func, insert, or_, select, text, update

from admin.core.fleet.asking import ASK
from admin.core.placement.bids import BidAnswer
from admin.core.placement.rounds import RoundOutcome
from admin.store.batches import update_all
from admin.store.bid_tables import IS_DUE, IS_OPEN, bid_rounds, bids
from admin.store.decisions import decisions
from admin.store.execution_queue import REQUESTED_STRATEGY
from admin.store.execution_tables import executions
from admin.store.executions import UNLEASED


class BidRound(NamedTuple):
    """One round of questions about one execution."""

    id: int
    execution_id: int
    number: int
    asked_at: datetime
    deadline: datetime
    present: str | None  #: the cluster at which it waited when this was asked
    decided_at: datetime | None
    outcome: str | None
    decision: int | None
    cluster: str | None
    promised_seconds: float | None
    ask_again_at: datetime | None

    @property
    def seconds(self) -> float:
        """How long clusters had for their answers."""
        return (self.deadline - self.asked_at).total_seconds()


_SELECT_ROUND = select(*(bid_rounds.c[name] for name in BidRound._fields))


def open_rounds(connection: Connection, rows: Sequence[Mapping[str, object]]) -> dict[int, int]:
    """Store new rounds, one of each execution; returns their ids by those of the executions."""
    ids = [row["execution_id"] for row in rows]
    last = select(bid_rounds.c.execution_id, func.max(bid_rounds.c.number)).where(bid_rounds.c.execution_id.in_(ids))
    numbers = {row[0]: row[1] for row in connection.execute(last.group_by(bid_rounds.c.execution_id))}
    numbered = [{**row, "number": numbers.get(row["execution_id"], 0) + 1} for row in rows]
    added = connection.execute(insert(bid_rounds).returning(bid_rounds.c.execution_id, bid_rounds.c.id), numbered)
    return {row[0]: row[1] for row in added}


def withdraw(connection: Connection, execution_ids: Sequence[int], now: datetime) -> list[int]:
    """Let the rounds of some executions lead to nothing more; returns those that were open."""
    forget_due(connection, execution_ids)
    is_open = (bid_rounds.c.execution_id.in_(execution_ids), text(IS_OPEN))
    ended = update(bid_rounds).where(*is_open).values(decided_at=now, outcome=RoundOutcome.WITHDRAWN.value)
    return list(connection.execute(ended.returning(bid_rounds.c.id)).scalars())


def due(connection: Connection, now: datetime, most: int) -> list[int]:
    """The ids of open rounds that are to be decided: all have answered, or the deadline is over."""
    is_awaited = exists().where(bids.c.round == bid_rounds.c.id, bids.c.answered_at.is_(None))
    query = select(bid_rounds.c.id).where(text(IS_OPEN), or_(bid_rounds.c.deadline <= now, ~is_awaited))
    return list(connection.execute(query.order_by(bid_rounds.c.id).limit(most)).scalars())


def due_again(connection: Connection, now: datetime, most: int) -> list[int]:
    """The ids of the executions whose clusters are to be asked again."""
    query = select(bid_rounds.c.execution_id).where(text(IS_DUE), bid_rounds.c.ask_again_at <= now)
    return list(connection.execute(query.order_by(bid_rounds.c.ask_again_at).limit(most)).scalars())


#: Rounds in which no cluster said yes, after which the clusters are asked again once their pause is over.
_IS_POSTPONED = (text(IS_DUE), bid_rounds.c.outcome == RoundOutcome.NOBODY.value)


def postponed_clusters(connection: Connection, now: datetime) -> list[str]:
    """The clusters that may still take what none of them said yes to, and about which they are asked later."""
    query = (
        select(bids.c.cluster)
        .join(bid_rounds, bid_rounds.c.id == bids.c.round)
        .where(*_IS_POSTPONED, bid_rounds.c.ask_again_at > now, bids.c.answer != BidAnswer.NEVER.value)
    )
    return list(connection.execute(query.distinct()).scalars())


def bring_forward(
    connection: Connection, clusters: Iterable[str], decided_before: datetime, now: datetime, most: int
) -> int:
    """Have clusters asked now about what none said yes to before a time, the oldest executions first; how many."""
    is_asked = exists().where(
        bids.c.round == bid_rounds.c.id,
        bids.c.cluster.in_(list(clusters)),
        bids.c.answer != BidAnswer.NEVER.value,
    )
    is_later = (*_IS_POSTPONED, bid_rounds.c.ask_again_at > now)
    oldest = select(bid_rounds.c.id).where(*is_later, bid_rounds.c.decided_at <= decided_before, is_asked)
    ids = list(connection.execute(oldest.order_by(bid_rounds.c.execution_id).limit(most)).scalars())
    if not ids:
        return 0
    changed = update(bid_rounds).where(bid_rounds.c.id.in_(ids), *is_later).values(ask_again_at=now)
    return connection.execute(changed).rowcount


def still_due(connection: Connection, execution_ids: Iterable[int]) -> set[int]:
    """Those of some locked executions whose clusters are still to be asked again, or were never asked."""
    ids = set(execution_ids)
    rounds = select(bid_rounds.c.execution_id, bid_rounds.c.ask_again_at.is_not(None)).where(
        bid_rounds.c.execution_id.in_(ids)
    )
    rows = connection.execute(rounds).all()
    return {row[0] for row in rows if row[1]} | (ids - {row[0] for row in rows})


def forget_due(connection: Connection, execution_ids: Iterable[int]) -> None:
    """Ask no more about some executions, unless a new round says so."""
    is_due = (bid_rounds.c.execution_id.in_(list(execution_ids)), text(IS_DUE))
    connection.execute(update(bid_rounds).where(*is_due).values(ask_again_at=None))


def execution_ids(connection: Connection, ids: Iterable[int]) -> list[int]:
    """The executions that some rounds are about."""
    query = select(bid_rounds.c.execution_id).where(bid_rounds.c.id.in_(list(ids))).distinct()
    return sorted(connection.execute(query).scalars())


def unscheduled(connection: Connection, pool: str, most: int) -> list[tuple[int, datetime]]:
    """The last rounds about what waits in a pool for an agent, after which none is due: their ids, and when they ended.

    Those are rounds from before the pool had a policy by which it asks again. What was since decided otherwise than by
    a round is not asked about.
    """
    later, chosen = bid_rounds.alias(), bid_rounds.alias()
    query = (
        select(bid_rounds.c.id, bid_rounds.c.decided_at)
        .join(executions, executions.c.id == bid_rounds.c.execution_id)
        .where(
            *UNLEASED,
            executions.c.pool == pool,
            executions.c.cluster.is_not(None),
            bid_rounds.c.decided_at.is_not(None),
            bid_rounds.c.ask_again_at.is_(None),
            exists().where(chosen.c.execution_id == executions.c.id, chosen.c.decision == executions.c.decisions),
            ~exists().where(later.c.execution_id == bid_rounds.c.execution_id, later.c.number > bid_rounds.c.number),
        )
        .limit(most)
    )
    return [(row[0], row[1]) for row in connection.execute(query)]


_HAS_ROUND = exists().where(bid_rounds.c.execution_id == executions.c.id)


def unasked(connection: Connection, pool: str, decided_before: datetime, *, after: int, most: int) -> list[int]:
    """What waits in a pool for an agent since a time, and was given to its cluster by another strategy: its ids.

    What its own request has placed by another strategy is left out. The ids are those after one, in their order.
    """
    query = (
        select(executions.c.id)
        .join(
            decisions,
            and_(decisions.c.execution_id == executions.c.id, decisions.c.number == executions.c.decisions),
        )
        .where(
            *UNLEASED,
            # In a form that the index of pools does not match, which holds all that has ended.
            func.coalesce(executions.c.pool, "") == pool,
            executions.c.cluster.is_not(None),
            decisions.c.decided_at <= decided_before,
            ~_HAS_ROUND,
            or_(REQUESTED_STRATEGY.is_(None), REQUESTED_STRATEGY == ASK),
            # Not by the primary key either, of all that there ever was.
            executions.c.id + 0 > after,
        )
        .order_by(executions.c.id + 0)
        .limit(most)
    )
    return list(connection.execute(query).scalars())


def schedule(connection: Connection, times: Mapping[int, datetime]) -> None:
    """Have clusters asked again at a time after each of some rounds, unless that was settled meanwhile."""
    rows = [{"of_id": id, "at": at} for id, at in times.items()]
    is_unscheduled = (bid_rounds.c.id == bindparam("of_id"), bid_rounds.c.ask_again_at.is_(None))
    if rows:
        connection.execute(update(bid_rounds).where(*is_unscheduled).values(ask_again_at=bindparam("at")), rows)


def postpone(connection: Connection, execution_ids: Iterable[int], at: datetime) -> None:
    """Have clusters asked again at a time about executions about which they could not be asked now."""
    last = select(func.max(bid_rounds.c.id)).where(bid_rounds.c.execution_id.in_(list(execution_ids)))
    is_last = bid_rounds.c.id.in_(last.group_by(bid_rounds.c.execution_id))
    connection.execute(update(bid_rounds).where(is_last, bid_rounds.c.decided_at.is_not(None)).values(ask_again_at=at))


def bring_back(connection: Connection, now: datetime) -> None:
    """Let rounds last no longer that were asked or decided before the clock went back."""
    columns = [bid_rounds.c[name] for name in ("id", "asked_at", "deadline", "decided_at", "ask_again_at")]
    is_open = (text(IS_OPEN), bid_rounds.c.asked_at > now)
    open_rows = [
        {"id": row.id, "asked_at": now, "deadline": now + (row.deadline - row.asked_at)}
        for row in connection.execute(select(*columns).where(*is_open))
    ]
    update_all(connection, bid_rounds, open_rows)
    is_due = (text(IS_DUE), bid_rounds.c.decided_at > now)
    due_rows = [
        {"id": row.id, "decided_at": now, "ask_again_at": now + (row.ask_again_at - row.decided_at)}
        for row in connection.execute(select(*columns).where(*is_due))
    ]
    update_all(connection, bid_rounds, due_rows)


def claim(connection: Connection, ids: Iterable[int], now: datetime) -> list[BidRound]:
    """Decide rounds in this transaction: those that are open; every other transaction finds them decided."""
    is_open = (bid_rounds.c.id.in_(list(ids)), bid_rounds.c.decided_at.is_(None))
    claimed = update(bid_rounds).where(*is_open).values(decided_at=now).returning(bid_rounds.c.id)
    claimed_ids = list(connection.execute(claimed).scalars())
    query = _SELECT_ROUND.where(bid_rounds.c.id.in_(claimed_ids)).order_by(bid_rounds.c.id)
    return list(map(BidRound._make, connection.execute(query)))


def save(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Store what became of rounds that this transaction decides; `id` says which."""
    update_all(connection, bid_rounds, rows)


def due_at(connection: Connection, execution_id: int) -> datetime | None:
    """When the clusters of an execution are asked again; None where that is not due."""
    query = select(func.max(bid_rounds.c.ask_again_at)).where(bid_rounds.c.execution_id == execution_id)
    return connection.execute(query).scalar()


def of(connection: Connection, execution_id: int) -> list[BidRound]:
    """The rounds of an execution, the first one first."""
    query = _SELECT_ROUND.where(bid_rounds.c.execution_id == execution_id).order_by(bid_rounds.c.number)
    return list(map(BidRound._make, connection.execute(query)))
