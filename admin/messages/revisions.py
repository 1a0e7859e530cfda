"""Revisions: who changed what, when and why, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, field

from admin.core.changes import RowChange
from admin.messages.shared import Answer, Json, ScopeAnswer, Time, keys_of
from admin.store.revisions import Revision


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
