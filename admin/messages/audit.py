"""Audit events."""

from __future__ import annotations

from typing import Annotated

from marshmallow import fields
from msgspec import Meta

from admin.core.audit import AuditEvent, AuditType
from admin.messages.requests import NAME, Fields, OneOf, PageQuery
from admin.messages.selectors import TimeField
from admin.messages.shared import Answer, ProofField, Time, one_of
from admin.store.audit_events import AuditFilter

_TYPES = tuple(kind.value for kind in AuditType)


class AuditQuery(PageQuery):
    event = fields.String(validate=OneOf(_TYPES), metadata={"description": "Only events of this type."})
    user = fields.String(
        validate=NAME,
        metadata={"description": "Only what this user did, also as somebody else, and what others did as this user."},
    )
    address = fields.String(validate=NAME, metadata={"description": "Only those of requests from this address."})
    after = TimeField(metadata={"type": "string", "description": "At this time or later, or so long ago: 7d."})
    before = TimeField(metadata={"type": "string", "description": "Before this time."})


def audit_filter(query: Fields) -> AuditFilter:
    """The events that an `AuditQuery` asks for."""
    names = ("event", "user", "address", "after", "before")
    return AuditFilter(**{name: query[name] for name in names if name in query})


class AuditEventAnswer(Answer):
    """A login, something that was done with a token, or a request that was denied."""

    number: int
    at: Time
    event: Annotated[str, one_of(*_TYPES)]
    user: Annotated[str | None, Meta(description="Who called; absent where that is not known.")] = None
    proof: ProofField = None
    address: Annotated[str | None, Meta(description="From which the request came.")] = None
    method: str | None = None
    route: Annotated[str | None, Meta(description="Of the API, `unknown` where it has none for the path.")] = None
    request_id: str | None = None
    target: Annotated[
        str | None,
        Meta(description="The token, user or cluster that it was done to; `others` for different denied requests."),
    ] = None
    reason: str | None = None
    count: Annotated[
        int | None, Meta(description="How often a request was denied from this address within a minute, if repeatedly.")
    ] = None
    last_at: Annotated[Time | None, Meta(description="The last time of these.")] = None

    @classmethod
    def from_event(cls, event: AuditEvent) -> AuditEventAnswer:
        return cls.from_attributes(event, count=event.count if event.count > 1 else None)


class AuditAnswer(Answer):
    events: list[AuditEventAnswer]
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None
    not_listed: Annotated[str | None, Meta(description="On the last page: what was pruned.")] = None
