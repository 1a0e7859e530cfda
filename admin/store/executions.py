"""Executions and their events: typed values out of the tables, and the changes that services make to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    and_,
    case,
    cast,
    false,
    func,
    literal_column,
    select,
    text,
    true,
    tuple_,
)

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.attempts import UNDECIDED
from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.core.fleet.clusters import Cluster
from admin.core.json_text import JsonObject
from admin.core.resources import Amounts, add, occupied
from admin.core.settings.scopes import Scope
from admin.store.batches import insert_all, update_all
from admin.store.execution_tables import DEMANDS, IN_QUEUE, execution_events, executions
from admin.store.sql_types import AnySelect

_columns = executions.c
_event_columns = execution_events.c


class ExecutionId(NamedTuple):
    """What an execution is called."""

    project: str
    domain: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}/{self.domain}/{self.name}"


class Execution(NamedTuple):
    """An execution as it is stored.

    First the fields that each creation has of its own, then those that equal requests share, then those that begin
    with a default.
    """

    id: int  #: 0 in the answer to a creation, which does not read it back
    name: str
    uid: str  #: random; of another execution that had the same name it is another
    created_by: str  #: as the gate knew its caller
    claimed_by: str | None  #: the name that the caller gave, unverified
    cluster: str | None
    reason_message: str
    queue_deadline: datetime | None
    created_at: datetime
    updated_at: datetime
    project: str
    domain: str
    digest: str
    request: JsonObject
    workflow: str
    launch_plan: str
    version: str
    launched: JsonObject
    mode: str
    reference: dict[str, str] | None
    phase: str
    reason: str
    state: str
    route_kind: str
    route_name: str
    pool: str | None
    label: str | None
    principal: str | None
    labels: dict[str, str] | None
    content: JsonObject
    required_plugins: list[str]
    demand_cpu: int
    demand_memory: int
    demand_gpu: int
    demand_ephemeral_storage: int
    demand_nodes: int
    exclusive: bool
    revision: int
    attempt: int
    decisions: int
    events: int
    tier: int
    priority: int
    abort_cause: str | None = None
    abort_principal: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration: float | None = None
    not_before: datetime | None = None
    lease_expires_at: datetime | None = None
    confirmed: bool = False
    lease_instance: str = ""
    silent_since: datetime | None = None
    unstarted: int = 0
    native_id: str | None = None
    nodes: list[str] | None = None
    exit_code: int | None = None
    avoid: Sequence[str] = ()
    last_failure: JsonObject | None = None
    phase_since: datetime | None = None  #: None while it has the phase that it was created in

    @property
    def key(self) -> ExecutionId:
        return ExecutionId(self.project, self.domain, self.name)

    @property
    def demand(self) -> dict[str, int]:
        """The resources that it asks for."""
        return _demand(self)

    def takes_of(self, cluster: Cluster) -> Amounts:
        """What it takes of a cluster."""
        return occupied(self.demand, cluster.capacity or {}, exclusive=self.exclusive)


class ListedExecution(NamedTuple):
    """An execution in a list, without its job and what only decisions need."""

    id: int
    project: str
    domain: str
    name: str
    uid: str
    created_by: str
    claimed_by: str | None
    principal: str | None
    labels: dict[str, str] | None
    workflow: str
    launch_plan: str
    version: str
    launched: JsonObject
    mode: str
    reference: dict[str, str] | None
    phase: str
    reason: str
    reason_message: str
    state: str
    cluster: str | None
    pool: str | None
    label: str | None
    revision: int
    attempt: int
    decisions: int
    events: int
    abort_cause: str | None
    abort_principal: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    duration: float | None
    not_before: datetime | None
    lease_expires_at: datetime | None
    silent_since: datetime | None
    native_id: str | None
    nodes: list[str] | None
    exit_code: int | None
    last_failure: JsonObject | None
    unstarted: int
    phase_since: datetime | None

    @property
    def key(self) -> ExecutionId:
        return ExecutionId(self.project, self.domain, self.name)


class WaitingExecution(NamedTuple):
    """An execution in the queue, with what a new decision depends on."""

    id: int
    project: str
    domain: str
    name: str
    route_kind: str
    route_name: str
    cluster: str | None
    pool: str | None
    label: str | None
    reason: str
    reason_message: str
    required_plugins: list[str]
    avoid: list[str]
    decisions: int
    events: int
    revision: int
    queue_deadline: datetime | None
    demand_cpu: int
    demand_memory: int
    demand_gpu: int
    demand_ephemeral_storage: int
    demand_nodes: int
    exclusive: bool
    workflow: str
    launch_plan: str

    @property
    def key(self) -> ExecutionId:
        return ExecutionId(self.project, self.domain, self.name)

    @property
    def scope(self) -> Scope:
        """Where its settings are resolved."""
        return Scope(self.domain, self.project, self.workflow, self.launch_plan)

    @property
    def demand(self) -> dict[str, int]:
        """The resources that it asks for."""
        return _demand(self)


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to an execution."""

    number: int
    at: datetime
    type: str
    phase: str
    reason: str | None = None
    message: str | None = None
    cluster: str | None = None
    by: str | None = None
    attempt: JsonObject | None = None  #: the record of the attempt that was over with it


def _demand(execution: Execution | WaitingExecution) -> dict[str, int]:
    return {**{resource: getattr(execution, f"demand_{resource}") for resource in DEMANDS}, "executions": 1}


_QUEUED = _columns.phase == literal_column(f"'{Phase.QUEUED.value}'")
_WAITS = (_QUEUED, _columns.lease_expires_at.is_(None))
#: The same in the form of the partial indexes, for frequent queries.
_IS_QUEUED = text(IN_QUEUE)
UNLEASED = (_IS_QUEUED, _columns.lease_expires_at.is_(None))
_OPEN = _columns.finished_at.is_(None)
_IS_UNFINISHED = and_(_OPEN, _columns.phase.in_([phase.value for phase in UNFINISHED]))
LEASED = _columns.lease_expires_at.is_not(None)

_SELECT_EXECUTION = select(*(_columns[name] for name in Execution._fields))
_SELECT_LISTED = select(*(_columns[name] for name in ListedExecution._fields))
_SELECT_WAITING = select(*(_columns[name] for name in WaitingExecution._fields))
_SELECT_EVENT = select(*(_event_columns[field.name] for field in fields(Event)))


def demand_columns(demand: Amounts) -> dict[str, int]:
    """The values of the columns that hold a demand."""
    return {f"demand_{resource}": demand.get(resource, 0) for resource in DEMANDS}


def get(connection: Connection, key: ExecutionId, *, lock: bool = False) -> Execution | None:
    """One execution; with `lock` its row is locked until the transaction ends."""
    is_key = (_columns.project == key.project, _columns.domain == key.domain, _columns.name == key.name)
    query = _SELECT_EXECUTION.where(*is_key)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return None if row is None else Execution._make(row)


def names_like(connection: Connection, key: ExecutionId) -> list[str]:
    """The newest names in the same project and domain, for suggestions."""
    query = select(_columns.name).where(_columns.project == key.project, _columns.domain == key.domain)
    newest = query.order_by(_columns.created_at.desc(), _columns.id.desc()).limit(1000)
    return list(connection.execute(newest).scalars())


def has_project(connection: Connection, project: str) -> bool:
    """Whether a project has executions, finished ones included."""
    query = select(_columns.id).where(_columns.project == project)
    first = query.order_by(_columns.project, _columns.domain, _columns.created_at, _columns.id).limit(1)
    return connection.execute(first).first() is not None


def change(
    connection: Connection,
    execution: Execution,
    values: Mapping[str, object],
    kind: str,
    now: datetime,
    *,
    attempt: AttemptRecord | None = None,
    **details: str | None,
) -> None:
    """Change columns of an execution whose row this transaction has locked, and store an event with some details."""
    number, phase = execution.events + 1, str(values.get("phase", execution.phase))
    record = None if attempt is None else attempt.as_json()
    event = Event(number=number, at=now, type=kind, phase=phase, cluster=execution.cluster, attempt=record, **details)
    since = {"phase_since": now} if phase != execution.phase else {}
    change_many(connection, [{"id": execution.id, **values, **since, "updated_at": now, "events": number}])
    add_events(connection, [(execution.id, event)])


def change_many(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Change the same columns of several locked executions, each to values of its own; `id` says which."""
    update_all(connection, executions, rows)


def waiting(connection: Connection, after_id: int, limit: int, *, lock: bool = True) -> list[WaitingExecution]:
    """Executions that wait and that no agent has, by id; with `lock` until the transaction ends."""
    query = _SELECT_WAITING.where(*_WAITS, _OPEN, _columns.id > after_id).order_by(_columns.id).limit(limit)
    return list(map(WaitingExecution._make, connection.execute(query.with_for_update() if lock else query)))


def leased_at(connection: Connection, clusters: Collection[str], limit: int) -> list[Execution]:
    """Executions that the agents of clusters have, by cluster and id."""
    return _leased(connection, _columns.cluster.in_(clusters), limit) if clusters else []


def leased_by(connection: Connection, routes: Collection[tuple[str, str]], limit: int) -> list[Execution]:
    """Executions that agents have and that were placed by one of some routes, each its kind and name."""
    # The range has the planner read the index of leases, which is in the order of clusters, and not the table.
    placed_by = and_(_columns.cluster >= "", tuple_(_columns.route_kind, _columns.route_name).in_(routes))
    return _leased(connection, placed_by, limit) if routes else []


def _leased(connection: Connection, condition: ColumnElement[bool], limit: int) -> list[Execution]:
    query = _SELECT_EXECUTION.where(condition, LEASED).order_by(_columns.cluster, _columns.id).limit(limit)
    return list(map(Execution._make, connection.execute(query)))


def leases_at(connection: Connection, cluster: str, limit: int) -> list[ListedExecution]:
    """The oldest executions that the agent of a cluster has."""
    query = _SELECT_LISTED.where(_columns.cluster == cluster, LEASED).order_by(_columns.id).limit(limit)
    return list(map(ListedExecution._make, connection.execute(query)))


def next_at(connection: Connection, cluster: str, limit: int) -> list[ListedExecution]:
    """The executions that wait at a cluster and that its agent does not have, the first to be leased first."""
    order = (_columns.tier, _columns.priority.desc(), _columns.id)
    query = _SELECT_LISTED.where(*UNLEASED, _columns.cluster == cluster).order_by(*order).limit(limit)
    return list(map(ListedExecution._make, connection.execute(query)))


def taken_by_waiting(connection: Connection, clusters: Mapping[str, Cluster]) -> dict[str, dict[str, int]]:
    """What is taken of each of some clusters by what waits there."""
    sums = [func.sum(cast(_columns[f"demand_{resource}"], Float)) for resource in DEMANDS]
    query = (
        select(_columns.cluster, _columns.exclusive, *sums, func.count())
        .where(_QUEUED, _OPEN, func.coalesce(_columns.cluster, "").in_(list(clusters)))
        .group_by(_columns.cluster, _columns.exclusive)
    )
    taken: dict[str, dict[str, int]] = {}
    for name, exclusive, *amounts in connection.execute(query):
        demand = dict(zip((*DEMANDS, "executions"), map(int, amounts), strict=True))
        whole = occupied(demand, clusters[name].capacity or {}, exclusive=exclusive)
        taken[name] = add(taken.get(name, {}), whole)
    return taken


def counts_by_cluster(connection: Connection) -> dict[tuple[str, str], int]:
    """How many unfinished executions each cluster has in each phase."""
    query = (
        select(_columns.cluster, _columns.phase, func.count())
        .where(_IS_UNFINISHED, _columns.cluster.is_not(None))
        .group_by(_columns.cluster, _columns.phase)
    )
    return {(cluster, phase): count for cluster, phase, count in connection.execute(query)}


def leases_by_cluster(connection: Connection) -> dict[str, int]:
    """How many leases each cluster's agent has."""
    query = select(_columns.cluster, func.count()).where(_IS_UNFINISHED, _columns.lease_expires_at.is_not(None))
    return {row[0]: row[1] for row in connection.execute(query.group_by(_columns.cluster))}


def count_unfinished(connection: Connection, **columns: str) -> int:
    """How many unfinished executions have some values."""
    conditions = [func.coalesce(_columns[name], "") == value for name, value in columns.items()]
    query = select(func.count()).where(_IS_UNFINISHED, *conditions)
    return int(connection.execute(query).scalar_one())


def first_unfinished(connection: Connection, limit: int, **columns: str) -> list[ExecutionId]:
    """The oldest unfinished executions that have some values."""
    conditions = [func.coalesce(_columns[name], "") == value for name, value in columns.items()]
    names = (_columns.project, _columns.domain, _columns.name)
    query = select(*names).where(_IS_UNFINISHED, *conditions).order_by(_columns.id).limit(limit)
    return list(map(ExecutionId._make, connection.execute(query)))


def unfinished_counts(connection: Connection) -> Iterator[tuple[str, str, str, str, str, str, int]]:
    """Unfinished executions by phase, reason, domain, cluster, pool and label."""
    names = ("phase", "reason", "domain", "cluster", "pool", "label")
    groups = [func.coalesce(_columns[name], "") for name in names]
    query = select(*groups, func.count()).where(_IS_UNFINISHED)
    for row in connection.execute(query.group_by(*groups)):
        yield tuple(row)


def full_routes(connection: Connection, reasons: Iterable[str]) -> list[WaitingExecution]:
    """The oldest execution of each route that waits for one of some reasons."""
    waits = (*_WAITS, _columns.cluster.is_(None), _columns.reason.in_(list(reasons)))
    return _first_of_routes(connection, _SELECT_OLDEST.where(*waits))


def oldest_at(connection: Connection, clusters: Iterable[str]) -> list[WaitingExecution]:
    """The oldest execution of each route that waits at one of some clusters."""
    return _first_of_routes(connection, _SELECT_OLDEST.where(*UNLEASED, _columns.cluster.in_(list(clusters))))


_SELECT_OLDEST = select(func.min(_columns.id)).group_by(_columns.route_kind, _columns.route_name)


def _first_of_routes(connection: Connection, oldest: AnySelect) -> list[WaitingExecution]:
    return list(map(WaitingExecution._make, connection.execute(_SELECT_WAITING.where(_columns.id.in_(oldest)))))


def overdue(connection: Connection, now: datetime, limit: int) -> list[int]:
    """The ids of executions that waited longer than their queueing budget."""
    # Written as a CASE so that the index of offered executions does not match.
    is_free = case((_columns.lease_expires_at.is_(None), true()), else_=false())
    query = select(_columns.id).where(_IS_QUEUED, _columns.queue_deadline <= now, is_free)
    return list(connection.execute(query.order_by(_columns.queue_deadline).limit(limit)).scalars())


_IS_UNDECIDED = (*_WAITS, _columns.cluster.is_(None), _columns.reason == UNDECIDED)
_ANY_UNDECIDED = select(_columns.id).where(*_IS_UNDECIDED).limit(1)


def is_any_undecided(connection: Connection) -> bool:
    """Whether any execution was given back and needs another cluster."""
    return connection.execute(_ANY_UNDECIDED).first() is not None


def undecided(connection: Connection, limit: int) -> list[WaitingExecution]:
    """Executions that were given back and need another cluster, locked until the transaction ends."""
    query = _SELECT_WAITING.where(*_IS_UNDECIDED)
    rows = connection.execute(query.order_by(_columns.id).limit(limit).with_for_update(skip_locked=True))
    return list(map(WaitingExecution._make, rows))


def hold(connection: Connection, ids: Iterable[int]) -> list[Execution]:
    """Executions by their ids, locked until the transaction ends."""
    return list(map(Execution._make, connection.execute(_by_id(ids).with_for_update())))


def get_many(connection: Connection, ids: Iterable[int]) -> list[Execution]:
    """Executions by their ids, in their order."""
    return list(map(Execution._make, connection.execute(_by_id(ids))))


def _by_id(ids: Iterable[int]) -> AnySelect:
    return _SELECT_EXECUTION.where(_columns.id.in_(list(ids))).order_by(_columns.id)


def add_events(connection: Connection, events: list[tuple[int, Event]]) -> None:
    """Store events, each with the id of its execution."""
    rows = [{"execution_id": execution_id, **vars(event)} for execution_id, event in events]
    insert_all(connection, execution_events, rows)


def events_of(connection: Connection, execution_id: int, above: int, limit: int) -> list[Event]:
    """The events of an execution above a number, oldest first."""
    query = _SELECT_EVENT.where(_event_columns.execution_id == execution_id, _event_columns.number > above)
    rows = connection.execute(query.order_by(_event_columns.number).limit(limit))
    return [Event(**row._mapping) for row in rows]


def attempt_events(connection: Connection, execution_id: int, limit: int) -> list[Event]:
    """The last events of an execution that were the end of an attempt, newest first."""
    query = _SELECT_EVENT.where(_event_columns.execution_id == execution_id, _event_columns.attempt.is_not(None))
    rows = connection.execute(query.order_by(_event_columns.number.desc()).limit(limit))
    return [Event(**row._mapping) for row in rows]


#: The type of the event by which the agent of a lost cluster tells the end of an attempt after all.
CONFIRMED = "CONFIRMED"
_MOST_RECORDS = 1000


def unconfirmed_attempts(connection: Connection, ids: Iterable[int], cluster: str) -> set[tuple[int, int]]:
    """The attempts at a cluster of some executions whose end nobody has confirmed: row ids with lease numbers."""
    requested = list(ids)
    if not requested:
        return set()
    columns = (_event_columns.execution_id, _event_columns.type, _event_columns.attempt)
    is_record = (_event_columns.attempt.is_not(None), _event_columns.cluster == cluster)
    query = select(*columns).where(_event_columns.execution_id.in_(requested), *is_record)
    unconfirmed: set[tuple[int, int]] = set()
    confirmed: set[tuple[int, int]] = set()
    for id, kind, record in connection.execute(query.order_by(_event_columns.id.desc()).limit(_MOST_RECORDS)):
        key = (id, record["number"])
        if kind == CONFIRMED:
            confirmed.add(key)
        elif record.get("unconfirmed") and key not in confirmed:
            unconfirmed.add(key)
    return unconfirmed


def with_event(connection: Connection, ids: Iterable[int], kind: str, cluster: str) -> set[int]:
    """Those of some executions, by their ids, that have an event of a type and cluster."""
    requested = list(ids)
    if not requested:
        return set()
    is_event = (_event_columns.type == kind, _event_columns.cluster == cluster)
    query = select(_event_columns.execution_id).where(_event_columns.execution_id.in_(requested), *is_event)
    return set(connection.execute(query).scalars())


def last_event(connection: Connection) -> int:
    """The id of the last event of all executions."""
    return int(connection.execute(select(func.coalesce(func.max(_event_columns.id), 0))).scalar_one())
