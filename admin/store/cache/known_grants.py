"""Known grants: who may do what, as it was within the last second, so that no request reads all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

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
        self._last: _Known | None = None  # also what is to be read again

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
                known = self._known = self._read(database, roles, known or self._last)
                self._last = known
        finally:
            self._lock.release()
        return known.grants

    def forget(self) -> None:
        """Ask the database the next time, after something has changed."""
        self._known = None

    def _read(self, database: Database, roles: Mapping[str, Role], known: _Known | None) -> _Known:
        read_at = self._monotonic()
        with database.reading() as connection, answering_soon(connection):
            number = grants.number(connection)
            if known is not None and known.number == number:
                return known._replace(read_at=read_at)
            return _Known(read_at, number, Grants(grants.every(connection), user_groups.memberships(connection), roles))
