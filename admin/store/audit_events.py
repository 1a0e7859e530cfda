"""Audit events; attempts that are denied again and again are one row a minute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, Connection, Index, Integer, Table, Text, func, or_, select
from sqlalchemy.dialects import postgresql as postgresql_sql
from sqlalchemy.dialects import sqlite as sqlite_sql

from admin.core.audit import AuditEvent
from admin.core.provenance import proofs_of
from admin.store.database import RowId, UtcDateTime, metadata
from admin.store.dialects import is_sqlite
from admin.store.keys import within
from admin.store.sql_types import build

audit_events = Table(
    "audit_events",
    metadata,
    Column("number", RowId, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("event", Text, nullable=False),
    Column("user_name", Text),
    Column("proof", Text),
    Column("address", Text),
    Column("method", Text),
    Column("route", Text),
    Column("request_id", Text),
    Column("target", Text),
    Column("reason", Text),
    Column("count", Integer, nullable=False),
    Column("last_at", UtcDateTime),
    Column("repeat_key", Text),  # NULL for what is neither counted with others nor noted once
    Index("ix_audit_events_repeat_key", "repeat_key", unique=True),
    Index("ix_audit_events_at_number", "at", "number"),
    Index("ix_audit_events_user_name_number", "user_name", "number"),
    Index("ix_audit_events_address_number", "address", "number"),
)


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Which events a list contains; None for any."""

    event: str | None = None
    user: str | None = None  #: who did it, or as whom it was done
    address: str | None = None
    after: datetime | None = None
    before: datetime | None = None


def add(connection: Connection, events: Iterable[AuditEvent]) -> None:
    """Store events; one that is stored already for its minute is counted there."""
    ordered = sorted(events, key=lambda event: event.at)
    once = [_row(event) for event in ordered if event.once_key is not None]
    rows = [_row(event) for event in ordered if event.once_key is None]
    dialect = sqlite_sql if is_sqlite(connection) else postgresql_sql
    new = dialect.insert(audit_events)
    if once:  # another worker may have noted the same a moment ago
        connection.execute(new.on_conflict_do_nothing(index_elements=[audit_events.c.repeat_key]), once)
    if not rows:
        return
    counted = {
        "count": audit_events.c["count"] + new.excluded["count"],
        "last_at": func.coalesce(new.excluded["last_at"], new.excluded["at"]),
    }
    connection.execute(new.on_conflict_do_update(index_elements=[audit_events.c.repeat_key], set_=counted), rows)


def without_known(connection: Connection, events: Iterable[AuditEvent]) -> list[AuditEvent]:
    """Events without those that are noted once and stored already."""
    listed = list(events)
    keys = [event.once_key for event in listed if event.once_key is not None]
    if not keys:
        return listed
    query = select(audit_events.c.repeat_key).where(audit_events.c.repeat_key.in_(keys))
    known = set(connection.execute(query).scalars())
    return [event for event in listed if event.once_key is None or event.once_key not in known]


def page(connection: Connection, filters: AuditFilter, below: int | None, limit: int) -> list[AuditEvent]:
    """Events, the newest first, below a number if one is given."""
    columns = audit_events.c
    query = select(audit_events, columns.user_name.label("user")).order_by(columns.number.desc()).limit(limit)
    query = query.where(*within(columns.number, columns.at, filters.after, filters.before))
    for column, value in ((columns.event, filters.event), (columns.address, filters.address)):
        if value is not None:
            query = query.where(column == value)
    if filters.user is not None:
        query = query.where(or_(columns.user_name == filters.user, columns.proof.in_(proofs_of(filters.user))))
    if below is not None:
        query = query.where(columns.number < below)
    return [build(AuditEvent, row) for row in connection.execute(query)]


def _row(event: AuditEvent) -> dict[str, object]:
    values = {name: value for name, value in vars(event).items() if name not in ("number", "user")}
    return {
        **values,
        "event": str(event.event),
        "user_name": event.user,
        "repeat_key": event.repeat_key or event.once_key,
    }
