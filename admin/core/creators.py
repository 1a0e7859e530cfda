"""Creators: which clusters whoever created an execution may use now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from admin.core.grants import Grants
from admin.core.identities import Identity, Proof
from admin.core.memos import Memo
from admin.core.narrowing import read_use, use_text
from admin.core.provenance import Actor, administrator_of
from admin.core.settings.scopes import Scope
from admin.core.use_grants import (
    EVERYTHING,
    GROUP,
    NOTHING_SINCE_DELETED,
    NOTHING_TO_CREATE,
    USER,
    Named,
    Usable,
    UseGrants,
)

#: What one needs to create executions, and to have them run.
CREATING = "executions.create"
#: What one needs for a request that says otherwise than settings, in a domain whose requests may not.
OVERRIDING = "executions.override"
#: The start of the names of clusters' agents.
_AGENT = "cluster/"
_PROVEN = (Proof.TOKEN.value, Proof.OPENID.value)
#: Creators and scopes whose rights are remembered.
_MOST_KNOWN = 65_536


class Creator(NamedTuple):
    """Who created an execution, as it is stored."""

    user: str
    proof: str | None = None
    use: str | None = None  #: the clusters that its token is for, as they are stored; None for all
    groups: frozenset[str] | None = None  #: that the proof names; None for those that it named last

    @classmethod
    def of(cls, identity: Identity) -> Creator:
        """The same of a caller."""
        proof = Actor.of_identity(identity, None).proof
        use = None if identity.narrowed is None else use_text(identity.narrowed.use)
        return cls(identity.user, proof, use, identity.groups if proof == Proof.OPENID.value else None)

    @property
    def is_agent(self) -> bool:
        """Whether it is the agent of a cluster."""
        return self.proof is None and self.user.startswith(_AGENT)

    @property
    def has_rights_of_its_own(self) -> bool:
        """Whether what it may depends on grants: the shared token, and whoever nobody asked, may use all clusters."""
        return self.proof in _PROVEN or self.is_agent or self._is_acted_as

    @property
    def _is_acted_as(self) -> bool:
        """Whether an administrator created it as somebody, whose rights count."""
        return administrator_of(self.user, self.proof) is not None

    @property
    def must_be_stored(self) -> bool:
        """Whether it is a user of this admin, not of an OpenID provider alone."""
        return self.proof == Proof.TOKEN.value or self._is_acted_as


class Rights(NamedTuple):
    """What the creator of one execution may."""

    usable: Usable | None = None  #: the clusters that it may use; None for all
    may_override: bool = False  #: whether its request may say otherwise than settings, where others may not


#: Of whoever may use all clusters.
UNLIMITED = Rights()


class _Answer(NamedTuple):
    usable: Usable | None


class CreatorRights:
    """What every creator may use by the grants of one moment."""

    def __init__(
        self,
        grants: Grants,
        use_grants: UseGrants,
        users: Collection[str],
        proven_groups: Mapping[str, frozenset[str]],
        *,
        is_closed: bool,
        has_provider: bool = False,
    ) -> None:
        """
        Parameters
        ----------
        proven_groups
            The groups that the proof of a user's identity named last.
        is_closed
            Whether clusters may be used only by those to whom that is granted.
        has_provider
            Whether OpenID proves users, who need not be among `users` then.
        """
        self.grants = grants
        self.use_grants = use_grants
        self.users = frozenset(users)
        self.proven_groups = proven_groups
        self.is_closed = is_closed
        self._knows_users = has_provider or bool(self.users)
        self._known: Memo[_Answer] = Memo(_MOST_KNOWN)

    def usable(self, creator: Creator, scope: Scope) -> Usable | None:
        """What a creator may use for an execution at a scope; None for everything."""
        if not self._asks(creator):
            return None
        return self._known.find((creator, scope), lambda: _Answer(self._usable(creator, scope))).usable

    def may(self, creator: Creator, permission: str, scope: Scope) -> bool:
        """Whether a grant gives a creator a permission at a scope."""
        if not self._asks(creator):
            return False
        identity = Identity(user=creator.user, groups=self._named(creator))
        return bool(self.grants.allowing(self.grants.of(identity), permission, scope))

    def _asks(self, creator: Creator) -> bool:
        """Whether grants say what a creator may; an admin without users asks no agent for any."""
        return creator.has_rights_of_its_own and (self._knows_users or not creator.is_agent)

    def granted(self, creator: Creator, project: str) -> Usable | None:
        """What use grants and its token alone let a creator use in a project; None for everything."""
        return self._granted(creator, (project,))

    def granted_anywhere(self, creator: Creator, projects: frozenset[str] | None) -> Usable | None:
        """The same in any of some projects, None for all there are."""
        return self._granted(creator, self.use_grants.projects if projects is None else projects)

    def missing_to_own(self, caller: Identity, grantee: Named) -> frozenset[Named]:
        """What a caller may not use of what a user, or every member of a group, may use, whatever the project."""
        memberships = self.grants.memberships
        if grantee.noun == GROUP:
            groups = memberships.groups_above([grantee.name])
        else:
            groups = memberships.groups_of(grantee.name, self.proven_groups.get(grantee.name, ()))
        own = memberships.groups_of(caller.user, caller.groups)
        return self._targets(grantee, groups) - self._targets(Named(USER, caller.user), own)

    def _targets(self, grantee: Named, groups: Iterable[str]) -> frozenset[Named]:
        return self.use_grants.targets([grantee, *(Named(GROUP, name) for name in groups)])

    def _granted(self, creator: Creator, projects: Collection[str]) -> Usable | None:
        if not self._asks(creator):
            return None
        usable = None
        if self.is_closed:
            groups = self.grants.memberships.groups_of(creator.user, self._named(creator))
            usable = self.use_grants.of(creator.user, groups, projects)
        use = read_use(creator.use)
        return usable if use is None else (usable or EVERYTHING)._replace(within=self.use_grants.clusters_of(use))

    def _usable(self, creator: Creator, scope: Scope) -> Usable | None:
        if creator.must_be_stored and creator.user not in self.users:
            return NOTHING_SINCE_DELETED
        if not self.may(creator, CREATING, scope):
            return NOTHING_TO_CREATE
        return self.granted(creator, scope.project)

    def _named(self, creator: Creator) -> frozenset[str]:
        """The groups that the proof of a creator names, or named last."""
        if creator.groups is not None:
            return creator.groups
        return self.proven_groups.get(creator.user, frozenset()) if creator.proof == Proof.OPENID.value else frozenset()
