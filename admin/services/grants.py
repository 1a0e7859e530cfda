"""Grants: give, list and take them, and say who may do what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from admin.core.changes import Expectation
from admin.core.grants import GRANT, GROUP, USER, Grant, Grantee, Grants, counting, place_of
from admin.core.identities import SHARED_TOKEN_USER
from admin.core.narrowing import Narrowing
from admin.core.permissions import ADMIN, PERMISSIONS, Place, Role
from admin.core.problems import Invalid, unknown_problem
from admin.core.provenance import Provenance
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.user_groups import Memberships
from admin.errors import GrantNotFound
from admin.services.absent_users import find_absent
from admin.services.administrators import administrators
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.grants import grant_write, revocation
from admin.services.changes import Changed, make_change
from admin.services.context import Context
from admin.services.named_rows import create_row, row_not_found
from admin.services.scopes import check_readable
from admin.services.unknown_grantees import find_unknown_grantee, tell_absent_users
from admin.services.unknown_names import UnknownName
from admin.services.visibility import told_provenance
from admin.store import grants, revisions, user_groups
from admin.store.grants import GrantFilter, StoredGrant

#: What one needs to see a grant.
READING = "grants.read"


@dataclass(frozen=True, kw_only=True)
class GrantView:
    """A grant, and the revision that gave it."""

    grant: Grant
    version: int
    provenance: Provenance | None  #: None where that revision is no longer kept


def list_grants(
    context: Context, conditions: GrantFilter, after: str | None, limit: int
) -> tuple[list[GrantView], str | None]:
    """A page of grants by name, and the name after which the next page starts, if there is one."""
    conditions = replace(conditions, within=context.access.scopes(READING))
    with context.database.reading() as connection:
        for scope in (conditions.reaching, conditions.below):
            if scope is not None:
                check_readable(context, connection, scope)
        stored = grants.page(connection, conditions, after=after, limit=limit + 1)
        views = grant_views(context, connection, stored[:limit])
    return views, stored[limit - 1].name if len(stored) > limit else None


def get_grant(context: Context, name: str) -> GrantView:
    """One grant; GrantNotFound with the closest names where there is none."""
    with context.database.reading() as connection:
        within = context.access.scopes(READING)
        stored = {row.name: row for row in grants.some(connection, [name]).values() if _is_seen(context, row)}
        if name not in stored:
            compared = grants.page(connection, GrantFilter(within=within), limit=_MOST_COMPARED)
            past = connection if within is None else None
            raise row_not_found(context, past, GrantNotFound, GRANT, name, [row.name for row in compared])
        [view] = grant_views(context, connection, stored.values())
    return view


def _is_seen(context: Context, row: StoredGrant) -> bool:
    return context.access.allows(READING, row.grant.scope)


#: Names that a wrong one is compared with: there may be a hundred thousand.
_MOST_COMPARED = 1000


def create_grant(context: Context, grant: Grant, options: ChangeOptions) -> Changed:
    """Give a grant; AlreadyExists where it is given."""
    write = grant_write(grant, Expectation(absent=True))
    return create_row(context, "grant", write, options, remedy="There is nothing to do.")


def make_first_administrator(context: Context, user: str, options: ChangeOptions) -> bool:
    """Give a user the role that may do everything, where no user has it yet; says whether that was so."""
    with context.database.reading() as connection:
        if administrators(context, connection):
            return False
    first = Grant(role=ADMIN, grantee=Grantee(USER, user))
    return make_change(context, [grant_write(first)], options).is_change


def delete_grant(context: Context, name: str, expectation: Expectation, options: ChangeOptions) -> Changed:
    """Take a grant away; LastAdministrator where nobody would be left who may do everything."""
    return make_change(context, [revocation(name, expectation)], options)


def grant_views(context: Context, connection: Connection, stored: Iterable[StoredGrant]) -> list[GrantView]:
    """Grants with the revisions that gave them, as the caller may be told of them."""
    rows = list(stored)
    made_by = revisions.provenance_of(connection, (row.version for row in rows))
    made_by = told_provenance(context.access, connection, made_by)
    return [GrantView(grant=row.grant, version=row.version, provenance=made_by.get(row.version)) for row in rows]


@dataclass(frozen=True, kw_only=True)
class ScopeAccess:
    """Who may do what at a scope."""

    scope: Scope
    views: Sequence[GrantView]  #: the grants that reach it
    users: Mapping[str, Sequence[str]]  #: the users in each group that has one
    permissions: Mapping[str, Sequence[str]]  #: what each grant gives there, by its name
    absent: frozenset[str]  #: the users among them that do not exist
    unknown_names: Sequence[UnknownName]  #: the first of those


#: After which grant a page starts: the place of its scope among those that reach a scope, and its name.
AccessKey = tuple[int, str]


def access_at(
    context: Context, scope: Scope, after: AccessKey | None, limit: int
) -> tuple[ScopeAccess, AccessKey | None]:
    """Who may do what at a scope: a page of the grants that reach it, those on the broadest scopes first.

    Also the key after which the next page starts, if there is one.
    """
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        keyed = _reaching(connection, scope, after or (0, ""), limit + 1)
        views = grant_views(context, connection, [row for _, row in keyed[:limit]])
        memberships = user_groups.memberships(connection)
        groups = {view.grant.grantee.name for view in views if view.grant.grantee.noun == GROUP}
        users = {name: sorted(memberships.users_of(name)) for name in sorted(groups)}
        named = {view.grant.grantee.name for view in views if view.grant.grantee.noun == USER}
        absent = find_absent(context, connection, named.union(*users.values()))
        unknown = tell_absent_users(context, connection, absent)
    every = Grants((view.grant for view in views), memberships, context.settings.roles)
    access = ScopeAccess(
        scope=scope,
        views=views,
        users=users,
        permissions={view.grant.name: counting(every.gives(view.grant), scope) for view in views},
        absent=absent,
        unknown_names=unknown,
    )
    number, last = keyed[limit - 1] if len(keyed) > limit else (0, None)
    return access, None if last is None else (number, last.name)


def _reaching(connection: Connection, scope: Scope, after: AccessKey, limit: int) -> list[tuple[int, StoredGrant]]:
    """The grants that reach a scope from after a key on, each with the place of its own scope among those that do."""
    first, name = after
    rows: list[tuple[int, StoredGrant]] = []
    for number, place in enumerate((PLATFORM, *scope.chain())):
        if number >= first and len(rows) < limit:
            after_name = name if number == first else ""
            page = grants.page(connection, GrantFilter(scope=place), after=after_name, limit=limit - len(rows))
            rows += [(number, row) for row in page]
    return rows


@dataclass(frozen=True, kw_only=True)
class AccessExplanation:
    """Whether someone may do something at a scope, by what, or what is missing."""

    grantee: Grantee
    permission: str
    scope: Scope
    place: Scope | None  #: where it must be held; None for anywhere
    views: Sequence[GrantView]  #: the grants that allow it, of the broadest scopes first
    paths: Mapping[str, Sequence[str]]  #: the groups by which the user has each of them, by its name
    elsewhere: Sequence[GrantView]  #: the grants that give it at other scopes, where none allows it
    groups: Sequence[str]  #: that the user is in
    roles: Sequence[str]  #: that would give it
    able: Sequence[Grantee]  #: who could give it
    narrowed: Narrowing | None = None  #: what the token is good for by which the user asks, where that is less
    token_allowed: bool | None = None  #: whether it is allowed by that token; None where there is none
    has_shared_token: bool | None = None  #: where that is whom it is about: whether the admin has one
    is_absent: bool = False  #: whether there is no such user, so that no grant counts
    unknown_names: Sequence[UnknownName] = ()

    @property
    def is_allowed(self) -> bool:
        return bool(self.has_shared_token or (self.views and not self.is_absent))

    @property
    def message(self) -> str:
        """All of it in a few sentences."""
        who = f"{self.grantee.noun.title()} {self.grantee.name}"
        where = "at any scope" if self.place is None else f"on {self.place}"
        if self.has_shared_token:
            return (
                f"{who} has {self.permission} {where}: whoever has the shared token may do everything without a grant."
            )
        if self.has_shared_token is not None:
            return (
                f"{who} lacks {self.permission} {where}: this admin has no shared token, so nobody calls by that name. "
                "The admin's option --apiTokenFile gives it one."
            )
        if self.views and self.is_absent:
            by = "; ".join(self.describe(view) for view in self.views[:_MOST_NAMED])
            return (
                f"{who} lacks {self.permission} {where}: there is no such user. What gives it to that name has no "
                f"effect until a user of that name is created: {by}{_more(self.views)}."
            )
        if self.views:
            by = "; ".join(self.describe(view) for view in self.views[:_MOST_NAMED])
            return f"{who} has {self.permission} {where}, by {by}{_more(self.views)}.{self._of_token}"
        why = "there is no such user" if self.is_absent else "no grant gives it"
        parts = [f"{who} lacks {self.permission} {where}: {why}."]
        if self.elsewhere:
            by = "; ".join(self.describe(view) for view in self.elsewhere[:_MOST_NAMED])
            parts.append(f"It is given elsewhere, by {by}{_more(self.elsewhere)}.")
        parts.append(f"Roles that hold it: {', '.join(self.roles) or 'none'}.")
        able = ", ".join(map(str, self.able[:_MOST_NAMED]))
        parts.append(f"Who could give it: {able or 'nobody by a grant'}{_more(self.able)}.")
        return " ".join(parts) + self._of_token

    @property
    def _of_token(self) -> str:
        """What the token by which the user asks is good for; empty where it is as good as the user."""
        if self.narrowed is None:
            return ""
        includes = f", which {'includes' if self.token_allowed else 'excludes'} this" if self.views else ""
        return f" The token of this request is narrower: it is good for {self.narrowed} alone{includes}."

    def describe(self, view: GrantView) -> str:
        """A grant, and through which groups the user has it."""
        path = self.paths.get(view.grant.name, ())
        through = f" ({' → '.join((self.grantee.name, *path))})" if path and self.grantee.noun == USER else ""
        return f"{view.grant}{through}"


#: Grants, users and groups that a sentence names.
_MOST_NAMED = 3


def _more(listed: Sequence[object]) -> str:
    return f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""


def explain_access(context: Context, grantee: Grantee, permission: str, scope: Scope) -> AccessExplanation:
    """Whether a user, or every member of a group, may do something at a scope, and why."""
    if permission not in PERMISSIONS:
        raise Invalid(unknown_problem("permission", "permission", permission, PERMISSIONS, most=len(PERMISSIONS)))
    context.access.check_known(scope)  # anybody may ask what they may do themselves
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        if grantee == Grantee(USER, SHARED_TOKEN_USER):
            return _explain_shared_token(context, grantee, permission, scope)
        memberships = user_groups.memberships(connection)
        every = Grants(
            _needed(connection, grantee, permission, scope, memberships), memberships, context.settings.roles
        )
        held = every.of_grantee(grantee)
        allowing = every.allowing(held, permission, scope)
        elsewhere = [] if allowing else [grant for grant in held if permission in every.gives(grant)]
        if grantee != Grantee(USER, context.access.identity.user):
            elsewhere = [grant for grant in elsewhere if context.access.allows(READING, grant.scope)]
        stored = grants.some(connection, [grant.name for grant in (*allowing, *elsewhere)])
        views = {view.grant: view for view in grant_views(context, connection, stored.values())}
        is_user = grantee.noun == USER
        is_own = grantee == Grantee(USER, context.access.identity.user)
        groups = memberships.groups_of(grantee.name) if is_user else memberships.groups_above([grantee.name])
        is_absent = not is_own and is_user and grantee.name in find_absent(context, connection, [grantee.name])
        # Who may not read users learns that one is missing where a grant would otherwise be said to count.
        is_absent = is_absent and (bool(views) or context.access.allows("users.read"))
        is_unknown = is_absent or (not held and not groups - {grantee.name})
        unknown = find_unknown_grantee(context, connection, grantee) if is_unknown and not is_own else []
    narrowed = context.access.identity.narrowed if is_own else None
    return AccessExplanation(
        grantee=grantee,
        permission=permission,
        scope=scope,
        place=_place(permission, scope),
        views=[views[grant] for grant in allowing],
        paths={
            grant.name: memberships.path(grantee.name, grant.grantee.name) if is_user else (grant.grantee.name,)
            for grant in (*allowing, *elsewhere)
            if grant.grantee.noun == GROUP
        },
        elsewhere=[views[grant] for grant in elsewhere],
        groups=sorted(groups),
        roles=every.roles_with(permission),
        able=every.able_to_give(permission, scope),
        narrowed=narrowed,
        token_allowed=None if narrowed is None else context.access.allows(permission, scope),
        is_absent=is_absent,
        unknown_names=unknown,
    )


def _explain_shared_token(context: Context, grantee: Grantee, permission: str, scope: Scope) -> AccessExplanation:
    """What the token that operators share allows: everything, whatever grants say."""
    return AccessExplanation(
        grantee=grantee,
        permission=permission,
        scope=scope,
        place=_place(permission, scope),
        views=(),
        paths={},
        elsewhere=(),
        groups=(),
        roles=(),
        able=(),
        has_shared_token=context.settings.server.api_token_file is not None,
    )


def _place(permission: str, scope: Scope) -> Scope | None:
    """Where a permission must be held for something at a scope; None for anywhere."""
    return None if PERMISSIONS[permission].place is Place.ANYWHERE else place_of(permission, scope)


def _needed(
    connection: Connection, grantee: Grantee, permission: str, scope: Scope, memberships: Memberships
) -> set[Grant]:
    """Of all grants, which may be very many, those of a user or group and those that tell who could give it more."""
    name = grantee.name
    groups = memberships.groups_of(name) if grantee.noun == USER else memberships.groups_above([name])
    theirs = GrantFilter(grantees=[grantee, *(Grantee(GROUP, group) for group in sorted(groups))])
    reaching = GrantFilter(reaching=place_of(permission, scope))
    return {row.grant for conditions in (theirs, reaching) for row in grants.page(connection, conditions)}


def list_roles(context: Context) -> list[Role]:
    """Every role, the built-in ones first."""
    return list(context.settings.roles.values())
