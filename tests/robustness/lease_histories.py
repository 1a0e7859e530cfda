"""What the events of executions must be like, whatever happened to them and in whatever order."""

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
    """Every execution, by name, once its events have been found to tell one legal story."""
    with context.database.reading() as connection:
        rows = {row.id: row for row in connection.execute(select(executions))}
        events = defaultdict(list)
        for one in connection.execute(select(execution_events).order_by(execution_events.c.number)):
            events[one.execution_id].append(one)
    for row in rows.values():
        _check(row, events[row.id])
    return {row.name: row for row in rows.values()}


def _check(row: Row[*tuple[Any, ...]], events: list[Row[*tuple[Any, ...]]]) -> None:
    story = f"{row.name}: {[(one.type, one.phase) for one in events]}, now {row.phase}, attempt {row.attempt}"
    assert [one.number for one in events] == list(range(1, row.events + 1)), story
    phase, attempt = Phase.QUEUED, 1
    for one in events:
        after = Phase(one.phase)
        if one.type in NEW_ATTEMPTS:
            assert after is Phase.QUEUED, story
            assert not phase.is_finished, story
            attempt += 1
        elif one.type == "DECIDED":
            assert phase is after is Phase.QUEUED, story
        elif one.type in ("REFUSED", "CREATED"):
            assert after is phase, story
        else:
            assert phase.may_become(after), story
        phase = after
    assert (phase.value, attempt) == (row.phase, row.attempt), story
    assert phase.is_finished == (row.finished_at is not None), story
    assert not (phase.is_finished and row.lease_expires_at is not None), story
    assert sum(Phase(one.phase).is_finished and one.type != "REFUSED" for one in events) <= 1, story


def without_waiting_for_the_disk(context: Context) -> None:
    """Let SQLite be as quick as it can: power failures are not what is tested."""
    engine = context.database.engine
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF").close())
        engine.dispose()
