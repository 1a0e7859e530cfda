"""Bids: the questions that clusters have to answer, their answers, and what became of their promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, or_, select, text, update

from admin.core.executions.attempts import RETRY
from admin.core.json_text import JsonObject
from admin.core.placement.bids import Bid, BidAnswer
from admin.store.batches import insert_all, update_all
from admin.store.bid_tables import IS_BID, IS_OPEN, IS_PROMISED, IS_UNANSWERED, bid_records, bid_rounds, bids
from admin.store.database import insert_new
from admin.store.execution_tables import execution_events, executions
from admin.store.executions import ExecutionId
from admin.store.fleet_tables import cluster_states
from admin.store.sql_types import AnyRow


class Question(NamedTuple):
    """What one cluster is asked in a round, and has not answered."""

    bid: int  #: the id of the row that takes the answer
    cluster: str
    round: int
    number: int  #: of the round, among those of the execution
    deadline: datetime
    project: str
    domain: str
    name: str
    uid: str
    content: JsonObject

    @property
    def key(self) -> ExecutionId:
        return ExecutionId(self.project, self.domain, self.name)


_ASKED = (bids.c.id, bids.c.cluster, bids.c.round, bid_rounds.c.number, bid_rounds.c.deadline)
_NAMED = (executions.c.project, executions.c.domain, executions.c.name, executions.c.uid, executions.c.content)
_QUESTIONS = (
    select(*_ASKED, *_NAMED)
    .join(bid_rounds, bid_rounds.c.id == bids.c.round)
    .join(executions, executions.c.id == bid_rounds.c.execution_id)
    .where(
        bids.c.cluster.in_(bindparam("clusters", expanding=True)),
        text(f"bids.{IS_UNANSWERED}"),
        text(f"bid_rounds.{IS_OPEN}"),
        bid_rounds.c.deadline > bindparam("now"),
        executions.c.finished_at.is_(None),
    )
    .order_by(bids.c.id)
    .limit(bindparam("most"))
)


def questions(connection: Connection, clusters: Iterable[str], now: datetime, most: int) -> list[Question]:
    """What the agents of some clusters are to answer, the oldest first."""
    parameters = {"clusters": list(clusters), "now": now, "most": most}
    return list(map(Question._make, connection.execute(_QUESTIONS, parameters)))


class Asked(NamedTuple):
    """What is known of a question that an agent answers."""

    bid: int
    round: int
    cluster: str
    uid: str
    deadline: datetime
    is_open: bool
    answer: str | None
    start_seconds: float | None
    cost: float | None
    is_finished: bool  #: whether the execution is over


def asked(connection: Connection, ids: Iterable[int]) -> dict[int, Asked]:
    """What was asked, by the ids of the rows that take the answers."""
    query = (
        select(bids.c.id, bids.c.round, bids.c.cluster, executions.c.uid, bid_rounds.c.deadline)
        .add_columns(bid_rounds.c.decided_at.is_(None), bids.c.answer, bids.c.start_seconds, bids.c.cost)
        .add_columns(executions.c.finished_at.is_not(None))
        .join(bid_rounds, bid_rounds.c.id == bids.c.round)
        .join(executions, executions.c.id == bid_rounds.c.execution_id)
        .where(bids.c.id.in_(list(ids)))
    )
    return {row[0]: Asked._make(row) for row in connection.execute(query)}


_ANSWER = (
    update(bids)
    .where(bids.c.id == bindparam("bid"), bids.c.answered_at.is_(None))
    .values(
        answer=bindparam("answered"),
        start_seconds=bindparam("start"),
        cost=bindparam("costs"),
        reason=bindparam("why"),
        answered_at=bindparam("at"),
    )
)


def answer(connection: Connection, bid: int, given: Bid) -> bool:
    """Store an answer; False where the round was decided meanwhile."""
    values = {"answered": given.answer.value, "start": given.start_seconds, "costs": given.cost, "why": given.reason}
    return connection.execute(_ANSWER, {"bid": bid, "at": given.answered_at, **values}).rowcount == 1


def complete(connection: Connection, rounds: Iterable[int]) -> list[int]:
    """Those of some rounds in which every cluster has answered."""
    numbers = set(rounds)
    if not numbers:
        return []
    query = select(bids.c.round).where(bids.c.round.in_(numbers), text(IS_UNANSWERED)).distinct()
    return sorted(numbers - set(connection.execute(query).scalars()))


def silence(connection: Connection, rounds: Iterable[int], now: datetime) -> None:
    """Note of some rounds which clusters have not answered; answers that come later do not count."""
    is_due = (bids.c.round.in_(list(rounds)), bids.c.answered_at.is_(None))
    connection.execute(update(bids).where(*is_due).values(answer=BidAnswer.SILENT.value, answered_at=now))


_BID = (bids.c.round, bids.c.cluster, bids.c.answer, bids.c.start_seconds, bids.c.cost, bids.c.reason)


def of_rounds(connection: Connection, rounds: Iterable[int]) -> dict[int, list[Bid]]:
    """The answers of each of some rounds, in the order in which the clusters were asked."""
    numbers = list(rounds)
    given: dict[int, list[Bid]] = {number: [] for number in numbers}
    query = select(*_BID, bids.c.answered_at).where(bids.c.round.in_(numbers), bids.c.answered_at.is_not(None))
    for row in connection.execute(query.order_by(bids.c.id)):
        given[row.round].append(_bid(row))
    return given


def unanswered(connection: Connection, round: int) -> list[str]:
    """The clusters that have not answered in a round that is open."""
    query = select(bids.c.cluster).where(bids.c.round == round, bids.c.answered_at.is_(None)).order_by(bids.c.id)
    return list(connection.execute(query).scalars())


def _bid(row: AnyRow) -> Bid:
    return Bid(
        cluster=row.cluster,
        answer=BidAnswer(row.answer),
        start_seconds=row.start_seconds,
        cost=row.cost,
        reason=row.reason,
        answered_at=row.answered_at,
    )


#: What clusters answer themselves.
_OWN_ANSWERS = tuple(answer.value for answer in (BidAnswer.YES, BidAnswer.NOT_NOW, BidAnswer.NEVER))
#: Those of them that say something of other jobs too: a never is said of one alone.
_FORECASTS = (BidAnswer.YES.value, BidAnswer.NOT_NOW.value)
#: The newest rows among which a no counts as the last bid of its cluster: no index has those of all.
_RECENT = 20_000


def last(connection: Connection) -> dict[str, Bid]:
    """The last bid of each cluster that was no never; a not-now that many bids followed counts no more."""
    recent = select(bids.c.id, bids.c.cluster, bids.c.answer).order_by(bids.c.id.desc()).limit(_RECENT).subquery()
    answered = select(func.max(recent.c.id)).where(recent.c.answer.in_(_FORECASTS)).group_by(recent.c.cluster)
    # One look into the index for each cluster, however many bids there are.
    is_yes = (text(f"bids.{IS_BID}"), bids.c.cluster == cluster_states.c.name)
    newest_yes = select(func.max(bids.c.id)).where(*is_yes).correlate(cluster_states).scalar_subquery()
    accepted = select(newest_yes).select_from(cluster_states).correlate(None)
    query = select(*_BID, bids.c.answered_at).order_by(bids.c.id)  # of two of one cluster the newer one stays
    query = query.where(or_(*(bids.c.id.in_(newest.scalar_subquery()) for newest in (answered, accepted))))
    return {row.cluster: _bid(row) for row in connection.execute(query)}


class Refusal(NamedTuple):
    """That a cluster will never run an execution, as it answered last."""

    reason: str
    at: datetime


def refusals(connection: Connection, execution_ids: Iterable[int]) -> dict[int, dict[str, Refusal]]:
    """Which clusters said never to each of some executions when they were last asked about it, and why."""
    refused: dict[int, dict[str, Refusal]] = {}
    query = (
        select(bid_rounds.c.execution_id, bids.c.cluster, bids.c.answer, bids.c.reason, bids.c.answered_at)
        .join(bids, bids.c.round == bid_rounds.c.id)
        .where(bid_rounds.c.execution_id.in_(list(execution_ids)), bids.c.answer.in_(_OWN_ANSWERS))
        .order_by(bids.c.id)
    )
    for execution_id, cluster, answer, reason, at in connection.execute(query):
        of_execution = refused.setdefault(execution_id, {})
        of_execution.pop(cluster, None)
        if answer == BidAnswer.NEVER.value:
            of_execution[cluster] = Refusal(reason, at)
    return refused


def add(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Store whom rounds ask."""
    insert_all(connection, bids, rows)


class Promise(NamedTuple):
    """A start that a cluster promised, and whether it has come about."""

    round: int
    execution_id: int
    promised_at: datetime  #: when it was promised
    promised_seconds: float | None
    cluster: str
    started_at: datetime | None  #: of the attempt that runs, or ran last
    withdrawn_at: datetime | None  #: when a later round chose a cluster, which need not be another one
    is_bid: bool  #: whether the cluster said so itself; its reports alone promise nothing


_later = bid_rounds.alias()
_WITHDRAWN_AT = (
    select(func.min(_later.c.decided_at))
    .where(
        _later.c.execution_id == bid_rounds.c.execution_id,
        _later.c.number > bid_rounds.c.number,
        _later.c.cluster.is_not(None),
    )
    .scalar_subquery()
)
_IS_BID = exists().where(
    bids.c.round == bid_rounds.c.id, bids.c.cluster == bid_rounds.c.cluster, bids.c.answer == BidAnswer.YES.value
)
_HAS_RUN_SINCE = and_(
    executions.c.attempt - executions.c.unstarted > 1,
    exists().where(
        execution_events.c.execution_id == executions.c.id,
        execution_events.c.type == RETRY,
        execution_events.c.at >= bid_rounds.c.decided_at,
    ),
)


def promises(connection: Connection, most: int) -> list[Promise]:
    """Promises that have not been compared yet and whose executions have started, ended or gone elsewhere."""
    promised = [bid_rounds.c[name] for name in ("id", "execution_id", "decided_at", "promised_seconds", "cluster")]
    query = (
        select(*promised, executions.c.started_at, _WITHDRAWN_AT, _IS_BID)
        .join(executions, executions.c.id == bid_rounds.c.execution_id)
        .where(
            text(f"bid_rounds.{IS_PROMISED}"),
            or_(
                executions.c.started_at.is_not(None),
                executions.c.finished_at.is_not(None),
                func.coalesce(executions.c.cluster, "") != bid_rounds.c.cluster,
                _WITHDRAWN_AT.is_not(None),
                _HAS_RUN_SINCE,
            ),
        )
        .order_by(bid_rounds.c.id)
        .limit(most)
    )
    return list(map(Promise._make, connection.execute(query)))


def settle(connection: Connection, rounds: Iterable[int]) -> None:
    """Note that the promises of some rounds were compared."""
    update_all(connection, bid_rounds, [{"id": round, "settled": True} for round in rounds])


class BidRecord(NamedTuple):
    """How often a cluster started work as it had promised."""

    promised: int
    kept: int
    late_seconds: float


def add_records(connection: Connection, counted: Mapping[str, BidRecord]) -> None:
    """Add to what is counted of clusters."""
    nothing = {"promised": 0, "kept": 0, "late_seconds": 0.0}
    insert_new(connection, bid_records, [{"cluster": cluster, **nothing} for cluster in sorted(counted)])
    for cluster, record in sorted(counted.items()):
        values = {name: bid_records.c[name] + amount for name, amount in record._asdict().items()}
        connection.execute(update(bid_records).where(bid_records.c.cluster == cluster).values(values))


def forget_records(connection: Connection, clusters: Iterable[str]) -> None:
    """Forget what is counted of clusters that are deleted: others of their names begin anew."""
    connection.execute(delete(bid_records).where(bid_records.c.cluster.in_(list(clusters))))


def records(connection: Connection) -> dict[str, BidRecord]:
    """What is counted of each cluster that ever was chosen by its bid."""
    return {row[0]: BidRecord(*row[1:]) for row in connection.execute(select(bid_records))}
