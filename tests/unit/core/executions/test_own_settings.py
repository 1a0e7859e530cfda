"""What a launch plan's definition or a registered job says itself wins over settings."""

from __future__ import annotations

from typing import Any

from admin.core.executions.own_settings import RegisteredWork, field_effects, unread_in_launch, without_overridden
from admin.core.registrations import Identifier
from admin.core.settings.builtin_kinds import EXECUTION_CLUSTER_LABEL, TASK_RESOURCE, WORKFLOW_EXECUTION_CONFIG
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformDefaults, PlatformLeaves
from admin.core.settings.resolution import Layer, Resolved, Row, overlay, resolve
from admin.core.settings.scopes import Scope

PLACE, SCOPE = Scope("d", "p"), Scope("d", "p", "w", "l")
PLAN = Identifier(project="p", domain="d", name="l", version="v3")


def resolved(kind: Kind, payload: Any, scope: Scope = PLACE) -> Resolved:
    rows = {scope: Row(kind=kind.name, scope=scope, payload=kind.read(payload), version=1)}
    return resolve(kind, SCOPE, rows, PlatformDefaults(kind, PlatformLeaves()))


def workflow(version: str) -> Identifier:
    return Identifier(project="p", domain="d", name="w", version=version)


def effects(value: Resolved, work: RegisteredWork) -> list[tuple[str, str, str]]:
    return [(entry.field, entry.outcome.value, entry.effect) for entry in field_effects(value, work)]


def test_a_definition_that_unsets_a_setting_wins_over_it() -> None:
    work = RegisteredWork(plan=PLAN, definition={"max_parallelism": None, "interruptible": False})
    value = resolved(WORKFLOW_EXECUTION_CONFIG, {"max_parallelism": 5, "interruptible": True})
    assert sorted(effects(value, work)) == [
        ("interruptible", "launch_plan_says", "launch plan l v3 says false"),
        ("max_parallelism", "launch_plan_says", "launch plan l v3 unsets it"),
    ]
    trail = without_overridden(value, field_effects(value, work)).trail
    assert not any(step.used for step in trail)
    assert [path for step in trail for path in step.overridden] == [("max_parallelism",), ("interruptible",)]


def test_a_setting_that_is_unset_does_not_unset_what_the_job_says() -> None:
    value = resolved(TASK_RESOURCE, {"defaults": {"cpu": None}})
    job = {"resources": {"limits": {"cpu": "2"}}}
    work = RegisteredWork(jobs={workflow("v1"): job})
    assert effects(value, work) == [("defaults.cpu", "ignored_by_job", "the job of workflow w v1 says 2")]


def test_jobs_that_agree_say_one_value() -> None:
    value = resolved(TASK_RESOURCE, {"defaults": {"cpu": "4"}, "limits": {"cpu": "3"}})
    jobs = {workflow(version): {"resources": {"requests": {"cpu": "2"}}} for version in ("v1", "v2")}
    assert effects(value, RegisteredWork(jobs=jobs)) == [
        ("defaults.cpu", "ignored_by_job", "the job of workflow w says 2")
    ]
    jobs[workflow("v3")] = {}
    capped = [("defaults.cpu", "default_capped", "executions get 3, the limit")]
    assert effects(value, RegisteredWork(jobs=jobs)) == capped
    assert effects(value, RegisteredWork()) == capped


def test_pools_and_labels_are_told_by_what_outranks_them() -> None:
    work = RegisteredWork(plan=PLAN, definition={"cluster_assignment": {"cluster_pool_name": "a"}})
    assert effects(resolved(EXECUTION_CLUSTER_LABEL, {"value": "b"}), work) == []


def test_of_a_launch_only_what_it_says_itself_counts_as_unread() -> None:
    inherited = resolved(WORKFLOW_EXECUTION_CONFIG, {"max_parallelism": 5, "overwrite_cache": True})
    launch = overlay(inherited, [Layer(name="request", payload={"interruptible": True, "overwrite_cache": False})])
    assert [effect.field for effect in unread_in_launch([launch])] == ["overwrite_cache"]
    assert unread_in_launch([inherited]) == []
