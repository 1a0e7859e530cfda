"""Leases: the executions that agents have, and the changes written to many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, or_, select

from admin.core.clock_checks import JUMP
from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.attempts import Change, time_limit_seconds
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import LONGEST_BACKOFF_SECONDS
from admin.core.executions.tokens import attempt_token
from admin.core.provenance import Actor
from admin.core.settings.scopes import Scope
from admin.store.batches import update_all
from admin.store.execution_events import Event, add_events, columns_of
from admin.store.execution_fields import on_lost_of
from admin.store.execution_tables import executions
from admin.store.executions import LEASED, UNLEASED, ExecutionId
from admin.store.keys import KeyedQuery
from admin.store.sql_types import AnySelect

_columns = executions.c


class LeasedExecution:
    """An execution whose row this transaction has locked, with the changes that `save` writes.

    Its annotations are the columns that are read.
    """

    id: int
    project: str
    domain: str
    name: str
    uid: str
    cluster: str | None
    pool: str | None
    label: str | None
    phase: str
    reason: str
    reason_message: str
    attempt: int
    events: int
    created_at: datetime
    started_at: datetime | None
    lease_expires_at: datetime | None
    confirmed: bool
    lease_instance: str  #: of the agent that confirmed it
    silent_since: datetime | None  #: the last sync of its cluster, where that is silent and the lease over
    unstarted: int  #: attempts that were given back before they began
    native_id: str | None
    unconfirmed: bool  #: whether it was ended without its agent, which has not told the end of its job since
    tier: int
    priority: int
    token_pools: str | None  #: JSON: how many tokens of which pools it needs while it runs; None for none
    token_number: int | None  #: of the grant that its attempt holds
    workflow: str
    launch_plan: str
    content: Mapping[str, Any]  #: JSON; read by `add_details`, `offers` and `expired` alone
    avoid: list[str]  #: read by `add_details` and `expired` alone
    nodes: list[str] | None  #: the same
    created_by: str  #: this and what follows are read by `offers` and `add_creators` alone
    created_proof: str | None
    created_use: str | None
    route_kind: str
    route_name: str
    demand_cpu: int
    demand_memory: int
    demand_gpu: int
    is_bounded: bool  #: whether an execution quota applies to it; read by `offers` alone

    def __init__(self, names: Iterable[str], values: Iterable[object]) -> None:
        self.__dict__.update(zip(names, values, strict=True))
        self._changed: dict[str, object] = {}
        self._loaded_attempt = self.attempt
        self._loaded_lease_end = self.lease_expires_at
        self._new_events: list[Event] = []

    @property
    def key(self) -> ExecutionId:
        return ExecutionId(self.project, self.domain, self.name)

    @property
    def scope(self) -> Scope:
        """The scope that its settings were resolved at."""
        return Scope(self.domain, self.project, self.workflow, self.launch_plan)

    @property
    def kind(self) -> tuple[object, ...]:
        """What it has in common with others that wait for the same as it does, as `offers` numbers them."""
        return (self.scope, self.token_pools, self.demand_cpu, self.demand_memory, self.demand_gpu)

    @property
    def held_token(self) -> str:
        """By what name the attempt that it had when it was read holds tokens, or waits for some."""
        return attempt_token(self.uid, self._loaded_attempt)

    def is_over(self, now: datetime) -> bool:
        """Whether no agent has a lease of it any more that has not run out."""
        return self.lease_expires_at is None or self.lease_expires_at <= now

    def was_over(self, now: datetime) -> bool:
        """The same of the lease that it had when it was read."""
        return self._loaded_lease_end is None or self._loaded_lease_end <= now

    @property
    def is_renewed(self) -> bool:
        """Whether its lease was given or renewed by this transaction."""
        return self._changed.get("lease_expires_at") is not None

    @property
    def time_limit_seconds(self) -> float | None:
        """The longest that it may run."""
        return time_limit_seconds(self.content)

    def set(self, **values: object) -> None:
        """Change columns without an event."""
        self.__dict__.update(values)
        self._changed.update(values)

    def apply(self, change: Change, now: datetime) -> None:
        """Make a change, with its event."""
        cluster = self.cluster
        since = {"phase_since": now} if change.values.get("phase", self.phase) != self.phase else {}
        self.set(**change.values, **since, updated_at=now)
        message = change.message or change.values.get("reason_message")
        self.note(change.kind, self.reason, message, cluster, now, change.attempt, change.by)

    def note(
        self,
        kind: str,
        reason: str,
        message: str | None,
        cluster: str | None,
        now: datetime,
        attempt: AttemptRecord | None = None,
        by: Actor | None = None,
    ) -> None:
        """Add an event that changes nothing else."""
        self.set(events=self.events + 1)
        event = Event(
            number=self.events,
            at=now,
            type=kind,
            phase=self.phase,
            reason=reason,
            message=message,
            cluster=cluster,
            attempt=None if attempt is None else attempt.as_json(),
            **columns_of(by),
        )
        self._new_events.append(event)


class CurrentAttempt(NamedTuple):
    """The attempt that counts of an execution, and the cluster that it is at."""

    id: int
    uid: str
    cluster: str | None
    attempt: int


# Built once: building a query takes longer than executing it, and every sync needs several.
_KEY = (_columns.project, _columns.domain, _columns.name)
_DETAILS = (_columns.content, _columns.avoid, _columns.nodes)
#: What says which clusters the creator may use, and what an execution takes of quotas.
CREATOR = tuple(
    _columns[name]
    for name in (
        *("created_by", "created_proof", "created_use"),
        *("route_kind", "route_name"),
        *("demand_cpu", "demand_memory", "demand_gpu"),
    )
)
LEASE_COLUMNS = [
    _columns[name]
    for name in LeasedExecution.__annotations__
    if name not in {column.name for column in (*_DETAILS, *CREATOR)} and name != "is_bounded"
]
_of_cluster = _columns.cluster == bindparam("cluster")
_of_clusters = _columns.cluster.in_(bindparam("clusters", expanding=True))
_has_id = _columns.id.in_(bindparam("ids", expanding=True))
_has_expired = _columns.lease_expires_at <= bindparam("now")

_SELECT_LEASED_IDS = select(_columns.id).where(_of_clusters, LEASED)
_SELECT_LEASED = select(*LEASE_COLUMNS).where(_of_clusters, LEASED).order_by(_columns.id).with_for_update()
_SELECT_BY_ID = select(*LEASE_COLUMNS).where(_has_id).order_by(_columns.id).with_for_update()
#: What waits for its cluster, as far as its policy goes; the same rule as in the core, for many at once.
_waits = and_(
    or_(_columns.phase != Phase.QUEUED.value, _columns.confirmed),
    on_lost_of(executions) == "wait",
)
#: What is to be judged at silent clusters: everything at those that are given up, and elsewhere what was not yet.
_is_judged = or_(
    _columns.cluster.in_(bindparam("given_up", expanding=True)),
    and_(_columns.silent_since.is_(None), or_(_columns.cluster.in_(bindparam("lost", expanding=True)), _waits)),
)
#: What waits for an agent that is waited for no longer, also where another one serves its cluster.
_is_given_up = and_(_columns.silent_since.is_not(None), _columns.silent_since <= bindparam("given_up_before"))
_SELECT_EXPIRED = (
    select(*LEASE_COLUMNS, *_DETAILS)
    .where(_of_cluster, LEASED, _has_expired, or_(and_(_of_clusters, _is_judged), _is_given_up))
    .order_by(_columns.id)
    .limit(bindparam("most"))
    .with_for_update()
)
_SELECT_CLUSTERS_WITH_EXPIRED = (
    select(_columns.cluster).where(_of_clusters, LEASED, _has_expired, _is_judged).distinct()
)
_holds_tokens = and_(LEASED, _has_expired, _columns.token_number.is_not(None))
_SELECT_CLUSTERS_HOLDING_TOKENS = select(_columns.cluster).where(_of_clusters, _holds_tokens).distinct()
_SELECT_HOLDING_TOKENS = (
    select(*LEASE_COLUMNS)
    .where(_of_cluster, _holds_tokens)
    .order_by(_columns.id)
    .limit(bindparam("most"))
    .with_for_update()
)
#: Those that are silent longest; the others come later. In this order a database that knows nothing of the table yet
#: reads them from their index too.
_SELECT_CLUSTERS_OF_GIVEN_UP = select(_columns.cluster).where(_is_given_up).order_by(_columns.silent_since).limit(1000)
_SELECT_LONG_LEASES = (
    select(_columns.id)
    .where(LEASED, _columns.lease_expires_at > bindparam("latest"))
    .order_by(_columns.id)
    .with_for_update()
)
_SELECT_LONG_BACKOFFS = (
    select(_columns.id)
    .where(*UNLEASED, _columns.not_before.is_not(None), _columns.not_before > bindparam("latest"))
    .order_by(_columns.id)
    .with_for_update()
)
_SELECT_DETAILS = select(_columns.id, *_DETAILS).where(_has_id)
_SELECT_CREATORS = select(_columns.id, *CREATOR).where(_has_id)
_SELECT_IDS_BY_KEY = KeyedQuery(select(_columns.id), _KEY)
_SELECT_ATTEMPTS_BY_KEY = KeyedQuery(select(*_KEY, *(_columns[name] for name in CurrentAttempt._fields)), _KEY)


def read_leases(connection: Connection, query: AnySelect, **parameters: object) -> list[LeasedExecution]:
    """The executions that a query finds."""
    rows = connection.execute(query, parameters)
    names = tuple(rows.keys())  # once for all rows, which have many
    return [LeasedExecution(names, row) for row in rows]


def save(connection: Connection, changed: Iterable[LeasedExecution]) -> None:
    """Write the changes of executions: one statement for each set of columns, and one for all events."""
    rows_by_columns: dict[frozenset[str], list[dict[str, object]]] = {}
    events: list[tuple[int, Event]] = []
    for execution in {execution.id: execution for execution in changed}.values():
        if execution._changed:
            rows = rows_by_columns.setdefault(frozenset(execution._changed), [])
            rows.append({"id": execution.id, **execution._changed})
            events += [(execution.id, event) for event in execution._new_events]
    for rows in rows_by_columns.values():
        update_all(connection, executions, rows)
    add_events(connection, events)


def leased(connection: Connection, clusters: Sequence[str]) -> list[LeasedExecution]:
    """Everything that the agents of clusters have a lease of, locked until the transaction ends."""
    return read_leases(connection, _SELECT_LEASED, clusters=clusters)


def reported(connection: Connection, clusters: Sequence[str], keys: Iterable[ExecutionId]) -> list[LeasedExecution]:
    """The same with other executions that agents report on, locked by id: two agents may report on each other's."""
    ids = {
        *_SELECT_IDS_BY_KEY.execute(connection, keys).scalars(),
        *connection.execute(_SELECT_LEASED_IDS, {"clusters": clusters}).scalars(),
    }
    return read_leases(connection, _SELECT_BY_ID, ids=ids)


def current_attempts(connection: Connection, keys: Iterable[ExecutionId]) -> dict[ExecutionId, CurrentAttempt]:
    """The current attempts of executions, not locked."""
    requested = list(keys)
    if not requested:
        return {}
    rows = _SELECT_ATTEMPTS_BY_KEY.execute(connection, requested)
    return {ExecutionId(*row[:3]): CurrentAttempt(*row[3:]) for row in rows}


class SilentClusters(NamedTuple):
    """Clusters that are silent, those of them that are lost, and those that are waited for no longer."""

    clusters: list[str]
    lost: list[str]
    given_up: list[str]
    given_up_before: datetime  #: since when an agent has been silent that is waited for no longer


def clusters_with_expired(connection: Connection, silent: SilentClusters, now: datetime) -> list[str]:
    """The clusters that have expired leases of what is to be judged."""
    parameters = {**silent._asdict(), "now": now}
    names = set(connection.execute(_SELECT_CLUSTERS_OF_GIVEN_UP, parameters).scalars())
    if silent.clusters:
        names |= set(connection.execute(_SELECT_CLUSTERS_WITH_EXPIRED, parameters).scalars())
    return sorted(names)


def expired(
    connection: Connection, cluster: str, silent: SilentClusters, now: datetime, limit: int
) -> list[LeasedExecution]:
    """What a cluster has expired leases of and is to be judged, with its details, locked until the end."""
    return read_leases(connection, _SELECT_EXPIRED, cluster=cluster, **silent._asdict(), now=now, most=limit)


def clusters_holding_tokens(connection: Connection, clusters: Iterable[str], now: datetime) -> list[str]:
    """Those of some clusters at which executions have tokens whose leases are over."""
    parameters = {"clusters": sorted(clusters), "now": now}
    return sorted(connection.execute(_SELECT_CLUSTERS_HOLDING_TOKENS, parameters).scalars())


def holding_tokens(connection: Connection, cluster: str, now: datetime, limit: int) -> list[LeasedExecution]:
    """Executions at a cluster that have tokens and whose leases are over, locked until the transaction ends."""
    return read_leases(connection, _SELECT_HOLDING_TOKENS, cluster=cluster, now=now, most=limit)


def is_awaited(connection: Connection, cluster: str, instance: str) -> bool:
    """Whether a cluster has leases that were last confirmed by the agent with some state directory."""
    query = select(_columns.id).where(LEASED, _columns.cluster == cluster, _columns.lease_instance == instance)
    return connection.execute(query.limit(1)).first() is not None


def add_details(connection: Connection, leases: Iterable[LeasedExecution]) -> None:
    """Read what only the beginning and the end of an attempt need of executions."""
    by_id = {execution.id: execution for execution in leases}
    if by_id:
        for execution_id, content, avoid, nodes in connection.execute(_SELECT_DETAILS, {"ids": list(by_id)}):
            execution = by_id[execution_id]
            execution.content, execution.avoid, execution.nodes = content, avoid, nodes


def add_creators(connection: Connection, leases: Iterable[LeasedExecution]) -> None:
    """Read what says which clusters the creators of executions may use."""
    by_id = {execution.id: execution for execution in leases}
    if by_id:
        for row in connection.execute(_SELECT_CREATORS, {"ids": list(by_id)}):
            by_id[row.id].__dict__.update(row._mapping)


def shorten(connection: Connection, now: datetime, lease_seconds: float) -> None:
    """Shorten leases and end back-offs that are longer than any can be: they were stored before the clock went back."""
    ids = connection.execute(_SELECT_LONG_LEASES, {"latest": now + JUMP}).scalars()
    expires_at = now + timedelta(seconds=lease_seconds)
    update_all(connection, executions, [{"id": id, "lease_expires_at": expires_at} for id in ids])
    latest = now + timedelta(seconds=LONGEST_BACKOFF_SECONDS)
    ids = connection.execute(_SELECT_LONG_BACKOFFS, {"latest": latest}).scalars()
    update_all(connection, executions, [{"id": id, "not_before": now} for id in ids])
