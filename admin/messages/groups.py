"""Pools and labels: their members, and what these have together."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.core.fleet import asking
from admin.core.fleet.definitions import FleetKind, Source
from admin.core.placement.capacity import GroupCapacity
from admin.core.resources import format_amounts
from admin.messages.shared import Answer, Json, ProvenanceAnswer, StatesProvenance, VersionPruned, is_pruned
from admin.services.groups import GroupView


class MemberAnswer(Answer):
    id: str
    weight: float
    expected: bool


#: Amounts by resource, as people write them.
AmountsAnswer = dict[str, str | int]


class GroupCapacityAnswer(Answer):
    """What the members of a pool or label have together, as far as that is known."""

    capacity: AmountsAnswer
    free: Annotated[
        AmountsAnswer,
        Meta(description="On the able members. What is reported free of a cluster that is silent does not count."),
    ]
    able: Annotated[int, Meta(description="How many members may get work and have been seen.")]
    members: int
    full: Annotated[
        list[str] | None, Meta(description="Those of the able members that have nothing free of some resource.")
    ] = None

    @classmethod
    def from_capacity(cls, capacity: GroupCapacity) -> GroupCapacityAnswer:
        total, free = format_amounts(capacity.total), format_amounts(capacity.free)
        return cls(
            capacity=total,
            free=free,
            able=capacity.able,
            members=capacity.members,
            full=list(capacity.full) or None,
        )


class GroupAnswer(Answer):
    """A pool or a label."""

    name: str
    members: list[MemberAnswer]
    strategy: str | None = None
    rules: Annotated[list[Json] | None, Meta(description="Of a pool whose strategy is constraint.")] = None
    ask_deadline: Annotated[str | None, Meta(description="Of a pool that asks, as are the next four.")] = None
    choose_by: str | None = None
    seconds_weight: float | None = None
    cost_weight: float | None = None
    rebalance: str | None = None
    description: str | None = None
    total: GroupCapacityAnswer
    summary: Annotated[str, Meta(description="Which members take work, and why others do not.")]
    source: str
    version: int | None = None
    provenance: StatesProvenance = None
    version_pruned: VersionPruned = None
    switched_off: Annotated[
        dict[str, dict[str, ProvenanceAnswer]] | None,
        Meta(description="Of members that operators keep from getting work: what set each state, by member and state."),
    ] = None

    @classmethod
    def from_view(cls, view: GroupView) -> GroupAnswer:
        group, fleet = view.group, view.fleet
        definition = group.definition
        return cls(
            name=group.name,
            members=[
                MemberAnswer(
                    id=member.cluster,
                    weight=member.weight,
                    expected=fleet.clusters[member.cluster].definition.source is Source.NAMED,
                )
                for member in group.members
            ],
            strategy=group.strategy if definition.kind is FleetKind.POOL else None,
            rules=definition.payload.get("rules"),
            **{name: definition.payload.get(name) for name in asking.FIELDS},
            description=definition.payload.get("description"),
            total=GroupCapacityAnswer.from_capacity(view.capacity),
            summary=view.summary,
            source=definition.source.value,
            version=definition.version,
            provenance=ProvenanceAnswer.by_state({"definition": view.provenance} if view.provenance else {}),
            version_pruned=is_pruned(definition.version, view.provenance),
            switched_off={
                member.cluster: states
                for member in group.members
                if member.cluster in view.switched_off
                and (states := ProvenanceAnswer.by_state(view.switched_off[member.cluster]))
            }
            or None,
        )


class PoolListAnswer(Answer):
    pools: list[GroupAnswer]
    token: str | None = None


class LabelListAnswer(Answer):
    labels: list[GroupAnswer]
    token: str | None = None
