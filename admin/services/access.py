"""Access: what a caller may do, by the grants of now."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from admin.core.changes import ANONYMOUS
from admin.core.grants import GROUP, USER, Grant, Grantee, Grants, place_of
from admin.core.identities import Identity
from admin.core.permissions import PERMISSIONS, Place, reading
from admin.core.settings.scopes import PLATFORM, Scope
from admin.errors import PermissionDenied, UnknownProject

#: Whoever may do one of these knows every cluster.
_OF_FLEET = ("fleet.write", "clusters.switch", "use_grants.read", "use_grants.write")
#: Permissions that a message names.
_MOST_NAMED = 5


class Access:
    """What one caller may do."""

    def __init__(self, identity: Identity, grants: Grants | None) -> None:
        """Without grants everything is allowed, as at an admin that has no users."""
        self.identity = identity
        held = None if grants is None else grants.held_by(identity)
        #: What the caller has; None where nothing at all is refused, so that nothing is looked at either.
        self._held = None if held is None or held.is_everything else held
        self._grants = None if self._held is None else grants

    @property
    def is_restricted(self) -> bool:
        """Whether there is anything that the caller may not do."""
        return self._held is not None

    @property
    def rights(self) -> Hashable:
        """The same for callers who may do the same; None for those who may do everything."""
        return self._held

    def allows(self, permission: str, scope: Scope = PLATFORM) -> bool:
        """Whether the caller may do something at a scope."""
        return self._held is None or self._held.allows(permission, scope)

    def sees_fleet(self) -> bool:
        """Whether the caller may be told the names and states of clusters, pools and labels."""
        return self.allows("fleet.read") or self.runs_fleet()

    def runs_fleet(self) -> bool:
        """Whether the caller knows every cluster, usable or not, for what the caller does with them."""
        return any(self.allows(permission) for permission in _OF_FLEET)

    def scopes(self, permission: str) -> frozenset[Scope] | None:
        """The scopes at and below which the caller may do something; None for everywhere."""
        return None if self._held is None else self._held.scopes(permission)

    @property
    def projects(self) -> frozenset[str] | None:
        """The projects that the caller may know of; None for all."""
        return None if self._held is None else self._held.projects

    def knows(self, project: str) -> bool:
        """Whether the caller may know of a project; one that does not exist is as unknown as one that is hidden."""
        return self._held is None or self._held.knows(project)

    def check(self, permission: str, scope: Scope = PLATFORM) -> None:
        """Refuse what the caller may not do at a scope; UnknownProject where nothing may be known of the project."""
        if self._held is not None and not self._held.allows(permission, scope):
            self.check_known(scope)
            raise self._lacking(permission, scope)

    def allows_some(self, permission: str, scope: Scope = PLATFORM) -> bool:
        """Whether the caller may do something at a scope, or somewhere below it."""
        return self._held is None or self._held.allows_some(permission, scope)

    def check_some(self, permission: str, scope: Scope = PLATFORM) -> None:
        """Refuse what the caller may do neither at a scope nor anywhere below it."""
        if not self.allows_some(permission, scope):
            self.check_known(scope)
            raise self._lacking(permission, scope)

    def check_known(self, scope: Scope) -> None:
        """Refuse a project that the caller may not know of, as one that does not exist."""
        if self._held is not None and scope.project and not self._held.knows(scope.project):
            unknown = UnknownProject.called(scope.project, self._held.projects or ())
            raise unknown.of_caller(self.identity.user)

    def allows_own(self, permission: str) -> bool:
        """Whether the caller needs no permission for what is about themselves; a narrowed token writes only within."""
        narrowed = self.identity.narrowed
        if narrowed is None or self._grants is None or permission == reading(permission):
            return True
        return narrowed.allows(permission, PLATFORM, self._grants.roles)

    def check_giving(self, grant: Grant) -> None:
        """Refuse to give what the caller does not have."""
        if self._held is None or self._grants is None:
            return
        missing = self._grants.missing_to_give(self._held, grant)
        if missing:
            raise self._denied(missing, f"on {grant.scope}", grant.scope, f"Nobody gives what they lack: {grant}. ")

    def check_joining(self, group: str) -> None:
        """Refuse to put someone into a group that may do what the caller may not."""
        self._check_owning(Grantee(GROUP, group), f"The members of group {group} have")

    def check_acting_as(self, user: str) -> None:
        """Refuse a way to act as another user who may do what the caller may not."""
        if user != self.identity.user:
            self._check_owning(Grantee(USER, user), f"User {user} has")

    def _check_owning(self, grantee: Grantee, start: str) -> None:
        """Refuse what would give somebody the grants of a user or group, where the caller lacks one of them."""
        if self._held is None or self._grants is None:
            return
        for grant, missing in self._grants.missing_to_own(self._held, grantee).items():
            reason = f"{start} {grant}. Nobody gives what they lack. "
            raise self._denied(missing, f"on {grant.scope}", grant.scope, reason)

    def lacking_to_give(self, permission: str, reason: str) -> PermissionDenied:
        """That the caller lacks a permission without which nobody gives what they do not have."""
        return self._denied([permission], f"on {PLATFORM}", PLATFORM, f"{reason}. Nobody gives what they lack. ")

    def _lacking(self, permission: str, scope: Scope) -> PermissionDenied:
        place = PERMISSIONS[permission].place
        where = "at any scope" if place is Place.ANYWHERE else f"on {place_of(permission, scope)}"
        return self._denied([permission], where, scope)

    def _denied(self, missing: Iterable[str], where: str, scope: Scope, start: str = "") -> PermissionDenied:
        lacked = sorted(missing)
        more = f" and {len(lacked) - _MOST_NAMED} more" if len(lacked) > _MOST_NAMED else ""
        user, named = self.identity.user, ", ".join(lacked[:_MOST_NAMED])
        word = "permission" if len(lacked) == 1 else "permissions"
        who, what = f"User {user}", "who could give it"
        if self.identity.narrowed is not None:
            who = f"The token of user {user}, which is good for {self.identity.narrowed} alone,"
            what = "whether the user has it"
        return PermissionDenied(
            f"{start}{who} lacks the {word} {named}{more} {where}. `{explaining(user, lacked[0], scope)}` says {what}.",
            details=[{"field": permission, "reason": f"is not given {where}."} for permission in lacked],
        )


def explaining(user: str, permission: str, scope: Scope) -> str:
    """The command that explains an access."""
    flags = {"project": "-p", "domain": "-d", "workflow": "-w", "launch_plan": "--launchplan"}
    keys = "".join(f" {flags[key]} {name}" for key, name in scope.keys().items())
    return f"rainbowctl explain access {user} {permission}{keys}"


#: The access of a caller at an admin without users, with the token that operators share, and of the admin itself.
UNRESTRICTED = Access(Identity(user=ANONYMOUS), None)
