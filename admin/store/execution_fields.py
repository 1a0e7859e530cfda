"""Fields of executions: the columns that each is read from, and what a condition on it asks of them."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Float,
    FromClause,
    Text,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    null,
    or_,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from admin.core.changes import ANONYMOUS
from admin.core.comparisons import COMPARISONS
from admin.core.executions.attempts import MAY_NOT_HAVE_BEGUN
from admin.core.executions.causes import CAUSE_RULES, TRIED_AGAIN
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import Retries
from admin.core.executions.selectors import DAYS, LABEL_PREFIX, PLACE, Condition
from admin.core.fleet.clusters import SILENT
from admin.core.placement.routes import RouteKind
from admin.core.provenance import CLAIM
from admin.store import decisions
from admin.store.dialects import is_sqlite
from admin.store.execution_tables import executions
from admin.store.fleet_tables import cluster_states
from admin.store.keys import is_within
from admin.store.sql_types import AnyColumn

#: Fields that are what the tasks of an execution request together.
REQUESTED = ("cpu", "memory", "gpu")
#: Fields that are no column of their own, and the columns that they are read from.
_COLUMNS = {
    "abort_principal": ("abort_principal", "abort_author", "given_up_principal", "given_up_author"),
    "attempt": ("attempt", "unstarted", "phase", "started_at", "native_id"),
    "backoff": ("phase", "not_before"),
    "cause": ("phase", "reason", "last_failure"),
    "created_by": ("created_by", "claimed_by"),
    "decided_at": ("id", "decisions"),
    "duration": ("duration", "phase", "started_at"),
    "exit_code": ("exit_code", "phase", "last_failure"),
    **{resource: (f"demand_{resource}",) for resource in REQUESTED},
    "image": ("content",),
    "native_id": ("native_id", "phase", "last_failure"),
    "node": ("nodes", "phase", "last_failure"),
    "not_before": ("not_before", "phase"),
    "on_lost": ("content",),
    PLACE: ("project", "domain"),
    "queue": ("content",),
    "requested_cluster": ("route_kind", "route_name"),
    "silent": ("silent_since", "finished_at", "cluster"),
    "waited": ("created_at", "not_before", "last_failure", "started_at", "finished_at"),
    **{day: (time,) for day, time in DAYS.items()},
}
_RUNNING = (Phase.RUNNING.value, Phase.ABORTING.value)
#: A start that is earlier than any other.
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_Value = TypeVar("_Value")
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def stored_columns(field: str) -> tuple[str, ...]:
    """The columns that a field is read from."""
    return ("labels",) if field.startswith(LABEL_PREFIX) else _COLUMNS.get(field, (field,))


def is_backing_off(table: FromClause, now: datetime) -> ColumnElement[bool]:
    """Whether the time of an execution's next attempt is still to come."""
    return and_(table.c.phase == Phase.QUEUED.value, table.c.not_before.is_not(None), table.c.not_before > now)


def _value_for(condition: Condition, table: FromClause) -> AnyColumn:
    """The field that a condition is on, as of when that was asked."""
    if condition.field == "backoff":
        return case((is_backing_off(table, condition.asked_at or _EARLIEST), "true"), else_="false")
    if condition.field == "waited":
        return seconds_waited(table, condition.asked_at or _EARLIEST)
    return value_of(table, condition.field)


def value_of(table: FromClause, field: str) -> AnyColumn:
    """A field as it is shown, where it has one value: a column, the value of a label, the cause and so on."""
    if field == "attempt":
        return _attempts_begun(table)
    if field == "cause":
        return _cause(table)
    if field == "native_id":
        return _or_before(table, field, _failure(table)[field].as_string())
    if field == "exit_code":
        return _or_before(table, field, _failure(table)[field].as_integer())
    if field == "created_by":
        return _with_claim(table.c.created_by, table.c.claimed_by)
    if field == "abort_principal":
        return _shown_actor(table, "abort")
    if field in DAYS:
        return _Day(table.c[DAYS[field]])
    if field in REQUESTED:
        return table.c[f"demand_{field}"]
    if field == "not_before":
        return case((table.c.phase == Phase.QUEUED.value, table.c.not_before))  # it stays stored once it has passed
    if field == "on_lost":
        return on_lost_of(table)
    if field == "queue":
        return queue_of(table)
    if field == "image":
        return image_of(table)
    if field == "decided_at":
        return decisions.of_last(table, decisions.decisions.c.decided_at)
    if field == "requested_cluster":  # only a request names a cluster
        return case((table.c.route_kind == RouteKind.CLUSTER.value, table.c.route_name))
    if field == "silent":
        return case((_is_silent(table), "true"), else_="false")
    if field == "unconfirmed":
        return case((table.c.unconfirmed, "true"), else_="false")
    if field.startswith(LABEL_PREFIX):
        value: AnyColumn = table.c.labels[field.removeprefix(LABEL_PREFIX)].as_string()
        return value
    return table.c[field]


def on_lost_of(table: FromClause) -> AnyColumn:
    """What becomes of an execution if its cluster is lost, by its own policy or by default."""
    return func.coalesce(table.c.content["retry", "on_lost"].as_string(), Retries().on_lost)


def queue_of(table: FromClause) -> AnyColumn:
    """The queue that an execution was given; NULL where it has none."""
    queue: AnyColumn = table.c.content["queue"].as_string()
    return queue


def image_of(table: FromClause) -> AnyColumn:
    """The container image that the job of an execution names; NULL where it names none."""
    image: AnyColumn = table.c.content["job", "image"].as_string()
    return image


def time_limit_of(table: FromClause) -> AnyColumn:
    """The longest that an attempt of an execution may run, as its job has it; NULL for as long as it takes."""
    limit: AnyColumn = table.c.content["job", "resources", "duration"].as_string()
    return limit


class _PerDatabase(FunctionElement[_Value]):
    """A function of one argument that each database writes in its own way."""

    sqlite: str
    postgresql: str


class _Day(_PerDatabase[str]):
    """The day of a time in UTC, such as 2026-03-01."""

    type = Text()
    inherit_cache = True
    sqlite = "substr({}, 1, 10)"
    postgresql = "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"


class _Microseconds(_PerDatabase[int]):
    """The microseconds from 1970 until a time, a whole number."""

    type = BigInteger()
    inherit_cache = True
    # The seconds are cut off first, for SQLite rounds them.
    sqlite = "(CAST(strftime('%s', substr({0}, 1, 19)) AS INTEGER) * 1000000 + CAST(substr({0}, 21, 6) AS INTEGER))"
    postgresql = "CAST(extract(epoch FROM {0}) * 1000000 AS BIGINT)"


class _NotNegative(_PerDatabase[float]):
    """A number, or 0 where it is less; NULL for NULL. It is written once for SQLite, which would work it out twice."""

    type = Float()
    inherit_cache = True
    sqlite = "max({}, 0.0)"
    postgresql = "CASE WHEN {0} < 0 THEN 0 ELSE {0} END"


class _Entries(_PerDatabase[str]):
    """The entries of a JSON list, as rows of one column, `value`."""

    inherit_cache = True
    sqlite, postgresql = "json_each({})", "json_array_elements_text({})"


@compiles(_PerDatabase)
def _compile(element: _PerDatabase[_Value], compiler: SQLCompiler, **options: object) -> str:
    template = element.sqlite if is_sqlite(compiler.dialect) else element.postgresql
    return template.format(compiler.process(element.clauses, **options))


def _attempts_begun(table: FromClause) -> AnyColumn:
    """How many attempts have begun, by the same rule as `attempts_begun`."""
    number: AnyColumn = table.c.attempt - table.c.unstarted
    waits = (table.c.phase.in_(MAY_NOT_HAVE_BEGUN), table.c.started_at.is_(None), table.c.native_id.is_(None))
    return case((and_(number > 1, *waits), number - 1), else_=number)


def _failure(table: FromClause) -> AnyColumn:
    """The record of the attempt that another one follows."""
    return table.c.last_failure


def _or_before(table: FromClause, name: str, before: AnyColumn) -> AnyColumn:
    """A column of an attempt; while the next attempt waits, of the one before, as its record has it."""
    value = table.c[name]
    return case((and_(table.c.phase == Phase.QUEUED.value, value.is_(None)), before), else_=value)


def _is_silent(table: FromClause) -> ColumnElement[bool]:
    """Whether the agent of an unfinished execution is not heard, or another one serves its cluster now."""
    is_unheard = (cluster_states.c.health.in_(SILENT), cluster_states.c.last_sync_at.is_not(None))
    unheard = select(cluster_states.c.name).where(*is_unheard)
    at_unheard = and_(table.c.finished_at.is_(None), table.c.cluster.in_(unheard))
    return or_(table.c.silent_since.is_not(None), at_unheard)


def _with_claim(author: AnyColumn, claimed_by: AnyColumn) -> AnyColumn:
    """A caller's name, as `show_name` writes it."""
    return case((claimed_by.is_(None), author), else_=author + CLAIM[0] + claimed_by + CLAIM[1])


def _shown_actor(table: FromClause, did: str) -> AnyColumn:
    """Who ended an execution (`abort`), or gave it up (`given_up`), as `show_name` writes it."""
    name, author = table.c[f"{did}_principal"], func.coalesce(table.c[f"{did}_author"], ANONYMOUS)
    return case((name == author, name), else_=author + CLAIM[0] + name + CLAIM[1])


def _is_actor(table: FromClause, did: str, names: tuple[object, ...]) -> ColumnElement[bool]:
    """Whether somebody of these names did it: as shown, by the claimed name, or by the author."""
    name, author = table.c[f"{did}_principal"], func.coalesce(table.c[f"{did}_author"], ANONYMOUS)
    by_author = and_(name.is_not(None), author.in_(names))
    return or_(_is_in(_shown_actor(table, did), names), _is_in(name, names), by_author)


def fits(condition: Condition, table: FromClause = executions) -> ColumnElement[bool]:
    """Whether an execution of a table fits a condition."""
    if condition.field == "node":
        return _fits_nodes(condition, table)
    if condition.field == PLACE:
        return is_within({key: table.c[key] for key in _COLUMNS[PLACE]}, condition.values)
    if condition.function in ("eq", "value_in"):
        return _is_one_of(condition, table)
    if condition.function in ("ne", "value_not_in"):
        return ~_is_one_of(condition, table)
    value = condition.values[0]
    comparison = _compares(condition.function, _value_for(condition, table), value)
    if condition.field == "duration" and condition.asked_at is not None:
        return or_(comparison, _runs_for(condition.function, value, condition.asked_at, table))
    return comparison


def _compares(function: str, column: AnyColumn, value: str | float | datetime) -> ColumnElement[bool]:
    if function == "contains":
        return func.replace(column, value, "") != column  # case-sensitive on every database
    comparison: ColumnElement[bool] = COMPARISONS[function](column, value)
    return comparison


def _fits_nodes(condition: Condition, table: FromClause) -> ColumnElement[bool]:
    """Whether one of an execution's nodes fits; of a condition that excludes some, whether none of them does."""
    node = _Entries(_or_before(table, "nodes", _failure(table)["nodes"])).table_valued("value").c.value
    nodes = select(node).where(node.is_not(None))  # SQLite has one entry, NULL, for a key that a record lacks
    names = [value for value in condition.values if value != ""]
    match condition.function:
        case "eq" | "value_in" | "ne" | "value_not_in":
            is_one: ColumnElement[bool] = exists(nodes.where(node.in_(names)))
            if "" in condition.values:
                is_one = or_(is_one, ~exists(nodes))
            return is_one if condition.function in ("eq", "value_in") else ~is_one
    return exists(nodes.where(_compares(condition.function, node, condition.values[0])))


def _runs_for(function: str, seconds: float, now: datetime, table: FromClause) -> ColumnElement[bool]:
    """Whether an execution that still runs does so for a time; its start is compared, which is stored."""
    try:
        start = now - timedelta(seconds=seconds)
    except OverflowError:
        start = _EARLIEST if seconds > 0 else now
    reverse = {"gt": operator.lt, "gte": operator.le, "lt": operator.gt, "lte": operator.ge}[function]
    return and_(_is_running(table), reverse(table.c.started_at, start))


def _is_running(table: FromClause) -> ColumnElement[bool]:
    return and_(table.c.phase.in_(_RUNNING), table.c.duration.is_(None), table.c.started_at.is_not(None))


class Run(Protocol):
    """The fields of an execution by which it takes time."""

    @property
    def phase(self) -> str: ...

    @property
    def started_at(self) -> datetime | None: ...

    @property
    def duration(self) -> float | None: ...


def seconds_taken(table: FromClause, now: datetime) -> AnyColumn:
    """How long an execution took; until `now` where it still runs, and 0 where it has not started."""
    microseconds: AnyColumn = literal((now - _EPOCH) // _MICROSECOND, BigInteger) - _Microseconds(table.c.started_at)
    running = cast(microseconds, Float) / literal(1e6, Float)
    # Whole numbers are divided, so that `seconds_taken_by` has the very same numbers for pages to go on after.
    return case(
        (and_(_is_running(table), table.c.started_at < now), running), else_=func.coalesce(table.c.duration, 0.0)
    )


def seconds_taken_by(run: Run, now: datetime) -> float:
    """The same of one execution."""
    if run.duration is None and run.phase in _RUNNING and run.started_at is not None and run.started_at < now:
        return (now - run.started_at).total_seconds()
    return run.duration or 0.0


def seconds_waited(table: FromClause, now: datetime) -> AnyColumn:
    """How long an execution has waited for its start, by the same rule as `waited_for_start`; NULL if not known."""
    is_first = table.c.last_failure.is_(null())
    begin = case((is_first, _Microseconds(table.c.created_at)), else_=_Microseconds(table.c.not_before))
    until_now = literal((now - _EPOCH) // _MICROSECOND, BigInteger)
    end = func.coalesce(_Microseconds(table.c.started_at), _Microseconds(table.c.finished_at), until_now)
    microseconds: AnyColumn = end - begin
    return _NotNegative(cast(microseconds, Float) / literal(1e6, Float))


def _is_one_of(condition: Condition, table: FromClause) -> ColumnElement[bool]:
    """Whether a field has one of some values; a caller also matches by the author or the claimed name alone."""
    shown = _is_in(_value_for(condition, table), condition.values)
    names = tuple(value for value in condition.values if value != "")
    match condition.field:
        case "created_by":
            return or_(shown, _is_in(table.c.created_by, names), _is_in(table.c.claimed_by, names))
        case "abort_principal":
            return or_(shown, _is_actor(table, "abort", names), _is_actor(table, "given_up", names))
    return shown


def _cause(table: FromClause) -> AnyColumn:
    """The cause of an execution, by the same rules as `cause_of_execution`; "" where it has none."""
    failure = _failure(table)
    before = _by_rules(failure["outcome"].as_string(), failure["reason"].as_string())
    return case((table.c.phase.in_(TRIED_AGAIN), before), else_=_by_rules(table.c.phase, table.c.reason))


def _by_rules(phase: AnyColumn, reason: AnyColumn) -> AnyColumn:
    rules = [
        (and_(phase == rule.phase.value, *([reason.in_(rule.reasons)] if rule.reasons else [])), rule.cause.value)
        for rule in CAUSE_RULES
    ]
    return case(*rules, else_="")


def _is_in(column: AnyColumn, values: tuple[object, ...]) -> ColumnElement[bool]:
    """An empty value stands for having none."""
    is_named = column.in_([value for value in values if value != ""])
    return or_(is_named, column.is_(None), column == "") if "" in values else and_(is_named, column.is_not(None))
