"""Administrators: somebody who may do everything must be left by every change."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.grants import GRANT, Grants, grant_of
from admin.core.settings.scopes import PLATFORM
from admin.core.user_groups import GROUP, Memberships
from admin.errors import LastAdministrator
from admin.services.changeable.base import Draft
from admin.services.changeable.user_groups import groups_after
from admin.store import grants, user_groups
from admin.store.grants import GrantFilter

#: The kind of a user's row.
_USER = "USER"


def check_administrators(draft: Draft) -> None:
    """Refuse a change after which nobody could do everything, where somebody can before it."""
    changes = [change for change in draft.changes if change.is_real and _may_remove(change)]
    if not changes:
        return
    roles = draft.context.settings.roles
    stored = {row.name: row.grant for row in grants.page(draft.connection, GrantFilter(scope=PLATFORM))}
    before = Grants(stored.values(), user_groups.memberships(draft.connection), roles).administrators()
    if not _existing(draft.connection, before):
        return
    for change in draft.changes:
        if change.kind == GRANT and not change.is_attribute:
            stored.pop(change.name, None)
            if change.after is not None:
                stored[change.name] = grant_of(change.after)
    memberships = Memberships(groups_after(draft.connection, draft.changes).values())
    after = Grants(stored.values(), memberships, roles).administrators()
    removed = {change.name for change in changes if change.kind == _USER}
    if not _existing(draft.connection, after - removed):
        raise LastAdministrator(
            f"Nobody would be left who may do everything; now {_named(before)} may. Give the role admin on the "
            "platform to someone else first: `rainbowctl create grant admin --user NAME`.",
        )


def _may_remove(change: RowChange) -> bool:
    """Whether a change may take something from an administrator."""
    if change.is_attribute or change.before is None:
        return False
    if change.kind == GRANT:
        return change.after is None and grant_of(change.before).scope == PLATFORM
    return change.kind == GROUP or (change.kind == _USER and change.after is None)


def _existing(connection: Connection, users: Iterable[str]) -> frozenset[str]:
    """Those of some users that exist; until users are stored, all do that a grant names."""
    return frozenset(users)


def _named(users: Iterable[str]) -> str:
    return ", ".join(sorted(users)[:5])
