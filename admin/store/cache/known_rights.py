"""Known rights: what creators may use, read again when a grant, group or user has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.creators import CreatorRights
from admin.core.permissions import Role
from admin.core.use_grants import UseGrants
from admin.store import cluster_groups, grants, use_grants, users
from admin.store.cache.known_grants import KnownGrants


class _Known(NamedTuple):
    number: int  #: of changes
    rights: CreatorRights


class KnownRights:
    """The rights of creators in memory.

    A transaction that changes what they follow from must not ask after it has counted the change, which it may still
    take back.
    """

    def __init__(self) -> None:
        self._known: _Known | None = None

    def at(
        self,
        connection: Connection,
        known_grants: KnownGrants,
        roles: Mapping[str, Role],
        *,
        is_closed: bool,
        has_provider: bool,
    ) -> CreatorRights:
        """The rights as a transaction sees them, or newer ones."""
        number = grants.number(connection)
        known = self._known
        if known is None or known.number != number:
            rights = CreatorRights(
                known_grants.at(connection, number, roles),
                UseGrants(use_grants.every(connection), cluster_groups.members(connection)),
                users.names(connection),
                use_grants.groups_of_proofs(connection),
                is_closed=is_closed,
                has_provider=has_provider,
            )
            known = self._known = _Known(number, rights)
        return known.rights
