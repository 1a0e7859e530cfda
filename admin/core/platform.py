"""What the platform itself says: the values that configuration gives to a kind, and under which key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from admin.core.fields import Leaf, Path, Section
from admin.core.kinds import Kind, Payload


@dataclass(frozen=True, kw_only=True)
class PlatformLeaf:
    """One leaf that configuration gives."""

    value: Any
    key: str  #: the configuration key that gave it


PlatformLeaves = dict[Path, PlatformLeaf]


@dataclass(frozen=True, kw_only=True)
class PlatformValues:
    """What configuration gives to each kind: for every scope, and for the scopes of single domains."""

    everywhere: Mapping[str, PlatformLeaves] = field(default_factory=dict)  #: by kind name
    by_domain: Mapping[tuple[str, str], PlatformLeaves] = field(default_factory=dict)  #: by kind name and domain

    def at(self, kind: Kind, domain: str) -> PlatformLeaves:
        """The platform's leaves of a kind in a domain; what names the domain goes before what does not."""
        mine = self.by_domain.get((kind.name, domain), {})
        if mine and kind.merge.value == "replace":
            return mine
        return {**defaults(kind), **self.everywhere.get(kind.name, {}), **mine}


def defaults(kind: Kind) -> PlatformLeaves:
    """The defaults that a kind's own fields declare."""
    return {
        (name,): PlatformLeaf(value=item.default, key=f"kinds.{kind.name}.fields.{name}.default")
        for name, item in kind.payload.fields.items()
        if isinstance(item, Leaf) and item.default is not None
    }


def leaves(kind: Kind, payload: Payload, key: str) -> PlatformLeaves:
    """A payload found in configuration under a key, leaf by leaf, each with the key that a reader would look for."""
    return {
        path: PlatformLeaf(value=value, key=".".join([key, *path]))
        for path, value in kind.leaves(payload).items()
        if value is not None
    }


def as_payload(section: Section, platform: PlatformLeaves) -> Payload:
    """The platform's leaves as one payload."""
    return section.nest({path: leaf.value for path, leaf in platform.items()})
