"""Planned rights: what creators may use once rows are changed, before they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.cluster_groups import CLUSTER_GROUP
from admin.core.creators import CreatorRights
from admin.core.grants import GRANT, Grants, grant_of
from admin.core.settings.kinds import Payload
from admin.core.use_grants import USE_GRANT, UseGrants, use_grant_of
from admin.core.user_groups import GROUP, Memberships
from admin.core.users import USER
from admin.services.changeable.user_groups import groups_after
from admin.services.context import Context
from admin.services.creator_rights import current_rights
from admin.store import cluster_groups, grants, use_grants, users

Row = TypeVar("Row")
#: What the rights of creators follow from, and what only counts where clusters are closed.
_ALWAYS = frozenset({USER, GROUP, GRANT, CLUSTER_GROUP})
_WHERE_CLOSED = frozenset({USE_GRANT})


def without_idle_rights(context: Context, changes: Sequence[RowChange]) -> list[RowChange]:
    """Changes without those of rights that have no effect: of use, while everybody may use everything."""
    idle = frozenset() if context.settings.is_cluster_use_closed else _WHERE_CLOSED
    return [change for change in changes if change.is_attribute or change.kind not in idle]


def are_rights_changed(context: Context, changes: Sequence[RowChange]) -> bool:
    """Whether some changes may change what creators may use."""
    return any(
        change.is_real and not change.is_attribute and change.kind in _ALWAYS | _WHERE_CLOSED
        for change in without_idle_rights(context, changes)
    )


def rights_after(context: Context, connection: Connection, changes: Sequence[RowChange]) -> CreatorRights:
    """What creators may use as some changes leave it."""
    if not are_rights_changed(context, changes):
        return current_rights(context, connection)
    settings = context.settings
    given = {grant.name: grant for grant in grants.every(connection)}
    uses = {use.name: use for use in use_grants.every(connection)}
    members: dict[str, Sequence[str]] = {**cluster_groups.members(connection)}
    user_names = dict.fromkeys(users.names(connection), True)
    _apply(given, changes, GRANT, grant_of)
    _apply(uses, changes, USE_GRANT, use_grant_of)
    _apply(members, changes, CLUSTER_GROUP, lambda payload: payload.get("clusters", []))
    _apply(user_names, changes, USER, lambda _payload: True)
    return CreatorRights(
        Grants(given.values(), Memberships(groups_after(connection, changes).values()), settings.roles),
        UseGrants(uses.values(), members),
        user_names,
        use_grants.groups_of_proofs(connection),
        is_closed=settings.is_cluster_use_closed,
        has_provider=settings.openid is not None,
    )


def _apply(rows: dict[str, Row], changes: Sequence[RowChange], kind: str, read: Callable[[Payload], Row]) -> None:
    """Change the rows of one kind, by name, as some changes do."""
    for change in changes:
        if change.kind == kind and not change.is_attribute:
            rows.pop(change.name, None)
            if change.after is not None:
                rows[change.name] = read(change.after)
