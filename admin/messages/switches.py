"""Switches of a cluster: enable, cordon, drain and admit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from marshmallow import fields, validate
from msgspec import Meta

from admin.core.fleet.switches import BY_WORD
from admin.core.provenance import Provenance
from admin.messages.clusters import ClusterAnswer
from admin.messages.previews import EffectCounts, Effects, IsComplete, Notes, NotExamined, PreviewAnswer
from admin.messages.requests import NAME, PRINTABLE_LINES, Duration, Fields, RequestSchema
from admin.messages.shared import Answer, ProvenanceAnswer
from admin.services.switches import Switched, SwitchedCluster

#: Clusters that one request may switch.
MOST_SWITCHED = 1000


class SwitchBody(RequestSchema):
    example: ClassVar[Fields] = {"reason": "New disks.", "claimed_by": "ada"}

    reason = fields.String(validate=[validate.Length(max=1000), PRINTABLE_LINES])
    claimed_by = fields.String(validate=NAME)


class DrainBody(SwitchBody):
    example: ClassVar[Fields] = {"reason": "New disks.", "deadline": "10m"}

    deadline = Duration(
        metadata={"type": "string", "description": "How long running work may take to finish, such as 10m."}
    )


class SwitchesBody(DrainBody):
    """A switch of several clusters at once."""

    example: ClassVar[Fields] = {"switch": "cordon", "clusters": ["local"], "reason": "New disks."}

    switch = fields.String(required=True, validate=validate.OneOf(list(BY_WORD)))
    clusters = fields.List(
        fields.String(validate=NAME), required=True, validate=validate.Length(min=1, max=MOST_SWITCHED)
    )


class SwitchedClusterAnswer(Answer):
    """One of the clusters that were switched together."""

    cluster: ClusterAnswer
    changed: bool
    also_ended: Annotated[
        dict[str, ProvenanceAnswer] | None,
        Meta(description="What else this ends, such as a cordon apart from the drain: the event that began it."),
    ] = None

    @classmethod
    def from_cluster(cls, switched: SwitchedCluster, **more: object) -> Self:
        return cls(
            cluster=ClusterAnswer.from_view(switched.cluster),
            changed=switched.is_change,
            also_ended=_provenance(switched.also_ended),
            **more,
        )


class SwitchedAnswer(SwitchedClusterAnswer):
    """A cluster that was switched, or would be."""

    dry_run: bool
    effects: Effects | None = None
    counts: EffectCounts | None = None
    complete: IsComplete | None = None
    not_examined: NotExamined = None
    notes: Notes = None

    @classmethod
    def from_switched(cls, switched: Switched) -> SwitchedAnswer:
        [cluster] = switched.clusters
        return cls.from_cluster(cluster, **_preview_of(switched))


class SwitchedClustersAnswer(Answer):
    """Clusters that were switched together, or would be."""

    clusters: list[SwitchedClusterAnswer]
    changed: bool
    dry_run: bool
    effects: Effects | None = None
    counts: EffectCounts | None = None
    complete: IsComplete | None = None
    not_examined: NotExamined = None
    notes: Notes = None

    @classmethod
    def from_switched(cls, switched: Switched) -> SwitchedClustersAnswer:
        clusters = [SwitchedClusterAnswer.from_cluster(cluster) for cluster in switched.clusters]
        is_change = any(cluster.is_change for cluster in switched.clusters)
        return cls(clusters=clusters, changed=is_change, **_preview_of(switched))


def _provenance(events: Mapping[str, Provenance]) -> dict[str, ProvenanceAnswer] | None:
    return {state: ProvenanceAnswer.from_attributes(event) for state, event in events.items()} or None


def _preview_of(switched: Switched) -> dict[str, Any]:
    """What a switch does to executions, of a dry run, and what else is to be said of it."""
    if switched.preview is None:
        return {"dry_run": False, "notes": list(switched.notes) or None}
    shown = PreviewAnswer.from_preview(switched.preview)
    return {
        "dry_run": True,
        "effects": shown.effects,
        "counts": shown.counts,
        "complete": shown.complete,
        "not_examined": shown.not_examined,
        "notes": [*switched.notes, *(shown.notes or [])] or None,
    }
