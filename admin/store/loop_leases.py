"""Loop leases: which process does the background work, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Column, Connection, Table, Text, or_, select, update

from admin.store.database import UtcDateTime, insert_new, metadata

loop_leases = Table(
    "loop_leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)

#: The lease of the background work.
BACKGROUND = "background"
#: How often a failure that goes on is noted again.
NOTED_EVERY_SECONDS = 60.0

#: Admins may be configured with leases of different lengths, but hardly by more than this factor.
_LONGEST_LEASES = 100


def take(connection: Connection, name: str, holder: str, now: datetime, seconds: float) -> bool:
    """Take or renew a lease; returns whether this holder has it now."""
    until = now + timedelta(seconds=seconds)
    is_lease = loop_leases.c.name == name
    # One that ends long after any lease was given by a clock that has gone back since.
    is_free = or_(
        loop_leases.c.holder == holder,
        loop_leases.c.expires_at <= now,
        loop_leases.c.expires_at > now + timedelta(seconds=_LONGEST_LEASES * seconds),
    )
    if connection.execute(
        update(loop_leases).where(is_lease, is_free).values(holder=holder, expires_at=until)
    ).rowcount:
        return True
    return insert_new(connection, loop_leases, [{"name": name, "holder": holder, "expires_at": until}]) == 1


def release(connection: Connection, name: str, holder: str, now: datetime) -> None:
    """Release a lease, so that another holder can take it at once."""
    is_own = (loop_leases.c.name == name, loop_leases.c.holder == holder)
    connection.execute(update(loop_leases).where(*is_own).values(expires_at=now))


class Holder(NamedTuple):
    """Who holds a lease, or held it last."""

    since: datetime | None  #: when it began; None where an admin that does not note it holds the lease
    is_present: bool  #: whether the lease is not over
    process: str  #: its host and process id


def note_start(connection: Connection, name: str, holder: str, now: datetime) -> None:
    """Note that a holder begins, in a row of its own: other processes tell by it since when it listens."""
    _note(connection, {"name": _start_of(name), "holder": holder, "expires_at": now})


def find_holder(connection: Connection, name: str, now: datetime) -> Holder | None:
    """The holder of a lease; None where nobody ever had it."""
    names = [name, _start_of(name)]
    rows = {row.name: row for row in connection.execute(select(loop_leases).where(loop_leases.c.name.in_(names)))}
    lease, start = rows.get(name), rows.get(_start_of(name))
    if lease is None:
        return None
    is_noted = start is not None and start.holder == lease.holder
    since = start.expires_at if start is not None and is_noted else None
    return Holder(since, is_present=lease.expires_at > now, process=lease.holder.rpartition(":")[0])


class Failure(NamedTuple):
    """The last failure of work that is done under a lease."""

    at: datetime
    message: str


def note_failure(connection: Connection, name: str, message: str, now: datetime) -> None:
    """Note that work failed, in a row of its own, in place of the failure before."""
    _note(connection, {"name": _failure_of(name), "holder": message, "expires_at": now})


def last_failure(connection: Connection, name: str) -> Failure | None:
    """The last failure that was noted of the work under a lease."""
    row = connection.execute(select(loop_leases).where(loop_leases.c.name == _failure_of(name))).one_or_none()
    return None if row is None else Failure(row.expires_at, row.holder)


def _note(connection: Connection, row: Mapping[str, object]) -> None:
    """Store a row in place of the one of its name."""
    if not connection.execute(update(loop_leases).where(loop_leases.c.name == row["name"]).values(row)).rowcount:
        insert_new(connection, loop_leases, [row])


def _failure_of(name: str) -> str:
    return f"{name}-failure"


def _start_of(name: str) -> str:
    return f"{name}-start"
