"""Launches: what a request runs, and at which scope."""

from __future__ import annotations

from admin.core.executions.launches import Launch
from admin.core.executions.spec import request_warnings
from admin.core.graph.jobspec_requests import layered_request
from admin.core.jobs.inputs import bind
from admin.core.jobs.job import check_job, read_job
from admin.core.jobs.jobspecs import read_jobspec
from admin.core.json_text import JsonObject
from admin.core.problems import Invalid, Problem, shorten
from admin.core.registrations import Identifier, inputs_of, settings_of
from admin.core.settings.scopes import Scope
from admin.services.catalogs import Catalog
from admin.services.run_requests import ResolvedLaunch, RunRequest
from admin.services.scopes import check_active
from admin.store.registrations import Registered


def find_launch(catalog: Catalog, request: RunRequest, *, may_be_archived: bool = False) -> ResolvedLaunch:
    """What a request launches, with its inputs bound; an error where it names something unknown."""
    scope = request.scope
    project = catalog.project(scope)
    if not may_be_archived:
        check_active(project)
    warnings = request_warnings(request.spec)
    request_settings = settings_of(request.spec)
    if "launch_plan" not in request.spec:
        launch = Launch(
            scope=scope,
            job=_ad_hoc_job(request),
            request=request_settings,
            project_labels=project.labels,
            asked=layered_request(request.spec.get("jobspec", {}), ("spec", "jobspec")),
        )
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


def _ad_hoc_job(request: RunRequest) -> JsonObject:
    if request.inputs:
        name = next(iter(request.inputs))
        reason = "an ad hoc job has no inputs; put the value into its command, or register a workflow."
        raise Invalid(Problem(field=f"inputs.{shorten(name)}", reason=reason))
    if "jobspec" in request.spec:
        path = ("spec", "jobspec")
        return read_job(read_jobspec(request.spec["jobspec"], path), path)
    return check_job(request.spec["job"], ("spec", "job"))


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
