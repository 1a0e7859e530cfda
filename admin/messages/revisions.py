"""Revisions: who changed what, when and why, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from marshmallow import fields, validate
from msgspec import Meta, field

from admin.core.changes import RowChange
from admin.messages.requests import (
    NAME,
    AuthorshipFields,
    Flag,
    Number,
    PageQuery,
    RequestSchema,
    ResourceType,
    ScopeQuery,
    Seconds,
)
from admin.messages.shared import Answer, Json, ScopeAnswer, Time, keys_of
from admin.store.revisions import Revision, RevisionFilter


class RevisionsQuery(ScopeQuery, PageQuery):
    resource_type = ResourceType()
    name = fields.String(validate=NAME, metadata={"description": "Of a cluster, pool or label."})
    author = fields.String(validate=NAME)
    claimed_by = fields.String(validate=NAME)
    after = fields.AwareDateTime(metadata={"description": "Made at this time or later (RFC 3339)."})
    before = fields.AwareDateTime(metadata={"description": "Made before this time (RFC 3339)."})
    since = Number(metadata={"description": "Only revisions above this number, oldest first."})
    wait = Seconds(
        load_default=0,
        validate=validate.Range(min=0, max=60),
        metadata={"description": "With since: wait this many seconds for a revision if there is none yet."},
    )


class DiffQuery(RequestSchema):
    from_ = Number(required=True, data_key="from")
    to = Number(required=True)


class RollbackBody(ScopeQuery, AuthorshipFields):
    revision = Number(least=1, strict=True, metadata={"description": "Undo this one revision."})
    to = Number(strict=True, metadata={"description": "Bring a scope, or everything, back to this revision."})
    everything = Flag(load_default=False)
    expected_head = Number(strict=True, metadata={"description": "Refuse if a revision has been made since this one."})
    resource_type = ResourceType()


_FILTERS = ("domain", "project", "workflow", "launch_plan", "name", "author", "claimed_by", "after", "before")


def revision_filter(query: dict[str, Any], kind: str | None) -> RevisionFilter:
    """The revisions that a `RevisionsQuery` asks for."""
    conditions = {name: query[name] for name in _FILTERS if name in query}
    return RevisionFilter(kind=kind, above=query.get("since"), **conditions)


class RevisionAnswer(Answer):
    number: int
    created_at: Time
    author: str
    claimed_by: str | None = None
    message: str | None = None
    request_id: str | None = None
    change_count: int

    @classmethod
    def from_revision(cls, revision: Revision) -> RevisionAnswer:
        return cls(
            number=revision.number,
            created_at=revision.created_at,
            author=revision.authorship.author,
            claimed_by=revision.authorship.claimed_by,
            message=revision.authorship.message,
            request_id=revision.authorship.request_id,
            change_count=revision.change_count,
        )


class RevisionsAnswer(Answer):
    revisions: list[RevisionAnswer]
    head: int
    oldest: Annotated[int | None, Meta(description="The oldest that is kept, where older ones are not.")] = None
    token: str | None = None


class RowDifference(ScopeAnswer):
    name: Annotated[str | None, Meta(description="Of a cluster, pool or label.")] = None
    resource_type: str
    level: str
    action: str
    before: Json | None = None
    after: Json | None = None

    @classmethod
    def from_change(cls, change: RowChange) -> RowDifference:
        return cls(
            **keys_of(change.scope),
            name=change.name or None,
            resource_type=change.kind,
            level=change.scope.level.value,
            action=change.action,
            before=change.before,
            after=change.after,
        )


class OneRevisionAnswer(Answer):
    number: int
    created_at: Time
    author: str
    claimed_by: str | None = None
    message: str | None = None
    request_id: str | None = None
    change_count: int
    changes: list[RowDifference]

    @classmethod
    def from_revision(cls, revision: Revision, changes: Iterable[RowChange]) -> OneRevisionAnswer:
        return cls(
            number=revision.number,
            created_at=revision.created_at,
            author=revision.authorship.author,
            claimed_by=revision.authorship.claimed_by,
            message=revision.authorship.message,
            request_id=revision.authorship.request_id,
            change_count=revision.change_count,
            changes=[RowDifference.from_change(change) for change in changes],
        )


class DiffAnswer(Answer):
    from_: int = field(name="from")
    to: int
    rows: list[RowDifference]

    @classmethod
    def from_changes(cls, from_: int, to: int, changes: Iterable[RowChange]) -> DiffAnswer:
        return cls(from_=from_, to=to, rows=[RowDifference.from_change(change) for change in changes])
