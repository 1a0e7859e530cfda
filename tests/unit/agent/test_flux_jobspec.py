"""Jobspecs of jobs, as Flux 0.88 accepts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.engines.base import Task
from agent.engines.flux.jobspec import jobspec, launcher, urgency

DIRECTORY = Path("/jobs/rb-1")


def task_of(resources: dict[str, Any] | None = None, **more: Any) -> Task:
    job = {"command": ["echo", "a b"], "resources": resources or {}}
    return Task(key="rb-1", job=job, directory=DIRECTORY, **more)


def spec_of(resources: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return jobspec(task_of(resources, **more), DIRECTORY, {"PATH": "/bin"}, "/opt/flux", {})


def slot(count: int, cores: int, gpus: int = 0) -> dict[str, Any]:
    has = [{"type": "core", "count": cores}, *([{"type": "gpu", "count": gpus}] if gpus else [])]
    return {"type": "slot", "label": "task", "count": count, "with": has}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, slot(1, 1)),
        ({"requests": {"cpu": "1500m", "gpu": "1"}}, slot(1, 2, 1)),
        ({"tasks": 3}, slot(3, 1)),
        ({"nodes": 2, "tasks": 4, "requests": {"cpu": "2"}}, {"type": "node", "count": 2, "with": [slot(2, 2)]}),
        ({"nodes": 2}, {"type": "node", "count": 2, "with": [slot(1, 1)]}),
        ({"exclusive": True}, {"type": "node", "count": 1, "exclusive": True, "with": [slot(1, 1)]}),
    ],
)
def test_resources_are_slots_on_nodes(resources: dict[str, Any], expected: dict[str, Any]) -> None:
    assert spec_of(resources)["resources"] == [expected]


def test_a_job_has_its_name_its_limit_and_its_queue() -> None:
    spec = spec_of(time_limit_seconds=90.0, queue="batch", labels={"team": "x"})
    system = spec["attributes"]["system"]
    assert (system["job"], system["duration"], system["queue"]) == ({"name": "rb-1"}, 90.0, "batch")
    assert (system["cwd"], system["environment"]) == ("/jobs/rb-1", {"PATH": "/bin"})
    assert spec["attributes"]["user"] == {"rainbow": {"labels": {"team": "x"}}}
    assert spec["tasks"][0]["command"] == ["/bin/sh", "/jobs/rb-1/script"]
    assert spec_of()["attributes"]["system"]["duration"] == 0.0


def test_required_properties_hold_beside_the_constraints_of_the_site() -> None:
    def constraints(*properties: str, **attributes: Any) -> Any:
        spec = jobspec(task_of(), DIRECTORY, {}, "flux", attributes, properties)
        return spec["attributes"]["system"].get("constraints")

    site = {"not": [{"properties": ["old"]}]}
    assert constraints() is None
    assert constraints("fast", "big") == {"properties": ["fast", "big"]}
    assert constraints(constraints=site) == site
    assert constraints("fast", constraints=site) == {"and": [site, {"properties": ["fast"]}]}


def test_several_copies_run_in_an_instance_of_their_own() -> None:
    spec = spec_of({"nodes": 2, "tasks": 4})
    assert spec["tasks"][0]["command"][-4:] == ["/opt/flux", "broker", "/bin/sh", "/jobs/rb-1/script"]
    assert spec["attributes"]["system"]["shell"]["options"]["per-resource"] == {"type": "node"}
    start = launcher(task_of({"nodes": 2, "tasks": 4}), "/opt/flux", limits_memory=True)
    assert start.command.startswith('"$_rb_launcher" run --nodes=2 --ntasks=4 --cores-per-task=1 ')
    assert start.id_variable == "RAINBOW_NATIVE_ID"


def test_a_memory_limit_is_that_of_each_copy() -> None:
    resources = {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    assert "ulimit -v 2097152" in launcher(task_of(resources), "flux", limits_memory=True).command
    assert launcher(task_of(resources), "flux", limits_memory=False).command == "echo 'a b'"


@pytest.mark.parametrize(
    ("priority", "of_owner", "of_guest"), [(0, 16, 16), (100, 31, 16), (50, 24, 16), (-100, 1, 1), (1e9, 31, 16)]
)
def test_a_priority_is_an_urgency_that_holds_nothing(priority: float, of_owner: int, of_guest: int) -> None:
    assert (urgency(priority, is_owner=True), urgency(priority, is_owner=False)) == (of_owner, of_guest)
