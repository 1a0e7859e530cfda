"""Loop leases: which process does the background work, one at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Column, Connection, Table, Text, or_, update

from admin.store.database import UtcDateTime, insert_new, metadata

loop_leases = Table(
    "loop_leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)

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
