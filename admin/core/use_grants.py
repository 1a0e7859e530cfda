"""Use grants: which clusters users, groups and projects may use, and what follows from them for a creator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from admin.core.fields.branches import Section
from admin.core.fields.leaves import DNS_LABEL, ENTITY_NAME, Text
from admin.core.narrowing import CLUSTER, CLUSTER_GROUP, Use
from admin.core.placement.routes import Route, RouteKind
from admin.core.problems import Problem, raise_problems
from admin.core.settings.kinds import Payload
from admin.core.user_groups import GROUP_NAME, USER_NAME

#: The kind of a use grant's row.
USE_GRANT = "USE_GRANT"
POOL, LABEL = "pool", "label"
USER, GROUP, PROJECT = "user", "group", "project"
#: What may be used, and by whom: one of each.
TARGETS = (CLUSTER, CLUSTER_GROUP, POOL, LABEL)
GRANTEES = (USER, GROUP, PROJECT)


def _described(field: Text, description: str) -> Text:
    return replace(field, nullable=False, description=description)


DEFINITION = Section(
    fields={
        CLUSTER: _described(ENTITY_NAME, "What may be used."),
        CLUSTER_GROUP: _described(ENTITY_NAME, "A group of clusters that may be used."),
        POOL: _described(ENTITY_NAME, "A pool: its members may be used where they are reached through it."),
        LABEL: _described(ENTITY_NAME, "A label: its members may be used where they are reached through it."),
        USER: _described(USER_NAME, "Who may use it."),
        GROUP: _described(GROUP_NAME, "Whose members may use it."),
        PROJECT: _described(DNS_LABEL, "Whose executions may use it."),
    }
)


class Named(NamedTuple):
    """What may be used, or who may use it."""

    noun: str
    name: str

    def __str__(self) -> str:
        return f"{self.noun.replace('_', ' ')} {self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class UseGrant:
    """That a user, group or project may use a cluster, cluster group, pool or label."""

    target: Named
    grantee: Named

    @property
    def name(self) -> str:
        """What it consists of, which no other one does: `pool:gpu:group:ml`."""
        return ":".join((*self.target, *self.grantee))

    @property
    def payload(self) -> Payload:
        """Its definition."""
        return {self.target.noun: self.target.name, self.grantee.noun: self.grantee.name}

    def __str__(self) -> str:
        return f"use of {self.target} for {self.grantee}"


def read_use_grant(payload: Any) -> UseGrant:
    """A use grant from its definition; Invalid with every problem in it."""
    problems: list[Problem] = []
    normal = DEFINITION.read(payload, (), problems)
    if isinstance(payload, dict):
        for nouns, what in ((TARGETS, "what may be used"), (GRANTEES, "who may use it")):
            given = [noun for noun in nouns if noun in normal]
            one_of = f"one of {', '.join(nouns)}"
            if not given and not any(problem.field in nouns for problem in problems):
                problems.append(Problem(field=nouns[0], reason=f"is missing: give {what}, {one_of}."))
            if len(given) > 1:
                problems.append(Problem(field=given[1], reason=f"cannot stand beside {given[0]}: give {one_of}."))
    raise_problems(problems)
    return use_grant_of(normal)


def use_grant_of(payload: Payload) -> UseGrant:
    """A use grant from a definition that was read before."""
    target, grantee = (next(noun for noun in nouns if noun in payload) for nouns in (TARGETS, GRANTEES))
    return UseGrant(target=Named(target, payload[target]), grantee=Named(grantee, payload[grantee]))


#: Why a cluster is no candidate, as verdicts tell it; without names, for decisions of equal rights are shared.
NOT_GRANTED = "may not be used by its creator"
CREATOR_DELETED = "may not be used: its creator was deleted"
MAY_NOT_CREATE = "may not be used: its creator may not create executions there"
NOT_OF_TOKEN = "may not be used by the token that created it"


class UsableClusters(NamedTuple):
    """The clusters that a creator may use by one route, and why not the others."""

    clusters: frozenset[str]
    reason: str = NOT_GRANTED


class Usable(NamedTuple):
    """What a creator may use; equal for equal rights, whoever has them."""

    clusters: frozenset[str]
    pools: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    reason: str = NOT_GRANTED
    is_everything: bool = False  #: whether all clusters may be used
    within: frozenset[str] | None = None  #: of all that, these clusters alone, which its token is for; None for any

    def by(self, route: Route) -> UsableClusters | None:
        """The clusters that may be used by a route; None for all that it leads to."""
        return self.by_name(route.kind, route.name)

    def by_name(self, kind: RouteKind, name: str) -> UsableClusters | None:
        """The same of a route by its kind and name."""
        is_named = name in self.pools if kind is RouteKind.POOL else kind is RouteKind.LABEL and name in self.labels
        if self.is_everything or is_named:
            return None if self.within is None else UsableClusters(self.within, NOT_OF_TOKEN)
        return UsableClusters(self.clusters if self.within is None else self.clusters & self.within, self.reason)


#: Of a creator that may use everything.
EVERYTHING = Usable(frozenset(), is_everything=True)
#: Of a creator that may use nothing any more.
NOTHING_SINCE_DELETED = Usable(frozenset(), reason=CREATOR_DELETED)
NOTHING_TO_CREATE = Usable(frozenset(), reason=MAY_NOT_CREATE)


class UseGrants:
    """Every use grant, with the clusters of the groups that they name."""

    def __init__(self, grants: Iterable[UseGrant], cluster_groups: Mapping[str, Sequence[str]]) -> None:
        self._cluster_groups = cluster_groups
        self._by_grantee: dict[Named, list[Named]] = {}
        self._known: dict[frozenset[Named], Usable] = {}
        for grant in grants:
            self._by_grantee.setdefault(grant.grantee, []).append(grant.target)

    @property
    def projects(self) -> frozenset[str]:
        """The projects that may use something."""
        return frozenset(grantee.name for grantee in self._by_grantee if grantee.noun == PROJECT)

    def targets(self, grantees: Iterable[Named]) -> frozenset[Named]:
        """What is granted to users, groups and projects."""
        return frozenset(target for grantee in grantees for target in self._by_grantee.get(grantee, ()))

    def of_grantees(self, grantees: Iterable[Named]) -> list[UseGrant]:
        """The use grants of users, groups and projects, by name."""
        grants = (
            UseGrant(target=target, grantee=grantee)
            for grantee in grantees
            for target in self._by_grantee.get(grantee, ())
        )
        return sorted(grants, key=lambda grant: grant.name)

    def members(self, cluster_group: str) -> Sequence[str]:
        """The clusters of a group."""
        return self._cluster_groups.get(cluster_group, ())

    def of(self, user: str, groups: Iterable[str], projects: Iterable[str]) -> Usable:
        """What a user of some groups may use in some projects."""
        of_projects, of_groups = (Named(PROJECT, name) for name in projects), (Named(GROUP, name) for name in groups)
        targets = self.targets([Named(USER, user), *of_projects, *of_groups])
        usable = self._known.get(targets)
        if usable is None:
            usable = self._known[targets] = self._usable(targets)
        return usable

    def clusters_of(self, use: Use) -> frozenset[str]:
        """The clusters that a token is for, those of groups as they are now."""
        groups = (self._cluster_groups.get(name, ()) for noun, name in use if noun == CLUSTER_GROUP)
        return frozenset(name for noun, name in use if noun == CLUSTER).union(*groups)

    def _usable(self, targets: frozenset[Named]) -> Usable:
        by_noun = {noun: frozenset(target.name for target in targets if target.noun == noun) for noun in TARGETS}
        members = (self._cluster_groups.get(name, ()) for name in by_noun[CLUSTER_GROUP])
        clusters = by_noun[CLUSTER].union(*members)
        return Usable(clusters, by_noun[POOL], by_noun[LABEL])
