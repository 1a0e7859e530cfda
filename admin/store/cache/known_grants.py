"""Known grants: who may do what, as it was within the last second, so that no request reads all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.grants import GRANT, Grants, grant_of
from admin.core.permissions import Role
from admin.core.user_groups import GROUP
from admin.store import grants, revisions, row_changes, user_groups
from admin.store.cache.following import CACHE_SECONDS as CACHE_SECONDS
from admin.store.cache.following import Following
from admin.store.database import Database
from admin.store.dialects.postgresql import answering_soon

#: Changes that are applied to what is known; after more of them everything is read again.
MOST_CHANGES = 10_000


class _Known(NamedTuple):
    number: int  #: of changes
    revision: int  #: the last one that is known
    made_at: datetime | None  #: when that was made
    grants: Grants


class KnownGrants:
    """The grants and groups of one admin in memory; of those that change only the changes are read."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._following = Following[_Known](monotonic)
        self._last: _Known | None = None  # as far as it was read, whether or not requests go by it

    def current(self, database: Database, roles: Mapping[str, Role]) -> Grants:
        """Who may do what."""
        return self._following.current(partial(_look, database, roles)).grants

    def at(self, connection: Connection, number: int, roles: Mapping[str, Role]) -> Grants:
        """Who may do what after so many changes, which a transaction has read."""
        known = next(
            (known for known in (self._following.latest, self._last) if known and known.number == number), None
        )
        if known is None:
            # Not what requests go by: the transaction may have begun before the last change.
            known = self._last = _load(connection, number, revisions.head(connection), roles)
        return known.grants

    @property
    def number(self) -> int | None:
        """Of the changes that requests go by; None where the next one asks the database."""
        known = self._following.kept
        return None if known is None else known.number

    def forget(self) -> None:
        """Ask the database the next time, after something has changed."""
        self._following.forget()


def _look(database: Database, roles: Mapping[str, Role], known: _Known | None) -> _Known:
    with database.reading() as connection:
        with answering_soon(connection):  # to read all of them may take longer
            number = grants.number(connection)
            head, made_at = revisions.head_and_time(connection, -1 if known is None else known.revision)
        if known is not None and head >= known.revision and made_at in (None, known.made_at):
            if number == known.number and head == known.revision:
                return known
            new = known.grants if number == known.number else _changed(connection, known)
            if new is not None:
                return _Known(number, head, revisions.made_at(connection, head), new)
        return _load(connection, number, head, roles)


def _load(connection: Connection, number: int, head: int, roles: Mapping[str, Role]) -> _Known:
    every = Grants(grants.every(connection), user_groups.memberships(connection), roles)
    return _Known(number, head, revisions.made_at(connection, head), every)


def _changed(connection: Connection, known: _Known) -> Grants | None:
    """What is known, with the changes since; None where there are too many, or some were pruned."""
    if revisions.oldest(connection) > known.revision + 1:
        return None
    kinds, limit = [GRANT, GROUP], MOST_CHANGES + 1
    above = list(row_changes.changes_above(connection, known.revision, kinds=kinds, limit=limit))
    if len(above) == limit:
        return None
    named = [change for change in above if not change.is_attribute]
    memberships = user_groups.memberships(connection) if any(change.kind == GROUP for change in named) else None
    given = {}
    for change in named:
        payload = change.before if change.after is None else change.after
        if change.kind == GRANT and payload is not None:
            given[grant_of(payload)] = change.after is not None
    return known.grants.changed(given, memberships)
