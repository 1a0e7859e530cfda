"""What the platform itself says: the values that configuration gives to a kind, and under which key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from admin.core.fields import Leaf, Path
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.origins import Origin
from admin.core.settings.scopes import PLATFORM


@dataclass(frozen=True, kw_only=True)
class PlatformLeaf:
    """One leaf that configuration gives."""

    value: Any
    key: str  #: the configuration key that gave it


PlatformLeaves = dict[Path, PlatformLeaf]


class PlatformDefaults(PlatformLeaves):
    """The platform's leaves of one kind, on which rows are laid; what follows from them is worked out once."""

    def __init__(self, kind: Kind, leaves: PlatformLeaves) -> None:
        super().__init__(leaves)
        self.payload = kind.nest({path: leaf.value for path, leaf in leaves.items()})
        self.origins = {path: Origin(PLATFORM, key=leaf.key) for path, leaf in leaves.items()}
        self.winning = {path: (leaf.value, self.origins[path]) for path, leaf in leaves.items()}
        self.key = _common_key(leaves)


@dataclass(frozen=True, kw_only=True)
class PlatformValues:
    """What configuration gives to each kind: for every scope, and for the scopes of single domains."""

    everywhere: Mapping[str, PlatformLeaves] = field(default_factory=dict)  #: by kind name
    by_domain: Mapping[tuple[str, str], PlatformLeaves] = field(default_factory=dict)  #: by kind name and domain
    _defaults: dict[tuple[str, str], PlatformDefaults] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def at(self, kind: Kind, domain: str) -> PlatformDefaults:
        """The platform's leaves of a kind in a domain; what names the domain goes before what does not."""
        key = (kind.name, domain)
        if key not in self.by_domain:
            key = (kind.name, "")
        found = self._defaults.get(key)
        if found is None:
            found = self._defaults[key] = PlatformDefaults(kind, self._leaves(kind, domain))
        return found

    def _leaves(self, kind: Kind, domain: str) -> PlatformLeaves:
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


def _common_key(leaves: PlatformLeaves) -> str:
    """The configuration section that all of the platform's leaves share."""
    keys = [leaf.key.split(".") for leaf in leaves.values()]
    shared: list[str] = []
    for parts in zip(*keys, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
