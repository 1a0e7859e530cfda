"""Lost rights: what users may no longer do once groups are changed by which they have roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.grants import Grant, counting
from admin.core.identities import Identity
from admin.core.settings.scopes import Scope
from admin.core.user_groups import GROUP
from admin.services.context import Context
from admin.services.creator_rights import current_rights
from admin.services.planned_rights import rights_after

#: Lost grants that a dry run names.
_MOST_NAMED = 1000


@dataclass(frozen=True, kw_only=True)
class LostRight:
    """What a user would lose with one grant."""

    user: str
    grant: Grant
    through: Sequence[str]  #: the groups by which the user has it, the user's own first
    permissions: Sequence[str]  #: that no other grant would give the user there

    @property
    def scope(self) -> Scope:
        return self.grant.scope

    @property
    def role(self) -> str:
        return self.grant.role

    @property
    def message(self) -> str:
        """All of it in a sentence."""
        way = " → ".join((self.user, *self.through))
        return f"User {self.user} loses {self.role} on {self.scope} ({way}): {', '.join(self.permissions)}."


def find_lost_rights(context: Context, connection: Connection, changes: Sequence[RowChange]) -> list[LostRight]:
    """What the users of changed groups would lose, by user and scope, as far as the caller may see it."""
    groups = [change.name for change in changes if change.kind == GROUP and not change.is_attribute and change.is_real]
    return list(islice(_find(context, connection, changes, groups), _MOST_NAMED)) if groups else []


def _find(
    context: Context, connection: Connection, changes: Sequence[RowChange], groups: Sequence[str]
) -> Iterator[LostRight]:
    before = current_rights(context, connection).grants
    after = rights_after(context, connection, changes).grants
    for user in sorted(frozenset[str]().union(*(before.memberships.users_of(name) for name in groups))):
        kept = set(after.of(Identity(user=user)))
        lost = [grant for grant in before.of(Identity(user=user)) if grant not in kept]
        for grant in sorted(lost, key=lambda grant: (grant.scope.sort_key, grant.name)):
            permissions = counting(before.gives(grant) - after.permissions(kept, grant.scope), grant.scope)
            if permissions and context.access.allows("grants.read", grant.scope):
                through = before.memberships.path(user, grant.grantee.name)
                yield LostRight(user=user, grant=grant, through=through, permissions=permissions)
