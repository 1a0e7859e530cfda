"""Events of executions: what happened to each, numbered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    Connection,
    and_,
    func,
    or_,
    select,
)

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.lifecycle import Phase
from admin.core.json_text import JsonObject
from admin.core.provenance import Actor
from admin.store.batches import insert_all
from admin.store.execution_tables import execution_events

_event_columns = execution_events.c


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
    by: str | None = None  #: the claimed name, or the author where none was claimed
    proven_author: str | None = None
    proof: str | None = None  #: how the author was proven
    attempt: JsonObject | None = None  #: the record of the attempt that was over with it

    @property
    def actor(self) -> Actor | None:
        """Who caused it, if somebody did."""
        return None if self.by is None else Actor.of_stored(self.by, self.proven_author, self.proof)


_SELECT_EVENT = select(*(_event_columns[field.name] for field in fields(Event)))


def columns_of(by: Actor | None) -> dict[str, str | None]:
    """The columns of an event that somebody caused, or nobody."""
    return {} if by is None else {"by": by.name, "proven_author": by.proven_author, "proof": by.proof}


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


def refused_reports(connection: Connection, execution_id: int, limit: int) -> list[Event]:
    """The last reports on an execution that were refused, the newest last."""
    query = _SELECT_EVENT.where(_event_columns.execution_id == execution_id, _event_columns.type == REFUSED)
    rows = connection.execute(query.order_by(_event_columns.number.desc()).limit(limit)).all()
    return [Event(**row._mapping) for row in reversed(rows)]


#: The type of the event of a report that was refused.
REFUSED = "REFUSED"
#: The type of the event by which the agent of a lost cluster tells the end of an attempt after all.
CONFIRMED = "CONFIRMED"
#: The type of the event of an agent that has an attempt no longer and has not reported the end of its job.
DROPPED = "DROPPED"
#: The events of an attempt that got tokens, and of one whose tokens came back though it may still run.
TOKENS_GRANTED, TOKENS_LOST = "TOKENS_GRANTED", "TOKENS_LOST"
#: The types of the events by which somebody ends an execution; an agent's report of the end is by nobody.
_ABORTS = (Phase.ABORTING.value, Phase.ABORTED.value)
#: Executions whose records are read at once, and the newest records of these that are.
_BATCH, _MOST_RECORDS = 500, 5000


def unconfirmed_attempts(connection: Connection, ids: Iterable[int], cluster: str) -> set[tuple[int, int]]:
    """The attempts at a cluster of some executions whose end is unconfirmed: row ids with lease numbers."""
    requested = sorted(ids)
    columns = (_event_columns.execution_id, _event_columns.type, _event_columns.attempt)
    is_record = (_event_columns.attempt.is_not(None), _event_columns.cluster == cluster)
    unconfirmed: set[tuple[int, int]] = set()
    confirmed: set[tuple[int, int]] = set()
    for start in range(0, len(requested), _BATCH):
        is_requested = _event_columns.execution_id.in_(requested[start : start + _BATCH])
        query = select(*columns).where(is_requested, *is_record).order_by(_event_columns.id.desc())
        for id, kind, record in connection.execute(query.limit(_MOST_RECORDS)):
            key = (id, record["number"])
            if kind == CONFIRMED:
                confirmed.add(key)
            elif record.get("unconfirmed") and key not in confirmed:
                unconfirmed.add(key)
    return unconfirmed


def first_starts(connection: Connection, ids: Iterable[int]) -> dict[int, tuple[datetime, str | None]]:
    """When and at which cluster the first attempt of some executions started, by their ids, of those that are over."""
    requested = list(ids)
    if not requested:
        return {}
    columns = (_event_columns.execution_id, _event_columns.cluster, _event_columns.attempt)
    is_record = (_event_columns.execution_id.in_(requested), _event_columns.attempt.is_not(None))
    query = select(*columns).where(*is_record).order_by(_event_columns.id).limit(_MOST_RECORDS)
    starts: dict[int, tuple[datetime, str | None]] = {}
    for id, cluster, stored in connection.execute(query):
        started_at = AttemptRecord.from_json(stored).started_at
        if started_at is not None:
            starts.setdefault(id, (started_at, cluster))
    return starts


class Start(NamedTuple):
    """What tells when an attempt started: the report that it runs, or the record of one that is over."""

    reported_at: datetime
    cluster: str | None
    native_at: datetime | None  #: by the agent's clock; None of a report that it runs


def starts(connection: Connection, ids: Iterable[int]) -> dict[int, list[Start]]:
    """What tells when the attempts of some executions started, by their ids, in the order of the events."""
    columns = [_event_columns[name] for name in ("execution_id", "type", "at", "cluster", "attempt")]
    is_start = or_(
        _event_columns.type == Phase.RUNNING.value,
        # What is confirmed is the end of an attempt that others followed.
        and_(_event_columns.attempt.is_not(None), _event_columns.type != CONFIRMED),
    )
    query = select(*columns).where(_event_columns.execution_id.in_(list(ids)), is_start).order_by(_event_columns.id)
    starts_by_id: dict[int, list[Start]] = {}
    for id, kind, at, cluster, stored in connection.execute(query):
        native_at = None if stored is None else AttemptRecord.from_json(stored).started_at
        if kind == Phase.RUNNING.value or native_at is not None:
            starts_by_id.setdefault(id, []).append(Start(at, cluster, native_at))
    return starts_by_id


def with_event(connection: Connection, ids: Iterable[int], kind: str, cluster: str) -> set[int]:
    """Those of some executions, by their ids, that have an event of a type and cluster."""
    requested = list(ids)
    if not requested:
        return set()
    is_event = (_event_columns.type == kind, _event_columns.cluster == cluster)
    query = select(_event_columns.execution_id).where(_event_columns.execution_id.in_(requested), *is_event)
    return set(connection.execute(query).scalars())


def last_time(connection: Connection, execution_id: int, kind: str, before: int) -> datetime | None:
    """When an execution last had an event of a type, before the event with a number; None where none is kept."""
    is_event = (_event_columns.execution_id == execution_id, _event_columns.type == kind)
    query = select(func.max(_event_columns.at)).where(*is_event, _event_columns.number < before)
    time: datetime | None = connection.execute(query).scalar_one()
    return time


def abort_requests(connection: Connection, ids: Iterable[int]) -> dict[int, datetime]:
    """When it was last requested to end some executions, by their ids; those whose event is not kept are left out."""
    requested = list(ids)
    if not requested:
        return {}
    is_request = (_event_columns.type.in_(_ABORTS), _event_columns.by.is_not(None))
    query = select(_event_columns.execution_id, func.max(_event_columns.at).label("at")).group_by(
        _event_columns.execution_id
    )
    rows = connection.execute(query.where(_event_columns.execution_id.in_(requested), *is_request))
    return {row.execution_id: row.at for row in rows}


def last_event(connection: Connection) -> int:
    """The id of the last event of all executions."""
    return int(connection.execute(select(func.coalesce(func.max(_event_columns.id), 0))).scalar_one())
