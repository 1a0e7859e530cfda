"""Executions as they are answered: one, many in a list, what became of them, and why they are where they are."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Protocol

from marshmallow import ValidationError, fields, validate
from msgspec import Meta, field
from msgspec.structs import asdict

from admin.core.executions.lifecycle import Phase
from admin.core.executions.selectors import parse_value
from admin.core.executions.spec import request_warnings
from admin.core.problems import Invalid, Problem, shorten
from admin.core.quantities import is_whole_number
from admin.errors import InvalidRequest
from admin.messages.errors import OneError
from admin.messages.pages import key_of, token_of
from admin.messages.registrations import IdentifierAnswer
from admin.messages.requests import (
    NAME,
    PRINTABLE_LINES,
    Number,
    PageQuery,
    RequestSchema,
    Seconds,
    Whole,
)
from admin.messages.selectors import SelectorFields
from admin.messages.shared import Answer, Json, Time, one_of
from admin.services.creations import Created, Refusal
from admin.services.executions import Explanation
from admin.services.logs import LogText
from admin.services.placements import PlacementPreview
from admin.services.redecisions import Redecided
from admin.store.decisions import StoredDecision
from admin.store.execution_lists import Place
from admin.store.executions import Event, Execution, ExecutionId, ListedExecution
from admin.store.logs import StoredOutput


class StateField(fields.String):
    """ACTIVE or ARCHIVED, also with Flyte's prefix or as its number."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        word = {0: "ACTIVE", 1: "ARCHIVED"}.get(value) if type(value) is int else value
        word = word.removeprefix("EXECUTION_") if isinstance(word, str) else word
        if word not in ("ACTIVE", "ARCHIVED"):
            raise ValidationError("is neither ACTIVE nor ARCHIVED.")
        return word


class StateBody(RequestSchema):
    state = StateField(required=True)


class CauseBody(RequestSchema):
    cause = fields.String(validate=[validate.Length(max=1000), PRINTABLE_LINES])
    claimed_by = fields.String(validate=NAME)


class WaitQuery(RequestSchema):
    after_event = Number(metadata={"description": "Wait until something has happened after this event."})
    wait_seconds = Seconds(load_default=0, validate=validate.Range(min=0, max=60))


class ListQuery(SelectorFields, PageQuery):
    state = fields.String(load_default="ACTIVE", validate=validate.OneOf(["ACTIVE", "ARCHIVED", "ALL"]))
    sort_key = fields.String(data_key="sort_by.key", load_default="created_at")
    sort_direction = fields.String(
        data_key="sort_by.direction",
        load_default="DESCENDING",
        validate=validate.OneOf(["ASCENDING", "DESCENDING"]),
    )


class ManyBody(CauseBody):
    selector = fields.Nested(SelectorFields, required=True)


class ExplanationQuery(RequestSchema):
    decision = Number(least=1, metadata={"description": "An earlier decision, by its number."})


class LogsQuery(RequestSchema):
    attempt = Number(least=1, metadata={"description": "The last one, if not given."})
    stream = fields.String(load_default="stdout", validate=validate.OneOf(["stdout", "stderr"]))
    offset = Number(load_default=0)
    limit = Whole(load_default=65_536, validate=validate.Range(min=1, max=1024 * 1024))
    wait_seconds = Seconds(load_default=0, validate=validate.Range(min=0, max=60))


#: Executions that one answer shows of many that were ended or decided again.
_MOST_SHOWN = 1000


def execution_id(project: str, domain: str, name: str) -> ExecutionId:
    """The id of an execution from the parts of a path."""
    return ExecutionId(project=project, domain=domain, name=name)


def place_token(place: Place, order: str) -> str:
    """The token for the page after a place in a list of some order."""
    value, row_id = place
    text = value.isoformat() if isinstance(value, datetime) else value
    return token_of((order, text, str(row_id)))


def place_of(token: str | None, sort_by: str, order: str) -> Place | None:
    """The place in a token, None for the first page; Invalid for one that a list of another order gave."""
    key = key_of(token, 3)
    if key is None:
        return None
    wrong = Invalid(Problem(field="token", reason="is not a token that this list gave; leave it out to start anew."))
    if key[0] != order or not is_whole_number(key[2]):
        raise wrong
    try:
        return parse_value(sort_by, key[1]), int(key[2])
    except Invalid:
        raise wrong from None


class Identified(Protocol):
    """Whatever an execution's id can be read from."""

    @property
    def project(self) -> str: ...

    @property
    def domain(self) -> str: ...

    @property
    def name(self) -> str: ...


class ExecutionIdAnswer(Answer):
    project: str
    domain: str
    name: str

    @classmethod
    def from_execution(cls, execution: Identified) -> ExecutionIdAnswer:
        return cls(project=execution.project, domain=execution.domain, name=execution.name)


class ReasonAnswer(Answer):
    code: str
    message: str


class ClosureAnswer(Answer):
    phase: Annotated[str, one_of(*(phase.value for phase in Phase))]
    reason: ReasonAnswer
    created_at: Time
    updated_at: Time
    started_at: Time | None = None
    finished_at: Time | None = None
    duration: float | None = None
    abort_metadata: Json | None = None

    @classmethod
    def from_execution(cls, execution: Execution | ListedExecution) -> ClosureAnswer:
        abort = {"cause": execution.abort_cause, "principal": execution.abort_principal}
        return cls(
            phase=execution.phase,
            reason=ReasonAnswer(code=execution.reason, message=execution.reason_message),
            created_at=execution.created_at,
            updated_at=execution.updated_at,
            started_at=execution.started_at,
            finished_at=execution.finished_at,
            duration=execution.duration,
            abort_metadata=None if execution.abort_cause is None else abort,
        )


class ListedAnswer(Answer):
    id: ExecutionIdAnswer
    closure: ClosureAnswer
    state: str
    workflow: IdentifierAnswer | None = None
    launch_plan: IdentifierAnswer | None = None
    cluster: str | None = None
    pool: str | None = None
    label: str | None = None
    revision: int
    attempt: int
    native_id: str | None = None
    nodes: list[str] | None = None
    exit_code: int | None = None
    lease_expires_at: Annotated[Time | None, Meta(description="Until when its agent need not be heard.")] = None
    decisions: int
    events: int
    mode: str
    reference_execution: ExecutionIdAnswer | None = None

    @classmethod
    def from_listed(cls, execution: Execution | ListedExecution) -> ListedAnswer:
        launched, reference = execution.launched, execution.reference
        workflow, launch_plan = launched.get("workflow"), launched.get("launch_plan")
        return cls(
            id=ExecutionIdAnswer.from_execution(execution),
            closure=ClosureAnswer.from_execution(execution),
            state=execution.state,
            workflow=None if workflow is None else IdentifierAnswer(**workflow),
            launch_plan=None if launch_plan is None else IdentifierAnswer(**launch_plan),
            cluster=execution.cluster,
            pool=execution.pool,
            label=execution.label,
            revision=execution.revision,
            attempt=execution.attempt,
            native_id=execution.native_id,
            nodes=execution.nodes,
            exit_code=execution.exit_code,
            lease_expires_at=execution.lease_expires_at,
            decisions=execution.decisions,
            events=execution.events,
            mode=execution.mode,
            reference_execution=None if reference is None else ExecutionIdAnswer(**reference),
        )


class ExecutionAnswer(ListedAnswer):
    spec: Json
    inputs: Json
    job: Json
    config: Json
    queue: str | None = None
    quality_of_service: Json | None = None
    plugins: Json | None = None
    attributes: Json
    changed: bool | None = None

    @classmethod
    def from_execution(cls, execution: Execution, *, changed: bool | None = None) -> ExecutionAnswer:
        content = execution.content
        quality_of_service = dict(content["quality_of_service"])
        if execution.queue_deadline is not None:
            quality_of_service["queue_deadline"] = execution.queue_deadline
        return cls(
            **asdict(ListedAnswer.from_listed(execution)),
            spec=execution.request["spec"],
            inputs=content["inputs"],
            job=content["job"],
            config=content["config"],
            queue=content["queue"],
            quality_of_service=quality_of_service or None,
            plugins=content["plugins"],
            attributes=content["attributes"],
            changed=changed,
        )


class ExecutionsAnswer(Answer):
    executions: list[ListedAnswer]
    token: str | None = None


class NoticeAnswer(Answer):
    """Something questionable about a request that is carried out all the same."""

    code: str
    message: str


def _notices(warnings: Iterable[Mapping[str, str]]) -> list[NoticeAnswer]:
    return [NoticeAnswer(code=warning["code"], message=warning["message"]) for warning in warnings]


class CreatedAnswer(Answer):
    id: ExecutionIdAnswer
    created: bool
    execution: ExecutionAnswer
    warnings: list[NoticeAnswer]
    dry_run: bool

    @classmethod
    def from_created(cls, created: Created, *, dry_run: bool) -> CreatedAnswer:
        return cls(
            id=ExecutionIdAnswer.from_execution(created.execution),
            created=created.is_new,
            execution=ExecutionAnswer.from_execution(created.execution),
            warnings=_notices(created.warnings),
            dry_run=dry_run,
        )


class OneResult(Answer):
    """One of many that were to be created: its id and place, or an error."""

    id: ExecutionIdAnswer | None = None
    created: bool | None = None
    phase: str | None = None
    cluster: str | None = None
    reason: ReasonAnswer | None = None
    warnings: list[NoticeAnswer] | None = None
    error: OneError | None = None

    @classmethod
    def from_outcome(cls, outcome: Created | Refusal) -> OneResult:
        if isinstance(outcome, Invalid):
            return cls(error=OneError.from_error(InvalidRequest.of(outcome)))
        if not isinstance(outcome, Created):
            return cls(error=OneError.from_error(outcome))
        execution = outcome.execution
        return cls(
            id=ExecutionIdAnswer.from_execution(execution),
            created=outcome.is_new,
            phase=execution.phase,
            cluster=execution.cluster,
            reason=ReasonAnswer(code=execution.reason, message=execution.reason_message),
            warnings=_notices(outcome.warnings),
        )


class ManyCreatedAnswer(Answer):
    """The results of many creations in the order of the requests."""

    results: list[OneResult]
    created: int
    repeated: int
    failed: int
    dry_run: bool

    @classmethod
    def from_outcomes(cls, outcomes: Sequence[Created | Refusal], *, dry_run: bool) -> ManyCreatedAnswer:
        created = sum(isinstance(outcome, Created) and outcome.is_new for outcome in outcomes)
        failed = sum(isinstance(outcome, Exception) for outcome in outcomes)
        return cls(
            results=[OneResult.from_outcome(outcome) for outcome in outcomes],
            created=created,
            repeated=len(outcomes) - created - failed,
            failed=failed,
            dry_run=dry_run,
        )


class EventAnswer(Answer):
    number: int
    at: Time
    type: str
    phase: str
    reason: ReasonAnswer | None = None
    cluster: str | None = None
    by: str | None = None

    @classmethod
    def from_event(cls, event: Event) -> EventAnswer:
        return cls(
            number=event.number,
            at=event.at,
            type=event.type,
            phase=event.phase,
            reason=ReasonAnswer(code=event.reason, message=event.message or "") if event.reason else None,
            cluster=event.cluster,
            by=event.by,
        )


class EventsAnswer(Answer):
    events: list[EventAnswer]
    pruned: Annotated[bool | None, Meta(description="Some before these are no longer kept.")] = None
    token: str | None = None


class EndedAnswer(Answer):
    id: ExecutionIdAnswer
    phase: str
    changed: bool

    @classmethod
    def from_execution(cls, execution: Execution | ListedExecution, *, changed: bool) -> EndedAnswer:
        return cls(id=ExecutionIdAnswer.from_execution(execution), phase=execution.phase, changed=changed)


class ManyEndedAnswer(Answer):
    matched: int
    terminated: int
    executions: list[EndedAnswer]
    dry_run: bool

    @classmethod
    def from_ended(cls, ended: Sequence[tuple[Execution | ListedExecution, bool]], *, dry_run: bool) -> ManyEndedAnswer:
        return cls(
            matched=len(ended),
            terminated=0 if dry_run else sum(is_change for _, is_change in ended),
            executions=[
                EndedAnswer.from_execution(execution, changed=is_change and not dry_run)
                for execution, is_change in ended[:_MOST_SHOWN]
            ],
            dry_run=dry_run,
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
            id=ExecutionIdAnswer(**redecided.id._asdict()),
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
            executions=[RedecidedAnswer.from_redecided(item) for item in ordered[:_MOST_SHOWN]],
            dry_run=dry_run,
        )


class LogsAnswer(Answer):
    attempt: int
    stream: str
    offset: int
    data: str
    next_offset: int
    complete: Annotated[bool, Meta(description="It has ended, and there is no more.")]
    truncated: Annotated[bool, Meta(description="It printed more than is kept.")]
    pruned: Annotated[bool | None, Meta(description="It ended so long ago that what it printed is no longer kept.")] = (
        None
    )

    @classmethod
    def from_text(cls, text: LogText) -> LogsAnswer:
        return cls(**vars(text))


class OutputAnswer(Answer):
    path: str
    size: int
    truncated: bool
    attempt: int
    content_base64: str

    @classmethod
    def from_output(cls, output: StoredOutput) -> OutputAnswer:
        return cls(
            path=output.path,
            size=output.size,
            truncated=output.truncated,
            attempt=output.attempt,
            content_base64=base64.b64encode(output.content).decode(),
        )


class OutputsAnswer(Answer):
    outputs: list[OutputAnswer]
    pruned: Annotated[bool | None, Meta(description="It ended so long ago that what it left is no longer kept.")] = None


class DecisionAnswer(Answer):
    """One decision among those that were made of an execution."""

    number: int
    decided_at: Time
    cluster: str | None = None
    reason: ReasonAnswer
    because: str

    @classmethod
    def from_decision(cls, decision: StoredDecision) -> DecisionAnswer:
        return cls(
            number=decision.number,
            decided_at=decision.decided_at,
            cluster=decision.cluster,
            reason=ReasonAnswer(code=decision.reason, message=decision.reason_message),
            because=decision.because,
        )


class ExplanationAnswer(Answer):
    id: ExecutionIdAnswer
    cluster: str | None = None
    reason: ReasonAnswer
    pool: str | None = None
    label: str | None = None
    strategy: str
    revision: int
    decided_at: Time | None = None
    decision: int | None = None
    because: str | None = None
    rungs: list[Json]
    candidates: list[Json]
    settings: list[Json]
    job: Json
    queue: str | None = None
    warnings: list[NoticeAnswer]
    history: list[DecisionAnswer] | None = None

    @classmethod
    def from_explanation(cls, explanation: Explanation) -> ExplanationAnswer:
        execution, decision = explanation.execution, explanation.decision
        rungs = explanation.settings["rungs"]
        winner = next(rung for rung in rungs if rung["state"] == "wins")
        return cls(
            id=ExecutionIdAnswer.from_execution(execution),
            cluster=decision.cluster,
            reason=ReasonAnswer(code=decision.reason, message=decision.reason_message),
            pool=winner["name"] if winner["kind"] == "pool" else None,
            label=winner["name"] if winner["kind"] == "label" else None,
            strategy=explanation.strategy,
            revision=decision.revision,
            decided_at=decision.decided_at,
            decision=decision.number,
            because=decision.because,
            rungs=rungs,
            candidates=explanation.candidates,
            settings=explanation.settings["settings"],
            job=execution.content["job"],
            queue=execution.content["queue"],
            warnings=_notices(request_warnings(execution.request["spec"])),
            history=[DecisionAnswer.from_decision(earlier) for earlier in explanation.history],
        )

    @classmethod
    def from_preview(cls, preview: PlacementPreview) -> ExplanationAnswer:
        """Where a request would run: no decision was made yet, so nothing is said of when and why."""
        run_plan, decision = preview.placement.run_plan, preview.placement.decision
        route = run_plan.route
        return cls(
            id=ExecutionIdAnswer.from_execution(preview.id),
            cluster=decision.cluster,
            reason=ReasonAnswer(code=decision.code, message=decision.message),
            pool=route.pool,
            label=route.label,
            strategy=decision.evaluation.strategy,
            revision=preview.revision,
            rungs=preview.rungs,
            candidates=preview.candidates,
            settings=preview.settings,
            job=run_plan.job,
            queue=run_plan.queue,
            warnings=_notices(preview.warnings),
        )
