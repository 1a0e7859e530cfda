"""A use grant as answers have it, those about what it is on too."""

from __future__ import annotations

from admin.messages.shared import Answer, ProvenanceAnswer, StatesProvenance, VersionPruned, is_pruned
from admin.services.use_grants import UseGrantView


class UseGrantAnswer(Answer):
    """That a user, group or project may use a cluster, cluster group, pool or label."""

    name: str
    cluster: str | None = None
    cluster_group: str | None = None
    pool: str | None = None
    label: str | None = None
    user: str | None = None
    group: str | None = None
    project: str | None = None
    version: int
    provenance: StatesProvenance = None
    version_pruned: VersionPruned = None

    @classmethod
    def from_view(cls, view: UseGrantView) -> UseGrantAnswer:
        return cls(
            name=view.grant.name,
            **view.grant.payload,
            version=view.version,
            provenance=ProvenanceAnswer.by_state({"definition": view.provenance} if view.provenance else {}),
            version_pruned=is_pruned(view.version, view.provenance),
        )
