"""Held access: what one user or group may do over all scopes, which clusters it may use, and by which grants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from admin.core.creators import CREATING, CreatorRights
from admin.core.fleet.fleet import Fleet
from admin.core.grants import GROUP, USER, Grant, Grantee, counting, overlaps, scope_in
from admin.core.identities import SHARED_TOKEN_USER, Identity
from admin.core.narrowing import CLUSTER_GROUP, Narrowing
from admin.core.permissions import PERMISSIONS
from admin.core.problems import list_first
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.use_grants import LABEL, POOL, PROJECT, Named, UseGrant
from admin.services.absent_users import is_of_user
from admin.services.context import Context
from admin.services.creator_rights import current_rights
from admin.services.definitions import current_fleet
from admin.services.grants import READING, GrantView, grant_views
from admin.services.scopes import check_readable
from admin.services.unknown_grantees import find_unknown_grantee
from admin.services.unknown_names import UnknownName
from admin.services.use_grants import UseGrantView, use_grant_views
from admin.store import grants, use_grants

#: After what a page starts: whether that is a use grant, and its name.
HeldKey = tuple[bool, str]
#: Groups that a sentence names.
_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class HeldUse:
    """A use grant that somebody has, and the clusters that it covers now."""

    view: UseGrantView
    clusters: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class HeldAccess:
    """A page of what a user or group may do and use, as far as the caller may see it."""

    grantee: Grantee
    message: str  #: all of it in a few sentences
    groups: Sequence[str]  #: that the user is in, or that contain the group, without itself
    views: Sequence[GrantView]
    permissions: Mapping[str, Sequence[str]]  #: what each grant gives, by its name
    paths: Mapping[str, Sequence[str]]  #: the groups by which it is in each group that has a grant, the nearest first
    uses: Sequence[HeldUse] | None  #: None where the caller may not see them
    is_closed: bool  #: whether clusters are only for those to whom their use is granted
    is_partial: bool  #: whether there may be more that the caller may not see
    next_key: HeldKey | None
    narrowed: Narrowing | None  #: what the token is good for by which the user asks, where that is less
    unknown_names: Sequence[UnknownName]


def held_access(context: Context, grantee: Grantee, scope: Scope, after: HeldKey | None, limit: int) -> HeldAccess:
    """What a user, or every member of a group, may do and use: at a scope, or at all of them for the platform.

    Grants come first, by their scopes, then use grants by name.
    """
    context.access.check_known(scope)  # anybody may ask what they may do themselves
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        holder = _Holder(context, current_rights(context, connection), grantee, scope)
        held, uses = holder.grants(), holder.use_grants()
        page, use_page, next_key = _page(held, uses or [], after, limit)
        stored = grants.some(connection, [grant.name for grant in page])
        views = {view.grant: view for view in grant_views(context, connection, stored.values())}
        used = use_grants.some(connection, [grant.name for grant in use_page])
        use_views = {view.grant: view for view in use_grant_views(connection, used.values(), context.access)}
        fleet = current_fleet(context, connection) if use_views else None
        is_empty = not held and not uses and not holder.groups
        is_unknown = is_empty or holder.is_absent
        unknown = find_unknown_grantee(context, connection, grantee) if is_unknown else []
    shown = [grant for grant in page if grant in views]  # unless it was taken since
    return HeldAccess(
        grantee=grantee,
        message=_message(holder, held, uses),
        groups=holder.told_groups([*held, *(uses or [])]),
        views=[views[grant] for grant in shown],
        permissions={
            grant.name: counting(holder.rights.grants.gives(grant), scope if any(scope) else grant.scope)
            for grant in shown
        },
        paths=holder.paths([*page, *use_page]),
        uses=None
        if uses is None
        else [
            HeldUse(view=use_views[grant], clusters=_covered(grant, holder.rights, fleet))
            for grant in use_page
            if grant in use_views
        ],
        is_closed=holder.rights.is_closed,
        is_partial=holder.is_partial,
        next_key=next_key,
        narrowed=holder.narrowed,
        unknown_names=unknown,
    )


def _page(
    held: Sequence[Grant], uses: Sequence[UseGrant], after: HeldKey | None, limit: int
) -> tuple[Sequence[Grant], Sequence[UseGrant], HeldKey | None]:
    """The grants and use grants of a page, and the key after which the next page starts, if there is one."""
    is_of_uses, name = after or (False, "")
    if is_of_uses:
        held, uses = [], [grant for grant in uses if grant.name > name]
    elif after is not None:
        last = scope_in(name).sort_key, name
        held = [grant for grant in held if (grant.scope.sort_key, grant.name) > last]
    page, use_page = held[:limit], uses[: max(0, limit - len(held))]
    if len(page) + len(use_page) == len(held) + len(uses):
        return page, use_page, None
    return page, use_page, (True, use_page[-1].name) if use_page else (False, page[-1].name)


class _Holder:
    """A user or group, and what the caller may see of its rights."""

    def __init__(self, context: Context, rights: CreatorRights, grantee: Grantee, scope: Scope) -> None:
        self.access, self.rights, self.grantee, self.scope = context.access, rights, grantee, scope
        self.is_own = grantee == Grantee(USER, self.access.identity.user)
        self.narrowed = self.access.identity.narrowed if self.is_own else None
        self.has_shared_token = context.settings.server.api_token_file is not None
        self.knows_users = bool(rights.users) or context.settings.openid is not None
        #: The groups that the proof of the user's identity names, or named last.
        self.named: frozenset[str] = frozenset()
        if self.is_own:
            self.named = self.access.identity.groups
        elif grantee.noun == USER:
            self.named = rights.proven_groups.get(grantee.name, frozenset())
        #: Whether nobody can be that user or in that group, as far as this admin itself says who is.
        self.is_absent = not self.is_own and context.settings.openid is None and self._is_absent()
        memberships, name = rights.grants.memberships, grantee.name
        is_user = grantee.noun == USER
        self.groups = memberships.groups_of(name, self.named) if is_user else memberships.groups_above([name]) - {name}
        #: Whether the caller may see which clusters it may use; while they are open that is for who reads the fleet.
        self.sees_uses = self.access.allows("use_grants.read") or (
            self.is_own and (rights.is_closed or self.access.sees_fleet())
        )

    def _is_absent(self) -> bool:
        noun, name = self.grantee
        if noun == USER:
            return bool(self.rights.users) and is_of_user(name) and name not in self.rights.users
        return self.access.allows("groups.read") and name not in self.rights.grants.memberships

    @property
    def is_partial(self) -> bool:
        """Whether there may be more than the caller may see."""
        if not self.access.is_restricted:
            return False
        return not (self.sees_uses and (self.is_own or self.access.allows(READING, self.scope)))

    def _seen_grants(self) -> list[Grant]:
        """Its grants that the caller may see."""
        if self.grantee.noun == USER:
            held = self.rights.grants.of(Identity(user=self.grantee.name, groups=self.named))
        else:
            held = self.rights.grants.of_grantee(self.grantee)
        return [grant for grant in held if self.is_own or self.access.allows(READING, grant.scope)]

    def grants(self) -> list[Grant]:
        """The grants that the caller may see, those on the platform first, then by scope."""
        reaching = [grant for grant in self._seen_grants() if not any(self.scope) or grant.reaches(self.scope)]
        return sorted(reaching, key=lambda grant: (grant.scope.sort_key, grant.name))

    def use_grants(self) -> list[UseGrant] | None:
        """The use grants that count for it, also those of projects where it may create executions; None if not seen."""
        if not self.sees_uses:
            return None
        gives = self.rights.grants.gives
        creating = {
            grant.scope
            for grant in self._seen_grants()
            if CREATING in gives(grant) and not grant.scope.workflow and overlaps(grant.scope, self.scope)
        }
        projects = [
            name
            for name in sorted(self.rights.use_grants.projects)
            if self.scope.project in ("", name) and any(place.project in ("", name) for place in creating)
        ]
        groups = (Named(GROUP, name) for name in sorted(self.groups))
        grantees = [Named(*self.grantee), *groups, *(Named(PROJECT, name) for name in projects)]
        return self.rights.use_grants.of_grantees(grantees)

    def told_groups(self, shown: Iterable[Grant | UseGrant]) -> list[str]:
        """The groups that the caller may be told of: all, or those by which it has what is shown."""
        if self.is_own or self.access.allows("groups.read"):
            return sorted(self.groups)
        return sorted({name for path in self.paths(shown).values() for name in path})

    def paths(self, shown: Iterable[Grant | UseGrant]) -> dict[str, tuple[str, ...]]:
        """The groups by which the user or group is in each group that has something, the nearest first."""
        groups = {grant.grantee.name for grant in shown if grant.grantee.noun == GROUP}
        memberships, own_name = self.rights.grants.memberships, self.grantee.name
        if self.grantee.noun == GROUP:
            return {name: memberships.path_above(own_name, name) for name in groups - {own_name}}
        return {name: memberships.path(own_name, name, self.named) for name in groups}

    def gives_everything(self, held: Iterable[Grant]) -> bool:
        """Whether some grants together allow everything."""
        return self.rights.grants.permissions(held, PLATFORM) >= PERMISSIONS.keys()


def _message(holder: _Holder, held: Sequence[Grant], uses: Sequence[UseGrant] | None) -> str:
    who = f"{holder.grantee.noun.title()} {holder.grantee.name}"
    if holder.grantee == Grantee(USER, SHARED_TOKEN_USER):
        if holder.has_shared_token:
            return f"{who}: whoever has the shared token may do everything, and use every cluster, without a grant."
        return f"{who}: this admin has no shared token, so nobody calls by that name."
    if holder.is_absent and (held or uses):
        return _message_of_absent(holder, held, uses or ())
    where = f" that {'reach' if len(held) > 1 else 'reaches'} {holder.scope}" if any(holder.scope) else ""
    seen = " that you may see" if holder.is_partial else ""
    if not held:
        what = f"{who} has no grant{where}{seen}."
    else:
        through = _through([grant.grantee for grant in held if grant.grantee != holder.grantee], len(held))
        has = "may do everything, by" if holder.gives_everything(held) else "has"
        what = f"{who} {has} {_count(len(held), 'grant')}{where}{seen}{through}."
    if not holder.knows_users:
        what += " This admin has no users, so that nothing is refused to anybody; grants count once there are some."
    if holder.narrowed is not None:
        what += f" The token of this request is narrower: it is good for {holder.narrowed} alone."
    if uses is None:
        return what
    if not holder.rights.is_closed:
        return f"{what} Clusters are open: everybody may use every cluster."
    if not uses:
        return f"{what} Clusters are closed, and none may be used by a use grant."
    return f"{what} Clusters are closed: some may be used by {_count(len(uses), 'use grant')}."


def _message_of_absent(holder: _Holder, held: Sequence[Grant], uses: Sequence[UseGrant]) -> str:
    """That what names a user or group which does not exist has no effect."""
    noun, name = holder.grantee
    counts = [_count(len(held), "grant")] if held else []
    counts += [_count(len(uses), "use grant")] if uses else []
    through = _through([grant.grantee for grant in held if grant.grantee != holder.grantee], len(held))
    has = "has" if len(held) + len(uses) == 1 else "have"
    seen = " that you may see," if holder.is_partial else ""
    return (
        f"There is no {noun} {name}. {' and '.join(counts)}{seen} given to that name{through} {has} no effect until a "
        f"{noun} of that name is created."
    )


def _through(grantees: Sequence[Grantee], number: int) -> str:
    """Of how many grants it is a group that has them: `, 2 of them through group ml and staff`."""
    if not grantees:
        return ""
    names = sorted({grantee.name for grantee in grantees})
    part = "" if len(grantees) == number else f", {len(grantees)} of them"
    return f"{part} through {'group' if len(names) == 1 else 'groups'} {list_first(names, _MOST_NAMED)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _covered(grant: UseGrant, rights: CreatorRights, fleet: Fleet | None) -> list[str]:
    """The clusters that a use grant covers now."""
    noun, name = grant.target
    if noun == CLUSTER_GROUP:
        return sorted(rights.use_grants.members(name))
    if fleet is None or noun not in (POOL, LABEL):
        return [name]
    group = fleet.pools.get(name) if noun == POOL else fleet.label(name)
    return [] if group is None else sorted({member.cluster for member in group.members})
