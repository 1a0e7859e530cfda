"""Executions: an execution, and a page of a list of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from marshmallow import fields, validate
from msgspec import Meta
from msgspec.structs import asdict

from admin.core.executions.attempt_records import AttemptRecord, attempt_before, cause_of_execution
from admin.core.executions.attempts import attempts_begun
from admin.core.executions.causes import Cause
from admin.core.executions.lifecycle import Phase, phase_began_at
from admin.core.executions.retries import ON_LOST
from admin.core.executions.run_times import RunTerms, could_start_at
from admin.core.executions.statuses import Status
from admin.core.resources import format_amount
from admin.messages.registrations import IdentifierAnswer
from admin.messages.requests import NAME, Fields, Flag, Number, RequestSchema, Seconds, Word
from admin.messages.shared import Answer, Json, Time, one_of
from admin.messages.statuses import ExecutionStatusAnswer, FailureAnswer
from admin.services.executions import Previous
from admin.services.silences import NotedSilence
from admin.store.executions import Execution, ExecutionId, ListedExecution
from admin.store.leases import LeasedExecution


class StateBody(RequestSchema):
    example: ClassVar[Fields] = {"state": "ARCHIVED", "claimed_by": "ada"}

    state = Word("ACTIVE", "ARCHIVED", prefix="EXECUTION_", required=True)
    claimed_by = fields.String(
        validate=NAME, metadata={"description": "The name that the caller gave, unverified; kept with the event."}
    )


class WaitQuery(RequestSchema):
    after_event = Number(metadata={"description": "Wait until something has happened after this event."})
    wait_seconds = Seconds(load_default=0, validate=validate.Range(min=0, max=60))
    with_status = Flag(load_default=False, metadata={"description": "Also answer where it stands now, and why."})


def execution_id(project: str, domain: str, name: str) -> ExecutionId:
    """The id of an execution from the parts of a path."""
    return ExecutionId(project=project, domain=domain, name=name)


#: What an execution's id can be read from.
Identified = ExecutionId | Execution | ListedExecution | LeasedExecution


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
    cause: Annotated[str, one_of(*(cause.value for cause in Cause))] | None = None
    created_at: Time
    updated_at: Time
    started_at: Time | None = None
    finished_at: Time | None = None
    duration: float | None = None
    abort_metadata: Json | None = None

    @classmethod
    def from_execution(
        cls, execution: Execution | ListedExecution, abort_requested_at: datetime | None = None
    ) -> ClosureAnswer:
        cause = cause_of_execution(execution)
        return cls(
            phase=execution.phase,
            reason=ReasonAnswer(code=execution.reason, message=execution.reason_message),
            cause=None if cause is None else cause.value,
            created_at=execution.created_at,
            updated_at=execution.updated_at,
            started_at=execution.started_at,
            finished_at=execution.finished_at,
            duration=execution.duration,
            abort_metadata=None if execution.abort_cause is None else _abort_metadata(execution, abort_requested_at),
        )


class GivenUpAnswer(Answer):
    """Who gave an execution up at a silent cluster, when it ended with that."""

    author: str
    claimed_by: Annotated[str | None, Meta(description="Unverified.")] = None
    proof: Annotated[str | None, Meta(description="How the author was proven.")] = None
    at: Time | None = None

    @classmethod
    def from_execution(cls, execution: Execution | ListedExecution) -> GivenUpAnswer | None:
        actor = execution.given_up_by
        return None if actor is None else cls(**actor._asdict(), at=execution.finished_at)


def _abort_metadata(execution: Execution | ListedExecution, requested_at: datetime | None) -> Json:
    """Why an execution was ended, by whom, and when that was requested, if its event is kept; and who gave it up.

    `principal` is Flyte's field for the name, which is only claimed.
    """
    author, claimed_by, proof = execution.aborted_by or (None, None, None)
    names: Json = {"author": author, "claimed_by": claimed_by, "proof": proof, "requested_at": requested_at}
    names["given_up"] = GivenUpAnswer.from_execution(execution)
    abort = {"cause": execution.abort_cause, "principal": execution.abort_principal}
    return abort | {key: name for key, name in names.items() if name is not None}


def _last_failure(execution: Execution | ListedExecution) -> FailureAnswer | None:
    if execution.last_failure is None or execution.finished_at is not None:
        return None
    return FailureAnswer.from_record(AttemptRecord.from_json(execution.last_failure))


class ListedAnswer(Answer):
    id: ExecutionIdAnswer
    uid: Annotated[str | None, Meta(description="Random; another one when the name is used again.")] = None
    created_by: Annotated[str | None, Meta(description="Its caller, as the admin knew it.")] = None
    claimed_by: Annotated[str | None, Meta(description="The name that its caller gave, unverified.")] = None
    created_proof: Annotated[
        str | None, Meta(description="How its caller was proven: token, openid or shared-token.")
    ] = None
    principal: Annotated[str | None, Meta(description="For whom, as the request says.")] = None
    labels: Annotated[dict[str, str] | None, Meta(description="Of its job; filters name them labels.KEY.")] = None
    closure: ClosureAnswer
    state: str
    workflow: IdentifierAnswer | None = None
    launch_plan: IdentifierAnswer | None = None
    cluster: str | None = None
    previous_cluster: Annotated[
        str | None,
        Meta(description="That the decision before the last chose; absent where that chose none, or there is one."),
    ] = None
    previous_none: Annotated[
        bool | None, Meta(description="True where the decision before the last chose no cluster.")
    ] = None
    pool: str | None = None
    label: str | None = None
    origin: Annotated[Json | None, Meta(description="The rung that decided where it went, if asked for.")] = None
    limit_scope: Annotated[str | None, Meta(description="The scope whose limit ended it.")] = None
    revision: int
    attempt: Annotated[int, Meta(description="Of its lease: agents report with it.")]
    attempt_number: Annotated[
        int | None, Meta(description="Which attempt began last; those that never began do not count.")
    ] = None
    phase_since: Annotated[Time | None, Meta(description="When it came to its phase.")] = None
    silence: Annotated[str | None, Meta(description="What is known of it while its cluster is silent.")] = None
    silence_outlook: Annotated[
        str | None, Meta(description="What becomes of it if its cluster stays silent, and when.")
    ] = None
    unconfirmed: Annotated[
        bool | None, Meta(description="True where it has ended, and nobody has confirmed that its job has.")
    ] = None
    not_before: Annotated[Time | None, Meta(description="When its next attempt may start.")] = None
    could_start_at: Annotated[
        Time | None,
        Meta(
            description="Since when it could start: its creation, or the end of the back-off of its last attempt; "
            "absent where that is not kept. Until it started it waited."
        ),
    ] = None
    native_id: Annotated[
        str | None, Meta(description="Like `nodes` and `exit_code` of the attempt before while the next one waits.")
    ] = None
    nodes: list[str] | None = None
    exit_code: int | None = None
    last_failure: Annotated[
        FailureAnswer | None, Meta(description="While it waits or runs again after an attempt that failed.")
    ] = None
    lease_expires_at: Annotated[Time | None, Meta(description="Until when its agent need not be heard.")] = None
    on_lost: Annotated[
        str | None, Meta(description=f"What becomes of it if its cluster is lost: {', '.join(ON_LOST)}.")
    ] = None
    time_limit_seconds: Annotated[float | None, Meta(description="The longest that an attempt may run.")] = None
    queue: Annotated[str | None, Meta(description="The queue that it was given.")] = None
    cpu: Annotated[str | None, Meta(description="How many cores its tasks request together.")] = None
    memory: Annotated[str | None, Meta(description="How much memory its tasks request together.")] = None
    gpu: Annotated[int | None, Meta(description="How many GPUs its tasks request together.")] = None
    decisions: int
    events: int
    mode: str
    reference_execution: ExecutionIdAnswer | None = None

    @classmethod
    def from_listed(
        cls,
        execution: Execution | ListedExecution,
        terms: RunTerms | None,
        origin: Json | None = None,
        silence: NotedSilence | None = None,
        abort_requested_at: datetime | None = None,
        previous: Previous | None = None,
    ) -> ListedAnswer:
        launched, reference = execution.launched, execution.reference
        workflow, launch_plan = launched.get("workflow"), launched.get("launch_plan")
        last = attempt_before(execution) or execution
        return cls(  # field by field, which takes half the time of `from_attributes`
            id=ExecutionIdAnswer.from_execution(execution),
            uid=execution.uid or None,
            created_by=execution.created_by or None,
            claimed_by=execution.claimed_by,
            created_proof=execution.created_proof,
            principal=execution.principal,
            labels=execution.labels,
            closure=ClosureAnswer.from_execution(execution, abort_requested_at),
            state=execution.state,
            workflow=None if workflow is None else IdentifierAnswer(**workflow),
            launch_plan=None if launch_plan is None else IdentifierAnswer(**launch_plan),
            cluster=execution.cluster,
            previous_cluster=previous and previous.cluster,
            previous_none=(previous is not None and previous.cluster is None) or None,
            pool=execution.pool,
            label=execution.label,
            origin=origin,
            limit_scope=execution.limit_scope,
            revision=execution.revision,
            attempt=execution.attempt,
            attempt_number=attempts_begun(execution),
            phase_since=phase_began_at(execution),
            silence=silence and silence.note,
            silence_outlook=silence and silence.outlook,
            unconfirmed=execution.unconfirmed or None,
            not_before=execution.not_before if execution.phase == Phase.QUEUED.value else None,
            could_start_at=could_start_at(execution),
            native_id=last.native_id,
            nodes=last.nodes,
            exit_code=last.exit_code,
            last_failure=_last_failure(execution),
            lease_expires_at=execution.lease_expires_at,
            on_lost=terms and terms.on_lost,
            time_limit_seconds=terms and terms.time_limit_seconds,
            queue=terms and terms.queue,
            cpu=_requested("cpu", execution.demand_cpu),
            memory=_requested("memory", execution.demand_memory),
            gpu=execution.demand_gpu or None,
            decisions=execution.decisions,
            events=execution.events,
            mode=execution.mode,
            reference_execution=None if reference is None else ExecutionIdAnswer(**reference),
        )


def _requested(resource: str, amount: int) -> str | None:
    return str(format_amount(resource, amount)) if amount else None


class ExecutionAnswer(ListedAnswer):
    spec: Json
    inputs: Json
    job: Json
    config: Json
    quality_of_service: Json | None = None
    plugins: Json | None = None
    attributes: Json
    changed: bool | None = None
    status: Annotated[ExecutionStatusAnswer | None, Meta(description="Where it stands now, if asked for.")] = None

    @classmethod
    def from_execution(
        cls,
        execution: Execution,
        *,
        changed: bool | None = None,
        status: Status | None = None,
        silence: NotedSilence | None = None,
        abort_requested_at: datetime | None = None,
        previous: Previous | None = None,
    ) -> ExecutionAnswer:
        content = execution.content
        quality_of_service = dict(content["quality_of_service"])
        if execution.queue_deadline is not None:
            quality_of_service["queue_deadline"] = execution.queue_deadline
        return cls(
            **asdict(
                ListedAnswer.from_listed(
                    execution,
                    RunTerms.of(content),
                    silence=silence,
                    abort_requested_at=abort_requested_at,
                    previous=previous,
                )
            ),
            spec=execution.request["spec"],
            quality_of_service=quality_of_service or None,
            **{name: content[name] for name in ("inputs", "job", "config", "plugins", "attributes")},
            changed=changed,
            status=None if status is None else ExecutionStatusAnswer.from_status(status),
        )
