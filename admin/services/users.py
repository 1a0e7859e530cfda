"""Users: create, read, list, update and delete people and service accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection

from admin.core import names
from admin.core.changes import Expectation
from admin.core.identities import Identity
from admin.core.problems import invalid
from admin.core.provenance import Provenance
from admin.core.settings.kinds import Payload
from admin.core.use_grants import USER as GRANTEE
from admin.core.use_grants import Named
from admin.core.users import USER, User
from admin.errors import PermissionDenied, UserNotFound
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.users import forget_users, user_write
from admin.services.changes import Changed, make_change
from admin.services.context import Context
from admin.services.creator_rights import check_giving_use
from admin.services.named_rows import create_row, row_not_found
from admin.services.visibility import access_of
from admin.store import revisions, user_tokens, users

#: The header that names the user whom a caller acts as.
ACT_AS = "Rainbow-As"


def has_users(context: Context) -> bool:
    """Whether there are users, so that every request needs a token; as it was within the last second."""
    return context.user_presence.is_any(context.database)


def act_as(context: Context, identity: Identity, name: str) -> Identity:
    """The identity of a caller who acts as a user, under both names; UserNotFound where there is no such user."""
    if not names.is_user_name(name):
        raise invalid(ACT_AS, f"is not a user's name: use {names.USER_NAME_RULE}.")
    if not has_users(context):
        raise invalid(ACT_AS, "this admin has no users: leave it out.")
    if name == identity.user:
        return identity
    access = access_of(context, identity)
    try:
        access.check("users.impersonate")
        with context.database.reading() as connection:
            find_user(context, connection, name)
            check_giving_use(context, connection, access, Named(GRANTEE, name))
        access.check_acting_as(name)
    except PermissionDenied as denied:
        raise denied.of_caller(identity.user) from None
    # The groups are those that the provider has of the caller, not of the user.
    return replace(identity, user=name, groups=frozenset(), administrator=identity.user)


def has_users_now(context: Context) -> bool:
    """Whether there are users, as the database says."""
    context.user_presence.forget()
    return has_users(context)


def list_users(
    context: Context,
    *,
    service_account: bool | None,
    idle_for: timedelta | None = None,
    after: str | None,
    limit: int,
) -> tuple[list[User], str | None]:
    """A page of users by name, and the name after which the next page starts, if there is one.

    Only those of whom no token was used for `idle_for`, if that is given, and who are older.
    """
    is_idle: Sequence[ColumnElement[bool]] = ()
    if idle_for is not None:
        context.access.check("tokens.read")
        context.token_uses.write(context.database)
        is_idle = user_tokens.idle_since(context.clock() - idle_for)
    with context.database.reading() as connection:
        page = users.page(connection, *is_idle, service_account=service_account, after=after, limit=limit + 1)
    return page[:limit], page[limit - 1].name if len(page) > limit else None


def user_provenance(context: Context, listed: Sequence[User]) -> Mapping[int, Provenance]:
    """The revisions that made users as they are, by their numbers, as far as they are kept."""
    with context.database.reading() as connection:
        return revisions.provenance_of(connection, (user.version for user in listed))


def last_seen(context: Context, listed: Sequence[User]) -> Mapping[str, datetime]:
    """When a token of each of some users was used last, of those whose tokens the caller may list."""
    access = context.access
    told = [user.name for user in listed if access.allows("tokens.read") or user.name == access.identity.user]
    context.token_uses.write(context.database)
    with context.database.reading() as connection:
        return user_tokens.last_uses(connection, told)


def get_user(context: Context, name: str) -> User:
    """One user; UserNotFound where there is none."""
    with context.database.reading() as connection:
        return find_user(context, connection, name)


def find_user(context: Context, connection: Connection, name: str) -> User:
    """A user as a transaction sees it; UserNotFound with who deleted it, or the closest names."""
    is_name = names.is_user_name(name)  # a database may refuse to look for other text, such as NUL
    user = users.some(connection, [name]).get(name) if is_name else None
    if user is not None:
        return user
    raise row_not_found(context, connection, UserNotFound, USER, name, users.names(connection))


def create_user(context: Context, name: str, payload: Payload, options: ChangeOptions) -> Changed:
    """Create a user; AlreadyExists where the name is taken."""
    changed = create_row(context, "user", user_write(name, payload, Expectation(absent=True)), options)
    forget_users(context)  # once more, now that it is committed
    return changed


def put_user(
    context: Context, name: str, payload: Payload | None, expectation: Expectation, options: ChangeOptions
) -> Changed:
    """Define a user, or remove it with its tokens."""
    changed = make_change(context, [user_write(name, payload, expectation)], options)
    forget_users(context)  # once more, now that it is committed
    return changed
