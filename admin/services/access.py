"""Access: what a caller may do, by the grants of now."""

from __future__ import annotations

from collections.abc import Iterable

from admin.core.changes import ANONYMOUS
from admin.core.grants import Grant, Grants, place_of
from admin.core.identities import Identity
from admin.core.permissions import PERMISSIONS, Place
from admin.core.settings.scopes import PLATFORM, Scope
from admin.errors import PermissionDenied

#: Permissions that a message names.
_MOST_NAMED = 5


class Access:
    """What one caller may do."""

    def __init__(self, identity: Identity, grants: Grants | None) -> None:
        """Without grants everything is allowed, as at an admin that has no users."""
        self.identity = identity
        self._grants = grants
        self._held = [] if grants is None else grants.of(identity)

    def allows(self, permission: str, scope: Scope = PLATFORM) -> bool:
        """Whether the caller may do something at a scope."""
        return self._grants is None or bool(self._grants.allowing(self._held, permission, scope))

    def check(self, permission: str, scope: Scope = PLATFORM) -> None:
        """Refuse what the caller may not do at a scope."""
        if not self.allows(permission, scope):
            place = PERMISSIONS[permission].place
            where = "at any scope" if place is Place.ANYWHERE else f"on {place_of(permission, scope)}"
            raise self._denied([permission], where, scope)

    def check_giving(self, grant: Grant) -> None:
        """Refuse to give what the caller does not have."""
        missing = frozenset[str]() if self._grants is None else self._grants.missing_to_give(self._held, grant)
        if missing:
            raise self._denied(missing, f"on {grant.scope}", grant.scope, f"Nobody gives what they lack: {grant}. ")

    def check_joining(self, group: str) -> None:
        """Refuse to put someone into a group that may do what the caller may not."""
        lacking = {} if self._grants is None else self._grants.missing_to_join(self._held, group)
        for grant, missing in lacking.items():
            start = f"The members of group {group} have {grant}. Nobody gives what they lack. "
            raise self._denied(missing, f"on {grant.scope}", grant.scope, start)

    def _denied(self, missing: Iterable[str], where: str, scope: Scope, start: str = "") -> PermissionDenied:
        lacked = sorted(missing)
        more = f" and {len(lacked) - _MOST_NAMED} more" if len(lacked) > _MOST_NAMED else ""
        user, named = self.identity.user, ", ".join(lacked[:_MOST_NAMED])
        word = "permission" if len(lacked) == 1 else "permissions"
        return PermissionDenied(
            f"{start}User {user} lacks the {word} {named}{more} {where}. `{explaining(user, lacked[0], scope)}` says "
            "who could give it.",
            details=[{"field": permission, "reason": f"is not given {where}."} for permission in lacked],
        )


def explaining(user: str, permission: str, scope: Scope) -> str:
    """The command that explains an access."""
    flags = {"project": "-p", "domain": "-d", "workflow": "-w", "launch_plan": "--launchplan"}
    keys = "".join(f" {flags[key]} {name}" for key, name in scope.keys().items())
    return f"rainbowctl explain access {user} {permission}{keys}"


#: The access of a caller at an admin without users.
UNRESTRICTED = Access(Identity(user=ANONYMOUS), None)
