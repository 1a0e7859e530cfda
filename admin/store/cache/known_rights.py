"""Known rights: what creators may use, of which only what has changed is read again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.cluster_groups import CLUSTER_GROUP
from admin.core.creators import CreatorRights
from admin.core.permissions import Role
from admin.core.use_grants import USE_GRANT, UseGrants
from admin.core.users import USER
from admin.store import cluster_groups, use_grants, users
from admin.store.cache.following import CACHE_SECONDS
from admin.store.cache.known_grants import KnownGrants
from admin.store.cache.rights_changes import Version, changes_since, version_of

_USE_KINDS = frozenset({USE_GRANT, CLUSTER_GROUP})
_KINDS = _USE_KINDS | {USER}


class _Known(NamedTuple):
    version: Version
    rights: CreatorRights


class KnownRights:
    """The rights of creators in memory."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: _Known | None = None
        self._seen_at = -math.inf  # when a transaction last saw what is known

    def at(
        self,
        connection: Connection,
        known_grants: KnownGrants,
        roles: Mapping[str, Role],
        *,
        is_closed: bool,
        has_provider: bool,
        is_kept: bool = True,
    ) -> CreatorRights:
        """The rights as a transaction sees them, or newer ones.

        `is_kept` is False for one that may have counted a change of them, which it may still take back.
        """
        known, now = self._known, self._monotonic()
        version, is_later = version_of(connection, known and known.version)
        if known is not None and version.number < known.version.number and now - self._seen_at < CACHE_SECONDS:
            return known.rights  # the transaction began before the last change
        before = known if is_later else None
        if known is None or before is None or version.number != known.version.number:
            grants = known_grants.at(connection, version.number, roles, is_kept=is_kept)
            parts = _read(connection, before)
            known = _Known(version, CreatorRights(grants, *parts, is_closed=is_closed, has_provider=has_provider))
        if is_kept:  # also where only the revision is another one, or more and more of them would be asked for changes
            self._known, self._seen_at = known._replace(version=version), now
        return known.rights


def _read(
    connection: Connection, known: _Known | None
) -> tuple[UseGrants, Collection[str], Mapping[str, frozenset[str]]]:
    """The use grants, the users, and the groups that their proofs named; where they are known only what has changed."""
    kinds = _KINDS if known is None else _changed_kinds(connection, known.version)
    uses = None if known is None or kinds & _USE_KINDS else known.rights.use_grants
    names = None if known is None or USER in kinds else known.rights.users
    proofs = use_grants.groups_of_proofs(connection, -1 if known is None else known.version.number)
    return (
        UseGrants(use_grants.every(connection), cluster_groups.members(connection)) if uses is None else uses,
        users.names(connection) if names is None else names,
        proofs if known is None else {**known.rights.proven_groups, **proofs},
    )


def _changed_kinds(connection: Connection, known: Version) -> frozenset[str]:
    """Of which kinds something has changed after a version; all of them where that cannot be told."""
    changes = changes_since(connection, known, _KINDS)
    return _KINDS if changes is None else frozenset(change.kind for change in changes)
