"""Registered work: which launch plans and jobs run at the scopes of workflows and launch plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection

from admin.core.executions.own_settings import RegisteredWork
from admin.core.json_text import JsonObject
from admin.core.registrations import Identifier, settings_of
from admin.core.settings.scopes import Scope
from admin.store import active_plans, registrations
from admin.store.registration_tables import PlaceKey
from admin.store.registrations import Registered

#: Versions of workflows whose jobs are looked at for some scopes.
MOST_VERSIONS = 5000


def find_registered(connection: Connection, scopes: Collection[Scope]) -> dict[Scope, RegisteredWork]:
    """What runs at each of some scopes of workflows and of launch plans."""
    plans = _active_plans(connection, scopes)
    jobs = _jobs(connection, scopes, plans)
    return {
        scope: RegisteredWork(
            plan=None if plan is None else plan.id,
            definition={} if plan is None else settings_of(plan.spec),
            jobs=jobs.get(scope, {}),
        )
        for scope in scopes
        for plan in [plans.get(scope)]
    }


def plan_settings(connection: Connection, scopes: Iterable[Scope]) -> dict[Scope, JsonObject]:
    """The settings of the active launch plans that some scopes are for."""
    return {scope: settings_of(plan.spec) for scope, plan in _active_plans(connection, scopes).items()}


def _active_plans(connection: Connection, scopes: Iterable[Scope]) -> dict[Scope, Registered]:
    keys = {scope: (scope.project, scope.domain, scope.launch_plan) for scope in scopes if scope.launch_plan}
    plans = active_plans.of_places(connection, keys.values()) if keys else {}
    return {
        scope: plan
        for scope, key in keys.items()
        if (plan := plans.get(key)) is not None and plan.workflow == scope.workflow
    }


def _jobs(
    connection: Connection, scopes: Iterable[Scope], plans: dict[Scope, Registered]
) -> dict[Scope, dict[Identifier, JsonObject]]:
    """The jobs that run at some scopes, by the versions of their workflows.

    A launch plan runs the version of the workflow that its active version names; a workflow's scope has the versions
    that its active launch plans name, and the newest, which runs without a launch plan.
    """
    run: dict[Scope, set[Identifier]] = {
        scope: {Identifier(**plan.spec["workflow_id"])} for scope, plan in plans.items()
    }
    places = {
        scope: (scope.project, scope.domain, scope.workflow)
        for scope in scopes
        if scope.workflow and not scope.launch_plan
    }
    versions = active_plans.workflows_run(connection, set(places.values()), MOST_VERSIONS + 1) if places else []
    if places and len(versions) <= MOST_VERSIONS:  # else a reason that holds for all of the jobs cannot be given
        run_by: dict[PlaceKey, set[Identifier]] = {place: set() for place in places.values()}
        for place, workflow in versions:
            run_by[place].add(workflow)
        newest = registrations.newest_workflows(connection, run_by)
        for scope, place in places.items():
            run[scope] = run_by[place] | ({newest[place]} if place in newest else set())
    jobs = registrations.workflow_jobs(connection, set().union(*run.values()))
    return {
        scope: {workflow: jobs[workflow] for workflow in sorted(workflows, key=str) if workflow in jobs}
        for scope, workflows in run.items()
    }
