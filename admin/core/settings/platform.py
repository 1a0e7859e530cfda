"""The platform level: the values that configuration gives to kinds, and the keys that set them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from admin.core.fields.leaves import Leaf
from admin.core.problems import Path
from admin.core.settings.kinds import Kind, Merge, Payload
from admin.core.settings.scopes import PLATFORM, Origin


@dataclass(frozen=True, kw_only=True)
class PlatformLeaf:
    """One leaf that configuration gives."""

    value: Any
    key: str  #: the configuration key that gave it


PlatformLeaves = dict[Path, PlatformLeaf]


class PlatformDefaults(PlatformLeaves):
    """The platform's leaves of one kind, with everything that resolution derives from them."""

    def __init__(self, kind: Kind, leaves: PlatformLeaves) -> None:
        super().__init__(leaves)
        self.payload = kind.nest({path: leaf.value for path, leaf in leaves.items()})
        self.origins = {path: Origin(PLATFORM, key=leaf.key) for path, leaf in leaves.items()}
        self.winning = {path: (leaf.value, self.origins[path]) for path, leaf in leaves.items()}
        self.key = _common_key(leaves)


@dataclass(frozen=True, kw_only=True)
class PlatformValues:
    """The values that configuration gives to each kind, for every scope and for the scopes of single domains."""

    everywhere: Mapping[str, PlatformLeaves] = dataclass_field(default_factory=dict)  #: by kind name
    by_domain: Mapping[tuple[str, str], PlatformLeaves] = dataclass_field(
        default_factory=dict
    )  #: by kind name and domain
    _defaults: dict[tuple[str, str], PlatformDefaults] = dataclass_field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def at(self, kind: Kind, domain: str) -> PlatformDefaults:
        """The platform's leaves of a kind in a domain; values for the domain override those for every scope."""
        key = (kind.name, domain)
        if key not in self.by_domain:
            key = (kind.name, "")
        defaults = self._defaults.get(key)
        if defaults is None:
            defaults = self._defaults[key] = PlatformDefaults(kind, self._leaves(kind, domain))
        return defaults

    def _leaves(self, kind: Kind, domain: str) -> PlatformLeaves:
        domain_leaves = self.by_domain.get((kind.name, domain), {})
        if domain_leaves and kind.merge is Merge.REPLACE:
            return domain_leaves
        return {**_field_defaults(kind), **self.everywhere.get(kind.name, {}), **domain_leaves}


def _field_defaults(kind: Kind) -> PlatformLeaves:
    """The defaults that a kind's own fields declare."""
    return {
        (name,): PlatformLeaf(value=field.default, key=f"kinds.{kind.name}.fields.{name}.default")
        for name, field in kind.payload.fields.items()
        if isinstance(field, Leaf) and field.default is not None
    }


def leaves(kind: Kind, payload: Payload, key: str) -> PlatformLeaves:
    """The leaves of a payload that configuration has under a key, each with its full key."""
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
