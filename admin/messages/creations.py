"""Creations: one execution or many, anew or once more; and what became of each request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType

from admin.core.executions.spec import read_spec
from admin.core.jobs.literals import plain_values
from admin.core.problems import Invalid, Problem, invalid, raise_problems
from admin.errors import InvalidRequest
from admin.messages.errors import BatchError
from admin.messages.executions import ExecutionAnswer, ExecutionIdAnswer, ReasonAnswer
from admin.messages.reading import (
    AnyJson,
    Body,
    Claimant,
    ExecutionSpec,
    InputValues,
    Name,
    NoOrg,
    Text255,
    UnreadText,
    or_none,
    present_fields,
    read,
)
from admin.messages.shared import Answer, Json, NoticeAnswer, described_as
from admin.services.creation_results import Created, Refusal
from admin.services.run_requests import CreationRequest, read_request
from admin.store.executions import ExecutionId

MOST_AT_ONCE = 1000
_SPEC_FIELDS = "ExecutionSpec/properties"
#: Fields of a request to run something once more that do not change its spec.
_NO_CHANGES = ("id", "name", "claimed_by", "inputs")


class IdBody(Body):
    project: Name
    domain: Name
    name: Name

    def id(self) -> ExecutionId:
        return ExecutionId(project=self.project, domain=self.domain, name=self.name)


class RequestBody(Body):
    """What to run, in Flyte's shape; the core checks the spec and the inputs."""

    project: Name
    domain: Name
    name: Text255 | UnsetType = UNSET
    inputs: InputValues | UnsetType = UNSET
    spec: ExecutionSpec
    claimed_by: Claimant | UnsetType = UNSET
    org: NoOrg | UnsetType = UNSET

    def request(self) -> CreationRequest:
        """What the body asks for, in its normal form."""
        return read_request(
            project=self.project,
            domain=self.domain,
            name=or_none(self.name) or None,
            spec=self.spec,
            inputs=or_none(self.inputs),
            claimed_by=or_none(self.claimed_by) or None,
        )


class CreationBody(Body):
    """One execution, or many."""

    example: ClassVar[Json] = {
        "project": "flytesnacks",
        "domain": "development",
        "name": "hello",
        "spec": {"job": {"command": ["echo", "Hello, world"], "resources": {"requests": {"cpu": "500m"}}}},
    }
    project: Name | UnsetType = UNSET
    domain: Name | UnsetType = UNSET
    name: Text255 | UnsetType = UNSET
    inputs: InputValues | UnsetType = UNSET
    spec: ExecutionSpec | UnsetType = UNSET
    claimed_by: Claimant | UnsetType = UNSET
    org: NoOrg | UnsetType = UNSET
    executions: (
        Annotated[
            list[Any],
            Meta(
                min_length=1,
                max_length=MOST_AT_ONCE,
                description=f"Up to {MOST_AT_ONCE} bodies as for one, in place of all fields but claimed_by.",
                extra_json_schema={"items": {"$ref": "#/components/schemas/RequestBody"}},
                extra={"error": f"give 1 to {MOST_AT_ONCE} of them in one request."},
            ),
        ]
        | UnsetType
    ) = UNSET

    def request(self) -> CreationRequest:
        """The one execution that the body asks for; Invalid where something is missing."""
        return read(RequestBody, present_fields(self)).request()

    def requests(self) -> list[CreationRequest | Refusal] | None:
        """The many that the body asks for, each read for itself; None where it asks for one."""
        if isinstance(self.executions, UnsetType):
            return None
        for name in present_fields(self).keys() - {"executions", "claimed_by"}:
            raise invalid(name, "stands beside executions; put it into each of them.")
        claimed_by = or_none(self.claimed_by) or None
        return [_read_request(document, claimed_by) for document in self.executions]


def _read_request(document: object, claimed_by: str | None) -> CreationRequest | Refusal:
    """One of many requests, or why it is refused; `claimed_by` is the default of those without one."""
    if not isinstance(document, dict):
        return invalid("", "is not a mapping: give one with project, domain and spec.")
    try:
        request = read(RequestBody, document).request()
        return request if request.claimed_by else request._replace(claimed_by=claimed_by)
    except Invalid as refusal:
        return refusal


class RepeatBody(Body):
    """An execution to run once more, and what is to differ; the core checks the latter as parts of a spec."""

    example: ClassVar[Json] = {"id": {"project": "flytesnacks", "domain": "development", "name": "hello"}}
    id: IdBody
    name: Text255 | UnsetType = UNSET
    claimed_by: Claimant | UnsetType = UNSET
    overwrite_cache: Annotated[AnyJson, Meta(extra_json_schema={"type": "boolean"})] | UnsetType = UNSET
    cluster: UnreadText | UnsetType = UNSET
    cluster_assignment: Annotated[AnyJson, described_as(f"{_SPEC_FIELDS}/cluster_assignment")] | UnsetType = UNSET
    execution_cluster_label: Annotated[AnyJson, described_as(f"{_SPEC_FIELDS}/execution_cluster_label")] | UnsetType = (
        UNSET
    )
    strategy: Annotated[AnyJson, described_as(f"{_SPEC_FIELDS}/strategy")] | UnsetType = UNSET
    rules: Annotated[AnyJson, described_as(f"{_SPEC_FIELDS}/rules")] | UnsetType = UNSET
    ask_deadline: Annotated[AnyJson, described_as(f"{_SPEC_FIELDS}/ask_deadline")] | UnsetType = UNSET
    choose_by: Annotated[AnyJson, described_as(f"{_SPEC_FIELDS}/choose_by")] | UnsetType = UNSET
    seconds_weight: Annotated[AnyJson, described_as(f"{_SPEC_FIELDS}/seconds_weight")] | UnsetType = UNSET
    cost_weight: Annotated[AnyJson, described_as(f"{_SPEC_FIELDS}/cost_weight")] | UnsetType = UNSET
    inputs: InputValues | UnsetType = UNSET

    def changes(self) -> Json:
        """What is to differ, checked."""
        parts = {name: value for name, value in present_fields(self).items() if name not in _NO_CHANGES}
        checked = read_spec({**parts, "job": {"command": ["true"]}}, ())
        changes: Json = {name: checked[name] for name in parts if name in checked}
        if self.inputs is not UNSET:
            problems: list[Problem] = []
            changes["inputs"] = plain_values(self.inputs, ("inputs",), problems)
            raise_problems(problems)
        return changes


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
            warnings=NoticeAnswer.from_warnings(created.warnings),
            dry_run=dry_run,
        )


class BatchResult(Answer):
    """One of many that were to be created: its id and place, or an error."""

    id: ExecutionIdAnswer | None = None
    created: bool | None = None
    phase: str | None = None
    cluster: str | None = None
    reason: ReasonAnswer | None = None
    warnings: list[NoticeAnswer] | None = None
    error: BatchError | None = None

    @classmethod
    def from_outcome(cls, outcome: Created | Refusal) -> BatchResult:
        if isinstance(outcome, Invalid):
            return cls(error=BatchError.from_error(InvalidRequest.of(outcome)))
        if not isinstance(outcome, Created):
            return cls(error=BatchError.from_error(outcome))
        execution = outcome.execution
        return cls(
            id=ExecutionIdAnswer.from_execution(execution),
            created=outcome.is_new,
            phase=execution.phase,
            cluster=execution.cluster,
            reason=ReasonAnswer(code=execution.reason, message=execution.reason_message),
            warnings=NoticeAnswer.from_warnings(outcome.warnings),
        )


class ManyCreatedAnswer(Answer):
    """The results of many creations in the order of the requests."""

    results: list[BatchResult]
    created: int
    repeated: int
    failed: int
    dry_run: bool

    @classmethod
    def from_outcomes(cls, outcomes: Sequence[Created | Refusal], *, dry_run: bool) -> ManyCreatedAnswer:
        created = sum(isinstance(outcome, Created) and outcome.is_new for outcome in outcomes)
        failed = sum(isinstance(outcome, Exception) for outcome in outcomes)
        return cls(
            results=[BatchResult.from_outcome(outcome) for outcome in outcomes],
            created=created,
            repeated=len(outcomes) - created - failed,
            failed=failed,
            dry_run=dry_run,
        )
