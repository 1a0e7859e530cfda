"""Tokens of users: made, listed and revoked; callers are known by them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from admin.core import names
from admin.core.identities import Identity, Proof
from admin.core.json_text import JsonObject
from admin.core.narrowing import Narrowing
from admin.core.permissions import PERMISSIONS
from admin.core.problems import invalid, raise_problems, unknown_problem
from admin.core.settings.scopes import SCOPE_KEYS, check_scope
from admin.core.use_grants import USER, Named
from admin.errors import AlreadyExists, ClusterNotFound, PermissionDenied, UserTokenNotFound
from admin.services import tokens
from admin.services.context import Context
from admin.services.creator_rights import check_giving_use
from admin.services.fleet import find_clusters
from admin.services.scopes import check_readable
from admin.services.tokens import Issued
from admin.services.users import find_user
from admin.store import cluster_groups, revisions
from admin.store.tokens import StoredToken
from admin.store.user_tokens import USER_TOKENS, user_tokens

#: The most tokens of a user that are neither revoked nor expired.
MOST_TOKENS = 100
_LONGEST = timedelta(days=366)


def user_of(context: Context, token: str) -> Identity:
    """The user that a token belongs to; Unauthenticated for an unknown, revoked or expired one."""
    return identity_of(tokens.find_token(context, tokens.USER, token))


def identity_of(stored: StoredToken) -> Identity:
    """The user whom a stored token proves."""
    narrowed = Narrowing.of_payload(stored.narrowed)
    return Identity(user=stored.owner, proof=Proof.TOKEN, token=stored.prefix, narrowed=narrowed)


def create_token(
    context: Context,
    user: str,
    name: str,
    expires_in: timedelta | None = None,
    narrowed: JsonObject | None = None,
) -> Issued:
    """Make a token of a user; AlreadyExists where a good one has the name."""
    if not names.is_entity_name(name):
        raise invalid("name", f"is not a token's name: use {names.ENTITY_NAME_RULE}.")
    if expires_in is not None and expires_in <= timedelta():
        raise invalid("expires", "is over at once; give a length of time above zero.")
    if expires_in is not None and expires_in > _LONGEST:
        raise invalid("expires", "is longer than a year.")
    access = context.access
    access.check_acting_as(user)
    if access.is_restricted and user != access.identity.user:
        with context.database.reading() as connection:
            check_giving_use(context, connection, access, Named(USER, user))
    now = context.clock()
    with context.database.writing() as connection:
        revisions.lock_head(connection)  # so that no user who is deleted meanwhile gets one
        find_user(context, connection, user)
        narrowing = _check_narrowing(context, connection, narrowed)
        _check_covered(context, narrowing)
        good = [token for token in USER_TOKENS.of(connection, user) if tokens.is_good(token, now)]
        taken = next((token for token in good if token.name == name), None)
        if taken is not None:
            raise AlreadyExists(
                f"User '{user}' has a token called '{name}'. Choose another name, or revoke that one with "
                f"`rainbowctl delete user-token {user} {taken.prefix}`.",
                details=[{"field": "name", "reason": "is taken."}],
            )
        if len(good) >= MOST_TOKENS:
            raise invalid("name", f"user '{user}' has {len(good)} tokens, which is the most; revoke one first.")
        expires_at = None if expires_in is None else now + expires_in
        return tokens.issue(
            context, connection, tokens.USER, user, name=name, expires_at=expires_at, narrowed=narrowing
        )


def _check_narrowing(context: Context, connection: Connection, narrowed: JsonObject | None) -> Narrowing | None:
    """What a token is to be good for; refused where it names what is not there. None where it is not narrowed."""
    if not narrowed:
        return None
    role, roles = narrowed.get("role"), context.settings.roles
    problems = [] if role is None or role in roles else [unknown_problem("narrowed.role", "role", role, roles)]
    permissions = tuple(dict.fromkeys(narrowed.get("permissions", ())))
    problems += [
        unknown_problem("narrowed.permissions", "permission", permission, PERMISSIONS, most=len(PERMISSIONS))
        for permission in permissions
        if permission not in PERMISSIONS
    ]
    raise_problems(problems)
    scope = check_scope(**{key: narrowed[key] for key in SCOPE_KEYS if key in narrowed})
    context.access.check_known(scope)
    check_readable(context, connection, scope)
    if narrowed.keys() & {"clusters", "cluster_groups"}:
        context.access.check("fleet.read")  # whoever may not know of clusters learns nothing from their names
    clusters = tuple(dict.fromkeys(narrowed.get("clusters", ())))
    try:
        find_clusters(context, connection, clusters)
    except ClusterNotFound as error:
        raise invalid("narrowed.clusters", error.message) from error
    groups = tuple(dict.fromkeys(narrowed.get("cluster_groups", ())))
    known = cluster_groups.members(connection)
    unknown = [group for group in groups if group not in known]
    raise_problems([unknown_problem("narrowed.cluster_groups", "cluster group", group, known) for group in unknown])
    return Narrowing(role=role, permissions=permissions, scope=scope, clusters=clusters, cluster_groups=groups)


def _check_covered(context: Context, narrowing: Narrowing | None) -> None:
    """Refuse a token that is good for more than the narrowed one by which it is asked for."""
    own = context.access.identity.narrowed
    if own is not None and not own.covers(narrowing, context.settings.roles):
        raise PermissionDenied(
            f"The token of user {context.access.identity.user} is good for {own} alone, and makes none that is good "
            "for more. Narrow the new one as far, or use another token.",
            details=[{"field": "narrowed", "reason": f"must be within {own}."}],
        )


def list_tokens(context: Context, user: str) -> list[StoredToken]:
    """Every token of a user, the newest first."""
    context.token_uses.write(context.database)
    with context.database.reading() as connection:
        find_user(context, connection, user)
        return USER_TOKENS.of(connection, user)


@dataclass(frozen=True, kw_only=True)
class TokenPage:
    """Some tokens, of several users."""

    tokens: list[StoredToken]
    last: tuple[str, str] | None  #: the user and prefix after which the next page starts, if there is one
    is_all: bool  #: whether the caller may see those of every user


def list_all_tokens(
    context: Context, *, unused_for: timedelta | None, after: tuple[str, str] | None, limit: int
) -> TokenPage:
    """A page of the tokens that the caller may see, by user and prefix.

    Only those that are good, were not used for `unused_for` and are older, if that is given.
    """
    context.token_uses.write(context.database)
    access, now = context.access, context.clock()
    is_all = access.allows("tokens.read")
    conditions = [] if is_all else [user_tokens.c.user_name == access.identity.user]
    if unused_for is not None:
        conditions += USER_TOKENS.unused_since(now - unused_for, now)
    with context.database.reading() as connection:
        page = USER_TOKENS.page(connection, *conditions, after=after, limit=limit + 1)
    has_more = len(page) > limit
    last = (page[limit - 1].owner, page[limit - 1].prefix) if has_more else None
    return TokenPage(tokens=page[:limit], last=last, is_all=is_all)


def revoke(context: Context, user: str, prefix: str) -> bool:
    """Revoke a token at once; says whether it was valid until now."""
    is_changed = tokens.revoke(context, tokens.USER, user, prefix)
    if is_changed is None:
        raise UserTokenNotFound()
    return is_changed
