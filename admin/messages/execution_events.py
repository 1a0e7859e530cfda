"""Events of an execution."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.messages.executions import ReasonAnswer
from admin.messages.shared import Answer, ClaimedBy, Json, ProofField, Time
from admin.store.execution_events import Event
from admin.store.executions import Execution


class EventAnswer(Answer):
    number: int
    at: Time
    type: str
    phase: str
    reason: ReasonAnswer | None = None
    cluster: str | None = None
    by: Annotated[str | None, Meta(description="The claimed name, or the author where none was claimed.")] = None
    author: str | None = None
    claimed_by: ClaimedBy = None
    proof: ProofField = None
    attempt: Annotated[Json | None, Meta(description="How the attempt ended that was over with it.")] = None

    @classmethod
    def from_event(cls, event: Event, execution: Execution) -> EventAnswer:
        """An event of an execution; the first one has its creator, which is stored with the execution."""
        reason = ReasonAnswer(code=event.reason, message=event.message or "") if event.reason else None
        author, claimed_by, proof = event.actor or (None, None, None)
        by = event.by
        if event.type == "CREATED":
            author, claimed_by = execution.created_by or None, execution.claimed_by
            by, proof = claimed_by or author, execution.created_proof
        return cls.from_attributes(event, reason=reason, by=by, author=author, claimed_by=claimed_by, proof=proof)


class EventsAnswer(Answer):
    events: list[EventAnswer]
    pruned: Annotated[bool | None, Meta(description="Some before these are no longer kept.")] = None
    token: str | None = None
