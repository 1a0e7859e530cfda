"""Absent users: those whom grants and groups name, while this admin has no such user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection

from admin.core import names
from admin.core.changes import RowChange
from admin.core.grants import GRANT, USER, Grantee
from admin.core.problems import closest, did_you_mean, list_first
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import UNTIL_CREATED, Warning, WarningCode
from admin.core.use_grants import USE_GRANT, Named
from admin.core.user_groups import GROUP
from admin.core.users import RESERVED
from admin.core.users import USER as USER_KIND
from admin.services.access import Access
from admin.services.context import Context
from admin.store import grants, use_grants, user_groups, users
from admin.store.grants import GrantFilter
from admin.store.use_grants import UseGrantFilter

#: Rows that a sentence names.
_MOST_NAMED = 3


def are_users_stored(context: Context, connection: Connection) -> bool:
    """Whether nobody is a user but those of this admin: OpenID proves others, and without users nothing is refused."""
    return context.settings.openid is None and users.is_any(connection)


def find_absent(context: Context, connection: Connection, user_names: Iterable[str]) -> frozenset[str]:
    """Those of some names that no user has, so that what names them has no effect."""
    named = frozenset(name for name in user_names if is_of_user(name))
    if not named or not are_users_stored(context, connection):
        return frozenset()
    return named - users.some(connection, named).keys()


def is_of_user(name: str) -> bool:
    """Whether a name is one that a user may have: neither that of an agent nor one that the admin gives itself."""
    return name not in RESERVED and names.is_user_name(name) and not name.startswith("cluster/")


def warn_of_absent(kind: str, row: str, user: str, known: Iterable[str]) -> Warning:
    """The warning that a grant names a user who does not exist."""
    near = closest(user, known)
    return Warning(
        code=WarningCode.UNKNOWN_USER,
        message=f"No user is called '{user}'.{did_you_mean(near)} {UNTIL_CREATED}",
        kind=kind,
        scope=PLATFORM,
        field="user",
        closest=near,
        name=row,
        missing=((USER_KIND,), user),
    )


class _Naming:
    """The grants, use grants and groups that name a user, as changes leave them and a caller may see them."""

    def __init__(self, connection: Connection, access: Access, user: str, changes: Sequence[RowChange]) -> None:
        changed = {(change.kind, change.name) for change in changes if not change.is_attribute}
        of_user = GrantFilter(grantees=[Grantee(USER, user)])
        self.grants = [
            stored.grant
            for stored in grants.page(connection, of_user)
            if (GRANT, stored.name) not in changed and access.allows("grants.read", stored.grant.scope)
        ]
        used = UseGrantFilter(grantee=Named(USER, user))
        self.use_grants = [
            stored.grant
            for stored in (use_grants.page(connection, used) if access.allows("use_grants.read") else ())
            if (USE_GRANT, stored.name) not in changed
        ]
        self.groups = [
            stored.name
            for stored in (user_groups.every(connection) if access.allows("groups.read") else ())
            if (GROUP, stored.name) not in changed and user in stored.group.users
        ]


def warn_of_left(
    context: Context, connection: Connection, access: Access, user: str, changes: Sequence[RowChange]
) -> Iterator[Warning]:
    """A warning for each grant and group that still names a user who is deleted."""
    then = UNTIL_CREATED
    if context.settings.openid is not None:
        then = f"It still counts for whoever OpenID proves to be '{user}'."
    naming = _Naming(connection, access, user, changes)
    left = [(GRANT, grant.name, USER, f"The grant {grant} stays.") for grant in naming.grants]
    left += [(USE_GRANT, grant.name, USER, f"The use grant {grant.name} stays.") for grant in naming.use_grants]
    left += [(GROUP, name, "users", f"Group {name} keeps '{user}' as a member.") for name in naming.groups]
    for kind, row, field, message in left:
        yield Warning(
            code=WarningCode.UNKNOWN_USER,
            message=f"{message} {then}",
            kind=kind,
            scope=PLATFORM,
            field=field,
            name=row,
        )


def warn_of_earlier(
    context: Context, connection: Connection, access: Access, user: str, changes: Sequence[RowChange]
) -> Iterator[Warning]:
    """A warning that a new user has what grants and groups gave to that name before."""
    if context.settings.openid is not None:
        return  # they counted for whoever OpenID proves by that name
    naming = _Naming(connection, access, user, changes)
    rows = [
        *(f"the grant {grant}" for grant in naming.grants),
        *(f"the use grant {grant.name}" for grant in naming.use_grants),
        *(f"the membership of group {name}" for name in naming.groups),
    ]
    if rows:
        yield Warning(
            code=WarningCode.EARLIER_GRANTS,
            message=f"What was given to the name '{user}' before takes effect with this user: "
            f"{list_first(rows, _MOST_NAMED)}. `rainbowctl get access --user {user}` lists it.",
            kind=USER_KIND,
            scope=PLATFORM,
            field="name",
            name=user,
        )
