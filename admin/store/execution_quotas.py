"""What the executions at and below scopes have, counted from the executions themselves, and the locks under which that
counts: nobody else admits executions at a scope until the transaction ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, text

from admin.core.executions.quotas import OF_RUNNING, OF_WAITING, FullQuota, QuotaLimit, Tally, Usage
from admin.core.settings.scopes import Scope
from admin.store import fleet
from admin.store.database import is_writing
from admin.store.dialects import is_postgresql
from admin.store.dialects.postgresql import advisory_lock
from admin.store.execution_tables import WAITS, executions
from admin.store.executions import LEASED
from admin.store.keys import scope_columns
from admin.store.sql_types import AnyRow

_columns = executions.c
_PLACE = (_columns.domain, _columns.project, _columns.workflow, _columns.launch_plan)
_NUMBER = func.count().label("executions")
_SUMS = [func.sum(_columns[f"demand_{resource}"]).label(resource) for resource in ("cpu", "memory", "gpu")]
_SELECT_USE = select(*_PLACE, _NUMBER, *_SUMS).group_by(*scope_columns(executions))
_SELECT_PLACES = select(*_PLACE, _NUMBER).group_by(*scope_columns(executions))
_CREATOR = (_columns.created_by, _columns.claimed_by)
#: What agents have, in a form that fits the index of leases; a place is compared as a truth value, which fits no index,
#: for much more may have ended there.
_HELD = (LEASED, _columns.cluster > "")


def lock(connection: Connection, limits: Iterable[QuotaLimit]) -> None:
    """Keep others from admitting executions that count for some limits; a writer of SQLite is alone anyway."""
    keys = sorted({_lock_key(limit) for limit in limits}) if is_postgresql(connection) else []
    if keys:
        connection.exec_driver_sql(f"SELECT {', '.join(map(advisory_lock, keys))}")


def _lock_key(limit: QuotaLimit) -> int:
    """The number of the lock of a scope; what waits and what runs is admitted apart."""
    group = "running" if limit.field in OF_RUNNING else "waiting"
    digest = hashlib.blake2b(f"execution_quota/{group}/{limit.scope.path}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def running(connection: Connection, scopes: Collection[Scope]) -> dict[Scope, Usage]:
    """What the executions at and below scopes have that agents have; also those of silent ones, which may go on."""
    if not scopes:
        return {}
    rows = connection.execute(_SELECT_USE.where(*_HELD, _is_below(scopes).is_(True)))
    return _sums({Scope(*row[:4]): _usage_of(row) for row in rows}, scopes)


def _usage_of(row: AnyRow) -> Usage:
    return Usage(running=row.executions, cpu=int(row.cpu), memory=int(row.memory), gpu=int(row.gpu))


def waiting(connection: Connection, scopes: Collection[Scope]) -> dict[Scope, Usage]:
    """How many executions wait at and below scopes."""
    if not scopes:
        return {}
    rows = connection.execute(_SELECT_PLACES.where(text(WAITS), _is_below(scopes)))
    return _sums({Scope(*row[:4]): Usage(waiting=row.executions) for row in rows}, scopes)


class CreatorUsage(NamedTuple):
    """What the executions of one creator at one place have."""

    place: Scope
    created_by: str  #: as the gate knew its caller; empty where that was not kept
    claimed_by: str | None
    usage: Usage


def by_creator(
    connection: Connection, scopes_of_running: Collection[Scope], scopes_of_waiting: Collection[Scope]
) -> list[CreatorUsage]:
    """What everybody's executions at and below scopes have: of some what runs, of some what waits."""
    found: list[CreatorUsage] = []
    if scopes_of_running:
        held = _SELECT_USE.add_columns(*_CREATOR).group_by(*_CREATOR)
        for row in connection.execute(held.where(*_HELD, _is_below(scopes_of_running).is_(True))):
            found.append(CreatorUsage(Scope(*row[:4]), row.created_by, row.claimed_by, _usage_of(row)))
    if scopes_of_waiting:
        waits = _SELECT_PLACES.add_columns(*_CREATOR).group_by(*_CREATOR)
        for row in connection.execute(waits.where(text(WAITS), _is_below(scopes_of_waiting))):
            waiting = Usage(waiting=row.executions)
            found.append(CreatorUsage(Scope(*row[:4]), row.created_by, row.claimed_by, waiting))
    return found


def admit_waiting(connection: Connection, limits: Sequence[Sequence[QuotaLimit]]) -> list[FullQuota | None]:
    """Which of some executions may not be created, by the limits of each, in their order.

    Those that may are counted for those after them, and no other transaction admits any until this one ends.
    """
    tally = tally_waiting(connection, {limit for own in limits for limit in own})
    return [tally.admit(own, Usage(waiting=1), OF_WAITING) for own in limits]


def tally_waiting(connection: Connection, limits: Collection[QuotaLimit]) -> Tally:
    """What waits at the scopes of some limits; no other transaction admits any there until this one ends."""
    if limits and is_writing(connection):
        fleet.share(connection)  # which everything that is stored locks first
        lock(connection, limits)
    return Tally(waiting(connection, {limit.scope for limit in limits}))


def _sums(used: Mapping[Scope, Usage], scopes: Collection[Scope]) -> dict[Scope, Usage]:
    sums = dict.fromkeys(scopes, Usage())
    for place, usage in used.items():
        for scope in (Scope(), *place.chain()):
            if scope in sums:
                sums[scope] = sums[scope].plus(usage)
    return sums


def _is_below(scopes: Iterable[Scope]) -> ColumnElement[bool]:
    """Whether an execution is at or below one of some scopes."""
    return or_(*(is_at(scope) for scope in scopes))


def is_at(scope: Scope) -> ColumnElement[bool]:
    """Whether an execution is at or below a scope."""
    return and_(True, *(_columns[key] == value for key, value in scope.keys().items()))


class Holder(NamedTuple):
    """An execution that agents have."""

    project: str
    domain: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}/{self.domain}/{self.name}"


def holders(connection: Connection, scope: Scope, *, limit: int) -> Sequence[Holder]:
    """The oldest executions at and below a scope that agents have."""
    query = select(_columns.project, _columns.domain, _columns.name).where(*_HELD, is_at(scope).is_(True))
    return [Holder(*row) for row in connection.execute(query.order_by(_columns.id + 0).limit(limit))]
