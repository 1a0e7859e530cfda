"""Workflows and launch plans: jobs with typed inputs, and ways to launch them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from admin.core import names
from admin.core.executions.retries import RETRY, retry_problems
from admin.core.executions.spec import AUTH_ROLE, IDENTIFIER, REFUSED, SETTINGS, with_auth_role
from admin.core.fields.branches import Section, read
from admin.core.fields.compounds import FreeForm, Record
from admin.core.fleet.asking import REQUEST_FIELDS
from admin.core.graph.compatibility import empty_problems
from admin.core.graph.job_requests import request_of
from admin.core.jobs.inputs import Input, check_values, read_declarations
from admin.core.jobs.job import JOB, read_job, without_nulls
from admin.core.jobs.literals import plain_values
from admin.core.jobs.templates import check_job_templates
from admin.core.json_text import json_string
from admin.core.problems import Path, Problem, dotted, invalid, raise_problems, shorten
from admin.core.settings.builtin_kinds import LINES
from admin.core.settings.scopes import check_scope
from admin.core.token_pools.documents import NEEDS

ACTIVE, INACTIVE = "ACTIVE", "INACTIVE"

#: Stands for the version that was registered last, so no version may have this name.
LATEST = "latest"

_DESCRIPTION = replace(LINES, max_length=4000)

WORKFLOW_SPEC = Section(
    fields={
        "description": _DESCRIPTION,
        "inputs": FreeForm(description="Typed inputs by name."),
        "job": JOB,
    }
)
LAUNCH_PLAN_SPEC = Section(
    refused=REFUSED,
    fields={
        "description": _DESCRIPTION,
        "workflow_id": Record(required=("name", "version"), drop_empty=True, fields=IDENTIFIER),
        "default_inputs": FreeForm(description="Inputs that a request may still change."),
        "fixed_inputs": FreeForm(description="Inputs that no request may change."),
        "retry": RETRY,
        "token_pools": NEEDS,
        "auth_role": AUTH_ROLE,
        **SETTINGS,
    },
)


@dataclass(frozen=True, kw_only=True)
class Identifier:
    """The identifier of a registered version."""

    project: str
    domain: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.project}/{self.domain}/{self.name}" + (f" version {self.version}" if self.version else "")


def read_identifier(document: Mapping[str, Any], noun: str) -> Identifier:
    """An identifier; Invalid where a part of it is ill-formed. Whether its project exists is not checked here."""
    for key in ("project", "domain", "name"):
        if not document[key]:
            raise invalid(f"id.{key}", f"is empty: a {noun} has a name, in a project and a domain.")
    check_scope(project=document["project"], domain=document["domain"], workflow=document["name"])
    version = document["version"]
    if not names.is_entity_name(version) or version == LATEST:
        raise invalid(
            "id.version",
            f"'{shorten(version)}' is not a {noun}'s version: use {names.ENTITY_NAME_RULE}, "
            f"and not '{LATEST}', which means the newest.",
        )
    return Identifier(**{key: document[key] for key in ("project", "domain", "name", "version")})


def read_workflow(spec: Any, *, is_stored: bool = False) -> dict[str, Any]:
    """A workflow's spec in its normal form; Invalid with every problem.

    One that is stored may require what is not understood, or nothing: earlier versions took that.
    """
    normal: dict[str, Any] = read(WORKFLOW_SPEC, spec, ("spec",))
    if "job" not in normal:
        raise invalid("spec.job", "is missing: a workflow is a job with typed inputs.")
    problems: list[Problem] = []
    job = read_job(normal["job"], ("spec", "job"))
    declared = read_declarations(normal.get("inputs") or {}, ("spec", "inputs"), problems)
    check_job_templates(job, declared, ("spec", "job"), problems)
    if not is_stored:
        problems += empty_problems(job.get("compatibility"), ("spec", "job", "compatibility"))
    raise_problems(problems)
    if not is_stored:
        request_of(job, ("spec", "job"))  # which refuses requirements that are not understood
    inputs = {name: input_.payload() for name, input_ in declared.items()}
    workflow = {"description": normal.get("description"), "inputs": inputs, "job": job}
    return {name: value for name, value in workflow.items() if value}


def inputs_of(workflow_spec: Mapping[str, Any]) -> dict[str, Input]:
    """The inputs that a stored workflow declares."""
    return read_declarations(workflow_spec.get("inputs", {}), ("spec", "inputs"), [])


def read_launch_plan(spec: Any) -> dict[str, Any]:
    """A launch plan's spec in its normal form, before its inputs are checked; Invalid with every problem."""
    normal: dict[str, Any] = read(LAUNCH_PLAN_SPEC, spec, ("spec",))
    raise_problems(retry_problems(normal, ("spec",)))
    if not normal.get("workflow_id"):
        raise invalid("spec.workflow_id", "is missing: name the workflow and its version.")
    normal = with_auth_role(normal, ("spec",))
    kept = {name: value for name, value in normal.items() if value not in (None, {}) or name in SETTINGS}
    return {**kept, "workflow_id": without_nulls(kept["workflow_id"])}


def with_inputs(launch_plan: Mapping[str, Any], workflow_spec: Mapping[str, Any]) -> dict[str, Any]:
    """A launch plan's spec with its inputs as its workflow declares them; Invalid with every problem."""
    problems: list[Problem] = []
    declared = inputs_of(workflow_spec)
    checked = dict(launch_plan)
    for part in ("default_inputs", "fixed_inputs"):
        if part in launch_plan:
            path = ("spec", part)
            checked[part] = check_values(declared, plain_values(launch_plan[part], path, problems), path, problems)
    for name in sorted(set(checked.get("default_inputs", {})) & set(checked.get("fixed_inputs", {}))):
        problems.append(Problem(field=f"spec.fixed_inputs.{name}", reason="is a default input too; give it once."))
    raise_problems(problems)
    return checked


def differences(registered: Any, requested: Any, path: Path = ("spec",)) -> list[Problem]:
    """The fields in which two specs differ; lists are compared as a whole."""
    if not isinstance(registered, Mapping) or not isinstance(requested, Mapping):
        reason = f"is {_shown(requested)}, registered is {_shown(registered)}."
        return [] if registered == requested else [Problem(field=dotted(path), reason=reason)]
    return [
        problem
        for name in {**registered, **requested}
        for problem in differences(registered.get(name), requested.get(name), (*path, name))
    ]


def _shown(value: Any) -> str:
    return "absent" if value is None else shorten(json_string(value), 200)


def expected_inputs(launch_plan: Mapping[str, Any], workflow_spec: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that executions of a launch plan may give, with its defaults; `required` are those without one."""
    defaults, fixed = launch_plan.get("default_inputs", {}), launch_plan.get("fixed_inputs", {})
    expected = {}
    for name, declared in workflow_spec.get("inputs", {}).items():
        if name not in fixed:
            entry = {**declared, **({"default": defaults[name]} if name in defaults else {})}
            expected[name] = {**entry, "required": "default" not in entry}
    return expected


def settings_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a definition or a request that go over attributes, and what else it says of where and how."""
    others = ("cluster", "strategy", "rules", *REQUEST_FIELDS, "retry", "token_pools")
    return {name: value for name, value in spec.items() if name in SETTINGS or name in others}
