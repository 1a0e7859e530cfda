"""Groups of clusters."""

from __future__ import annotations

from typing import Annotated

from admin.messages.definitions import WrittenAnswer, named_body
from admin.messages.shared import (
    Answer,
    Json,
    ProvenanceAnswer,
    StatesProvenance,
    VersionPruned,
    described_as,
    is_pruned,
)
from admin.services.cluster_groups import ClusterGroupView

ClusterGroupBody = named_body(
    "cluster_group", {"name": "racks", "clusters": ["east", "local"], "description": "Those with new racks."}
)


class ClusterGroupAnswer(Answer):
    """A group of clusters, whose use can be granted."""

    name: str
    clusters: list[str]
    description: str | None = None
    version: int
    provenance: StatesProvenance = None
    version_pruned: VersionPruned = None

    @classmethod
    def from_view(cls, view: ClusterGroupView) -> ClusterGroupAnswer:
        payload = view.group.payload
        return cls(
            name=view.group.name,
            clusters=payload.get("clusters", []),
            description=payload.get("description"),
            version=view.group.version,
            provenance=ProvenanceAnswer.by_state({"definition": view.provenance} if view.provenance else {}),
            version_pruned=is_pruned(view.group.version, view.provenance),
        )


class ClusterGroupsAnswer(Answer):
    cluster_groups: list[ClusterGroupAnswer]
    token: str | None = None


class ClusterGroupWritten(WrittenAnswer):
    cluster_group: Annotated[Json | None, described_as("ClusterGroupAnswer", "ClusterGroupDefinition")] = (
        None  # the latter in a plan
    )
