"""Groups of users."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.user_groups import Memberships, UserGroup, group_of
from admin.store.named_payloads import NamedPayloads, StoredPayload


@dataclass(frozen=True, kw_only=True)
class StoredGroup(StoredPayload):
    """A group as it is defined."""

    @property
    def group(self) -> UserGroup:
        return group_of(self.name, self.payload)


_GROUPS = NamedPayloads("user_groups", StoredGroup)
user_groups = _GROUPS.table
some, page, every, names, write = _GROUPS.some, _GROUPS.page, _GROUPS.every, _GROUPS.names, _GROUPS.write


def memberships(connection: Connection) -> Memberships:
    """Who is in which group."""
    return Memberships(stored.group for stored in every(connection))
