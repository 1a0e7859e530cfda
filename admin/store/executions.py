"""Executions and their events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    and_,
    case,
    cast,
    false,
    func,
    literal_column,
    select,
    text,
    true,
    update,
)
from sqlalchemy import Row as DatabaseRow

from admin.core.executions.attempts import UNDECIDED
from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.core.resources import Amounts
from admin.store.batches import insert_all, update_all
from admin.store.database import RowId, UtcDateTime, metadata

_DEMANDS = ("cpu", "memory", "gpu", "ephemeral_storage", "nodes")

executions = Table(
    "executions",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("project", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),  # of the request: the same one again is no second execution
    Column("request", JSON, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("launch_plan", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("launched", JSON, nullable=False),  # the identifiers of workflow and launch plan
    Column("mode", Text, nullable=False),
    Column("reference", JSON(none_as_null=True)),
    Column("phase", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("reason_message", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("route_kind", Text, nullable=False),
    Column("route_name", Text, nullable=False),
    Column("cluster", Text),
    Column("pool", Text),
    Column("label", Text),
    Column("content", JSON, nullable=False),  # the concrete job and all that travels with it
    Column("required_plugins", JSON, nullable=False),
    *(Column(f"demand_{one}", BigInteger, nullable=False) for one in _DEMANDS),
    Column("revision", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("decisions", Integer, nullable=False),
    Column("events", Integer, nullable=False),
    Column("abort_cause", Text),
    Column("abort_principal", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("duration", Float),
    Column("queue_deadline", UtcDateTime),
    Column("tier", Integer, nullable=False, server_default="3"),  # the lower goes first
    Column("priority", Integer, nullable=False, server_default="50"),  # the higher goes first
    Column("not_before", UtcDateTime),  # a next attempt backs off until then
    Column("lease_expires_at", UtcDateTime),  # None where no agent has it
    Column("confirmed", Boolean, nullable=False, server_default=false()),  # its agent said so, and may have started it
    Column("native_id", Text),
    Column("nodes", JSON(none_as_null=True)),
    Column("exit_code", Integer),
    Column("avoid", JSON, nullable=False, server_default="[]"),  # clusters that declined it
    UniqueConstraint("project", "domain", "name"),
)
_columns = executions.c


def _index(name: str, *columns: Any, where: str | None = None) -> None:
    condition = None if where is None else text(where)
    Index(f"ix_executions_{name}", *columns, postgresql_where=condition, sqlite_where=condition)


#: Lists follow one of these in the order of creation, each page from where the last one ended. None of them holds
#: everything: PostgreSQL would look there for what is frequent by its statistics, and may not find it for long.
_created = (_columns.created_at, _columns.id)
_index("active", *_created, where="state = 'ACTIVE'")
_index("archived", *_created, where="state = 'ARCHIVED'")
_index("scope", _columns.project, _columns.domain, *_created)
_index("phase", _columns.phase, *_created)
_index("cluster", _columns.cluster, *_created)
_index("pool", _columns.pool, *_created, where="pool IS NOT NULL")
_index("label", _columns.label, *_created, where="label IS NOT NULL")
_index("workflow", _columns.workflow, *_created, where="workflow <> ''")
_index("launch_plan", _columns.launch_plan, *_created, where="launch_plan <> ''")

#: What waits or is held is found by these, which finished executions are not in. A query must say their conditions
#: as they stand here, without parameters, or the database does not see that they fit; and what it says must fit none of
#: the others, for a database hardly knows how much waits. So what is asked all the time names the phase in a way that
#: the index of phases does not fit.
_IN_QUEUE = "(phase = 'QUEUED') IS TRUE"
_queue = (_columns.cluster, _columns.tier, _columns.priority.desc(), _columns.id)
_index("offered", *_queue, where=f"{_IN_QUEUE} AND lease_expires_at IS NULL")
_index("held", _columns.cluster, _columns.id, where="lease_expires_at IS NOT NULL")
_index("unfinished", _columns.phase, _columns.id, where="finished_at IS NULL")
_index("unplaced", _columns.phase, _columns.reason, _columns.id, where="phase = 'QUEUED' AND cluster IS NULL")
_index("deadline", _columns.queue_deadline, where=f"{_IN_QUEUE} AND queue_deadline IS NOT NULL")
_index("backing_off", _columns.cluster, _columns.not_before, where=f"{_IN_QUEUE} AND not_before IS NOT NULL")

#: Like decisions they do not refer to their executions by a constraint, which would look each of them up once more: who
#: writes one holds the execution, and retention takes an execution away with all that is its own.
execution_events = Table(
    "execution_events",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("execution_id", RowId, nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("type", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("reason", Text),
    Column("message", Text),
    Column("cluster", Text),
    Column("by", Text),
    UniqueConstraint("execution_id", "number"),
)

_QUEUED = executions.c.phase == literal_column(f"'{Phase.QUEUED.value}'")
_WAITS = (_QUEUED, executions.c.lease_expires_at.is_(None))
#: The same, as the indexes of what is asked all the time say it.
_IS_QUEUED = text(_IN_QUEUE)
UNLEASED = (_IS_QUEUED, executions.c.lease_expires_at.is_(None))
_OPEN = executions.c.finished_at.is_(None)
_IS_UNFINISHED = and_(_OPEN, executions.c.phase.in_([phase.value for phase in UNFINISHED]))
LEASED = executions.c.lease_expires_at.is_not(None)

#: What a new decision of a waiting execution needs to know.
_WAITING = [
    executions.c[name]
    for name in (
        "id",
        "project",
        "domain",
        "name",
        "route_kind",
        "route_name",
        "cluster",
        "pool",
        "label",
        "reason",
        "reason_message",
        "required_plugins",
        "avoid",
        "decisions",
        "events",
        "revision",
        "queue_deadline",
        *(f"demand_{one}" for one in _DEMANDS),
    )
]


class ExecutionId(NamedTuple):
    """What an execution is called."""

    project: str
    domain: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}/{self.domain}/{self.name}"


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


Execution = DatabaseRow[Any]  #: a row of the table, by the names of its columns


def identity(row: Execution) -> ExecutionId:
    return ExecutionId(project=row.project, domain=row.domain, name=row.name)


def demand_columns(demand: Amounts) -> dict[str, int]:
    """What an execution takes, as its row has it."""
    return {f"demand_{one}": demand.get(one, 0) for one in _DEMANDS}


def demand_of(row: Execution) -> dict[str, int]:
    """What an execution takes."""
    return {**{one: getattr(row, f"demand_{one}") for one in _DEMANDS}, "executions": 1}


def get(connection: Connection, wanted: ExecutionId, *, lock: bool = False) -> Execution | None:
    """One execution, whole."""
    found = select(executions).where(*_at(wanted))
    return connection.execute(found.with_for_update() if lock else found).one_or_none()


def _at(wanted: ExecutionId) -> tuple[ColumnElement[bool], ...]:
    return _columns.project == wanted.project, _columns.domain == wanted.domain, _columns.name == wanted.name


def names_like(connection: Connection, wanted: ExecutionId) -> list[str]:
    """Names in the same project and domain, the newest ones, for suggestions."""
    found = select(_columns.name).where(_columns.project == wanted.project, _columns.domain == wanted.domain)
    newest = found.order_by(_columns.created_at.desc(), _columns.id.desc()).limit(1000)
    return list(connection.execute(newest).scalars())


def has_project(connection: Connection, project: str) -> bool:
    """Whether a project has executions, finished ones included."""
    found = select(_columns.id).where(_columns.project == project)
    first = found.order_by(_columns.project, _columns.domain, _columns.created_at, _columns.id).limit(1)
    return connection.execute(first).first() is not None


def change(connection: Connection, execution_id: int, values: Mapping[str, Any]) -> None:
    """Change an execution that this transaction holds."""
    connection.execute(update(executions).where(_columns.id == execution_id).values(**values))


def change_many(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Change several executions that this transaction holds, each to values of its own under the same names."""
    update_all(connection, executions, rows)


def waiting(connection: Connection, after_id: int, limit: int) -> list[Execution]:
    """Executions that wait and that no agent has, by id, held until the transaction ends."""
    found = select(*_WAITING).where(*_WAITS, _OPEN, _columns.id > after_id)
    return list(connection.execute(found.order_by(_columns.id).limit(limit).with_for_update()))


def demand_waiting(connection: Connection, clusters: Iterable[str]) -> dict[str, dict[str, int]]:
    """What waits at some clusters, in amounts."""
    wanted = [_columns.cluster, *(func.sum(cast(_columns[f"demand_{one}"], Float)).label(one) for one in _DEMANDS)]
    found = (
        select(*wanted, func.count().label("executions"))
        .where(_QUEUED, _OPEN, func.coalesce(_columns.cluster, "").in_(list(clusters)))
        .group_by(_columns.cluster)
    )
    return {
        row.cluster: {one: int(getattr(row, one)) for one in (*_DEMANDS, "executions")}
        for row in connection.execute(found)
    }


def counts_by_cluster(connection: Connection) -> dict[tuple[str, str], int]:
    """How many unfinished executions each cluster has in each phase."""
    found = (
        select(_columns.cluster, _columns.phase, func.count())
        .where(_IS_UNFINISHED, _columns.cluster.is_not(None))
        .group_by(_columns.cluster, _columns.phase)
    )
    return {(cluster, phase): count for cluster, phase, count in connection.execute(found)}


def leases_by_cluster(connection: Connection) -> dict[str, int]:
    """How many leases each cluster's agent has."""
    found = select(_columns.cluster, func.count()).where(_IS_UNFINISHED, _columns.lease_expires_at.is_not(None))
    rows = connection.execute(found.group_by(_columns.cluster))
    return {row[0]: row[1] for row in rows}


def count_unfinished(connection: Connection, **columns: str) -> int:
    """How many unfinished executions have some values."""
    conditions = [func.coalesce(_columns[name], "") == value for name, value in columns.items()]
    found = select(func.count()).where(_IS_UNFINISHED, *conditions)
    return int(connection.execute(found).scalar_one())


def unfinished_counts(connection: Connection) -> Iterator[tuple[str, str, str, str, str, str, int]]:
    """Unfinished executions by phase, reason, domain, cluster, pool and label."""
    wanted = [func.coalesce(_columns[one], "") for one in ("phase", "reason", "domain", "cluster", "pool", "label")]
    found = select(*wanted, func.count()).where(_IS_UNFINISHED)
    for row in connection.execute(found.group_by(*wanted)):
        yield tuple(row)


def full_routes(connection: Connection, reasons: Iterable[str]) -> list[Execution]:
    """The oldest execution of each route that waits for one of some reasons."""
    waits = (*_WAITS, _columns.cluster.is_(None), _columns.reason.in_(list(reasons)))
    oldest = select(func.min(_columns.id)).where(*waits).group_by(_columns.route_kind, _columns.route_name)
    return list(connection.execute(select(*_WAITING).where(_columns.id.in_(oldest))))


def overdue(connection: Connection, now: datetime, limit: int) -> list[int]:
    """The ids of executions that waited longer than their queueing budget."""
    # Said so that it does not fit the index of all that is offered either.
    is_free = case((_columns.lease_expires_at.is_(None), true()), else_=false())
    found = select(_columns.id).where(_IS_QUEUED, _columns.queue_deadline <= now, is_free)
    return list(connection.execute(found.order_by(_columns.queue_deadline).limit(limit)).scalars())


def undecided(connection: Connection, limit: int) -> list[Execution]:
    """Executions that were given back and are to go elsewhere, held until the transaction ends."""
    found = select(*_WAITING).where(*_WAITS, _columns.cluster.is_(None), _columns.reason == UNDECIDED)
    return list(connection.execute(found.order_by(_columns.id).limit(limit).with_for_update(skip_locked=True)))


def hold(connection: Connection, ids: Iterable[int]) -> list[Execution]:
    """Some executions, whole, held until the transaction ends."""
    found = select(executions).where(_columns.id.in_(list(ids))).order_by(_columns.id)
    return list(connection.execute(found.with_for_update()))


def add_events(connection: Connection, events: list[tuple[int, Event]]) -> None:
    """Store events of executions, each with its row's id."""
    insert_all(connection, execution_events, [{"execution_id": row_id, **vars(event)} for row_id, event in events])


def events_of(connection: Connection, execution_id: int, above: int, limit: int) -> list[Event]:
    """What happened to an execution, oldest first, from above a number on."""
    found = select(execution_events).where(
        execution_events.c.execution_id == execution_id, execution_events.c.number > above
    )
    rows = connection.execute(found.order_by(execution_events.c.number).limit(limit))
    return [
        Event(**{name: value for name, value in row._mapping.items() if name not in ("id", "execution_id")})
        for row in rows
    ]


def last_event(connection: Connection) -> int:
    """The id of the last event of all."""
    return int(connection.execute(select(func.coalesce(func.max(execution_events.c.id), 0))).scalar_one())
