"""Switches of a cluster: enable, cordon, drain and admit."""

from __future__ import annotations

from typing import ClassVar

from marshmallow import fields, validate

from admin.messages.clusters import ClusterAnswer
from admin.messages.previews import EffectCounts, Effects, IsComplete, Notes, PreviewAnswer
from admin.messages.requests import NAME, PRINTABLE_LINES, Duration, Fields, RequestSchema
from admin.messages.shared import Answer
from admin.services.fleet import Switched


class SwitchBody(RequestSchema):
    example: ClassVar[Fields] = {"reason": "New disks.", "claimed_by": "ada"}

    reason = fields.String(validate=[validate.Length(max=1000), PRINTABLE_LINES])
    claimed_by = fields.String(validate=NAME)


class DrainBody(SwitchBody):
    example: ClassVar[Fields] = {"reason": "New disks.", "deadline": "10m"}

    deadline = Duration(
        metadata={"type": "string", "description": "How long running work may take to finish, such as 10m."}
    )


class SwitchedAnswer(Answer):
    cluster: ClusterAnswer
    changed: bool
    dry_run: bool
    effects: Effects | None = None
    counts: EffectCounts | None = None
    complete: IsComplete | None = None
    notes: Notes = None

    @classmethod
    def from_switched(cls, switched: Switched) -> SwitchedAnswer:
        cluster, preview = ClusterAnswer.from_view(switched.cluster), switched.preview
        if preview is None:
            return cls(cluster=cluster, changed=switched.is_change, dry_run=False)
        shown = PreviewAnswer.from_preview(preview)
        return cls(
            cluster=cluster,
            changed=switched.is_change,
            dry_run=True,
            effects=shown.effects,
            counts=shown.counts,
            complete=shown.complete,
            notes=shown.notes,
        )
