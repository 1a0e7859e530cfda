"""Workflows and launch plans: register, read, list and activate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypedDict

from sqlalchemy import Connection, Table

from admin.core.changes import Authorship
from admin.core.executions.tokens import check_amounts, needed_amounts
from admin.core.jobs.job import task_type, with_resources
from admin.core.problems import Invalid, Problem, Refused, closest, did_you_mean, list_first, shorten
from admin.core.registrations import (
    ACTIVE,
    INACTIVE,
    LATEST,
    Identifier,
    differences,
    expected_inputs,
    read_identifier,
    read_launch_plan,
    read_workflow,
    with_inputs,
)
from admin.core.settings.builtin_kinds import TASK_RESOURCE
from admin.core.settings.scopes import Scope, check_scope
from admin.core.settings.trails import digest
from admin.core.token_pools.claims import Claim
from admin.errors import MOST_DETAILS, LaunchPlanNotFound, NotFound, VersionExists, WorkflowNotFound, problem_detail
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.effective import effective_attributes
from admin.services.scopes import check_active, check_domain, check_readable, find_project
from admin.store import activations, registrations, revisions, token_pools
from admin.store.registration_tables import launch_plans, workflows
from admin.store.registrations import Registered, RegisteredFilter


class _Author(TypedDict):
    """What a registration keeps of who made it."""

    author: str
    claimed_by: str | None
    proof: str | None
    message: str | None
    request_id: str | None


#: Fields that a message names; the details name more.
_MOST_NAMED = 5


def register_workflow(
    context: Context, id: Mapping[str, object], spec: object, *, authorship: Authorship, dry_run: bool
) -> tuple[Registered, bool]:
    """Register a version of a workflow; the second value says whether it is new."""
    identifier = read_identifier(id, "workflow")
    try:
        normal = read_workflow(spec)
    except Invalid:
        stored = _find_alike(context, identifier, spec)
        if stored is None:
            raise
        return stored, False
    new = Registered(
        id=identifier, spec=normal, digest=digest(normal), created_at=context.clock(), **_author(authorship)
    )
    with context.database.transaction(dry_run=dry_run) as connection:
        _check_open(context, connection, identifier)
        return _register(connection, workflows, new, dry_run=dry_run)


def _find_alike(context: Context, identifier: Identifier, spec: object) -> Registered | None:
    """The version of that name, if an earlier version of the admin registered it with the same spec."""
    try:
        normal = read_workflow(spec, is_stored=True)
    except Invalid:
        return None
    with context.database.reading() as connection:
        _check_open(context, connection, identifier)
        stored = registrations.get(connection, workflows, identifier)
    return stored if stored is not None and not differences(stored.spec, normal) else None


def register_launch_plan(
    context: Context,
    id: Mapping[str, object],
    spec: object,
    *,
    authorship: Authorship,
    active: bool,
    dry_run: bool,
) -> tuple[Registered, bool]:
    """Register a version of a launch plan for a registered workflow; the second value says whether it is new."""
    identifier = read_identifier(id, "launch plan")
    plan = read_launch_plan(spec)
    target = Identifier(**{"project": identifier.project, "domain": identifier.domain, **plan["workflow_id"]})
    context.access.check("workflows.read", Scope(project=target.project, domain=target.domain))
    now = context.clock()
    with context.database.transaction(dry_run=dry_run) as connection:
        _check_open(context, connection, identifier)
        workflow = find_workflow(context, connection, target)
        normal = with_inputs({**plan, "workflow_id": vars(workflow.id)}, workflow.spec)
        new = Registered(
            id=identifier,
            spec=normal,
            digest=digest(normal),
            created_at=now,
            **_author(authorship),
            workflow=workflow.id.name,
            state=ACTIVE if active else INACTIVE,
            updated_at=now,
        )
        if active and not dry_run:
            revisions.lock_head(connection)  # serializes activations
        stored, is_new = _register(connection, launch_plans, new, dry_run=dry_run)
        if active and is_new and not dry_run:
            activations.set_state(connection, identifier, ACTIVE, now, authorship)
        return stored, is_new


def workflow_warnings(context: Context, workflow: Registered) -> list[dict[str, str]]:
    """What a workflow asks for beyond the limits of its scope, and tokens that there are not; both may change."""
    scope = Scope(**_place(workflow.id), workflow=workflow.id.name)
    with context.database.reading() as connection:
        unavailable = _token_warnings(context, connection, workflow, {}, scope)
    return [*_limit_warnings(context, workflow, scope), *unavailable]


def launch_plan_warnings(context: Context, launch_plan: Registered) -> list[dict[str, str]]:
    """What its workflow asks for beyond the limits of its scope; tokens, the pool and label that there are not.

    The latter two only to callers who may know the fleet, tokens to those who may read token pools.
    """
    target = Identifier(**launch_plan.spec["workflow_id"])
    scope = Scope(**_place(launch_plan.id), workflow=target.name, launch_plan=launch_plan.id.name)
    warnings: list[dict[str, str]] = []
    with context.database.reading() as connection:
        fleet = current_fleet(context, connection)
        workflow = registrations.get(connection, workflows, target)
        if workflow is not None:
            warnings += _token_warnings(context, connection, workflow, launch_plan.spec.get("token_pools", {}), scope)
    if workflow is not None:
        warnings += _limit_warnings(context, workflow, scope)
    if not context.access.sees_fleet():
        return warnings
    for noun, key, field, defined in (
        ("pool", "cluster_assignment", "cluster_pool_name", fleet.pools.keys()),
        ("label", "execution_cluster_label", "value", fleet.label_names()),
    ):
        name = launch_plan.spec.get(key, {}).get(field)
        if name is not None and name not in defined:
            message = f"No {noun} is called '{name}' yet.{did_you_mean(closest(name, defined))} Until it is defined, "
            warnings.append({"code": f"unknown_{noun}", "message": f"{message}executions that need it are refused."})
    return warnings


def _author(authorship: Authorship) -> _Author:
    return {
        "author": authorship.author,
        "claimed_by": authorship.claimed_by,
        "proof": authorship.proof,
        "message": authorship.message,
        "request_id": authorship.request_id,
    }


def _place(identifier: Identifier) -> dict[str, str]:
    return {"project": identifier.project, "domain": identifier.domain}


def _token_warnings(
    context: Context, connection: Connection, workflow: Registered, of_plan: Mapping[str, int], scope: Scope
) -> list[dict[str, str]]:
    """The tokens that a workflow asks for, or its launch plan in its place, and that it cannot get at a scope."""
    job = workflow.spec["job"]
    by_type = context.settings.rules.task_tokens.get(task_type(job))
    amounts = needed_amounts(by_type, job.get("token_pools"), of_plan)
    if (
        not amounts
        or context.settings.resource_manager.grants_everything
        or not context.access.allows("token_pools.read")
    ):
        return []
    known = token_pools.known_pools(connection, Claim(token="", amounts=amounts, place=scope, execution=scope.workflow))
    warnings = []
    for pool, amount in amounts.items():
        try:
            check_amounts({pool: amount}, known.terms, known.names, "token_pools.{}".format)
        except Invalid as refusal:
            code = "tokens_never_fit" if pool in known.terms else "unknown_token_pool"
            warnings.append({"code": code, "message": f"{refusal} Until then executions that need it are refused."})
    return warnings


def _limit_warnings(context: Context, workflow: Registered, scope: Scope) -> list[dict[str, str]]:
    """What the job of a workflow asks for beyond the limits at a scope."""
    [allowed] = effective_attributes(context, scope, [TASK_RESOURCE]).values
    try:
        with_resources(workflow.spec["job"], allowed, "spec.job")
    except Refused as refusal:
        outcome = f"Until then executions of {workflow.id} are refused there."
        return [{"code": refusal.error, "message": f"{problem} {outcome}"} for problem in refusal.problems]
    return []


def _check_open(context: Context, connection: Connection, identifier: Identifier) -> None:
    """Refuse an unknown scope or an archived project."""
    check_domain(context, identifier.domain)
    check_active(find_project(context, connection, identifier.project))


def _register(connection: Connection, table: Table, new: Registered, *, dry_run: bool) -> tuple[Registered, bool]:
    if dry_run or not registrations.add(connection, table, new):
        stored = registrations.get(connection, table, new.id)
        if stored is None:
            return new, True
        # Normal forms of earlier versions may differ in what says nothing.
        if stored.digest != new.digest and any(differences(stored.spec, new.spec)):
            raise _version_exists(stored, new)
        return stored, False
    return registrations.get(connection, table, new.id) or new, True


def _version_exists(stored: Registered, new: Registered) -> VersionExists:
    remedy = "Choose another version; none is ever edited."
    problems = [
        Problem(field="id.version", reason=f"'{shorten(new.id.version)}' is registered with another body. {remedy}"),
        *differences(stored.spec, new.spec),
    ]
    named = list_first([problem.field for problem in problems[1:]], _MOST_NAMED)
    verb = "differs" if len(problems) == 2 else "differ"
    return VersionExists(
        f"{new.id} is registered already, with another body: {named} {verb}. {remedy}",
        details=[problem_detail(problem) for problem in problems[:MOST_DETAILS]],
    )


def find_workflow(context: Context, connection: Connection, identifier: Identifier) -> Registered:
    """A version of a workflow, the newest for 'latest' or no version; WorkflowNotFound with the closest names."""
    return _find(context, connection, workflows, identifier)


def find_launch_plan(context: Context, connection: Connection, identifier: Identifier) -> Registered:
    """A version of a launch plan; without a version the active one, else the newest."""
    if not identifier.version:
        active = registrations.latest(connection, launch_plans, identifier, ACTIVE)
        if active is not None:
            return active
    return _find(context, connection, launch_plans, identifier)


def _find(context: Context, connection: Connection, table: Table, identifier: Identifier) -> Registered:
    check_scope(project=identifier.project, domain=identifier.domain, workflow=identifier.name)
    check_readable(context, connection, Scope(project=identifier.project, domain=identifier.domain))
    if identifier.version in ("", LATEST):
        registered = registrations.latest(connection, table, identifier)
    else:
        registered = registrations.get(connection, table, identifier)
    if registered is None:
        raise _not_found(connection, table, identifier)
    return registered


def _not_found(connection: Connection, table: Table, identifier: Identifier) -> NotFound:
    error, noun, word = (
        (WorkflowNotFound, "workflow", "workflow")
        if table is workflows
        else (LaunchPlanNotFound, "launch plan", "launchplan")
    )
    versions = registrations.versions(connection, table, identifier)
    if versions:
        near = closest(identifier.version, versions)
        reason = (
            f"The {noun} {identifier.project}/{identifier.domain}/{shorten(identifier.name)} has no version "
            f"'{shorten(identifier.version)}'.{did_you_mean(near)} The newest is '{versions[0]}'."
        )
        return error(reason, details=[{"field": "version", "reason": reason, "closest": list(near)}])
    near = closest(identifier.name, registrations.names(connection, table, identifier.project, identifier.domain))
    reason = (
        f"No {noun} is called '{shorten(identifier.name)}' in {identifier.project}/{identifier.domain}."
        f"{did_you_mean(near)} `rainbowctl get {word} -p {identifier.project} -d {identifier.domain}` lists them."
    )
    return error(reason, details=[{"field": "name", "reason": reason, "closest": list(near)}])


def _with_details(connection: Connection, table: Table, page: list[Registered]) -> list[Registered]:
    """Launch plans with the inputs that they expect, and who set their state; workflows as they are."""
    if table is workflows:
        return page
    targets = [Identifier(**plan.spec["workflow_id"]) for plan in page]
    specs = registrations.workflow_specs(connection, targets)
    state_set_by = activations.last(connection, (plan.id for plan in page))
    return [
        replace(
            plan,
            expected_inputs=expected_inputs(plan.spec, specs.get(target, {})),
            state_set_by=state_set_by.get(plan.id),
        )
        for plan, target in zip(page, targets, strict=True)
    ]


def _get(table: Table, context: Context, identifier: Identifier) -> Registered:
    """One version."""
    with context.database.reading() as connection:
        return _with_details(connection, table, [_find(context, connection, table, identifier)])[0]


get_workflow = partial(_get, workflows)
get_launch_plan = partial(_get, launch_plans)


def get_active(context: Context, identifier: Identifier) -> Registered:
    """The active version of a launch plan."""
    with context.database.reading() as connection:
        newest = _find(context, connection, launch_plans, identifier)
        active = registrations.latest(connection, launch_plans, identifier, ACTIVE)
        if active is not None:
            return _with_details(connection, launch_plans, [active])[0]
    raise LaunchPlanNotFound(
        f"No version of the launch plan '{identifier.name}' is active; the newest is '{newest.id.version}'. "
        f"`rainbowctl update launchplan {identifier.name} --version {newest.id.version} --activate` activates it."
    )


def _list(
    table: Table, context: Context, conditions: RegisteredFilter, after: tuple[str, int] | None, limit: int
) -> tuple[list[Registered], tuple[str, int] | None]:
    """A page of versions, and the key after which the next page starts, if there is one."""
    check_scope(project=conditions.project, domain=conditions.domain)
    with context.database.reading() as connection:
        check_readable(context, connection, Scope(project=conditions.project, domain=conditions.domain))
        page = registrations.page(connection, table, conditions, after, limit + 1)
        page = _with_details(connection, table, page)
    last = page[limit - 1] if len(page) > limit else None
    return page[:limit], (last.id.name, last.row_id) if last else None


list_workflows = partial(_list, workflows)
list_launch_plans = partial(_list, launch_plans)


def set_launch_plan_state(
    context: Context, identifier: Identifier, state: str, authorship: Authorship
) -> tuple[Registered, bool]:
    """Activate or deactivate a version of a launch plan; the second value says whether that changed anything."""
    with context.database.writing() as connection:
        revisions.lock_head(connection)  # serializes activations
        before = _find(context, connection, launch_plans, identifier)
        _check_open(context, connection, before.id)
        if before.state != state:
            activations.set_state(connection, before.id, state, context.clock(), authorship)
        after = registrations.get(connection, launch_plans, before.id) or before
        state_set_by = activations.last(connection, [after.id]).get(after.id)
    return replace(after, state_set_by=state_set_by), before.state != state
