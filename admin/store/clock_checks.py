"""Clock checks: one row that says how far the clock may be trusted."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, Connection, Float, Integer, Table, Text, select, update

from admin.core.clock_checks import ClockCheck
from admin.store.database import UtcDateTime, insert_new, metadata
from admin.store.execution_tables import execution_events
from admin.store.revision_tables import revisions

clock_checks = Table(
    "clock_checks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trusted_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("steady_seconds", Float, nullable=False),
    Column("accepted_at", UtcDateTime),
    Column("accepted_by", Text),
    Column("accepted_author", Text),
    Column("accepted_reason", Text),
)

_ROW = 1
_SELECT = select(*(clock_checks.c[name] for name in ClockCheck.__dataclass_fields__))


def get(connection: Connection, now: datetime) -> ClockCheck:
    """The stored check; before there is one, the clock is trusted as far as what was stored last."""
    row = connection.execute(_SELECT).first()
    if row is not None:
        return ClockCheck(**row._mapping)
    last_event = select(execution_events.c.at).order_by(execution_events.c.id.desc()).limit(1)
    last_revision = select(revisions.c.created_at).order_by(revisions.c.number.desc()).limit(1)
    times = [connection.execute(query).scalar() for query in (last_event, last_revision)]
    newest = max((time for time in times if time is not None), default=now)
    return ClockCheck(trusted_at=newest, seen_at=newest)


def is_stored(connection: Connection) -> bool:
    """Whether there is a stored check."""
    return connection.execute(_SELECT).first() is not None


def save(connection: Connection, check: ClockCheck) -> None:
    """Store a check."""
    if connection.execute(update(clock_checks).values(**vars(check))).rowcount == 0:
        insert_new(connection, clock_checks, [{"id": _ROW, **vars(check)}])  # another admin may do so at the same time
