"""Checks that the events of every execution are a legal sequence."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Row, event, select

from admin.core.executions.lifecycle import Phase
from admin.services.context import Context
from admin.store.execution_tables import execution_events, executions

#: Events that begin a new attempt.
NEW_ATTEMPTS = {"RETRY", "RELEASED", "DECLINED", "EVICTED"}


def checked(context: Context) -> dict[str, Row[*tuple[Any, ...]]]:
    """Every execution by name, after checking that its events are a legal sequence."""
    with context.database.reading() as connection:
        rows = {row.id: row for row in connection.execute(select(executions))}
        events = defaultdict(list)
        for event_row in connection.execute(select(execution_events).order_by(execution_events.c.number)):
            events[event_row.execution_id].append(event_row)
    for row in rows.values():
        _check(row, events[row.id])
    return {row.name: row for row in rows.values()}


def _check(row: Row[*tuple[Any, ...]], events: list[Row[*tuple[Any, ...]]]) -> None:
    sequence = [(event_row.type, event_row.phase) for event_row in events]
    story = f"{row.name}: {sequence}, now {row.phase}, attempt {row.attempt}"
    assert [event_row.number for event_row in events] == list(range(1, row.events + 1)), story
    phase, attempt, is_drained = Phase.QUEUED, 1, False
    for event_row in events:
        after = Phase(event_row.phase)
        if event_row.type in NEW_ATTEMPTS:
            assert after is Phase.QUEUED, story
            assert not phase.is_finished, story
            attempt += 1
        elif event_row.type == "DECIDED":
            assert phase is after is Phase.QUEUED, story
        elif event_row.type in ("REFUSED", "CONFIRMED", "DROPPED", "CREATED", "SILENT", "HEARD"):
            assert after is phase, story
        elif event_row.type == "ABORTING" and phase is Phase.ABORTING:
            assert (is_drained, event_row.reason) == (True, "TERMINATED"), story  # it is not to run elsewhere
        else:
            assert phase.may_become(after), story
        is_drained = event_row.type == "ABORTING" and event_row.reason == "DRAINED"
        phase = after
    assert (phase.value, attempt) == (row.phase, row.attempt), story
    assert phase.is_finished == (row.finished_at is not None), story
    assert not (phase.is_finished and row.lease_expires_at is not None), story
    later = ("REFUSED", "CONFIRMED", "DROPPED")
    assert sum(Phase(event_row.phase).is_finished and event_row.type not in later for event_row in events) <= 1, story


def without_waiting_for_the_disk(context: Context) -> None:
    """Do not let SQLite wait for the disk: power failures are not tested."""
    engine = context.database.engine
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF").close())
        engine.dispose()
