"""Revisions: who changed what, when and why, and what differs between two of them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from marshmallow import ValidationError, fields, validate, validates_schema
from msgspec import Meta, field

from admin.core.settings.scopes import Scope
from admin.messages.changes import RowChangeAnswer
from admin.messages.requests import (
    NAME,
    AuthorshipFields,
    Fields,
    Flag,
    Number,
    PageQuery,
    RequestSchema,
    ResourceType,
    ScopeQuery,
    Seconds,
)
from admin.messages.selectors import TimeField
from admin.messages.shared import Answer, Json, ProofField, ProvenanceAnswer, SeenAnswer, Time
from admin.services.revisions import RevisionView
from admin.services.rollbacks import MOST_UNDONE
from admin.store.revisions import Revision, RevisionFilter


class RevisionsQuery(ScopeQuery, PageQuery):
    resource_type = ResourceType()
    name = fields.String(validate=NAME, metadata={"description": "Of what has a name: a cluster, pool, user, grant …"})
    author = fields.String(validate=NAME)
    claimed_by = fields.String(validate=NAME)
    after = TimeField(metadata={"type": "string", "description": "Made at this time or later, or so long ago: 7d."})
    before = TimeField(metadata={"type": "string", "description": "Made before this time."})
    since = Number(metadata={"description": "Only revisions above this number, oldest first."})
    wait = Seconds(
        load_default=0,
        validate=validate.Range(min=0, max=60),
        metadata={"description": "With since: wait this many seconds for a revision if there is none yet."},
    )

    @validates_schema
    def check_wait(self, query: Fields, **_: object) -> None:
        if query["wait"] and "since" not in query:
            raise ValidationError("needs since: the number to wait beyond.", "wait")


class DiffQuery(RequestSchema):
    from_ = Number(required=True, data_key="from")
    to = Number(required=True)


class RollbackBody(ScopeQuery, AuthorshipFields):
    example: ClassVar[Fields] = {"revision": 1, "message": "That was too much."}

    revision = Number(least=1, strict=True, metadata={"description": "Undo this one revision."})
    revisions = fields.List(
        Number(least=1, strict=True),
        validate=validate.Length(min=1, max=MOST_UNDONE),
        metadata={"description": "Undo these revisions together, as one new revision, or none of them."},
    )
    to = Number(strict=True, metadata={"description": "Bring a scope, or everything, back to this revision."})
    everything = Flag(load_default=False)
    restorable = Flag(
        load_default=False,
        metadata={"description": "With revision or revisions: undo only the rows that no other has changed since."},
    )
    expected_head = Number(strict=True, metadata={"description": "Refuse if a revision has been made since this one."})
    resource_type = ResourceType()

    @validates_schema
    def check_target(self, body: Fields, **_: object) -> None:
        """A rollback undoes some revisions, or brings a scope or everything back to one."""
        has_scope, has_kind = any(body.get(key) for key in Scope._fields), "resource_type" in body
        targets = [key for key in ("revision", "revisions", "to") if key in body]
        if len(targets) != 1:
            raise ValidationError("give one of revision or revisions, to undo them, or to, to go back.", "revision")
        if "to" not in body and (has_scope or body["everything"] or has_kind):
            raise ValidationError("is undone as a whole; a scope goes with to.", targets[0])
        if "to" in body and has_scope == body["everything"]:
            raise ValidationError("needs a scope, or everything: true.", "to")
        if body["restorable"] and "to" in body:
            raise ValidationError("goes with revision or revisions.", "restorable")
        if body["everything"] and has_kind:
            raise ValidationError("goes with a scope, not with everything.", "resource_type")


_FILTERS = ("domain", "project", "workflow", "launch_plan", "name", "author", "claimed_by", "after", "before")


def revision_filter(query: Fields, kind: str | None) -> RevisionFilter:
    """The revisions that a `RevisionsQuery` asks for."""
    conditions = {name: query[name] for name in _FILTERS if name in query}
    return RevisionFilter(kind=kind, above=query.get("since"), **conditions)


#: What a rollback rolled back.
Undone = Annotated[int | None, Meta(description="The revision that this one undoes, of several the newest.")]
AlsoUndone = Annotated[list[int] | None, Meta(description="The other revisions that this one undoes, oldest first.")]
Restored = Annotated[int | None, Meta(description="The revision at which the rows were as this one makes them again.")]


class RevisionAnswer(Answer):
    number: int
    created_at: Time
    author: str
    claimed_by: str | None = None
    proof: ProofField = None
    message: str | None = None
    request_id: str | None = None
    undone: Undone = None
    also_undone: AlsoUndone = None
    restored: Restored = None
    change_count: int

    @classmethod
    def from_revision(cls, revision: Revision, **fields: object) -> Self:
        return cls.from_attributes(
            revision.authorship,
            number=revision.number,
            created_at=revision.created_at,
            change_count=revision.change_count,
            **fields,
        )


class RevisionsAnswer(SeenAnswer):
    revisions: list[RevisionAnswer]
    head: int
    oldest: Annotated[int | None, Meta(description="The oldest that is kept, where older ones are not.")] = None
    token: str | None = None


class RowDifference(RowChangeAnswer):
    name: Annotated[str | None, Meta(description="Of what has a name: a cluster, pool, user, grant …")] = None
    resource_type: str
    level: str
    action: str
    before: Json | None = None
    after: Json | None = None


class OneRevisionAnswer(RevisionAnswer):
    rolled_back_by: Annotated[
        list[ProvenanceAnswer] | None,
        Meta(description="The newest later revisions that rolled it back, or rows of it to before; newest first."),
    ] = None
    changes: list[RowDifference]

    @classmethod
    def from_view(cls, view: RevisionView) -> OneRevisionAnswer:
        return cls.from_revision(
            view.revision,
            rolled_back_by=[ProvenanceAnswer.from_attributes(entry) for entry in view.rolled_back_by] or None,
            changes=[RowDifference.from_change(change) for change in view.changes],
        )


class DiffAnswer(SeenAnswer):
    from_: int = field(name="from")
    to: int
    rows: list[RowDifference]
