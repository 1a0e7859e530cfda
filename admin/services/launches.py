"""Launches: from a request to one thing to run at one scope, and what it comes to under the settings in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from sqlalchemy import Connection

from admin.core import names
from admin.core.changes import RowChange
from admin.core.executions.effective_settings import resolve_settings
from admin.core.executions.launches import Launch
from admin.core.executions.placements import place
from admin.core.executions.plans import RunPlan, build_run_plan, draw_key
from admin.core.executions.spec import EXECUTION_NAME, EXECUTION_NAME_RULE, read_spec, request_warnings
from admin.core.fleet.fleet import Fleet
from admin.core.jobs.inputs import bind
from admin.core.jobs.job import check_runs, read_job
from admin.core.jobs.jobspecs import read_jobspec
from admin.core.jobs.literals import plain_values
from admin.core.jobs.registrations import Identifier, inputs_of, settings_of
from admin.core.json_text import json_text
from admin.core.placement.candidates import group_of
from admin.core.placement.decisions import Decision
from admin.core.placement.scores import strategy_of
from admin.core.problems import Invalid, Problem, shorten
from admin.core.resources import Amounts, subtract
from admin.core.settings.resolution import Row, RowsByKind
from admin.core.settings.scopes import Scope, check_scope
from admin.core.settings.trails import digest
from admin.services.catalogs import Catalog
from admin.services.context import Context
from admin.services.definitions import current_fleet, fleet_after
from admin.services.scopes import check_active
from admin.store import attributes, executions, fleet, revisions
from admin.store.executions import Execution, ExecutionId
from admin.store.registrations import Registered


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What somebody asks to run, whatever it is to be called."""

    project: str
    domain: str
    spec: dict[str, Any]
    inputs: dict[str, Any]
    mode: str = "MANUAL"
    reference: dict[str, str] | None = None  #: the execution that this one repeats

    @property
    def body(self) -> dict[str, Any]:
        """What is stored of it."""
        return {"spec": self.spec, "inputs": self.inputs}

    @cached_property
    def digest(self) -> str:
        """Two that ask for the same have the same."""
        return digest([self.body, self.mode, self.reference])

    @cached_property
    def text(self) -> bytes:
        """All of it but the place, as one text."""
        return json_text([self.spec, self.inputs, self.mode, self.reference])

    @cached_property
    def scope(self) -> Scope:
        return Scope(project=self.project, domain=self.domain)


class CreationRequest(NamedTuple):
    """What somebody asks to run under some name, or under one that is to be made up."""

    run: RunRequest
    name: str | None

    @property
    def id(self) -> ExecutionId:
        return ExecutionId(project=self.run.project, domain=self.run.domain, name=self.name or "")

    @property
    def key(self) -> str:
        """What it draws queues and clusters by, once it has a name."""
        return draw_key(self.run.project, self.run.domain, self.name or "")


def read_request(
    *,
    project: str,
    domain: str,
    name: str | None,
    spec: Any,
    inputs: Any,
    read: Callable[[Any], dict[str, Any]] = read_spec,
) -> CreationRequest:
    """A request in its normal form; Invalid with every problem. `read` may know specs that were read before."""
    for key, value in (("project", project), ("domain", domain)):
        if not value:
            raise Invalid(Problem(field=key, reason="is empty: an execution belongs to a project and a domain."))
    check_scope(project=project, domain=domain)
    check_name(name)
    problems: list[Problem] = []
    given = plain_values({} if inputs is None else inputs, ("inputs",), problems)
    if problems:
        raise Invalid(*problems)
    return CreationRequest(RunRequest(project=project, domain=domain, spec=read(spec), inputs=given), name)


def check_name(name: str | None) -> None:
    """Refuse what no execution may be called; it may have no name yet."""
    if name is not None and not names.matches(EXECUTION_NAME, name):
        reason = f"'{shorten(name)}' is not an execution's name: use {EXECUTION_NAME_RULE}."
        raise Invalid(Problem(field="name", reason=reason))


@dataclass(frozen=True, kw_only=True)
class ResolvedLaunch:
    """A launch with what it was made from."""

    launch: Launch
    workflow: Identifier | None = None
    plan: Identifier | None = None
    warnings: list[dict[str, str]] = field(default_factory=list)

    @property
    def identifiers(self) -> dict[str, Any]:
        """What is stored of it."""
        found = {"workflow": self.workflow, "launch_plan": self.plan}
        return {name: vars(one) for name, one in found.items() if one is not None}


def run_request_of(row: Execution) -> RunRequest:
    """What a stored execution was asked for by, with the very versions that it resolved."""
    spec = dict(row.request["spec"])
    target = row.launched.get("launch_plan") or row.launched.get("workflow")
    if target is not None:
        kind = "LAUNCH_PLAN" if "launch_plan" in row.launched else "WORKFLOW"
        spec["launch_plan"] = {"resource_type": kind, **target}
    return RunRequest(
        project=row.project,
        domain=row.domain,
        spec=spec,
        inputs=row.request["inputs"],
        mode=row.mode,
        reference=row.reference,
    )


def find_launch(catalog: Catalog, asked: RunRequest) -> ResolvedLaunch:
    """What a request launches, with its inputs bound; an error where it names what is not there."""
    scope = asked.scope
    project = catalog.project(scope)
    check_active(project)
    warnings = request_warnings(asked.spec)
    request_settings = settings_of(asked.spec)
    if "launch_plan" not in asked.spec:
        job = _ad_hoc(asked)
        launch = Launch(scope=scope, job=job, request=request_settings, project_labels=project.labels)
        return ResolvedLaunch(launch=launch, warnings=warnings)
    plan, workflow = _registered(catalog, asked, warnings)
    spec = plan.spec if plan else {}
    launch = Launch(
        scope=Scope(
            project=asked.project,
            domain=asked.domain,
            workflow=workflow.id.name,
            launch_plan=plan.id.name if plan else "",
        ),
        job=workflow.spec["job"],
        job_path=f"workflow {workflow.id.name} job",
        inputs=bind(
            inputs_of(workflow.spec),
            asked.inputs,
            defaults=spec.get("default_inputs"),
            fixed=spec.get("fixed_inputs"),
        ),
        definition=settings_of(spec),
        request=request_settings,
        project_labels=project.labels,
    )
    return ResolvedLaunch(launch=launch, workflow=workflow.id, plan=plan.id if plan else None, warnings=warnings)


def _ad_hoc(asked: RunRequest) -> dict[str, Any]:
    if asked.inputs:
        name = next(iter(asked.inputs))
        reason = "an ad hoc job has no inputs; put the value into its command, or register a workflow."
        raise Invalid(Problem(field=f"inputs.{shorten(name)}", reason=reason))
    if "jobspec" in asked.spec:
        path = ("spec", "jobspec")
        return read_job(read_jobspec(asked.spec["jobspec"], path), path)
    return check_runs(asked.spec["job"], ("spec", "job"))


def _registered(
    catalog: Catalog, asked: RunRequest, warnings: list[dict[str, str]]
) -> tuple[Registered | None, Registered]:
    target = asked.spec["launch_plan"]
    wanted = Identifier(
        project=target.get("project", asked.project),
        domain=target.get("domain", asked.domain),
        name=target["name"],
        version=target.get("version", ""),
    )
    if target.get("resource_type", "LAUNCH_PLAN") != "LAUNCH_PLAN":
        return None, catalog.workflow(wanted)
    plan = catalog.launch_plan(wanted)
    if not wanted.version and plan.state != "ACTIVE":
        message = f"No version of launch plan '{wanted.name}' is active; the newest, '{plan.id.version}', was taken."
        warnings.append({"code": "inactive_launch_plan", "message": message})
    return plan, catalog.workflow(Identifier(**plan.spec["workflow_id"]))


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The settings and the fleet that a launch meets."""

    rows: RowsByKind
    fleet: Fleet
    revision: int


def find_situation(
    context: Context, connection: Connection, scope: Scope, proposed: Iterable[RowChange] = ()
) -> Situation:
    """The situation at a scope; perhaps as some changes would leave it."""
    rows: dict[str, dict[Scope, Row]] = {kind.name: {} for kind in context.settings.kinds}
    for row in attributes.applying(connection, list(rows), scope):
        rows[row.kind][row.scope] = row
    changes = list(proposed)
    for change in changes:
        if change.after is None:
            rows.get(change.kind, {}).pop(change.scope, None)
        elif change.is_attribute and change.kind in rows:
            version = change.before_version or 0
            changed = Row(kind=change.kind, scope=change.scope, payload=change.after, version=version)
            rows[change.kind][change.scope] = changed
    now = fleet_after(context, connection, changes) if changes else current_fleet(context, connection)
    return Situation(rows=rows, fleet=now, revision=revisions.head(connection))


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A launch under the settings in force, and where it goes."""

    run_plan: RunPlan
    decision: Decision


def place_launch(
    context: Context,
    connection: Connection,
    launch: Launch,
    name: str,
    situation: Situation,
    **how: Any,
) -> Placement:
    """Apply the settings and decide, as `place_composed` does; refused where either forbids it."""
    rules = context.settings.rules
    run_plan = build_run_plan(launch, name, resolve_settings(launch, situation.rows, rules), rules)
    return place_composed(connection, run_plan, situation.fleet, **how)


def place_composed(
    connection: Connection, run_plan: RunPlan, now: Fleet, *, hold: bool = False, moving: Execution | None = None
) -> Placement:
    """Decide where something goes; what moves there takes its demand along from where it waited.

    `hold` keeps others from counting on the same room until the transaction ends.
    """
    waiting: dict[str, Amounts] = {}
    if looks_at_load(run_plan, now):
        clusters = clusters_of(run_plan, now)
        if hold:
            fleet.hold(connection, clusters)
        waiting = dict(executions.demand_waiting(connection, clusters))
    if moving is not None and moving.cluster in waiting:
        waiting[moving.cluster] = subtract(waiting[moving.cluster], executions.demand_of(moving))
    return Placement(run_plan=run_plan, decision=place(run_plan, now, waiting))


def looks_at_load(run_plan: RunPlan, fleet: Fleet) -> bool:
    """Whether where it goes depends on what waits where."""
    group = group_of(run_plan.route, fleet)
    return group is not None and strategy_of(group).looks_at_load


def clusters_of(run_plan: RunPlan, fleet: Fleet) -> list[str]:
    """The clusters that it may go to."""
    group = group_of(run_plan.route, fleet)
    return [one.cluster for one in group.members] if group else []
