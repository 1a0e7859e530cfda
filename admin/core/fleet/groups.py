"""Groups: pools and labels, weighted lists of clusters to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from admin.core.fleet.definitions import Definition

#: The strategy of labels, and of pools that name none.
DEFAULT_STRATEGY = "weighted"


class Member(NamedTuple):
    """A cluster in a pool or label."""

    cluster: str
    weight: float


@dataclass(frozen=True, kw_only=True)
class Group:
    """A pool or a label."""

    definition: Definition
    members: tuple[Member, ...]
    strategy: str = DEFAULT_STRATEGY  #: one of `placement.scores.STRATEGIES`

    @property
    def name(self) -> str:
        return self.definition.name


def build_group(definition: Definition) -> Group:
    """The group that a pool's or label's definition describes."""
    members = tuple(
        Member(cluster=member["id"], weight=member.get("weight", 1)) for member in definition.payload.get("members", [])
    )
    strategy = definition.payload.get("strategy", DEFAULT_STRATEGY)
    return Group(definition=definition, members=members, strategy=strategy)
