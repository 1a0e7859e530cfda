"""Requests to run something, what they launch, and where it goes: the values that creation and preview share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from admin.core import names
from admin.core.creators import Creator
from admin.core.executions.launches import Launch
from admin.core.executions.plans import RunPlan
from admin.core.executions.spec import EXECUTION_NAME, EXECUTION_NAME_RULE, read_spec
from admin.core.jobs.literals import plain_values
from admin.core.json_text import JsonObject, json_text
from admin.core.memos import Memo
from admin.core.placement.decisions import Decision
from admin.core.problems import Invalid, Problem, raise_problems, shorten
from admin.core.registrations import Identifier
from admin.core.settings.scopes import Scope, check_scope
from admin.core.settings.trails import digest
from admin.store.executions import Execution, ExecutionId

#: The longest request, in bytes, that is cached; and the longest spec.
MAX_CACHED_BYTES = 16_384


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What is to run, whatever its name will be."""

    project: str
    domain: str
    spec: JsonObject
    inputs: JsonObject
    mode: str = "MANUAL"
    reference: dict[str, str] | None = None  #: the execution that this one repeats

    @property
    def body(self) -> JsonObject:
        """The part that is stored."""
        return {"spec": self.spec, "inputs": self.inputs}

    @cached_property
    def digest(self) -> str:
        """Equal for equal requests."""
        return digest([self.body, self.mode, self.reference])

    @cached_property
    def text(self) -> bytes:
        """All of it but the project and domain, as JSON."""
        return json_text([self.spec, self.inputs, self.mode, self.reference])

    @cached_property
    def scope(self) -> Scope:
        return Scope(project=self.project, domain=self.domain)


class CreationRequest(NamedTuple):
    """What is to run, under a name or, with None, one that is generated."""

    run: RunRequest
    name: str | None
    claimed_by: str | None = None  #: the name that the caller gives, unverified
    created_by: str = ""  #: as the gate knows the caller
    created_proof: str | None = None  #: how the caller was proven
    created_use: str | None = None  #: the clusters that the caller's token is for; None for all
    groups: frozenset[str] | None = None  #: that the proof names; None where it names none, or of what is stored

    @property
    def id(self) -> ExecutionId:
        return ExecutionId(project=self.run.project, domain=self.run.domain, name=self.name or "")

    @property
    def creator(self) -> Creator:
        """Whose rights count."""
        return Creator(self.created_by, self.created_proof, self.created_use, self.groups)

    @property
    def key(self) -> str:
        """The key by which queues and clusters are drawn."""
        return str(self.id)


#: Requests that were read before, for they are often alike but for their names; and specs, where inputs differ too.
_requests: Memo[RunRequest] = Memo(1024)
_specs: Memo[JsonObject] = Memo(1024)


def read_request(
    *, project: str, domain: str, name: str | None, spec: object, inputs: object, claimed_by: str | None = None
) -> CreationRequest:
    """A request in its normal form; Invalid with every problem."""
    text = json_text([project, domain, spec, inputs])

    def read() -> RunRequest:
        return _read_run(project, domain, name, spec, inputs)

    run = read() if len(text) > MAX_CACHED_BYTES else _requests.find(text, read)
    check_name(name)
    return CreationRequest(run, name, claimed_by)


def _read_run(project: str, domain: str, name: str | None, spec: object, inputs: object) -> RunRequest:
    for key, value in (("project", project), ("domain", domain)):
        if not value:
            raise Invalid(Problem(field=key, reason="is empty: an execution belongs to a project and a domain."))
    check_scope(project=project, domain=domain)
    check_name(name)
    problems: list[Problem] = []
    values = plain_values({} if inputs is None else inputs, ("inputs",), problems)
    raise_problems(problems)
    return RunRequest(project=project, domain=domain, spec=_read_spec(spec), inputs=values)


def _read_spec(spec: object) -> JsonObject:
    text = json_text(spec)
    return read_spec(spec) if len(text) > MAX_CACHED_BYTES else _specs.find(text, lambda: read_spec(spec))


def check_name(name: str | None) -> None:
    """Raise Invalid for a name that no execution may have; None is allowed."""
    if name is not None and not names.matches(EXECUTION_NAME, name):
        reason = f"'{shorten(name)}' is not an execution's name: use {EXECUTION_NAME_RULE}."
        raise Invalid(Problem(field="name", reason=reason))


@dataclass(frozen=True, kw_only=True)
class ResolvedLaunch:
    """A launch, and the registered versions that it was resolved to."""

    launch: Launch
    workflow: Identifier | None = None
    plan: Identifier | None = None
    warnings: list[dict[str, str]] = field(default_factory=list)

    @property
    def identifiers(self) -> JsonObject:
        """The part that is stored."""
        resolved = {"workflow": self.workflow, "launch_plan": self.plan}
        return {name: vars(identifier) for name, identifier in resolved.items() if identifier is not None}


def run_request_of(execution: Execution) -> RunRequest:
    """The request of a stored execution, with the very versions that it was resolved to."""
    spec = dict(execution.request["spec"])
    target = execution.launched.get("launch_plan") or execution.launched.get("workflow")
    if target is not None:
        kind = "LAUNCH_PLAN" if "launch_plan" in execution.launched else "WORKFLOW"
        spec["launch_plan"] = {"resource_type": kind, **target}
    return RunRequest(
        project=execution.project,
        domain=execution.domain,
        spec=spec,
        inputs=execution.request["inputs"],
        mode=execution.mode,
        reference=execution.reference,
    )


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A run plan, and where it goes."""

    run_plan: RunPlan
    decision: Decision
