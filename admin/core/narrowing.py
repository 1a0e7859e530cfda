"""Tokens narrower than their user: permissions, a scope and clusters that a token is good for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from admin.core.json_text import JsonObject
from admin.core.permissions import PERMISSIONS, Place, Role
from admin.core.settings.scopes import PLATFORM, SCOPE_KEYS, Scope

#: What a token may be for the use of.
CLUSTER, CLUSTER_GROUP = "cluster", "cluster_group"
#: Clusters and groups of clusters, each with its noun.
Use = tuple[tuple[str, str], ...]


#: What a token for clusters is good for: to read, and to run executions there; with more it could make wider tokens.
_OF_CLUSTERS = frozenset(name for name in PERMISSIONS if name.endswith(".read") or name.startswith("executions."))


def use_text(use: Use | None) -> str | None:
    """The use of a token as it is stored with what was created by it, the same for equal ones."""
    return None if use is None else json.dumps(use)


def read_use(text: str | None) -> Use | None:
    """What `use_text` made."""
    return None if text is None else tuple((noun, name) for noun, name in json.loads(text))


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowing:
    """What a token is good for, of all that its user may do."""

    role: str | None = None  #: it may do what the role allows
    permissions: tuple[str, ...] = ()  #: it may do these alone; anything where there are none
    scope: Scope = PLATFORM  #: there and below
    clusters: tuple[str, ...] = ()  #: its executions may use these alone, and
    cluster_groups: tuple[str, ...] = ()  #: those of these groups; any where there are neither

    def kept(self, permissions: frozenset[str], roles: Mapping[str, Role]) -> frozenset[str]:
        """Those of some permissions that a token is good for; a role that is no longer declared allows nothing."""
        if self.role is not None:
            permissions &= roles[self.role].permissions if self.role in roles else frozenset()
        if self.use is not None:
            permissions &= _OF_CLUSTERS
        return permissions & frozenset(self.permissions) if self.permissions else permissions

    def within(self, scope: Scope) -> Scope | None:
        """The part of a scope, and of what is below it, that a token reaches: a scope too; None where it is nothing."""
        pairs = list(zip(self.scope, scope, strict=True))
        if any(own and other and own != other for own, other in pairs):
            return None
        return Scope(*(own or other for own, other in pairs))

    def allows(self, permission: str, scope: Scope, roles: Mapping[str, Role]) -> bool:
        """Whether a token may be used for something at a scope, as far as its user may do that."""
        if not self.kept(frozenset({permission}), roles):
            return False
        place = PERMISSIONS[permission].place
        at = PLATFORM if place is Place.PLATFORM else scope
        return place is Place.ANYWHERE or self.within(at) == at

    def covers(self, other: Narrowing | None, roles: Mapping[str, Role]) -> bool:
        """Whether a token so narrow may do all that another one may, which None makes as good as its user."""
        if other is None:
            return False
        every = frozenset(PERMISSIONS)
        has_clusters = self.use is None or (other.use is not None and set(other.use) <= set(self.use))
        is_kept = other.kept(every, roles) <= self.kept(every, roles)
        return has_clusters and is_kept and self.within(other.scope) == other.scope

    @property
    def use(self) -> Use | None:
        """The clusters and groups of clusters that its executions may use; None for all."""
        named = [(CLUSTER, name) for name in self.clusters] + [(CLUSTER_GROUP, name) for name in self.cluster_groups]
        return tuple(sorted(named)) or None

    def with_use_of(self, other: Narrowing) -> Narrowing | None:
        """A token that is for the clusters of both, of two that are else alike; None where they are not."""
        if replace(self, clusters=(), cluster_groups=()) != replace(other, clusters=(), cluster_groups=()):
            return None
        if self.use is None or other.use is None:
            return replace(self, clusters=(), cluster_groups=())
        return replace(
            self,
            clusters=tuple(dict.fromkeys((*self.clusters, *other.clusters))),
            cluster_groups=tuple(dict.fromkeys((*self.cluster_groups, *other.cluster_groups))),
        )

    @property
    def payload(self) -> JsonObject:
        """All of it as it is stored and shown; what is not narrowed is left out."""
        parts = {
            "role": self.role,
            "permissions": list(self.permissions),
            **{key: getattr(self.scope, key) for key in SCOPE_KEYS},
            "clusters": list(self.clusters),
            "cluster_groups": list(self.cluster_groups),
        }
        return {name: part for name, part in parts.items() if part}

    @classmethod
    def of_payload(cls, payload: JsonObject | None) -> Narrowing | None:
        """What `payload` made; None where a token is as good as its user."""
        if not payload:
            return None
        scope = Scope(**{key: payload.get(key, "") for key in SCOPE_KEYS})
        lists = {name: tuple(payload.get(name, ())) for name in ("permissions", "clusters", "cluster_groups")}
        return cls(role=payload.get("role"), scope=scope, **lists)

    def __str__(self) -> str:
        role = [] if self.role is None else [f"role {self.role}"]
        scope = [] if self.scope == PLATFORM else [str(self.scope)]
        use = [*_named("cluster", self.clusters), *_named("cluster group", self.cluster_groups)]
        return ", ".join([*role, *_named("permission", self.permissions), *scope, *use])


def _named(noun: str, names: Iterable[str]) -> list[str]:
    return [f"{noun} {name}" for name in names]
