"""Known grants: who may do what, as it was within the last second, so that no request reads all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.grants import Grants
from admin.core.permissions import Role
from admin.store import grants, user_groups
from admin.store.database import Database
from admin.store.dialects.postgresql import answering_soon

#: How long another replica may go by a grant after it was taken away.
CACHE_SECONDS = 1.0


class _Known(NamedTuple):
    read_at: float
    number: int  #: of changes
    grants: Grants


class KnownGrants:
    """The grants and groups of one admin in memory; they are read again when one of them has changed."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self._last: _Known | None = None  # as far as it was read, whether or not it is to be read again

    def current(self, database: Database, roles: Mapping[str, Role]) -> Grants:
        """Who may do what."""
        known = self._known
        if known is not None and self._monotonic() - known.read_at < CACHE_SECONDS:
            return known.grants
        if not self._lock.acquire(blocking=known is None):
            assert known is not None
            return known.grants  # another request asks the database
        try:
            known = self._known
            if known is None or self._monotonic() - known.read_at >= CACHE_SECONDS:
                known = self._known = self._last = self._read(database, roles)
        finally:
            self._lock.release()
        return known.grants

    def at(self, connection: Connection, number: int, roles: Mapping[str, Role]) -> Grants:
        """Who may do what after so many changes, which a transaction has read."""
        known = self._find(number)
        if known is None:
            # Not what requests go by: the transaction may have begun before the last change.
            known = self._last = self._load(connection, number, roles, self._monotonic())
        return known.grants

    @property
    def number(self) -> int | None:
        """Of the changes that requests go by; None where the next one asks the database."""
        known = self._known
        return None if known is None else known.number

    def forget(self) -> None:
        """Ask the database the next time, after something has changed."""
        self._known = None

    def _find(self, number: int) -> _Known | None:
        """What is in memory as of a number of changes."""
        return next(
            (known for known in (self._known, self._last) if known is not None and known.number == number), None
        )

    def _read(self, database: Database, roles: Mapping[str, Role]) -> _Known:
        read_at = self._monotonic()
        with database.reading() as connection, answering_soon(connection):
            number = grants.number(connection)
            known = self._find(number)
            if known is not None:
                return known._replace(read_at=read_at)
            return self._load(connection, number, roles, read_at)

    def _load(self, connection: Connection, number: int, roles: Mapping[str, Role], read_at: float) -> _Known:
        return _Known(read_at, number, Grants(grants.every(connection), user_groups.memberships(connection), roles))
