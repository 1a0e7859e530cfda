"""Decisions: why an execution is where it is, and deciding again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, field

from admin.core.problems import shorten
from admin.messages.executions import MOST_SHOWN, ExecutionIdAnswer, ReasonAnswer
from admin.messages.requests import Number, RequestSchema
from admin.messages.shared import Answer, Json, NoticeAnswer, ProvenanceAnswer, Revisions, Time, described_as
from admin.services.executions import Explanation
from admin.services.redecisions import Redecided
from admin.store.decisions import StoredDecision


class ExplanationQuery(RequestSchema):
    decision = Number(least=1, metadata={"description": "An earlier decision, by its number."})


class DecisionAnswer(Answer):
    """One decision among those that were made of an execution."""

    number: int
    decided_at: Time
    cluster: str | None = None
    reason: ReasonAnswer
    because: str

    @classmethod
    def from_decision(cls, decision: StoredDecision) -> DecisionAnswer:
        reason = ReasonAnswer(code=decision.reason, message=decision.reason_message)
        return cls.from_attributes(decision, reason=reason)


class SilenceAnswer(Answer):
    """What it means for an execution that its cluster is silent."""

    since: Annotated[Time, Meta(description="When its cluster was last heard.")]
    on_lost: str
    lease_expires_at: Time | None = None
    next_at: Annotated[Time | None, Meta(description="When it is judged if the cluster stays silent.")] = None
    message: str


class ExecutionStatusAnswer(Answer):
    """Where an execution stands now."""

    phase: str
    since: Annotated[Time, Meta(description="When it came to this phase.")]
    attempt: Annotated[int, Meta(description="Attempts that came to nothing before they began do not count.")]
    attempts: Annotated[int, Meta(description="How many attempts there may be.")]
    message: str
    next: Annotated[str | None, Meta(description="What decides about it next.")] = None
    next_at: Time | None = None


class ExplanationAnswer(Answer):
    id: ExecutionIdAnswer
    status: Annotated[ExecutionStatusAnswer | None, Meta(description="Of the current decision of an execution.")] = None
    silence: Annotated[SilenceAnswer | None, Meta(description="While its cluster is silent.")] = None
    cluster: str | None = None
    reason: ReasonAnswer
    pool: str | None = None
    label: str | None = None
    strategy: str
    revision: int
    revisions: Revisions = None
    decided_at: Time | None = None
    decision: int | None = None
    because: str | None = None
    rungs: list[Json]
    candidates: list[Json]
    settings: list[Annotated[Json, described_as("ValueAnswer")]]
    job: Json
    queue: str | None = None
    warnings: list[NoticeAnswer]
    history: list[DecisionAnswer] | None = None

    @classmethod
    def from_explanation(cls, explanation: Explanation) -> ExplanationAnswer:
        decision, history, silence = explanation.decision, explanation.history, explanation.silence
        provenance = explanation.provenance
        return cls.from_attributes(
            explanation,
            id=ExecutionIdAnswer.from_execution(explanation.id),
            status=explanation.status and ExecutionStatusAnswer.from_attributes(explanation.status),
            silence=silence and SilenceAnswer.from_attributes(silence),
            reason=ReasonAnswer(code=explanation.reason, message=explanation.reason_message),
            revisions=None if provenance is None else ProvenanceAnswer.by_number(provenance),
            decided_at=decision and decision.decided_at,
            decision=decision and decision.number,
            because=decision and decision.because,
            warnings=NoticeAnswer.from_warnings(explanation.warnings),
            history=history and [DecisionAnswer.from_decision(earlier) for earlier in history],
        )


class RedecidedAnswer(Answer):
    id: ExecutionIdAnswer
    from_: str | None = field(default=None, name="from")
    to: str | None = None
    reason: ReasonAnswer
    changed: bool

    @classmethod
    def from_redecided(cls, redecided: Redecided) -> RedecidedAnswer:
        return cls(
            id=ExecutionIdAnswer.from_execution(redecided.id),
            from_=redecided.previous_cluster,
            to=redecided.cluster,
            reason=ReasonAnswer(code=redecided.reason, message=shorten(redecided.message, 500)),
            changed=redecided.is_change,
        )


class ManyRedecidedAnswer(Answer):
    matched: int
    changed: int
    executions: list[RedecidedAnswer]
    dry_run: bool

    @classmethod
    def from_redecided(cls, redecided: Sequence[Redecided], *, dry_run: bool) -> ManyRedecidedAnswer:
        """Those that changed come first."""
        ordered = sorted(redecided, key=lambda item: not item.is_change)
        return cls(
            matched=len(redecided),
            changed=sum(item.is_change for item in redecided),
            executions=[RedecidedAnswer.from_redecided(item) for item in ordered[:MOST_SHOWN]],
            dry_run=dry_run,
        )
