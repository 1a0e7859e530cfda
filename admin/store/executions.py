"""Executions: typed values out of the tables, and the changes that services make to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, literal_column, or_, select, text

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.lifecycle import Phase
from admin.core.fleet.clusters import Cluster
from admin.core.json_text import JsonObject
from admin.core.placement.candidates import with_asks
from admin.core.provenance import Actor
from admin.core.resources import Amounts
from admin.core.settings.scopes import Scope
from admin.store.batches import update_all
from admin.store.execution_events import Event, add_events, columns_of, first_starts
from admin.store.execution_tables import DEMANDS, IN_QUEUE, executions
from admin.store.keys import KeyedQuery
from admin.store.sql_types import AnySelect

_columns = executions.c


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
    created_proof: str | None  #: how the creator was proven; None where nobody asked, and of agents
    created_use: str | None  #: the clusters that the creator's token was for, as `narrowing.use_text`; None for all
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
    asks: str | None
    revision: int
    attempt: int
    decisions: int
    events: int
    tier: int
    priority: int
    token_pools: str | None  #: JSON: how many tokens of which pools it needs while it runs; None for none
    abort_cause: str | None = None
    abort_principal: str | None = None
    abort_author: str | None = None  #: who ended it, proven
    abort_proof: str | None = None  #: how that was proven
    given_up_principal: str | None = None
    given_up_author: str | None = None  #: who gave it up, proven; whoever had ended it before
    given_up_proof: str | None = None
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
    limit_scope: str | None = None  #: the scope whose limit ended it
    unconfirmed: bool = False  #: whether it was ended without its agent, which has not told the end of its job since
    token_number: int | None = None  #: of the grant that its attempt holds

    @property
    def key(self) -> ExecutionId:
        return ExecutionId(self.project, self.domain, self.name)

    @property
    def is_unleased(self) -> bool:
        """Whether it is in the queue, and no agent has it."""
        return self.phase == Phase.QUEUED.value and self.lease_expires_at is None

    @property
    def aborted_by(self) -> Actor | None:
        """Who ended it, if somebody did."""
        return _aborted_by(self)

    @property
    def given_up_by(self) -> Actor | None:
        """Who gave it up, if somebody did."""
        return _given_up_by(self)

    @property
    def demand(self) -> dict[str, int]:
        """The resources that it asks for."""
        return _demand(self)

    def takes_of(self, cluster: Cluster) -> Amounts:
        """What it takes of a cluster."""
        taken = cluster.takes(self.demand, exclusive=self.exclusive, asks_graph=self.asks is not None)
        return with_asks(taken, self.asks, cluster)


class ListedExecution(NamedTuple):
    """An execution in a list, without its job and what only decisions need."""

    id: int
    project: str
    domain: str
    name: str
    uid: str
    created_by: str
    claimed_by: str | None
    created_proof: str | None
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
    abort_author: str | None
    abort_proof: str | None
    given_up_principal: str | None
    given_up_author: str | None
    given_up_proof: str | None
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
    limit_scope: str | None
    unconfirmed: bool
    demand_cpu: int
    demand_memory: int
    demand_gpu: int

    @property
    def key(self) -> ExecutionId:
        return ExecutionId(self.project, self.domain, self.name)

    @property
    def aborted_by(self) -> Actor | None:
        """Who ended it, if somebody did."""
        return _aborted_by(self)

    @property
    def given_up_by(self) -> Actor | None:
        """Who gave it up, if somebody did."""
        return _given_up_by(self)


def _aborted_by(execution: Execution | ListedExecution) -> Actor | None:
    principal = execution.abort_principal
    return Actor.of_stored(principal, execution.abort_author, execution.abort_proof) if principal else None


def _given_up_by(execution: Execution | ListedExecution) -> Actor | None:
    principal = execution.given_up_principal
    return Actor.of_stored(principal, execution.given_up_author, execution.given_up_proof) if principal else None


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
    not_before: datetime | None
    demand_cpu: int
    demand_memory: int
    demand_gpu: int
    demand_ephemeral_storage: int
    demand_nodes: int
    exclusive: bool
    asks: str | None
    workflow: str
    launch_plan: str
    created_by: str
    created_proof: str | None
    created_use: str | None

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


def _demand(execution: Execution | WaitingExecution) -> dict[str, int]:
    return {**{resource: getattr(execution, f"demand_{resource}") for resource in DEMANDS}, "executions": 1}


QUEUED = _columns.phase == literal_column(f"'{Phase.QUEUED.value}'")
#: The same in the form of the partial indexes, for frequent queries.
IS_QUEUED = text(IN_QUEUE)
UNLEASED = (IS_QUEUED, _columns.lease_expires_at.is_(None))
#: What is not in back-off, at the time `now`.
MAY_START = or_(_columns.not_before.is_(None), _columns.not_before <= bindparam("now"))
OPEN = _columns.finished_at.is_(None)
LEASED = _columns.lease_expires_at.is_not(None)

SELECT_EXECUTION = select(*(_columns[name] for name in Execution._fields))
SELECT_LISTED = select(*(_columns[name] for name in ListedExecution._fields))


def demand_columns(demand: Amounts) -> dict[str, int]:
    """The values of the columns that hold a demand."""
    return {f"demand_{resource}": demand.get(resource, 0) for resource in DEMANDS}


def get(connection: Connection, key: ExecutionId, *, lock: bool = False) -> Execution | None:
    """One execution; with `lock` its row is locked until the transaction ends."""
    is_key = (_columns.project == key.project, _columns.domain == key.domain, _columns.name == key.name)
    query = SELECT_EXECUTION.where(*is_key)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return None if row is None else Execution._make(row)


_KEY = (_columns.project, _columns.domain, _columns.name)
_SELECT_BY_KEY = KeyedQuery(SELECT_EXECUTION, _KEY)
_SELECT_IDS_BY_KEY = KeyedQuery(select(*_KEY, _columns.id), _KEY)


def find(connection: Connection, keys: Iterable[ExecutionId]) -> dict[ExecutionId, Execution]:
    """Those of some executions that there are."""
    found = map(Execution._make, _SELECT_BY_KEY.execute(connection, keys))
    return {execution.key: execution for execution in found}


def ids(connection: Connection, keys: Iterable[ExecutionId]) -> dict[ExecutionId, int]:
    """The row ids of those of some executions that there are."""
    return {ExecutionId(*key): id for *key, id in _SELECT_IDS_BY_KEY.execute(connection, keys)}


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
    by: Actor | None = None,
    **details: str | None,
) -> None:
    """Change columns of an execution whose row this transaction has locked, and store an event with some details."""
    number, phase = execution.events + 1, str(values.get("phase", execution.phase))
    record = None if attempt is None else attempt.as_json()
    event = Event(
        number=number,
        at=now,
        type=kind,
        phase=phase,
        cluster=execution.cluster,
        attempt=record,
        **details,
        **columns_of(by),
    )
    since = {"phase_since": now} if phase != execution.phase else {}
    change_many(connection, [{"id": execution.id, **values, **since, "updated_at": now, "events": number}])
    add_events(connection, [(execution.id, event)])


def change_many(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Change the same columns of several locked executions, each to values of its own; `id` says which."""
    update_all(connection, executions, rows)


class FirstWait(NamedTuple):
    """How an execution that was placed at a cluster waited for its first start."""

    created_at: datetime
    started_at: datetime | None  #: None for what has not started, or started first at another cluster


def newest_waits(connection: Connection, cluster: str, limit: int) -> list[FirstWait]:
    """The waits of the newest executions that are or were at a cluster."""
    number = _columns.attempt - _columns.unstarted
    query = select(_columns.id, _columns.created_at, _columns.started_at, number).where(_columns.cluster == cluster)
    rows = connection.execute(query.order_by(_columns.created_at.desc(), _columns.id.desc()).limit(limit)).all()
    # What is tried again has the start of its last attempt, or none yet.
    started = {id: started_at for id, _, started_at, number in rows if number == 1 and started_at is not None}
    earlier = first_starts(connection, [id for id, *_ in rows if id not in started])
    started |= {id: started_at for id, (started_at, place) in earlier.items() if place == cluster}
    return [FirstWait(created_at, started.get(id)) for id, created_at, *_ in rows]


def hold(connection: Connection, ids: Iterable[int]) -> list[Execution]:
    """Executions by their ids, locked until the transaction ends."""
    return list(map(Execution._make, connection.execute(_by_id(ids).with_for_update())))


def get_many(connection: Connection, ids: Iterable[int]) -> list[Execution]:
    """Executions by their ids, in their order."""
    return list(map(Execution._make, connection.execute(_by_id(ids))))


def _by_id(ids: Iterable[int]) -> AnySelect:
    return SELECT_EXECUTION.where(_columns.id.in_(list(ids))).order_by(_columns.id)
