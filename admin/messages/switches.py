"""Switches of a cluster: enable, cordon, drain and admit."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from marshmallow import fields, validate
from msgspec import Meta

from admin.core.fleet.switches import BY_WORD
from admin.messages.clusters import ClusterAnswer
from admin.messages.previews import (
    EffectCounts,
    Effects,
    IsComplete,
    NewExecutionsAnswer,
    NewExecutionsField,
    Notes,
    NotExamined,
    PreviewAnswer,
)
from admin.messages.requests import NAME, PRINTABLE_LINES, Duration, Fields, OneOf, RequestSchema
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

    switch = fields.String(required=True, validate=OneOf(list(BY_WORD)))
    clusters = fields.List(
        fields.String(validate=NAME), required=True, validate=validate.Length(min=1, max=MOST_SWITCHED)
    )


AlsoEnded = Annotated[
    dict[str, ProvenanceAnswer] | None,
    Meta(description="What else this ends, such as a cordon apart from the drain: the event that began it."),
]


class SwitchedClusterAnswer(Answer):
    """One of the clusters that were switched together."""

    cluster: ClusterAnswer
    changed: bool
    also_ended: AlsoEnded = None

    @classmethod
    def from_cluster(cls, switched: SwitchedCluster) -> SwitchedClusterAnswer:
        return cls(
            cluster=ClusterAnswer.from_view(switched.cluster),
            changed=switched.is_change,
            also_ended=ProvenanceAnswer.by_state(switched.also_ended),
        )


class SwitchAnswer(Answer):
    """What a switch does to executions, of a dry run, and what else is to be said of it."""

    dry_run: bool
    effects: Effects | None = None
    counts: EffectCounts | None = None
    complete: IsComplete | None = None
    not_examined: NotExamined = None
    notes: Notes = None
    new_executions: NewExecutionsField = None

    @classmethod
    def with_preview(cls, switched: Switched, **fields: object) -> Self:
        """The answer with the fields that its class adds."""
        preview = None if switched.preview is None else PreviewAnswer.from_preview(switched.preview)
        return cls(
            dry_run=preview is not None,
            effects=None if preview is None else preview.effects,
            counts=None if preview is None else preview.counts,
            complete=None if preview is None else preview.complete,
            not_examined=None if preview is None else preview.not_examined,
            new_executions=None
            if switched.preview is None
            else NewExecutionsAnswer.of(switched.preview.new_executions),
            notes=[*switched.notes, *((preview and preview.notes) or [])] or None,
            **fields,
        )


class SwitchedAnswer(SwitchAnswer, kw_only=False):  # so that its own fields come first
    """A cluster that was switched, or would be."""

    cluster: ClusterAnswer
    changed: bool
    also_ended: AlsoEnded = None

    @classmethod
    def from_switched(cls, switched: Switched) -> SwitchedAnswer:
        [only] = switched.clusters
        cluster = SwitchedClusterAnswer.from_cluster(only)
        return cls.with_preview(
            switched, cluster=cluster.cluster, changed=cluster.changed, also_ended=cluster.also_ended
        )


class SwitchedClustersAnswer(SwitchAnswer, kw_only=False):
    """Clusters that were switched together, or would be."""

    clusters: list[SwitchedClusterAnswer]
    changed: bool

    @classmethod
    def from_switched(cls, switched: Switched) -> SwitchedClustersAnswer:
        clusters = [SwitchedClusterAnswer.from_cluster(cluster) for cluster in switched.clusters]
        return cls.with_preview(switched, clusters=clusters, changed=any(cluster.changed for cluster in clusters))
