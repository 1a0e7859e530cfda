"""Workflows and launch plans: registered, read, listed, activated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table

from admin.core.jobs.registrations import (
    ACTIVE,
    INACTIVE,
    LATEST,
    Identifier,
    read_identifier,
    read_launch_plan,
    read_workflow,
    with_inputs,
)
from admin.core.problems import closest, did_you_mean, shorten
from admin.core.settings.scopes import Scope, check_scope
from admin.core.settings.trails import digest
from admin.errors import LaunchPlanNotFound, NotFound, VersionExists, WorkflowNotFound
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.scopes import check_active, check_readable
from admin.store import projects, registrations, revisions
from admin.store.registrations import Registered, RegisteredFilter, launch_plans, workflows


def register_workflow(
    context: Context, given: Mapping[str, Any], spec: Any, *, dry_run: bool
) -> tuple[Registered, bool]:
    """A workflow under a version; answers whether it is new."""
    found = read_identifier(given, "workflow")
    normal = read_workflow(spec)
    new = Registered(id=found, spec=normal, digest=digest(normal), created_at=context.clock())
    with _transaction(context, dry_run=dry_run) as connection:
        _check_open(context, connection, found)
        return _register(connection, workflows, new, dry_run=dry_run)


def register_launch_plan(
    context: Context, given: Mapping[str, Any], spec: Any, *, active: bool, dry_run: bool
) -> tuple[Registered, bool]:
    """A launch plan under a version, for a workflow that is registered; answers whether it is new."""
    found = read_identifier(given, "launch plan")
    said = read_launch_plan(spec)
    target = Identifier(**{"project": found.project, "domain": found.domain, **said["workflow_id"]})
    now = context.clock()
    with _transaction(context, dry_run=dry_run) as connection:
        _check_open(context, connection, found)
        workflow = find_workflow(context, connection, target)
        normal = with_inputs({**said, "workflow_id": vars(workflow.id)}, workflow.spec)
        new = Registered(
            id=found,
            spec=normal,
            digest=digest(normal),
            created_at=now,
            workflow=workflow.id.name,
            state=ACTIVE if active else INACTIVE,
            updated_at=now,
        )
        if active and not dry_run:
            revisions.lock_head(connection)  # so that two activations do not cross
        stored, is_new = _register(connection, launch_plans, new, dry_run=dry_run)
        if active and is_new and not dry_run:
            registrations.set_state(connection, found, ACTIVE, now)
        return stored, is_new


def registration_warnings(context: Context, spec: Mapping[str, Any]) -> list[dict[str, str]]:
    """Places that a launch plan names and the fleet does not have yet."""
    with context.database.reading() as connection:
        found = current_fleet(context, connection)
    warnings = []
    for what, key, field, known in (
        ("pool", "cluster_assignment", "cluster_pool_name", found.pools.keys()),
        ("label", "execution_cluster_label", "value", found.label_names()),
    ):
        name = spec.get(key, {}).get(field)
        if name is not None and name not in known:
            message = f"No {what} is called '{name}' yet.{did_you_mean(closest(name, known))} Until it is defined, "
            warnings.append({"code": f"unknown_{what}", "message": f"{message}executions that need it are refused."})
    return warnings


def _transaction(context: Context, *, dry_run: bool) -> Any:
    return context.database.reading() if dry_run else context.database.writing()


def _check_open(context: Context, connection: Connection, found: Identifier) -> None:
    scope = Scope(project=found.project, domain=found.domain)
    check_readable(context, connection, scope)
    project = projects.get(connection, found.project)
    if project is not None:
        check_active(project)


def _register(connection: Connection, table: Table, new: Registered, *, dry_run: bool) -> tuple[Registered, bool]:
    if dry_run or not registrations.add(connection, table, new):
        there = registrations.get(connection, table, new.id)
        if there is None:
            return new, True
        if there.digest != new.digest:
            raise VersionExists(
                f"{new.id} is registered already, with another body. Choose another version; none is ever edited.",
                details=[{"field": "id.version", "reason": f"'{shorten(new.id.version)}' is taken."}],
            )
        return there, False
    return registrations.get(connection, table, new.id) or new, True


def find_workflow(context: Context, connection: Connection, wanted: Identifier) -> Registered:
    """One version of a workflow, the newest for 'latest' or none; WorkflowNotFound with the nearest names."""
    return _found(context, connection, workflows, wanted)


def find_launch_plan(context: Context, connection: Connection, wanted: Identifier) -> Registered:
    """One version of a launch plan; without a version the active one, else the newest."""
    if not wanted.version:
        active = registrations.latest(connection, launch_plans, wanted, ACTIVE)
        if active is not None:
            return active
    return _found(context, connection, launch_plans, wanted)


def _found(context: Context, connection: Connection, table: Table, wanted: Identifier) -> Registered:
    check_scope(project=wanted.project, domain=wanted.domain, workflow=wanted.name)
    check_readable(context, connection, Scope(project=wanted.project, domain=wanted.domain))
    if wanted.version in ("", LATEST):
        found = registrations.latest(connection, table, wanted)
    else:
        found = registrations.get(connection, table, wanted)
    if found is None:
        raise _missing(connection, table, wanted)
    return found


def _missing(connection: Connection, table: Table, wanted: Identifier) -> NotFound:
    error, noun, word = (
        (WorkflowNotFound, "workflow", "workflow")
        if table is workflows
        else (LaunchPlanNotFound, "launch plan", "launchplan")
    )
    versions = registrations.versions(connection, table, wanted)
    if versions:
        near = closest(wanted.version, versions)
        reason = (
            f"The {noun} {wanted.project}/{wanted.domain}/{shorten(wanted.name)} has no version "
            f"'{shorten(wanted.version)}'.{did_you_mean(near)} The newest is '{versions[0]}'."
        )
        return error(reason, details=[{"field": "version", "reason": reason, "closest": list(near)}])
    near = closest(wanted.name, registrations.names(connection, table, wanted.project, wanted.domain))
    reason = (
        f"No {noun} is called '{shorten(wanted.name)}' in {wanted.project}/{wanted.domain}.{did_you_mean(near)} "
        f"`rainbowctl get {word} -p {wanted.project} -d {wanted.domain}` lists them."
    )
    return error(reason, details=[{"field": "name", "reason": reason, "closest": list(near)}])


def get_workflow(context: Context, wanted: Identifier) -> Registered:
    """One version of a workflow."""
    with context.database.reading() as connection:
        return find_workflow(context, connection, wanted)


def get_launch_plan(context: Context, wanted: Identifier) -> Registered:
    """One version of a launch plan."""
    with context.database.reading() as connection:
        return _found(context, connection, launch_plans, wanted)


def get_active(context: Context, wanted: Identifier) -> Registered:
    """The active version of a launch plan."""
    with context.database.reading() as connection:
        newest = _found(context, connection, launch_plans, wanted)
        active = registrations.latest(connection, launch_plans, wanted, ACTIVE)
    if active is None:
        raise LaunchPlanNotFound(
            f"No version of the launch plan '{wanted.name}' is active; the newest is '{newest.id.version}'. "
            f"`rainbowctl update launchplan {wanted.name} --version {newest.id.version} --activate` activates it."
        )
    return active


def list_registered(
    context: Context, table: Table, wanted: RegisteredFilter, after: tuple[str, int] | None, limit: int
) -> tuple[list[Registered], tuple[str, int] | None]:
    """Versions, and the key to go on after, if there are more."""
    check_scope(project=wanted.project, domain=wanted.domain)
    with context.database.reading() as connection:
        check_readable(context, connection, Scope(project=wanted.project, domain=wanted.domain))
        found = registrations.page(connection, table, wanted, after, limit + 1)
    last = found[limit - 1] if len(found) > limit else None
    return found[:limit], (last.id.name, last.row_id) if last else None


def set_launch_plan_state(context: Context, wanted: Identifier, state: str) -> tuple[Registered, bool]:
    """Activate or deactivate a version of a launch plan; answers whether that changed anything."""
    with context.database.writing() as connection:
        revisions.lock_head(connection)  # so that two activations do not cross
        before = _found(context, connection, launch_plans, wanted)
        _check_open(context, connection, before.id)
        if before.state != state:
            registrations.set_state(connection, before.id, state, context.clock())
        after = registrations.get(connection, launch_plans, before.id)
    return after or before, before.state != state
