"""Administrators: somebody who may do everything must be left by every change."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.grants import GRANT, Grant, Grants, grant_of
from admin.core.settings.scopes import PLATFORM
from admin.core.user_groups import GROUP, Memberships
from admin.core.users import USER
from admin.errors import LastAdministrator
from admin.services.changeable.base import Draft
from admin.services.changeable.user_groups import groups_after
from admin.services.context import Context
from admin.store import grants, user_groups, users
from admin.store.grants import GrantFilter
from admin.store.user_tokens import with_whole_tokens


def check_administrators(draft: Draft) -> None:
    """Refuse a change after which nobody could do everything, where somebody can before it."""
    changes = [change for change in draft.changes if change.is_real and _may_remove(change)]
    if not changes:
        return
    context, connection = draft.context, draft.connection
    before = administrators(context, connection)
    if not before:
        return
    stored = _platform_grants(connection)
    for change in draft.changes:
        if change.kind == GRANT and not change.is_attribute:
            stored.pop(change.name, None)
            if change.after is not None:
                stored[change.name] = grant_of(change.after)
    memberships = Memberships(groups_after(connection, draft.changes).values())
    named = Grants(stored.values(), memberships, context.settings.roles).administrators()
    removed = {change.name for change in changes if change.kind == USER}
    after = _existing(connection, named - removed)
    if not after:
        raise LastAdministrator(
            f"Nobody would be left who may do everything; now {_named(before)} may. Give the role admin on the "
            "platform to someone else first: `rainbowctl create grant admin --user NAME`.",
        )
    able = _able_to_call(context, connection, before)
    if able and not _able_to_call(context, connection, after):
        raise LastAdministrator(
            f"Nobody would be left who may do everything and has a token for it (now: {_named(able)}; left without "
            f"one: {_named(after)}). Make one first: `rainbowctl create user-token {min(after)} NAME`.",
        )


def _able_to_call(context: Context, connection: Connection, names: Collection[str]) -> frozenset[str]:
    """Those of some users who can prove who they are, with all that they may do.

    By a token of their own that is not narrowed; people also where an OpenID provider is configured, who may know them.
    """
    able = with_whole_tokens(connection, names, context.clock())
    if context.settings.openid is not None:
        able |= {name for name, user in users.some(connection, names).items() if not user.service_account}
    return frozenset(able)


def _may_remove(change: RowChange) -> bool:
    """Whether a change may take something from an administrator."""
    if change.is_attribute or change.before is None:
        return False
    if change.kind == GRANT:
        return change.after is None and grant_of(change.before).scope == PLATFORM
    return change.kind == GROUP or (change.kind == USER and change.after is None)


def administrators(context: Context, connection: Connection) -> frozenset[str]:
    """The users that exist who may do everything."""
    every = _platform_grants(connection).values()
    named = Grants(every, user_groups.memberships(connection), context.settings.roles).administrators()
    return _existing(connection, named)


def _platform_grants(connection: Connection) -> dict[str, Grant]:
    return {row.name: row.grant for row in grants.page(connection, GrantFilter(scope=PLATFORM))}


def _existing(connection: Connection, names: Iterable[str]) -> frozenset[str]:
    """Those of some users that exist: a grant may name others, who cannot call."""
    return frozenset(users.some(connection, names))


def _named(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:5])
