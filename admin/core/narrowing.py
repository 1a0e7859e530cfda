"""Tokens narrower than their user: permissions, a scope and clusters that a token is good for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from admin.core.json_text import JsonObject
from admin.core.permissions import PERMISSIONS, Place, Role
from admin.core.settings.scopes import PLATFORM, SCOPE_KEYS, Scope


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowing:
    """What a token is good for, of all that its user may do."""

    role: str | None = None  #: it may do what the role allows
    permissions: tuple[str, ...] = ()  #: it may do these alone; anything where there are none
    scope: Scope = PLATFORM  #: there and below
    clusters: tuple[str, ...] = ()  #: executions may go to these alone; to any where there are none

    def kept(self, permissions: frozenset[str], roles: Mapping[str, Role]) -> frozenset[str]:
        """Those of some permissions that a token is good for; a role that is no longer declared allows nothing."""
        if self.role is not None:
            permissions &= roles[self.role].permissions if self.role in roles else frozenset()
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
        has_clusters = not self.clusters or (bool(other.clusters) and set(other.clusters) <= set(self.clusters))
        is_kept = other.kept(every, roles) <= self.kept(every, roles)
        return has_clusters and is_kept and self.within(other.scope) == other.scope

    def allows_cluster(self, cluster: str | None) -> bool:
        """Whether a token may be used for executions at a cluster; None for one that placement is to choose."""
        return not self.clusters or cluster in self.clusters

    @property
    def payload(self) -> JsonObject:
        """All of it as it is stored and shown; what is not narrowed is left out."""
        parts = {
            "role": self.role,
            "permissions": list(self.permissions),
            **{key: getattr(self.scope, key) for key in SCOPE_KEYS},
            "clusters": list(self.clusters),
        }
        return {name: part for name, part in parts.items() if part}

    @classmethod
    def of_payload(cls, payload: JsonObject | None) -> Narrowing | None:
        """What `payload` made; None where a token is as good as its user."""
        if not payload:
            return None
        scope = Scope(**{key: payload.get(key, "") for key in SCOPE_KEYS})
        permissions, clusters = (tuple(payload.get(name, ())) for name in ("permissions", "clusters"))
        return cls(role=payload.get("role"), permissions=permissions, scope=scope, clusters=clusters)

    def __str__(self) -> str:
        role = [] if self.role is None else [f"role {self.role}"]
        scope = [] if self.scope == PLATFORM else [str(self.scope)]
        return ", ".join([*role, *_named("permission", self.permissions), *scope, *_named("cluster", self.clusters)])


def _named(noun: str, names: Iterable[str]) -> list[str]:
    return [f"{noun} {name}" for name in names]
