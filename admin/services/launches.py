"""Launches: what a request runs at which scope, and where that goes under the settings and the fleet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.executions.effective_settings import resolve_settings
from admin.core.executions.launches import Launch
from admin.core.executions.placements import place
from admin.core.executions.plans import RunPlan, build_run_plan
from admin.core.executions.spec import request_warnings
from admin.core.fleet.fleet import Fleet
from admin.core.jobs.inputs import bind
from admin.core.jobs.job import check_runs, read_job
from admin.core.jobs.jobspecs import read_jobspec
from admin.core.placement.candidates import group_of
from admin.core.placement.scores import strategy_of
from admin.core.problems import Invalid, Problem, shorten
from admin.core.registrations import Identifier, inputs_of, settings_of
from admin.core.resources import Amounts, subtract
from admin.core.settings.resolution import Row, RowsByKind
from admin.core.settings.scopes import Scope
from admin.services.catalogs import Catalog
from admin.services.context import Context
from admin.services.definitions import current_fleet, fleet_after
from admin.services.run_requests import Placement, ResolvedLaunch, RunRequest
from admin.services.scopes import check_active
from admin.store import attributes, executions, fleet, revisions
from admin.store.executions import Execution
from admin.store.registrations import Registered


def find_launch(catalog: Catalog, request: RunRequest) -> ResolvedLaunch:
    """What a request launches, with its inputs bound; an error where it names something unknown."""
    scope = request.scope
    project = catalog.project(scope)
    check_active(project)
    warnings = request_warnings(request.spec)
    request_settings = settings_of(request.spec)
    if "launch_plan" not in request.spec:
        job = _ad_hoc_job(request)
        launch = Launch(scope=scope, job=job, request=request_settings, project_labels=project.labels)
        return ResolvedLaunch(launch=launch, warnings=warnings)
    plan, workflow = _find_registered(catalog, request, warnings)
    spec = plan.spec if plan else {}
    launch = Launch(
        scope=Scope(
            project=request.project,
            domain=request.domain,
            workflow=workflow.id.name,
            launch_plan=plan.id.name if plan else "",
        ),
        job=workflow.spec["job"],
        job_path=f"workflow {workflow.id.name} job",
        inputs=bind(
            inputs_of(workflow.spec),
            request.inputs,
            defaults=spec.get("default_inputs"),
            fixed=spec.get("fixed_inputs"),
        ),
        definition=settings_of(spec),
        request=request_settings,
        project_labels=project.labels,
    )
    return ResolvedLaunch(launch=launch, workflow=workflow.id, plan=plan.id if plan else None, warnings=warnings)


def _ad_hoc_job(request: RunRequest) -> dict[str, Any]:
    if request.inputs:
        name = next(iter(request.inputs))
        reason = "an ad hoc job has no inputs; put the value into its command, or register a workflow."
        raise Invalid(Problem(field=f"inputs.{shorten(name)}", reason=reason))
    if "jobspec" in request.spec:
        path = ("spec", "jobspec")
        return read_job(read_jobspec(request.spec["jobspec"], path), path)
    return check_runs(request.spec["job"], ("spec", "job"))


def _find_registered(
    catalog: Catalog, request: RunRequest, warnings: list[dict[str, str]]
) -> tuple[Registered | None, Registered]:
    """The launch plan, if the request names one, and the workflow."""
    target = request.spec["launch_plan"]
    identifier = Identifier(
        project=target.get("project", request.project),
        domain=target.get("domain", request.domain),
        name=target["name"],
        version=target.get("version", ""),
    )
    if target.get("resource_type", "LAUNCH_PLAN") != "LAUNCH_PLAN":
        return None, catalog.workflow(identifier)
    plan = catalog.launch_plan(identifier)
    if not identifier.version and plan.state != "ACTIVE":
        message = f"No version of launch plan '{plan.id.name}' is active; the newest, '{plan.id.version}', was taken."
        warnings.append({"code": "inactive_launch_plan", "message": message})
    return plan, catalog.workflow(Identifier(**plan.spec["workflow_id"]))


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The settings and the fleet that a launch meets."""

    rows: RowsByKind
    fleet: Fleet
    revision: int


def applying_rows(context: Context, connection: Connection, scope: Scope) -> dict[str, dict[Scope, Row]]:
    """The stored attributes at a scope and at every broader one, by kind."""
    rows: dict[str, dict[Scope, Row]] = {kind.name: {} for kind in context.settings.kinds}
    for row in attributes.applying(connection, list(rows), scope):
        rows[row.kind][row.scope] = row
    return rows


def find_situation(
    context: Context, connection: Connection, scope: Scope, proposed: Iterable[RowChange] = ()
) -> Situation:
    """The situation at a scope; with `proposed` as those changes would leave it."""
    rows = applying_rows(context, connection, scope)
    changes = list(proposed)
    for change in changes:
        if change.after is None:
            rows.get(change.kind, {}).pop(change.scope, None)
        elif change.is_attribute and change.kind in rows:
            version = change.before_version or 0
            changed = Row(kind=change.kind, scope=change.scope, payload=change.after, version=version)
            rows[change.kind][change.scope] = changed
    changed_fleet = fleet_after(context, connection, changes) if changes else current_fleet(context, connection)
    return Situation(rows=rows, fleet=changed_fleet, revision=revisions.head(connection))


def place_launch(
    context: Context,
    connection: Connection,
    launch: Launch,
    name: str,
    situation: Situation,
    *,
    hold: bool = False,
    moving: Execution | None = None,
) -> Placement:
    """Apply the settings and decide where a launch goes; refused where either forbids it.

    `moving` takes its demand along from where it waits; `hold` is that of `demand_at`.
    """
    rules = context.settings.rules
    run_plan = build_run_plan(launch, name, resolve_settings(launch, situation.rows, rules), rules)
    waiting = demand_at(connection, run_plan, situation.fleet, hold=hold)
    if moving is not None and moving.cluster is not None and moving.cluster in waiting:
        waiting[moving.cluster] = subtract(waiting[moving.cluster], moving.demand)
    return Placement(run_plan=run_plan, decision=place(run_plan, situation.fleet, waiting))


def demand_at(connection: Connection, run_plan: RunPlan, fleet_now: Fleet, *, hold: bool) -> dict[str, Amounts]:
    """What waits at the clusters of a run plan, if its strategy looks at load.

    `hold` keeps other transactions from counting on the same room until this one ends.
    """
    if not looks_at_load(run_plan, fleet_now):
        return {}
    group = group_of(run_plan.route, fleet_now)
    clusters = [member.cluster for member in group.members] if group else []
    if hold:
        fleet.hold(connection, clusters)
    return dict(executions.demand_waiting(connection, clusters))


def looks_at_load(run_plan: RunPlan, fleet_now: Fleet) -> bool:
    """Whether where it goes depends on what waits where."""
    group = group_of(run_plan.route, fleet_now)
    return group is not None and strategy_of(group).looks_at_load
