"""Grants: roles that users and groups have on scopes, what follows from them, and who may give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from admin.core.fields.branches import Section
from admin.core.fields.leaves import DNS_LABEL, ENTITY_NAME, Text, not_null
from admin.core.identities import Identity
from admin.core.narrowing import Narrowing
from admin.core.permissions import PERMISSIONS, ROLES, Place, Role
from admin.core.problems import Invalid, Problem, raise_problems, unknown_problem
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import PLATFORM, SCOPE_KEYS, Scope, check_scope
from admin.core.user_groups import GROUP_NAME, USER_NAME, Memberships

#: The kind of a grant's row.
GRANT = "GRANT"
USER, GROUP = "user", "group"
#: The permission to give and take roles.
GRANTING = "grants.write"


def _described(field: Text, description: str) -> Text:
    return replace(field, nullable=False, description=description)


DEFINITION = Section(
    exclusive=(USER, GROUP),
    fields={
        "role": _described(DNS_LABEL, "What it gives."),
        USER: _described(USER_NAME, "Who gets it."),
        GROUP: _described(GROUP_NAME, "Whose members get it."),
        "project": not_null(DNS_LABEL),
        "domain": not_null(DNS_LABEL),
        "workflow": not_null(ENTITY_NAME),
        "launch_plan": not_null(ENTITY_NAME),
    },
)


class Grantee(NamedTuple):
    """Who has a role."""

    noun: str  #: user or group
    name: str

    def __str__(self) -> str:
        return f"{self.noun} {self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """A role that a user or group has on a scope; it reaches downwards."""

    role: str
    grantee: Grantee
    scope: Scope = PLATFORM

    @property
    def name(self) -> str:
        """What it consists of, which no other grant does: `editor:user:ada:flytesnacks:development`."""
        return ":".join((self.role, *self.grantee, *self.scope.sort_key)).rstrip(":")

    @property
    def payload(self) -> Payload:
        """Its definition."""
        keys = zip(SCOPE_KEYS, self.scope.sort_key, strict=True)
        return {"role": self.role, self.grantee.noun: self.grantee.name, **{key: name for key, name in keys if name}}

    def reaches(self, scope: Scope) -> bool:
        """Whether it counts at a scope: at those that repeat all keys of its own."""
        return all(not key or key == name for key, name in zip(self.scope, scope, strict=True))

    def __str__(self) -> str:
        return f"{self.role} for {self.grantee} on {self.scope}"


def read_grant(payload: Any, roles: Mapping[str, Role] = ROLES) -> Grant:
    """A grant from its definition; Invalid with every problem in it."""
    problems: list[Problem] = []
    normal = DEFINITION.read(payload, (), problems)
    is_readable = isinstance(payload, dict)
    if is_readable and "role" not in payload:
        problems.append(Problem(field="role", reason=f"is missing: give one of {', '.join(roles)}."))
    if is_readable and not payload.keys() & {USER, GROUP}:
        problems.append(Problem(field=USER, reason="is missing: give the user, or the group, that gets the role."))
    role = normal.get("role")
    if role and role not in roles:
        problems.append(unknown_problem("role", "role", role, roles))
    try:
        check_scope(**{key: normal.get(key) or "" for key in SCOPE_KEYS})
    except Invalid as invalid:
        named = {problem.field for problem in problems}
        problems += [problem for problem in invalid.problems if problem.field not in named]
    raise_problems(problems)
    return grant_of(normal)


def scope_in(name: str) -> Scope:
    """The scope that the name of a grant ends with; no part of a name has a colon."""
    _role, _noun, _grantee, *keys = name.split(":")
    return Scope(**dict(zip(SCOPE_KEYS, keys, strict=False)))


def grant_of(payload: Payload) -> Grant:
    """A grant from a definition that was read before."""
    noun = USER if USER in payload else GROUP
    scope = Scope(**{key: payload.get(key, "") for key in SCOPE_KEYS})
    return Grant(role=payload["role"], grantee=Grantee(noun, payload[noun]), scope=scope)


class Held:
    """What the grants of one caller give, found by a few lookups however many they are."""

    def __init__(self, grants: Sequence[Grant], gives: Callable[[Grant], frozenset[str]]) -> None:
        scopes: dict[str, set[Scope]] = {}
        for grant in grants:
            for permission in gives(grant):
                scopes.setdefault(permission, set()).add(grant.scope)
        # Most permissions are held at the same scopes as others, whose set they share.
        shared: dict[frozenset[Scope], frozenset[Scope]] = {}
        frozen = {permission: _broadest(places) for permission, places in scopes.items()}
        self._scopes = {permission: shared.setdefault(places, places) for permission, places in frozen.items()}
        #: The permissions that count everywhere.
        self.everywhere = frozenset(permission for permission, places in scopes.items() if PLATFORM in places)
        #: Whether nothing at all is refused.
        self.is_everything = self.everywhere >= PERMISSIONS.keys()
        #: The projects that its grants are about; None where one of them reaches every project.
        self.projects = (
            frozenset(grant.scope.project for grant in grants) if all(grant.scope.project for grant in grants) else None
        )

    def knows(self, project: str) -> bool:
        """Whether a project may be known to the caller: a grant reaches it, or something in it."""
        return self.projects is None or project in self.projects

    def allows(self, permission: str, scope: Scope) -> bool:
        """Whether something is allowed at a scope."""
        if permission in self.everywhere:
            return True
        places, place = self._scopes.get(permission), PERMISSIONS[permission].place
        if not places or place is Place.PLATFORM:
            return False
        return place is Place.ANYWHERE or not places.isdisjoint(scope.chain())

    def permissions(self, scope: Scope) -> frozenset[str]:
        """Everything that is allowed at a scope."""
        chain = frozenset(scope.chain())
        return self.everywhere | {name for name, places in self._scopes.items() if not places.isdisjoint(chain)}

    def scopes(self, permission: str) -> frozenset[Scope] | None:
        """The scopes at and below which something is allowed; None for everywhere."""
        return None if permission in self.everywhere else self._scopes.get(permission, frozenset())

    def allows_some(self, permission: str, scope: Scope) -> bool:
        """Whether something is allowed at a scope, or somewhere below it."""
        if self.allows(permission, scope):
            return True
        return any(overlaps(place, scope) for place in self._scopes.get(permission, ()))


def _broadest(places: set[Scope]) -> frozenset[Scope]:
    """Those of some scopes that are not below another one of them, which reaches them anyway."""
    if PLATFORM in places:
        return frozenset({PLATFORM})
    return frozenset(place for place in places if places.isdisjoint(place.chain()[:-1]))


def overlaps(first: Scope, second: Scope) -> bool:
    """Whether something may be at or below both of two scopes."""
    return all(not key or not other or key == other for key, other in zip(first, second, strict=True))


#: Callers of whom is kept what they hold, as many as tokens are; then that is found anew.
_MOST_HELD = 50_000
#: What callers hold apart from that: roles at scopes, narrowed or not.
_Roles = tuple[frozenset[tuple[str, Scope]], Narrowing | None]


class Grants:
    """Every grant, with the groups and roles that it needs: who may do what, where.

    A role that is no longer declared gives nothing.
    """

    def __init__(self, grants: Iterable[Grant], memberships: Memberships, roles: Mapping[str, Role] = ROLES) -> None:
        self.memberships = memberships
        self.roles = roles
        self._held: dict[tuple[str, frozenset[str], Narrowing | None], Held] = {}
        self._held_by_roles: dict[_Roles, Held] = {}  #: since many callers have the same roles at the same scopes
        self._by_grantee: dict[Grantee, list[Grant]] = {}
        for grant in grants:
            self._by_grantee.setdefault(grant.grantee, []).append(grant)

    def changed(self, given: Mapping[Grant, bool], memberships: Memberships | None = None) -> Grants:
        """The same after some grants were given, or taken where it says False; with other groups where they are given.

        What callers hold is sorted anew only of those whom that may concern.
        """
        changed = Grants((), memberships or self.memberships, self.roles)
        by_grantee: dict[Grantee, dict[Grant, bool]] = {}
        for grant, is_given in given.items():
            by_grantee.setdefault(grant.grantee, {})[grant] = is_given
        changed._by_grantee = dict(self._by_grantee)
        for grantee, theirs in by_grantee.items():
            kept = [grant for grant in self._by_grantee.get(grantee, ()) if grant not in theirs]
            kept += [grant for grant, is_given in theirs.items() if is_given]
            changed._by_grantee.pop(grantee, None)
            if kept:
                changed._by_grantee[grantee] = kept
        if memberships is None and all(grantee.noun == USER for grantee in by_grantee):
            held = dict(self._held)  # a copy, since requests go on adding to it
            changed._held = {key: of for key, of in held.items() if Grantee(USER, key[0]) not in by_grantee}
        changed._held_by_roles = self._held_by_roles
        return changed

    def of(self, identity: Identity) -> list[Grant]:
        """The grants of a caller, its own first, then those of its groups."""
        groups = self.memberships.groups_of(identity.user, identity.groups)
        return self._of_grantees([Grantee(USER, identity.user), *(Grantee(GROUP, name) for name in sorted(groups))])

    def held_by(self, identity: Identity) -> Held:
        """What the grants of a caller give, as far as the token of the caller is good for it."""
        key = identity.user, identity.groups, identity.narrowed
        held = self._held.get(key)
        if held is None:
            if len(self._held) >= _MOST_HELD:
                self._held, self._held_by_roles = {}, {}
            held = self._held[key] = self._shared(self.of(identity), identity.narrowed)
        return held

    def _shared(self, grants: Sequence[Grant], narrowing: Narrowing | None) -> Held:
        """What grants give, which is the same for all who have the same roles at the same scopes."""
        key = frozenset((grant.role, grant.scope) for grant in grants), narrowing
        held = self._held_by_roles.get(key)
        if held is None:
            if len(self._held_by_roles) >= _MOST_HELD:
                self._held_by_roles = {}
            held = self._held_by_roles[key] = self._narrowed(grants, narrowing)
        return held

    def _narrowed(self, grants: Sequence[Grant], narrowing: Narrowing | None) -> Held:
        """What grants give where a token is good for less."""
        if narrowing is None:
            return Held(grants, self.gives)
        scopes = ((grant, narrowing.within(grant.scope)) for grant in grants)
        reached = [replace(grant, scope=scope) for grant, scope in scopes if scope is not None]
        return Held(reached, lambda grant: narrowing.kept(self.gives(grant), self.roles))

    def of_grantee(self, grantee: Grantee) -> list[Grant]:
        """The grants of a user, or of every member of a group."""
        if grantee.noun == USER:
            return self.of(Identity(user=grantee.name))
        return self._of_grantees(Grantee(GROUP, name) for name in sorted(self.memberships.groups_above([grantee.name])))

    def _of_grantees(self, grantees: Iterable[Grantee]) -> list[Grant]:
        return [grant for grantee in grantees for grant in self._by_grantee.get(grantee, ())]

    def gives(self, grant: Grant) -> frozenset[str]:
        """The permissions of a grant's role."""
        role = self.roles.get(grant.role)
        return frozenset() if role is None else role.permissions

    def permissions(self, held: Iterable[Grant], scope: Scope) -> frozenset[str]:
        """What some grants together give at a scope."""
        return frozenset[str]().union(*(self.gives(grant) for grant in held if grant.reaches(scope)))

    def allowing(self, held: Iterable[Grant], permission: str, scope: Scope) -> list[Grant]:
        """Those of some grants that allow something at a scope, the ones of the broadest scopes first."""
        is_anywhere, at = PERMISSIONS[permission].place is Place.ANYWHERE, place_of(permission, scope)
        allowing = [grant for grant in held if permission in self.gives(grant) and (is_anywhere or grant.reaches(at))]
        return sorted(allowing, key=lambda grant: (grant.scope.level.specificity, grant.name))

    def missing_to_give(self, giver: Held, grant: Grant) -> frozenset[str]:
        """The permissions that a caller lacks for giving a grant: nobody gives what they do not have."""
        return (self.gives(grant) | {GRANTING}) - giver.permissions(grant.scope)

    def missing_to_own(self, giver: Held, grantee: Grantee) -> dict[Grant, frozenset[str]]:
        """The permissions that a caller lacks of those that a user or group has, by the grant that gives them."""
        lacking = {grant: self.gives(grant) - giver.permissions(grant.scope) for grant in self.of_grantee(grantee)}
        return {grant: missing for grant, missing in lacking.items() if missing}

    def able_to_give(self, permission: str, scope: Scope) -> list[Grantee]:
        """The users and groups that could give a permission at a scope, themselves by grants that name them."""
        at = place_of(permission, scope)
        able = [
            grantee
            for grantee, grants in self._by_grantee.items()
            if any(GRANTING in self.gives(grant) and grant.reaches(at) for grant in grants)
            and permission in self.permissions(self.of_grantee(grantee), at)
        ]
        return sorted(able)

    def roles_with(self, permission: str) -> list[str]:
        """The roles that hold a permission, those with the fewest permissions first."""
        having = [role for role in self.roles.values() if permission in role.permissions]
        return [role.name for role in sorted(having, key=lambda role: (len(role.permissions), role.name))]

    def administrators(self) -> frozenset[str]:
        """The users who may do everything, as far as grants and groups name them."""
        users: set[str] = set()
        for grantee, grants in self._by_grantee.items():
            if any(grant.scope == PLATFORM for grant in grants):
                users |= {grantee.name} if grantee.noun == USER else self.memberships.users_of(grantee.name)
        return frozenset(
            user
            for user in users
            if self.permissions(self.of_grantee(Grantee(USER, user)), PLATFORM) >= PERMISSIONS.keys()
        )


def place_of(permission: str, scope: Scope) -> Scope:
    """The scope at which a permission must be held for something at a scope."""
    return PLATFORM if PERMISSIONS[permission].place is Place.PLATFORM else scope


def counting(permissions: Iterable[str], scope: Scope) -> list[str]:
    """Those of some permissions that count at a scope: others count on the platform alone."""
    return sorted(name for name in permissions if place_of(name, scope) == scope)
