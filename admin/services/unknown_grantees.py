"""Unknown grantees: a user or group asked about that does not exist, with who deleted it or the closest names."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection

from admin.core.grants import USER, Grantee
from admin.core.problems import closest, did_you_mean, shorten
from admin.core.user_groups import GROUP as GROUP_KIND
from admin.core.users import USER as USER_KIND
from admin.services.absent_users import is_of_user
from admin.services.context import Context
from admin.services.unknown_names import UnknownName
from admin.store import row_changes, user_groups, users

#: Users of a list that are told of one by one.
_MOST_TOLD = 10


def find_unknown_grantee(context: Context, connection: Connection, grantee: Grantee) -> list[UnknownName]:
    """The user or group asked about, where there is none of that name and the caller may know that."""
    noun, name = grantee
    if not context.access.allows("users.read" if noun == USER else "groups.read"):
        return []
    if noun == USER and not is_of_user(name):
        return []
    known = users.names(connection) if noun == USER else user_groups.names(connection)
    return [] if name in known else [_unknown(context, connection, grantee, known)]


def tell_absent_users(context: Context, connection: Connection, names: Iterable[str]) -> list[UnknownName]:
    """The first of some users that do not exist and that grants name, which the caller may see."""
    may_know = context.access.allows("users.read")
    told = sorted(names)[:_MOST_TOLD]
    known = users.names(connection) if told and may_know else []
    return [_unknown(context, connection, Grantee(USER, name), known, is_deletion_told=may_know) for name in told]


def _unknown(
    context: Context,
    connection: Connection,
    grantee: Grantee,
    known: Collection[str],
    *,
    is_deletion_told: bool = True,
) -> UnknownName:
    noun, name = grantee
    kind = USER_KIND if noun == USER else GROUP_KIND
    is_looked_up = is_deletion_told and "\0" not in name
    deleted_by = row_changes.deleted_by(connection, kind, [name]).get(name) if is_looked_up else None
    start = f"No {noun} is called '{shorten(name)}'"
    if deleted_by is not None:
        return UnknownName(noun, name, f"{start}: it was deleted by {deleted_by.describe(context.clock())}.", ())
    near = closest(name, known)
    return UnknownName(noun, name, f"{start}.{did_you_mean(near)}", near)
