"""Decisions: why an execution is where it is, and deciding again."""

from __future__ import annotations

from typing import Annotated, Any

from marshmallow import fields
from msgspec import Meta, field

from admin.core.executions.causes import Cause
from admin.core.problems import shorten
from admin.messages.bids import BidRoundAnswer
from admin.messages.effective import FieldEffectAnswer
from admin.messages.execution_lists import round_token
from admin.messages.executions import ExecutionIdAnswer, ReasonAnswer
from admin.messages.fits import ClusterQuestionAnswer, FleetFitsAnswer, NonCandidateAnswer
from admin.messages.registrations import IdentifierAnswer
from admin.messages.requests import NAME, Number, RequestSchema
from admin.messages.selectors import MOST_SHOWN
from admin.messages.shared import Answer, Json, NoticeAnswer, ProvenanceAnswer, Revisions, Time, described_as, one_of
from admin.messages.statuses import ExecutionStatusAnswer, StartAnswer
from admin.services.attempts import MOST_ATTEMPTS, AttemptView
from admin.services.explained_rounds import MOST_ROUNDS
from admin.services.explanations import Explanation
from admin.services.redecision_rounds import Redecided
from admin.services.requested_redecisions import RedecidedPage
from admin.services.statuses import ForeseenWait, LeaseView
from admin.store.decisions import StoredDecision
from admin.store.execution_events import Event


class ExplanationQuery(RequestSchema):
    decision = Number(least=1, metadata={"description": "An earlier decision, by its number."})
    why_not = fields.String(validate=NAME, metadata={"description": "A cluster: also say why it is not chosen."})


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
    next_at: Annotated[
        Time | None, Meta(description="When it is judged, or a drain ends it, if the cluster stays silent.")
    ] = None
    note: Annotated[str, Meta(description="The start of the message, as lists and single executions have it.")]
    message: str


class AttemptAnswer(Answer):
    """One attempt of an execution."""

    number: Annotated[int, Meta(description="Of its lease.")]
    attempt_number: Annotated[int | None, Meta(description="Which attempt it was; left out where it never began.")] = (
        None
    )
    cluster: str | None = None
    phase: Annotated[str, Meta(description="Or how it ended; DECLINED, RELEASED or EVICTED where it never began.")]
    reason: ReasonAnswer
    cause: Annotated[str, one_of(*(cause.value for cause in Cause))] | None = None
    ended_by: Annotated[str | None, Meta(description="In words, such as `exit 1`.")] = None
    native_id: str | None = None
    nodes: list[str] | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: Time | None = None
    ended_at: Annotated[
        Time | None, Meta(description="Of the native job, by the agent's clock; left out where it was not reported.")
    ] = None
    reported_at: Annotated[Time | None, Meta(description="When the admin heard of its end, or ended it.")] = None
    unconfirmed: Annotated[
        bool | None, Meta(description="It was ended without its agent, which has not confirmed it since.")
    ] = None
    confirmed_at: Annotated[Time | None, Meta(description="When its agent confirmed that.")] = None
    confirmed_as: Annotated[str | None, Meta(description="What it reported then, such as SUCCEEDED.")] = None
    silent_since: Annotated[
        Time | None, Meta(description="When its agent was last heard before its end, where it was silent then.")
    ] = None
    drained_by: Annotated[
        ProvenanceAnswer | None, Meta(description="The event by which the cluster was drained that ended it.")
    ] = None

    @classmethod
    def from_attempt(cls, attempt: AttemptView) -> AttemptAnswer:
        record = attempt.record
        return cls.from_attributes(
            record,
            attempt_number=record.shown_number,
            cluster=attempt.cluster,
            phase=record.outcome,
            reason=ReasonAnswer(code=record.reason, message=attempt.message),
            cause=attempt.cause and attempt.cause.value,
            ended_by=attempt.ended_by,
            reported_at=attempt.reported_at,
            confirmed_at=attempt.confirmed_at,
            confirmed_as=attempt.confirmed_as,
            drained_by=attempt.drained_by and ProvenanceAnswer.from_attributes(attempt.drained_by),
        )


class RefusedReportAnswer(Answer):
    """A report on an execution that was refused: it came too late, or from a cluster that does not have it."""

    at: Time
    cluster: str | None = None
    reason: ReasonAnswer

    @classmethod
    def from_event(cls, event: Event) -> RefusedReportAnswer:
        reason = ReasonAnswer(code=event.reason or "", message=event.message or "")
        return cls(at=event.at, cluster=event.cluster, reason=reason)


class HeldLeaseAnswer(Answer):
    """The lease of an execution, and when its agent was heard."""

    expires_at: Time
    confirmed: Annotated[bool, Meta(description="Its agent is known to have it, and may have started it.")]
    heard_at: Annotated[Time | None, Meta(description="When the agent that has it was last heard.")] = None
    health: Annotated[str | None, Meta(description="Of its cluster, `deleted` if it is.")] = None
    draining: Annotated[bool | None, Meta(description="True while its cluster is.")] = None

    @classmethod
    def from_lease(cls, lease: LeaseView) -> HeldLeaseAnswer:
        return cls.from_attributes(lease, draining=lease.is_draining or None)


class ForeseenWaitAnswer(Answer):
    """Why the cluster of something that would be created would not take it at once."""

    obstacle: Annotated[
        str, Meta(description="That the cluster is full, and of what; or that no agent of it was seen.")
    ]
    start: Annotated[
        StartAnswer | None, Meta(description="Its place in line, and when it would start; absent where none was seen.")
    ] = None

    @classmethod
    def from_wait(cls, wait: ForeseenWait) -> ForeseenWaitAnswer:
        return cls(obstacle=wait.obstacle, start=None if wait.start is None else StartAnswer.from_start(wait.start))


class ReceivedAnswer(Answer):
    """Something that a job gets."""

    field: str
    value: Any
    origin: Annotated[
        Json | None,
        described_as("OriginAnswer"),
        Meta(description="Of the setting; none where the job says so."),
    ] = None
    overrides: Annotated[
        str | None, Meta(description="The setting that the job itself, the launch plan or the request overrides.")
    ] = None
    source: Annotated[
        str | None,
        Meta(
            description="What gives it that is no row: the labels of its project, or the launch plan or workflow, by "
            "name and version."
        ),
    ] = None


class ExplanationAnswer(Answer):
    id: ExecutionIdAnswer
    created_at: Annotated[Time | None, Meta(description="None of the creation fields for what was not created.")] = None
    created_by: Annotated[str | None, Meta(description="Its caller, as the admin knew it.")] = None
    claimed_by: Annotated[str | None, Meta(description="The name that its caller gave, unverified.")] = None
    created_proof: Annotated[str | None, Meta(description="How its caller was proven.")] = None
    status: Annotated[ExecutionStatusAnswer | None, Meta(description="Of the current decision of an execution.")] = None
    silence: Annotated[SilenceAnswer | None, Meta(description="While its cluster is silent.")] = None
    attempts: Annotated[
        list[AttemptAnswer] | None, Meta(description=f"The last {MOST_ATTEMPTS} that an agent has or had.")
    ] = None
    unrecorded_attempts: Annotated[int | None, Meta(description="How many are not among them.")] = None
    refused_reports: Annotated[
        list[RefusedReportAnswer] | None,
        Meta(description="The last five that came too late, or from a cluster that does not have it."),
    ] = None
    lease: Annotated[HeldLeaseAnswer | None, Meta(description="While an agent has it.")] = None
    cluster: str | None = None
    rounds: Annotated[
        list[BidRoundAnswer] | None,
        Meta(description=f"The last {MOST_ROUNDS} in which its clusters were asked; of an earlier decision its own."),
    ] = None
    wait: Annotated[
        ForeseenWaitAnswer | None,
        Meta(description="Of `placements`: where its cluster would not take it at once."),
    ] = None
    refused: Annotated[
        bool | None,
        Meta(
            description="Of `placements` with `fleet` or `why_not`: true where no candidate could ever run it; without "
            "them that is 400."
        ),
    ] = None
    why_not: Annotated[ClusterQuestionAnswer | None, Meta(description="Of the cluster that `why_not` asks about.")] = (
        None
    )
    reason: ReasonAnswer
    pool: str | None = None
    label: str | None = None
    strategy: str
    strategy_source: Annotated[
        str | None, Meta(description="`request` where the request asked for the strategy; else it is that of the pool.")
    ] = None
    rules: Annotated[list[Json] | None, Meta(description="Those that were applied, of the strategy constraint.")] = None
    revision: int
    revisions: Revisions = None
    decided_at: Time | None = None
    decision: int | None = None
    because: str | None = None
    rule: Annotated[str, Meta(description="Which rung decided, and over which others, in words.")]
    rungs: list[Json]
    candidates: list[Json]
    not_candidates: Annotated[
        list[NonCandidateAnswer] | None, Meta(description="The other clusters of the fleet as it is now.")
    ] = None
    fleet: Annotated[
        FleetFitsAnswer | None, Meta(description="Of `placements` with `fleet`: how many clusters could run it.")
    ] = None
    left_out: Annotated[
        int | None, Meta(description="Of `placements` with `limit`: how many `not_candidates` are left out.")
    ] = None
    untold_clusters: Annotated[
        int | None, Meta(description="How many clusters you may not use, and are not told of here.")
    ] = None
    unseen_clusters: Annotated[
        int | None, Meta(description="How many clusters are not told of here, since you may not read the fleet.")
    ] = None
    settings: list[Annotated[Json, described_as("ValueAnswer")]]
    job: Json
    workflow: Annotated[IdentifierAnswer | None, Meta(description="That it launched.")] = None
    launch_plan: Annotated[IdentifierAnswer | None, Meta(description="That it launched.")] = None
    received: Annotated[list[ReceivedAnswer], Meta(description="What the job gets, and where that comes from.")]
    field_effects: Annotated[
        dict[str, list[FieldEffectAnswer]] | None,
        Meta(description="By kind, the fields of settings that the execution does not follow, as of scopes."),
    ] = None
    queue: str | None = None
    warnings: list[NoticeAnswer]
    history: list[DecisionAnswer] | None = None

    @classmethod
    def from_explanation(cls, explanation: Explanation) -> ExplanationAnswer:
        decision, history, silence = explanation.decision, explanation.history, explanation.silence
        wait = explanation.wait
        provenance, attempts, others = explanation.provenance, explanation.attempts, explanation.not_candidates
        return cls.from_attributes(
            explanation,
            id=ExecutionIdAnswer.from_execution(explanation.id),
            status=explanation.status and ExecutionStatusAnswer.from_status(explanation.status),
            attempts=attempts and [AttemptAnswer.from_attempt(attempt) for attempt in attempts.attempts],
            unrecorded_attempts=(attempts and attempts.unrecorded) or None,
            refused_reports=[RefusedReportAnswer.from_event(event) for event in explanation.refused_reports or ()]
            or None,
            received=[ReceivedAnswer(**entry) for entry in explanation.received],
            field_effects=FieldEffectAnswer.by_kind(explanation.field_effects),
            **{
                noun: IdentifierAnswer(**explanation.launched[noun]) if noun in explanation.launched else None
                for noun in ("workflow", "launch_plan")
            },
            lease=explanation.lease and HeldLeaseAnswer.from_lease(explanation.lease),
            wait=wait and ForeseenWaitAnswer.from_wait(wait),
            rounds=[BidRoundAnswer.from_view(view) for view in explanation.rounds or ()] or None,
            not_candidates=others and [NonCandidateAnswer(**entry) for entry in others],
            fleet=explanation.fleet and FleetFitsAnswer.from_fits(explanation.fleet),
            left_out=explanation.left_out or None,
            why_not=explanation.why_not and ClusterQuestionAnswer(**explanation.why_not._asdict()),
            refused=explanation.refused or None,
            untold_clusters=explanation.untold_clusters or None,
            unseen_clusters=explanation.unseen_clusters or None,
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
    changed: Annotated[int, Meta(description="Those that have another decision, be it for the same cluster.")]
    moved: Annotated[int, Meta(description="Those of them that have another cluster.")]
    executions: list[RedecidedAnswer]
    dry_run: bool
    complete: Annotated[bool, Meta(description="Whether all that match were looked at.")]
    not_examined: Annotated[
        int | None, Meta(description="How many more match, which a dry run does not look at, or at least so many.")
    ] = None
    token: Annotated[str | None, Meta(description="With a `limit`: for those that come after these.")] = None

    @classmethod
    def from_redecided(cls, page: RedecidedPage, *, dry_run: bool) -> ManyRedecidedAnswer:
        """Those that moved come first, then those that changed."""
        redecided = page.redecided
        ordered = sorted(redecided, key=lambda item: (not item.is_move, not item.is_change))
        return cls(
            matched=len(redecided),
            changed=sum(item.is_change for item in redecided),
            moved=sum(item.is_move for item in redecided),
            executions=[RedecidedAnswer.from_redecided(item) for item in ordered[:MOST_SHOWN]],
            dry_run=dry_run,
            complete=page.last is None and not page.not_examined,
            not_examined=page.not_examined or None,
            token=round_token(page.last, page.event),
        )
