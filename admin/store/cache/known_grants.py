"""Known grants: who may do what, as it was within the last second, so that no request reads all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.grants import GRANT, Grants, grant_of
from admin.core.permissions import Role
from admin.core.user_groups import GROUP
from admin.store import grants, user_groups
from admin.store.cache.following import CACHE_SECONDS as CACHE_SECONDS
from admin.store.cache.following import Following
from admin.store.cache.rights_changes import Version, changes_since, version_of
from admin.store.database import Database
from admin.store.dialects.postgresql import answering_soon


class _Known(NamedTuple):
    version: Version
    grants: Grants

    @property
    def number(self) -> int:
        return self.version.number


class KnownGrants:
    """The grants and groups of one admin in memory; of those that change only the changes are read."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._following = Following[_Known](monotonic)
        self._last: _Known | None = None  # as far as it was read, whether or not requests go by it

    def current(self, database: Database, roles: Mapping[str, Role]) -> Grants:
        """Who may do what."""
        return self._following.current(partial(self._look, database, roles)).grants

    def at(self, connection: Connection, number: int, roles: Mapping[str, Role], *, is_kept: bool = True) -> Grants:
        """Who may do what after so many changes, which a transaction has read, or after more of them.

        It is not kept where the transaction may take the last of them back.
        """
        recent = self._following.recent
        if recent is not None and recent.number > number:
            return recent.grants  # the transaction began before the last change
        known = self._base(number)
        # Not what requests go by: the transaction may have begun before the last change.
        brought = _brought(connection, known, *version_of(connection, known and known.version), roles)
        if is_kept:
            self._last = brought
        return brought.grants

    @property
    def number(self) -> int | None:
        """Of the changes that requests go by; None where the next one asks the database."""
        known = self._following.kept
        return None if known is None else known.number

    def forget(self) -> None:
        """Ask the database the next time, after something has changed."""
        self._following.forget()

    def _base(self, number: int) -> _Known | None:
        """What is in memory, from which the least is to be read up to a number of changes."""
        in_memory = (known for known in (self._following.latest, self._last) if known is not None)
        return max(
            (known for known in in_memory if known.number <= number), key=lambda known: known.number, default=None
        )

    def _look(self, database: Database, roles: Mapping[str, Role], known: _Known | None) -> _Known:
        last = self._last
        if last is not None and (known is None or last.number > known.number):
            known = last
        with database.reading() as connection:
            with answering_soon(connection):  # to read all of them may take longer
                version, is_later = version_of(connection, known and known.version)
            brought = self._last = _brought(connection, known, version, is_later, roles)
        return brought


def _brought(
    connection: Connection, known: _Known | None, version: Version, is_later: bool, roles: Mapping[str, Role]
) -> _Known:
    """What is known, brought to a version; all is read where that is not a later one."""
    if known is not None and is_later:
        if version == known.version:
            return known
        new = known.grants if version.number == known.number else _changed(connection, known)
        if new is not None:
            return _Known(version, new)
    return _Known(version, Grants(grants.every(connection), user_groups.memberships(connection), roles))


def _changed(connection: Connection, known: _Known) -> Grants | None:
    """What is known, with the changes since; None where they cannot be told."""
    changes = changes_since(connection, known.version, (GRANT, GROUP))
    if changes is None:
        return None
    memberships = user_groups.memberships(connection) if any(change.kind == GROUP for change in changes) else None
    given = {}
    for change in changes:
        payload = change.before if change.after is None else change.after
        if change.kind == GRANT and payload is not None:
            given[grant_of(payload)] = change.after is not None
    return known.grants.changed(given, memberships)
