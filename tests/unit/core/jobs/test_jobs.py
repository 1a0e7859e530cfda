"""Jobs: defaults filled in, limits enforced, malformed ones refused."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.jobs.job import demand, read_job, task_type, with_resources
from admin.core.problems import Invalid, Refused
from admin.core.resources import LARGEST, format_amounts, parse_demand
from admin.core.settings.builtin_kinds import TASK_RESOURCE
from admin.core.settings.platform import PlatformDefaults, PlatformLeaf
from admin.core.settings.resolution import Resolved, Row, resolve
from admin.core.settings.scopes import Scope

SCOPE = Scope(project="p", domain="d")


def allowed(payload: dict[str, Any], platform: dict[str, str] | None = None) -> Resolved:
    """The task resources of a scope at which a row is stored."""
    rows = {SCOPE: Row(kind="TASK_RESOURCE", scope=SCOPE, payload=payload, version=3)}
    leaves = {
        tuple(key.split(".")): PlatformLeaf(value=value, key=f"task_resources.{key}")
        for key, value in (platform or {}).items()
    }
    return resolve(TASK_RESOURCE, SCOPE, rows, PlatformDefaults(TASK_RESOURCE, leaves))


def job(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    resources = {"requests": requests or {}, "limits": limits or {}, **more}
    return {"command": ["true"], "resources": {name: part for name, part in resources.items() if part}}


def refused(document: dict[str, Any], under: Resolved) -> list[tuple[str, str]]:
    with pytest.raises(Refused) as caught:
        with_resources(document, under, "spec.job")
    assert caught.value.error == "above_limit"
    return [(problem.field, problem.reason) for problem in caught.value.problems]


def test_a_request_above_the_limit_is_refused_with_the_scope_that_set_it() -> None:
    under = allowed({"limits": {"cpu": "200m"}})
    [(field, reason)] = refused(job({"cpu": "900m"}), under)
    assert field == "spec.job.resources.requests.cpu"
    assert "900m is above the limit of 200m set at project-domain p/d" in reason
    [(field, reason)] = refused(job(limits={"memory": "2Gi"}), allowed({}, {"limits.memory": "1Gi"}))
    assert field == "spec.job.resources.limits.memory"
    assert "above the limit of 1Gi set in configuration (task_resources.limits.memory)" in reason


def test_every_excess_is_named() -> None:
    under = allowed({"limits": {"cpu": "1", "memory": "1Gi", "gpu": "1"}})
    reasons = refused(job({"cpu": "2", "gpu": "2"}, {"memory": "2Gi"}), under)
    assert [field.removeprefix("spec.job.resources.") for field, _ in reasons] == [
        "requests.cpu",
        "limits.memory",
        "requests.gpu",
    ]


@pytest.mark.parametrize(("cpu", "limit"), [("1", "1"), ("1000m", "1"), ("1.0", "1000m"), ("0.001", "1m")])
def test_a_request_that_equals_the_limit_is_granted_as_written(cpu: str, limit: str) -> None:
    filled = with_resources(job({"cpu": cpu}), allowed({"limits": {"cpu": limit}}), "spec.job")
    assert filled["resources"]["requests"] == {"cpu": cpu}


def test_a_request_above_the_jobs_own_limit_is_refused() -> None:
    [(field, reason)] = refused(job({"cpu": "2"}, {"cpu": "1"}), allowed({}))
    assert (field, "own limit of 1" in reason) == ("spec.job.resources.requests.cpu", True)


def test_defaults_are_filled_in_and_capped_and_requests_are_kept() -> None:
    under = allowed({"limits": {"cpu": "500m"}}, {"defaults.cpu": "2", "defaults.memory": "200Mi"})
    assert with_resources(job(), under, "spec.job")["resources"] == {
        "nodes": 1,
        "tasks": 1,
        "requests": {"cpu": "500m", "memory": "200Mi"},
        "limits": {"cpu": "500m", "memory": "200Mi"},
    }
    filled = with_resources(job({"cpu": "100m"}, {"memory": "1Gi"}, nodes=2), under, "spec.job")["resources"]
    assert filled == {
        "nodes": 2,
        "tasks": 1,
        "requests": {"cpu": "100m", "memory": "1Gi"},
        "limits": {"cpu": "100m", "memory": "1Gi"},
    }


def test_without_defaults_and_limits_nothing_is_filled_in() -> None:
    assert with_resources({"command": ["x"]}, allowed({}), "spec.job")["resources"] == {"nodes": 1, "tasks": 1}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "spec.job"),
        ({"command": []}, "spec.job.command"),
        ({"command": "echo hello"}, "spec.job.command"),
        ({"command": ["a", 1]}, "spec.job.command.1"),
        ({"command": ["a\0b"]}, "spec.job.command.0"),
        ({"comand": ["a"]}, "spec.job.comand"),
        ({"command": ["a"], "environment": {"1A": "x"}}, "spec.job.environment.1A"),
        ({"command": ["a"], "labels": {"a b": "x"}}, "spec.job.labels.a b"),
        ({"command": ["a"], "resources": {"requests": {"cpu": "two"}}}, "spec.job.resources.requests.cpu"),
        ({"command": ["a"], "resources": {"requests": {"cpu": "-1"}}}, "spec.job.resources.requests.cpu"),
        ({"command": ["a"], "resources": {"requests": {"memory": "1GB"}}}, "spec.job.resources.requests.memory"),
        ({"command": ["a"], "resources": {"limits": {"gpu": "0.5"}}}, "spec.job.resources.limits.gpu"),
        (
            {"command": ["a"], "resources": {"limits": {"ephemeral_storage": ""}}},
            "spec.job.resources.limits.ephemeral_storage",
        ),
        ({"command": ["a"], "resources": {"nodes": 0}}, "spec.job.resources.nodes"),
        ({"command": ["a"], "resources": {"tasks": "4"}}, "spec.job.resources.tasks"),
        ({"command": ["a"], "resources": {"duration": "soon"}}, "spec.job.resources.duration"),
        ({"command": ["a"], "resources": {"disk": "1"}}, "spec.job.resources.disk"),
        ("true", "spec.job"),
        (None, "spec.job"),
    ],
)
def test_a_malformed_job_is_refused_by_field(document: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_job(document, ("spec", "job"))
    assert field in [problem.field for problem in caught.value.problems], caught.value


def test_an_image_alone_is_a_job_and_makes_it_a_container() -> None:
    assert task_type(read_job({"image": "busybox"}, ("job",))) == "container"
    assert task_type(read_job({"command": ["true"]}, ("job",))) == "process"
    assert task_type(read_job({"command": ["true"], "task_type": "spark"}, ("job",))) == "spark"


def test_the_demand_of_a_job_counts_every_task_and_is_rounded_up() -> None:
    document = job({"cpu": "0.0001", "memory": "1.5", "gpu": "2"}, nodes=3, tasks=4)
    assert demand(document) == {"cpu": 4, "memory": 8, "gpu": 8, "nodes": 3, "executions": 1}
    assert demand(job({"memory": "7E"}, tasks=1000))["memory"] == LARGEST
    assert parse_demand("cpu", "1n") == 1


def test_amounts_are_shown_as_people_write_them() -> None:
    amounts = {"cpu": 1500, "memory": 3 * 2**30, "gpu": 2, "ephemeral_storage": 1000, "nodes": 4, "executions": 0}
    assert format_amounts(amounts) == {
        "cpu": "1500m",
        "memory": "3Gi",
        "gpu": "2",
        "ephemeral_storage": "1000",
        "nodes": 4,
        "executions": 0,
    }
