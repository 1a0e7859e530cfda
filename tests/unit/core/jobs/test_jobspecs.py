from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from admin.core.graph.jobspec_requests import request_in
from admin.core.jobs.job import read_job
from admin.core.jobs.jobspecs import jobspec_warnings, read_jobspec
from admin.core.jobs.jobspecs.groups import MOST_GROUPS, check_groups, group_of
from admin.core.problems import Invalid, Problem

FILES = Path(__file__).parents[3] / "data" / "jobspecs"
PATH = ("spec", "jobspec")


def read(document: Any) -> dict[str, Any]:
    """The job of a jobspec, which must be valid as a job too."""
    before = copy.deepcopy(document)
    job = read_jobspec(document, PATH)
    assert document == before
    assert read_job(job, PATH) == job
    return job


def refusals(document: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        read_jobspec(document, PATH)
    return {problem.field.removeprefix("spec.jobspec."): problem.reason for problem in caught.value.problems}


def file(name: str) -> Any:
    return yaml.safe_load((FILES / name).read_text())


RANGE = {"name": "spack", "field": "version", "min": "0.5.1", "max": "0.5.5"}
NODE = {"type": "node", "count": 1}
FOUR_CORES = {"tasks": 1, "requests": {"cpu": "4"}}
TWO_NODES = {"nodes": 2, "tasks": 2, "requests": {"cpu": "2"}}


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("next-valid-range.yaml", {"command": ["ior"], "resources": TWO_NODES, "requires": [RANGE]}),
        (
            "next-invalid-range.yaml",
            {"command": ["ior"], "resources": TWO_NODES, "requires": [RANGE | {"min": "0.7.1", "max": "0.7.5"}]},
        ),
        (
            "next-io.yaml",
            {
                "command": ["ior"],
                "resources": {"nodes": 1, "tasks": 1, "requests": {"cpu": "2"}},
                "requires": [{"name": "io", "field": "type", "match": "shm"}],
            },
        ),
        (
            "next-constraint.yaml",
            {
                "command": ["ior"],
                "resources": TWO_NODES,
                "annotations": {"jobspec/parameter": '{"seconds_per_gb":0.4}'},
            },
        ),
    ],
)
def test_shipped_examples_are_read(name: str, job: dict[str, Any]) -> None:
    assert read(file(name)) == job


def test_what_flux_prints_is_read() -> None:
    job = read(file("flux-v1.json"))
    annotations = job.pop("annotations")
    assert job == {
        "command": ["hostname"],
        "environment": {"HOME": "/home/user"},
        "working_directory": "/home/user",
        "resources": {"nodes": 1, "tasks": 2, "requests": {"cpu": "1"}, "duration": "60s"},
    }
    assert annotations["flux/job"] == '{"name":"rb-demo-1"}'
    assert annotations["flux/user"] == '{"rainbow":"demo"}'
    assert annotations["flux/shell"].startswith('{"options":{"rlimit":{"cpu":-1,')


def slot(*holds: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "slot", "count": 4, "label": "task", "with": list(holds) or [core()]} | more


def core(count: Any = 2) -> dict[str, Any]:
    return {"type": "core", "count": count}


def flux(
    resource: Any, count: Any = None, system: Any = None, task: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "version": 1,
        "resources": [resource],
        "tasks": [{"command": ["a"], "slot": "task", "count": count or {"per_slot": 1}, **(task or {})}],
        "attributes": {"system": {"duration": 0} if system is None else system},
        **more,
    }


@pytest.mark.parametrize(
    ("resource", "count", "resources"),
    [
        (slot(), None, {"tasks": 4, "requests": {"cpu": "2"}}),
        (slot(core(), {"type": "gpu", "count": 1}), None, {"tasks": 4, "requests": {"cpu": "2", "gpu": "1"}}),
        (
            {"type": "node", "count": 3, "exclusive": False, "with": [slot()]},
            None,
            {"nodes": 3, "tasks": 12, "requests": {"cpu": "2"}},
        ),
        (
            {"type": "node", "count": 1, "exclusive": True, "with": [slot()]},
            None,
            {"nodes": 1, "tasks": 4, "exclusive": True, "requests": {"cpu": "2"}},
        ),
        (slot(), {"per_slot": 2}, {"tasks": 8, "requests": {"cpu": "1"}}),
        (slot(), {"per_slot": 4}, {"tasks": 16, "requests": {"cpu": "500m"}}),
        (slot(), {"total": 2}, {"tasks": 2, "requests": {"cpu": "2"}}),
        (slot(), {"total": 8}, {"tasks": 8, "requests": {"cpu": "1"}}),
        (
            slot(core(), {"type": "memory", "count": 3, "unit": "GiB"}, {"type": "storage", "count": 1, "unit": "KB"}),
            {"per_slot": 2},
            {"tasks": 8, "requests": {"cpu": "1", "memory": "1610612736", "ephemeral_storage": "500"}},
        ),
        (slot({"type": "memory", "count": 3, "unit": "GB"}), None, {"tasks": 4, "requests": {"memory": "3G"}}),
        (
            {"type": "rack", "count": 2, "with": [{"type": "node", "count": 3, "with": [slot()]}]},
            None,
            {"nodes": 6, "tasks": 24, "requests": {"cpu": "2"}},
        ),
        (
            {"type": "node", "with": [{"type": "socket", "count": 2, "with": [slot()]}]},
            {"per_slot": 2},
            {"nodes": 1, "tasks": 16, "requests": {"cpu": "1"}},
        ),
        (
            slot({"type": "socket", "count": 2, "with": [core(), {"type": "gpu", "count": 1}]}),
            None,
            {"tasks": 4, "requests": {"cpu": "4", "gpu": "2"}},
        ),
        (
            slot({"type": "node", "exclusive": True, "with": [core(8)]}),
            None,
            {"nodes": 4, "tasks": 4, "exclusive": True, "requests": {"cpu": "8"}},
        ),
    ],
)
def test_flux_resources_become_those_of_each_task(resource: Any, count: Any, resources: dict[str, Any]) -> None:
    assert read(flux(resource, count)) == {"command": ["a"], "resources": resources}


@pytest.mark.parametrize(
    ("duration", "text"), [(0, None), (0.0, None), (60, "60s"), (1.5, "1.5s"), (1e11, "100000000000s"), ("1h", "1h")]
)
def test_seconds_become_a_duration(duration: Any, text: str | None) -> None:
    assert read(flux(slot(), system={"duration": duration}))["resources"].get("duration") == text


def constrained(constraints: Any, resource: Any = None) -> dict[str, Any]:
    return flux(resource or slot(), system={"constraints": constraints})


def test_constraints_on_properties_are_requirements_on_nodes() -> None:
    both = {"and": [{"properties": ["big"]}, {"properties": ["fast", "big"]}]}
    assert read(constrained(both))["requires"] == [
        {"name": "cluster", "field": "properties.big", "match": True},
        {"name": "cluster", "field": "properties.fast", "match": True},
    ]
    assert "requires" not in read(constrained({}))


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        (flux(slot(), version=2), "version", "2 is not supported: give version 1"),
        (flux(slot(), version=True), "version", "is not supported"),
        ({"resources": [slot()], "tasks": [{"command": ["a"]}]}, "version", "is missing: give version 1"),
        (flux(slot(), resources=[]), "resources", "has 0 entries"),
        (flux(slot(), resources=[slot(), slot()]), "resources", "has 2 entries"),
        (flux(slot(), attributs={}), "attributs", "Did you mean 'attributes'"),
        (flux(5), "resources.0", "5 is not a mapping"),
        (flux(core()), "resources.0.type", "a core cannot stand here: give one of cluster, rack, node"),
        (flux({"type": "shelf", "with": [slot()]}), "resources.0.type", "unknown resource type 'shelf'"),
        (flux(slot({"type": "fpga", "count": 1})), "resources.0.with.0.type", "unknown resource type 'fpga'"),
        (flux({"type": "rack", "with": [slot(), slot()]}), "resources.0.with", "a rack holds exactly one resource"),
        (
            flux({"type": "node", "with": [{"type": "socket", "with": [{"type": "node", "with": [slot()]}]}]}),
            "resources.0.with.0.with.0.type",
            "a node cannot stand inside a node",
        ),
        (
            flux({"type": "node", "with": [slot({"type": "node", "with": [core()]})]}),
            "resources.0.with.0.with.0.type",
            "a node cannot stand inside a node",
        ),
        (
            flux(slot({"type": "node", "count": 2, "with": [core()]})),
            "resources.0.with.0.count",
            "a slot is on one node",
        ),
        (
            flux({"type": "node", "with": [{"type": "socket", "with": [core()]}]}),
            "resources.0.with.0.with.0.type",
            "a core cannot stand here: give one of cluster, rack, socket, slot",
        ),
        (flux({"count": 1}), "resources.0.type", "is missing"),
        (flux({"type": "node"}), "resources.0.with", "a node holds exactly one slot"),
        (flux({"type": "node", "with": [core()]}), "resources.0.with.0.type", "a core cannot stand here"),
        (flux(slot(exclusive=True)), "resources.0.exclusive", "only nodes can be exclusive"),
        (flux({"type": "node", "exclusive": "yes", "with": [slot()]}), "resources.0.exclusive", "is not supported"),
        (flux(slot(replicas=2)), "resources.0.replicas", "unknown field"),
        (flux(slot(unit="GB")), "resources.0.unit", "a slot has no unit"),
        (flux(slot(count=0)), "resources.0.count", "out of range"),
        (flux(slot(count=True)), "resources.0.count", "is not a whole number"),
        (flux(slot(count="two")), "resources.0.count", "'two' is neither a whole number nor a range"),
        (flux(slot(count={"max": 4})), "resources.0.count.min", "is missing"),
        (
            flux(slot(), system={"shell": {"options": {"per-resource": {"type": "node", "count": 2}}}}),
            "attributes.system.shell.options.per-resource.type",
            "so many tasks per node are not known",
        ),
        (flux(slot(label=None)), "resources.0.label", "is left empty"),
        (flux(slot({"type": "core", "with": [core()]})), "resources.0.with.0.with", "holds no other resource"),
        (flux(slot({"type": "core", "unit": "x"})), "resources.0.with.0.unit", "a core has no unit"),
        (flux(slot({"type": "memory", "count": 1})), "resources.0.with.0.unit", "is missing: say what is counted"),
        (flux(slot({"type": "memory", "unit": "gb"})), "resources.0.with.0.unit", "Did you mean 'GB'"),
        (flux(slot({"type": "cores"})), "resources.0.with.0.type", "Did you mean 'core'"),
        (flux(slot(), {"per_slot": 3000}), "resources.0.with.0", "cannot be divided evenly among 12000 tasks"),
        (flux(slot({"type": "gpu"}), {"per_slot": 2}), "resources.0.with.0", "cannot be divided evenly"),
        (flux(slot(), tasks=[]), "tasks", "names no task"),
        (flux(slot(), tasks=[{"command": ["a"]}] * 2), "tasks", "has 2 tasks: give one"),
        (flux(slot(), task={"command": "a b"}), "tasks.0.command", "'a b' is not a list"),
        (flux(slot(), task={"command": ["sleep", 60]}), "tasks.0.command.1", "60 is not text: put it in quotes"),
        (flux(slot(), task={"command": []}), "tasks.0.command", "is missing"),
        (flux(slot(), task={"slot": "other"}), "tasks.0.slot", "'other' is not the slot's label, 'task'"),
        (flux(slot(), task={"attributes": {}}), "tasks.0.attributes", "unknown field"),
        (flux(slot(), {"per_slot": 1, "total": 1}), "tasks.0.count", "give either per_slot or total"),
        (flux(slot(), {"total": "4"}), "tasks.0.count.total", "is not a whole number"),
        (flux(slot(), attributes={"other": {}}), "attributes.other", "unknown field"),
        (flux(slot(), attributes=5), "attributes", "is not a mapping"),
        (flux(slot(), system={"queue": "batch"}), "attributes.system.queue", "execution queue attributes"),
        (constrained({"hostlist": ["n1"]}), "attributes.system.constraints.hostlist", "is not supported"),
        (constrained({"and": [{"not": []}]}), "attributes.system.constraints.and.0.not", "is not supported"),
        (constrained({"properties": ["^big"]}), "attributes.system.constraints.properties.0", "must have"),
        (constrained({"properties": "big"}), "attributes.system.constraints.properties", "is not a list"),
        (constrained(["big"]), "attributes.system.constraints", "is not a mapping"),
        (
            constrained({"properties": ["big"]}, {"type": "socket", "with": [slot()]}),
            "attributes.system.constraints",
            "put them into a node",
        ),
        (flux(slot(), system={"bank": "x"}), "attributes.system.bank", "is not supported: remove it"),
        (flux(slot(), system={"duration": -1}), "attributes.system.duration", "-1 is neither seconds nor"),
        (flux(slot(), system={"duration": 10**400}), "attributes.system.duration", "is neither seconds nor"),
        (flux(slot(), system={"duration": float("nan")}), "attributes.system.duration", "is neither seconds nor"),
        (flux(slot(), system={"duration": 1e-12}), "attributes.system.duration", "is not a duration"),
        (flux(slot(), system={"duration": "soon"}), "attributes.system.duration", "is not a duration"),
        (flux(slot(), system={"cwd": 5}), "attributes.system.cwd", "is not text"),
        (flux(slot(), system={"environment": {"N": 4}}), "attributes.system.environment.N", "put it in quotes"),
        (flux(slot(), system={"environment": ["N=4"]}), "attributes.system.environment", "is not a mapping"),
    ],
)
def test_a_flux_field_without_an_equivalent_is_refused(document: Any, field: str, reason: str) -> None:
    reasons = refusals(document)
    assert field in reasons
    assert reason in reasons[field]
    assert len(reasons) == 1


def group(**resource: Any) -> dict[str, Any]:
    return {"version": 1, "resources": {"g": resource}, "tasks": [{"command": ["a"], "resources": "g"}]}


@pytest.mark.parametrize(
    ("resource", "resources"),
    [
        ({"type": "node", "replicas": 2, "with": [core()]}, TWO_NODES),
        ({"type": "node", "count": 2, "with": [core()]}, TWO_NODES),
        ({"type": "node", "count": 2}, {"nodes": 2, "tasks": 2}),
        ({"type": "node", "count": 2, "exclusive": True}, {"nodes": 2, "tasks": 2, "exclusive": True}),
        (
            {"type": "node", "count": 2, "with": [{"type": "slot", "replicas": 3, "with": [core(1)]}]},
            {"nodes": 2, "tasks": 6, "requests": {"cpu": "1"}},
        ),
        (
            {"type": "slot", "count": 3, "schedule": True, "label": "s", "with": [core()]},
            {"tasks": 3, "requests": {"cpu": "2"}},
        ),
        (
            {"type": "slot", "replicas": 3, "with": [core(), {"type": "gpu"}]},
            {"tasks": 3, "requests": {"cpu": "2", "gpu": "1"}},
        ),
        ({"type": "core", "count": 4}, {"tasks": 1, "requests": {"cpu": "4"}}),
        ({"type": "rack", "count": 2, "with": [{"type": "node", "with": [core()]}]}, TWO_NODES),
        (
            {"type": "rack", "replicas": 2, "with": [{"type": "slot", "count": 2, "with": [core()]}]},
            {"tasks": 4, "requests": {"cpu": "2"}},
        ),
        ({"type": "node", "count": 2, "with": [{"type": "socket", "count": 2, "with": [core(1)]}]}, TWO_NODES),
        ({"type": "core", "count": 4, "replicas": 2}, {"tasks": 2, "requests": {"cpu": "4"}}),
        ({"type": "node", "count": 2, "replicas": 3}, {"nodes": 6, "tasks": 6}),
        ({"type": "slot", "count": 2, "replicas": 3, "with": [core()]}, {"tasks": 6, "requests": {"cpu": "2"}}),
        (
            {"type": "node", "count": 2, "with": [core() | {"replicas": 3}]},
            {"nodes": 2, "tasks": 6, "requests": {"cpu": "2"}},
        ),
        ({"type": "slot", "with": [core() | {"replicas": 3}]}, {"tasks": 1, "requests": {"cpu": "6"}}),
        (
            {"type": "slot", "replicas": 1, "with": [{"type": "memory", "count": 512, "unit": "MiB"}]},
            {"tasks": 1, "requests": {"memory": "512Mi"}},
        ),
        (
            {"type": "slot", "with": [{"type": "memory", "count": 2, "unit": unit} for unit in ("G", "GB", "MiB")]},
            {"tasks": 1, "requests": {"memory": "4002097152"}},
        ),
        ({"type": "slot", "with": [core(), {"type": "socket", "with": [core()]}]}, FOUR_CORES),
        ({"type": "socket", "with": [core(4) | {"unit": ""}, {"type": "nvme"}]}, FOUR_CORES),
        (
            {"type": "node", "count": 3, "with": [{"type": "socket", "count": 2, "with": [slot(core(1), count=4)]}]},
            {"nodes": 3, "tasks": 24, "requests": {"cpu": "1"}},
        ),
        (
            {"type": "node", "count": 3, "with": [{"type": "socket", "with": [core() | {"replicas": 4}]}]},
            {"nodes": 3, "tasks": 12, "requests": {"cpu": "2"}},
        ),
    ],
)
def test_groups_of_resources_become_nodes_and_tasks(resource: Any, resources: dict[str, Any]) -> None:
    assert read(group(**resource)) == {"command": ["a"], "resources": resources}


def test_every_field_of_a_next_generation_jobspec_is_kept() -> None:
    job = read(
        {
            "version": 1,
            "name": "fit",
            "resources": {
                "g": {
                    "type": "node",
                    "requires": [RANGE],
                    "with": [{"type": "core", "requires": [{"name": "cpu", "field": "arch", "match": "arm"}, RANGE]}],
                }
            },
            "task": {"name": "only", "command": "fit --name 'a b'", "replicas": 1},
            "attributes": {"duration": 300, "cwd": "/data", "environment": {"A": "1"}, "parameter": {"x": 1}},
        }
    )
    assert job == {
        "command": ["fit", "--name", "a b"],
        "environment": {"A": "1"},
        "working_directory": "/data",
        "resources": {"nodes": 1, "tasks": 1, "requests": {"cpu": "1"}, "duration": "300s"},
        "requires": [RANGE, {"name": "cpu", "field": "arch", "match": "arm"}],
        "annotations": {"jobspec/name": "fit", "jobspec/task": "only", "jobspec/parameter": '{"x":1}'},
    }


@pytest.mark.parametrize(
    ("count", "taken", "text"),
    [
        ({"min": 3}, 3, "at least 3"),
        ({"min": 3, "max": 30}, 3, "3 to 30"),
        ({"min": 3, "max": 30, "operator": "+", "operand": 1}, 3, "3 to 30"),
        ({"min": 2, "max": 64, "operator": "*", "operand": 2}, 2, "2 to 64 in steps of *2"),
        ({"min": 2, "max": 256, "operator": "^", "operand": 2}, 2, "2 to 256 in steps of ^2"),
        ("3-30", 3, "3 to 30"),
        ("[4+]", 4, "at least 4"),
        ("2-64:2:*", 2, "2 to 64 in steps of *2"),
        ("1-9:2", 1, "1 to 9 in steps of +2"),
        ("4,9,16,25", 4, "one of 4,9,16,25"),
        ("9,2-3", 2, "one of 9,2-3"),
        ("4", 4, None),
        ({"min": 4, "max": 4}, 4, None),
    ],
)
def test_of_a_range_the_least_is_taken_and_said(count: Any, taken: int, text: str | None) -> None:
    documents = {
        "resources.0.count": flux(slot(count=count)),
        "resources.g.count": group(type="slot", count=count, **{"with": [core()]}),
        "resources.g.replicas": group(type="slot", replicas=count, **{"with": [core()]}),
        "tasks": {"command": ["a"], "tasks": count, "cpus": 2},
    }
    for field, document in documents.items():
        job = read(document)
        assert job["resources"] == {"tasks": taken, "requests": {"cpu": "2"}}
        warnings = jobspec_warnings(document, PATH)
        if text is None:
            assert warnings == []
        else:
            message = f"spec.jobspec.{field} asks for {text}: {taken} is taken."
            assert warnings == [{"code": "count_range", "message": message}]


@pytest.mark.parametrize(
    ("count", "field", "reason"),
    [
        ({}, "min", "is missing"),
        ({"min": 0}, "min", "out of range"),
        ({"min": 2, "max": 1}, "max", "1 is below min, 2"),
        ({"min": 2, "operator": "+"}, "operand", "is missing"),
        ({"min": 2, "operand": 2}, "operator", "is missing"),
        ({"min": 2, "operator": "-", "operand": 2}, "operator", "'-' is no operator"),
        ({"min": 2, "operator": "*", "operand": 1}, "operand", "leads to no other number"),
        ({"min": 1, "operator": "^", "operand": 2}, "min", "leads to no other number"),
        ({"min": 2, "step": 2}, "step", "unknown field 'step'"),
        ("0-3", "", "0 is out of range"),
        ("5-3", "", "ends before it begins"),
        ("2-8:0", "operand", "out of range"),
        ("2-8:2:-", "operator", "'-' is no operator"),
        ("some", "", "neither a whole number nor a range"),
        (True, "", "is not a whole number"),
    ],
)
def test_a_range_that_is_none_is_refused(count: Any, field: str, reason: str) -> None:
    where = ".".join(filter(None, ("resources.g.count", field)))
    assert reason in refusals(group(type="slot", count=count, **{"with": [core()]}))[where]


def test_only_scheduled_groups_are_asked_for() -> None:
    inner = {"type": "node", "with": [core(1)]}
    outer = {"type": "node", "count": 2, "with": [core()]}
    for resources in (
        {"outer": outer | {"schedule": True}, "inner": inner},
        {"outer": outer, "inner": inner | {"schedule": False}},
    ):
        for task in ({"command": ["a"]}, {"command": ["a"], "resources": "outer"}):
            document = {"version": 1, "resources": resources, "tasks": [task]}
            assert read(document) == {"command": ["a"], "resources": TWO_NODES}


def test_only_counts_of_resources_are_warned_of() -> None:
    document = group(**NODE, attributes={"environment": {"count": "2-8"}})
    assert jobspec_warnings(document, PATH) == []
    node = {"type": "node", "count": "2-8", "with": [{"type": "slot", "count": "1-2", "with": [core()]}]}
    document = {"version": 1, "resources": {"count": node}, "tasks": [{"command": ["a"], "resources": "count"}]}
    assert [warning["message"] for warning in jobspec_warnings(document, PATH)] == [
        "spec.jobspec.resources.count.count asks for 2 to 8: 2 is taken.",
        "spec.jobspec.resources.count.with.0.count asks for 1 to 2: 1 is taken.",
    ]


@pytest.mark.parametrize("count", ["9999999999", "1-9999999999", "4,99999999999", "0", "0-4"])
def test_each_number_of_a_range_has_the_bounds_of_a_count(count: str) -> None:
    reason = refusals(group(type="slot", count=count, **{"with": [core()]}))["resources.g.count"]
    number = count.split("-")[-1].split(",")[-1] if "9" in count else "0"
    in_a_mapping = refusals(group(type="slot", count={"min": int(number)}, **{"with": [core()]}))
    assert reason == in_a_mapping["resources.g.count.min"]


def test_tasks_per_resource_without_a_type_say_that_it_is_missing() -> None:
    options = {"shell": {"options": {"per-resource": {"count": 2}}}}
    slot_ = {"type": "slot", "count": 1, "label": "s", "with": [core()]}
    task = {"command": ["a"], "slot": "s", "count": {"per_slot": 1}}
    document = {"version": 1, "resources": [slot_], "tasks": [task], "attributes": {"system": options}}
    field = "attributes.system.shell.options.per-resource.type"
    assert refusals(document) == {field: "is missing: give node or core."}


def test_more_groups_than_allowed_are_refused() -> None:
    inner = {f"g{number}": NODE | {"schedule": False} for number in range(MOST_GROUPS - 1)}
    task = {"command": ["a"], "resources": "outer"}
    document = {"version": 1, "resources": {"outer": NODE, **inner}, "tasks": [task]}
    assert read(document)["resources"]["nodes"] == 1
    document["resources"] = {"outer": NODE, **inner, "h": NODE | {"schedule": False}}
    reasons = {"resources": "has 101 groups, more than 100: leave out those that no task uses."}
    assert refusals(document) == reasons
    with pytest.raises(Invalid, match="has 101 groups"):
        request_in(document)


def test_each_group_is_looked_at_a_few_times_however_many_there_are() -> None:
    looks: list[str] = []

    class Group(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            looks.append(key)
            return super().get(key, default)

    groups = {f"g{number}": Group(NODE) for number in range(MOST_GROUPS)}
    problems: list[Problem] = []
    assert group_of({"resources": "g0"}, groups, ("task",), ("resources",), problems) == "g0"
    check_groups(groups, "g0", ("resources",), problems)
    assert len(problems) == MOST_GROUPS - 1
    assert looks.count("schedule") <= 4 * MOST_GROUPS


def test_attributes_of_a_group_win_over_those_of_the_jobspec() -> None:
    document = group(
        **NODE, attributes={"duration": "300s", "cwd": "/data", "environment": {"A": "2"}, "parameter": {"x": 2}}
    )
    document["attributes"] = {"duration": 60, "environment": {"A": "1", "B": "1"}, "parameter": {"x": 1}}
    assert read(document) == {
        "command": ["a"],
        "environment": {"A": "2", "B": "1"},
        "working_directory": "/data",
        "resources": {"nodes": 1, "tasks": 1, "duration": "300s"},
        "annotations": {"jobspec/parameter": '{"x":2}'},
    }


def submitted(resource: Any, count: Any = None, **options: Any) -> dict[str, Any]:
    """A jobspec as `flux submit --dry-run` prints it."""
    return {
        "resources": [resource],
        "tasks": [{"command": ["app"], "slot": "task", "count": count or {"per_slot": 1}}],
        "attributes": {
            "system": {
                "duration": 0,
                "environment": {"LANG": "C"},
                "cwd": "/home/flux",
                "shell": {"options": {"rlimit": {"cpu": -1}, **options}},
            }
        },
        "version": 1,
    }


def nodes(count: int, slots: int, *holds: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "node", "count": count, **more, "with": [slot(*holds, count=slots)]}


GPU = {"type": "gpu", "count": 1}


@pytest.mark.parametrize(
    ("document", "resources"),
    [
        # -n10 -c2
        (submitted(slot(core(2), count=10)), {"tasks": 10, "requests": {"cpu": "2"}}),
        # -n10 -c2 -g1
        (submitted(slot(core(2), GPU, count=10)), {"tasks": 10, "requests": {"cpu": "2", "gpu": "1"}}),
        # -N4 -n4
        (submitted(nodes(4, 1, core(1))), {"nodes": 4, "tasks": 4, "requests": {"cpu": "1"}}),
        # -N4 -n16 -g1
        (submitted(nodes(4, 4, core(1), GPU)), {"nodes": 4, "tasks": 16, "requests": {"cpu": "1", "gpu": "1"}}),
        # -N4 -n5 -g1: some slots are left empty
        (
            submitted(nodes(4, 2, core(1), GPU), {"total": 5}),
            {"nodes": 4, "tasks": 5, "requests": {"cpu": "1", "gpu": "1"}},
        ),
        # 5 tasks in 4 slots: they share them
        (submitted(nodes(4, 1, core(1)), {"total": 5}), {"nodes": 4, "tasks": 5, "requests": {"cpu": "800m"}}),
        # -N2 --exclusive
        (
            submitted(nodes(2, 1, core(1), exclusive=True)),
            {"nodes": 2, "tasks": 2, "exclusive": True, "requests": {"cpu": "1"}},
        ),
        # -N2 --cores=8 --tasks-per-node=4
        (
            submitted(nodes(2, 1, core(4)), **{"per-resource": {"type": "node", "count": 4}}),
            {"nodes": 2, "tasks": 8, "requests": {"cpu": "1"}},
        ),
        # --cores=8 --tasks-per-core=2
        (
            submitted(slot(core(1), count=8), **{"per-resource": {"type": "core", "count": 2}}),
            {"tasks": 16, "requests": {"cpu": "500m"}},
        ),
    ],
)
def test_what_flux_submit_prints_is_read(document: Any, resources: dict[str, Any]) -> None:
    job = read(document)
    assert job["resources"] == resources
    assert (job["command"], job["environment"], job["working_directory"]) == (["app"], {"LANG": "C"}, "/home/flux")
    assert '"rlimit":{"cpu":-1}' in job["annotations"]["flux/shell"]


def test_a_jobspec_without_resources_asks_for_none() -> None:
    assert read({"version": 1, "task": {"command": ["a"]}}) == {"command": ["a"]}


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        (group(**NODE) | {"version": "1"}, "version", "give version 1"),
        ({"task": {"command": ["a"]}}, "version", "is missing"),
        (group(**NODE) | {"groups": []}, "groups", "is not supported: remove it"),
        (group(**NODE) | {"requires": {}}, "requires", "put it on a resource"),
        (group(**NODE) | {"resource": {}}, "resource", "Did you mean 'resources'"),
        (group(**NODE) | {"name": 5}, "name", "is not text"),
        ({"version": 1, "resources": {"g": NODE}}, "tasks", "is missing: give a list of one task"),
        (group(**NODE) | {"task": {"command": ["a"]}}, "task", "stands beside tasks"),
        (
            group(**NODE) | {"tasks": [{"command": ["a"], "resources": "h"}]},
            "tasks.0.resources",
            "unknown resource group 'h'",
        ),
        (group(**NODE) | {"tasks": [{"command": ["a"], "resources": {}}]}, "tasks.0.resources", "is not the name"),
        (group(**NODE) | {"resources": {"g": NODE, "h": NODE}}, "resources.h", "is used by no task"),
        (
            {"version": 1, "resources": {"g": NODE, "h": NODE}, "task": {"command": ["a"]}},
            "task.resources",
            "is missing: name one of g, h",
        ),
        (
            group(**NODE) | {"tasks": [{"command": ["a"], "replicas": 4}]},
            "tasks.0.replicas",
            "create one execution for each",
        ),
        (
            group(**NODE) | {"tasks": [{"command": ["a"], "depends_on": ["b"]}]},
            "tasks.0.depends_on",
            "is not supported",
        ),
        (group(**NODE) | {"tasks": [{"command": ["a"], "steps": []}]}, "tasks.0.steps", "give one command"),
        (group(**NODE) | {"tasks": [{"command": "a 'b"}]}, "tasks.0.command", "No closing quotation"),
        (group(**NODE) | {"tasks": [{"command": "a\nb"}]}, "tasks.0.command", "has several lines"),
        (group(**NODE) | {"tasks": [{"command": " "}]}, "tasks.0.command", "is empty"),
        (group(**NODE) | {"tasks": [{"resources": "g"}]}, "tasks.0.command", "is missing"),
        (group(**NODE) | {"attributes": {"queue": "x"}}, "attributes.queue", "unknown field 'queue'"),
        (group(**NODE) | {"attributes": None}, "attributes", "is left empty"),
        (group(type="rack"), "resources.g.with", "a rack holds exactly one resource here"),
        (group(type="node", **{"with": [slot(), slot(core(2))]}), "resources.g.with", "slots that are given apart"),
        (group(type="node", **{"with": [slot(), core()]}), "resources.g.with", "a slot stands beside other resources"),
        (group(type="Nodes"), "resources.g.type", "unknown resource type 'Nodes'"),
        (group(type="a shelf"), "resources.g.type", "unknown resource type 'a shelf'"),
        (group(count=1), "resources.g.type", "is missing"),
        (group(type="slot", exclusive=True, **{"with": [core()]}), "resources.g.exclusive", "is not supported"),
        (group(type="node", schedule=False), "resources.g.schedule", "the task uses this group: give true"),
        (group(type="node", schedule="yes"), "resources.g.schedule", "'yes' is neither true nor false"),
        (group(type="node", attributes={"x": 1}), "resources.g.attributes.x", "unknown field 'x'"),
        (group(type="node", **{"with": [core() | {"schedule": False}]}), "resources.g.with.0.schedule", "a group"),
        (group(type="node", **{"with": [core() | {"attributes": {}}]}), "resources.g.with.0.attributes", "a group"),
        (group(**NODE) | {"schedule": False}, "schedule", "put it on a group"),
        (
            group(**NODE) | {"resources": {"g": NODE, "h": NODE | {"schedule": True}}},
            "resources.g.schedule",
            "is not true, but the task uses this group",
        ),
        (
            {"version": 1, "resources": {"g": NODE | {"schedule": False}}, "task": {"command": ["a"]}},
            "resources",
            "has no group to schedule",
        ),
        (
            group(**NODE) | {"resources": {"g": NODE, "h": {"type": "cpu", "schedule": False}}},
            "resources.h.type",
            "unknown resource type 'cpu'",
        ),
        (group(type="node", **{"with": core()}), "resources.g.with", "is not a list of resources"),
        (group(type="node", **{"with": [{"type": "fpga", "count": 0}]}), "resources.g.with.0.count", ""),
        (group(type="node", **{"with": [{"type": "cpu"}]}), "resources.g.with.0.type", "Did you mean 'core'?"),
        (group(type="hosts"), "resources.g.type", "Did you mean 'node'?"),
        (group(type="node", **{"with": [slot(), core()]}), "resources.g.with", "put them into the slot"),
        (
            group(type="node", **{"with": [{"type": "socket", "with": [slot(), core()]}]}),
            "resources.g.with.0.with",
            "put them into the slot",
        ),
        (
            group(type="node", **{"with": [{"type": "socket", "with": [NODE]}]}),
            "resources.g.with.0.with.0.type",
            "a node cannot stand here",
        ),
        (group(type="node", requires={}), "resources.g.requires", "is not a list"),
        (group(type="node", requires=["x"]), "resources.g.requires.0", "is not a mapping"),
        (group(type="node", requires=[{"name": "io", "match": "shm"}]), "resources.g.requires.0.field", "is missing"),
        (group(type="node", requires=[{"name": "io", "field": "type"}]), "resources.g.requires.0", "asks for nothing"),
        (group(type="node", requires=[RANGE | {"mx": "1"}]), "resources.g.requires.0.mx", "unknown field"),
        (
            group(type="node", requires=[RANGE | {"min": [1]}]),
            "resources.g.requires.0.min",
            "neither text nor a number",
        ),
    ],
)
def test_a_next_generation_field_without_an_equivalent_is_refused(document: Any, field: str, reason: str) -> None:
    reasons = refusals(document)
    assert field in reasons
    assert reason in reasons[field]
    assert len(reasons) == 1


@pytest.mark.parametrize(
    ("document", "job"),
    [
        ({"command": ["a", "b c"]}, {"command": ["a", "b c"]}),
        ({"command": "a 'b c' $HOME"}, {"command": ["a", "b c", "$HOME"]}),
        ({"version": 1, "image": "x:1"}, {"image": "x:1"}),
        (
            {
                "name": "fit",
                "command": "a",
                "nodes": 2,
                "tasks": 8,
                "cores": 2,
                "gpus": 1,
                "memory": "4Gi",
                "duration": 60,
            },
            {
                "command": ["a"],
                "resources": {
                    "nodes": 2,
                    "tasks": 8,
                    "requests": {"cpu": "2", "memory": "4Gi", "gpu": "1"},
                    "duration": "60s",
                },
                "annotations": {"jobspec/name": "fit"},
            },
        ),
        (
            {"command": "a", "time": "1h", "env": {"A": "1"}, "cwd": "/data", "cpus": 0.5},
            {
                "command": ["a"],
                "environment": {"A": "1"},
                "working_directory": "/data",
                "resources": {"requests": {"cpu": "0.5"}, "duration": "1h"},
            },
        ),
        (
            {
                "task_type": "t",
                "command": ["a"],
                "image": "x",
                "environment": {"A": "1"},
                "workingDirectory": "/data",
                "resources": {"nodes": 2, "requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
                "storage": "1Gi",
                "requires": [RANGE],
                "outputs": ["o"],
                "labels": {"l": "1"},
                "annotations": {"n": "1"},
                "name": "fit",
            },
            {
                "task_type": "t",
                "command": ["a"],
                "image": "x",
                "environment": {"A": "1"},
                "working_directory": "/data",
                "resources": {"nodes": 2, "requests": {"cpu": "1", "ephemeral_storage": "1Gi"}, "limits": {"cpu": "2"}},
                "requires": [RANGE],
                "outputs": ["o"],
                "labels": {"l": "1"},
                "annotations": {"jobspec/name": "fit", "n": "1"},
            },
        ),
    ],
)
def test_the_simple_form_is_read(document: Any, job: dict[str, Any]) -> None:
    assert read(document) == job


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        ({"command": "a", "comand": 1}, "comand", "Did you mean 'command'"),
        ({"command": 5}, "command", "5 is not a list: give the program"),
        ({"command": ["a", 5]}, "command.1", "put it in quotes"),
        ({"command": "a", "version": 2}, "version", "give version 1"),
        ({"command": "a", "nodes": "two"}, "nodes", "is neither a whole number nor a range"),
        ({"command": "a", "exclusive": "yes"}, "exclusive", "is not a boolean"),
        ({"command": "a", "tasks": [1]}, "tasks", "is not a whole number"),
        ({"command": "a", "cores": "x"}, "cores", "is not a quantity"),
        ({"command": "a", "cores": True}, "cores", "is not a quantity"),
        ({"command": "a", "memory": 10**400}, "memory", "is not a quantity"),
        ({"command": "a", "cores": 1, "cpus": 1}, "cpus", "'cpu' is given twice"),
        ({"command": "a", "nodes": 1, "resources": {"nodes": 1}}, "nodes", "'nodes' is given twice"),
        ({"command": "a", "env": {}, "environment": {}}, "environment", "is given twice"),
        ({"command": "a", "time": 60}, "time", "has no unit"),
        ({"command": "a", "duration": "60"}, "duration", "is not a duration"),
        ({"command": "a", "nodes": None}, "nodes", "is left empty"),
        ({"command": "a", "resources": 5}, "resources", "is not a mapping"),
        ({"command": "a", "name": "x", "annotations": 5}, "annotations", "is not a mapping"),
    ],
)
def test_the_simple_form_is_refused_where_it_is_wrong(document: Any, field: str, reason: str) -> None:
    reasons = refusals(document)
    assert field in reasons
    assert reason in reasons[field]


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "task": {"command": ["a"]}, "resources": {}},
        group(**NODE, requires=[]),
        flux(slot(), system={"constraints": {}}),
        flux(slot(), system={"constraints": {"and": [{}, {"or": []}]}}),
        flux(slot(), attributes=None),
        {"command": "a", "requires": [], "compatibility": {}},
    ],
)
def test_what_is_empty_means_none_where_the_form_allows_it(document: Any) -> None:
    assert "requires" not in read(document) or not read(document)["requires"]


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        (group(**NODE | {"with": []}), "resources.g.with", "is empty: give what is inside"),
        (group(**NODE | {"with": None}), "resources.g.with", "is left empty"),
        (group(type="node", **{"with": [core() | {"with": []}]}), "resources.g.with.0.with", "is empty"),
        (group(type="rack", **{"with": []}), "resources.g.with", "is empty"),
        (group(type="slot", replicas=2), "resources.g.with", "is missing: say what is inside a slot"),
        ({"version": 1, "task": {"command": ["a"]}, "resources": None}, "resources", "is left empty"),
        (group(**NODE) | {"resources": {"g": None}}, "resources.g", "null is not a mapping"),
        (group(**NODE) | {"attributes": {"environment": None}}, "attributes.environment", "is left empty"),
        (group(**NODE) | {"attributes": {"environment": {"A": None}}}, "attributes.environment.A", "null"),
        (flux(slot(**{"with": []})), "resources.0.with", "is empty: give what is inside"),
        (flux({"type": "node", "with": []}), "resources.0.with", "is empty: give what is inside"),
        (flux({"type": "slot", "label": "task"}), "resources.0.with", "is missing: say what is inside a slot"),
        (flux(slot(), system={"constraints": None}), "attributes.system.constraints", "is left empty"),
        (
            flux(slot(), system={"constraints": {"properties": []}}),
            "attributes.system.constraints.properties",
            "names no property",
        ),
        (flux(slot(), system={"duration": None}), "attributes.system.duration", "is left empty"),
        (flux(slot(), attributes={"user": None}), "attributes.user", "is left empty"),
        ({"command": "a", "compatibility": None}, "compatibility", "is left empty"),
        ({"command": "a", "compatibility": {"io": {"f": {"minn": 1}}}}, "compatibility.io.f.minn", "unknown field"),
        ({"command": "a", "compatibility": []}, "compatibility", "a list is not a mapping"),
    ],
)
def test_what_is_left_empty_is_refused(document: Any, field: str, reason: str) -> None:
    reasons = refusals(document)
    assert list(reasons) == [field]
    assert reason in reasons[field]


@pytest.mark.parametrize(
    ("resource", "field", "reason"),
    [
        ({"type": "node", "count": 2 * 10**6, "with": [core()]}, "resources.g", "2,000,000 nodes in all"),
        ({"type": "node", "count": 2, "with": [slot(count=10**6)]}, "resources.g", "2,000,000 tasks in all"),
        (
            {"type": "node", "with": [{"type": "memory", "count": 10**9, "unit": "EiB"}]},
            "resources.g.with.0",
            "1000000000Ei in each slot is larger than any machine",
        ),
    ],
)
def test_more_than_a_job_may_have_is_refused_where_it_stands(resource: Any, field: str, reason: str) -> None:
    assert reason in refusals(group(**resource))[field]


@pytest.mark.parametrize("field", ["requires", "environment"])
def test_an_empty_list_is_no_mapping_and_an_empty_mapping_no_list(field: str) -> None:
    job = read_jobspec({"command": "a", field: {} if field == "requires" else []}, PATH)
    with pytest.raises(Invalid, match=field):
        read_job(job, PATH)


@pytest.mark.parametrize("document", [None, [], "text", 5])
def test_a_jobspec_is_a_mapping(document: Any) -> None:
    assert "is not a mapping" in refusals(document)["spec.jobspec"]


WORDS = ["version", "resources", "tasks", "task", "command", "type", "count", "with", "node", "slot", "core", "label"]
WORDS += [
    "attributes",
    "system",
    "duration",
    "environment",
    "requires",
    "replicas",
    "nodes",
    "name",
    "unit",
    "GB",
    "memory",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(WORDS), JSON, max_size=6))
@example({"resources": {"work": {"type": []}}})
def test_any_document_is_read_or_refused_with_reasons(document: Any) -> None:
    try:
        job = read_jobspec(document, PATH)
    except Invalid as refused:
        problems = refused.problems
    else:
        problems = ()
        assert set(job) <= {"command", "environment", "working_directory", "resources", "requires", "annotations"}
    assert all(problem.field.startswith("spec.jobspec") and problem.reason for problem in problems)


def test_flux_may_write_an_empty_unit_of_anything() -> None:
    inside = [{"type": "socket", "unit": "", "with": [core() | {"unit": ""}]}]
    levels = flux({"type": "node", "unit": "", "with": [slot(*inside, unit="")]})
    assert read_jobspec(levels, ("jobspec",))["resources"]["nodes"] == 1
