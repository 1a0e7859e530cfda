"""Orders: what the admin says is to be made of the namespaces of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.engines.resource_api import Document


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """What is to be made of one namespace."""

    name: str
    project: str
    domain: str
    digest: str
    objects: tuple[Document, ...]
    #: The kinds and names of objects that were there when the admin was last told, maybe by an earlier agent.
    made: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What the admin says of a whole cluster."""

    installation: str
    namespaces: Mapping[str, Namespace]
    kept: frozenset[str] = frozenset()  #: that cannot be rendered now
    may_prune: bool = False
    prunes_namespaces: bool = False
