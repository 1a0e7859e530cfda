from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.jobspec_requests import MOST_LEVELS, request_in
from admin.core.graph.matching import Matcher
from admin.core.graph.requests import Need, ResourceRequest, Slot, SpreadTasks, Unit, Vertex
from admin.core.graph.requirements import Requirement
from admin.core.jobs.jobspecs import read_jobspec
from admin.core.problems import Invalid
from tests.support.small_graphs import cluster_document
from tests.unit.core.graph.test_examples import example

FILES = Path(__file__).parents[3] / "data" / "jobspecs"
FOUR_CORES = Need(Unit("core"), 4000)


def group(**resource: Any) -> dict[str, Any]:
    return {"version": 1, "resources": {"app": resource}, "tasks": [{"command": ["true"], "resources": "app"}]}


def flux(*resources: Any) -> dict[str, Any]:
    return {"version": 1, "resources": list(resources), "tasks": [{"command": ["true"], "slot": "task"}]}


def cores(count: int) -> dict[str, Any]:
    return {"type": "core", "count": count}


@pytest.mark.parametrize(
    ("jobspec", "needs"),
    [
        (group(type="node", count=3, **{"with": [cores(4)]}), [Need(Vertex("node", (FOUR_CORES,)), 3)]),
        (group(type="node", replicas=3, **{"with": [cores(4)]}), [Need(Vertex("node", (FOUR_CORES,)), 3)]),
        (group(type="slot", replicas=3, **{"with": [cores(4)]}), [Need(Slot((FOUR_CORES,)), 3)]),
        (group(type="core", count=4, replicas=3), [Need(Slot((FOUR_CORES,)), 3)]),
        (group(type="core", count=4), [Need(Slot((FOUR_CORES,)), 1)]),
        (group(type="node", count=2), [Need(Unit("node"), 2)]),
        (
            group(type="rack", **{"with": [{"type": "node", "count": 2, "exclusive": True, "with": [cores(4)]}]}),
            [Need(Vertex("rack", (Need(Vertex("node", (FOUR_CORES,), is_exclusive=True), 2),)), 1)],
        ),
        (
            group(type="node", **{"with": [{"type": "socket", "count": 2, "with": [cores(4)]}, {"type": "ssd"}]}),
            [Need(Vertex("node", (Need(Vertex("socket", (FOUR_CORES,)), 2), Need(Unit("ssd"), 1))), 1)],
        ),
        (
            group(type="slot", **{"with": [{"type": "memory", "count": 2, "unit": "GiB"}]}),
            [Need(Slot((Need(Unit("memory"), 2 * 2**30),)), 1)],
        ),
        (
            flux(
                {
                    "type": "node",
                    "count": 2,
                    "with": [{"type": "slot", "count": 3, "label": "task", "with": [cores(4)]}],
                }
            ),
            [Need(Vertex("node", (Need(Slot((FOUR_CORES,)), 3),)), 2)],
        ),
        (
            flux({"type": "slot", "count": 3, "label": "task", "with": [cores(4), {"type": "gpu"}]}),
            [Need(Slot((FOUR_CORES, Need(Unit("gpu"), 1))), 3)],
        ),
        (
            group(
                type="node",
                requires=[{"name": "io", "field": "type", "match": "shm"}],
                **{"with": [{"type": "gpu", "requires": [{"name": "pci", "field": "lanes", "min": 16}]}]},
            ),
            [
                Need(
                    Vertex(
                        "node",
                        (Need(Unit("gpu", (Requirement("pci", "lanes", lowest=16),)), 1),),
                        (Requirement("io", "type", match="shm"),),
                    ),
                    1,
                )
            ],
        ),
    ],
)
def test_resources_as_they_stand(jobspec: Any, needs: list[Need]) -> None:
    assert request_in(jobspec) == ResourceRequest(tuple(needs))


def test_the_simple_form_is_read_as_its_job() -> None:
    request = request_in({"command": ["true"], "nodes": 2, "tasks": 24, "cores": 1})
    assert request == ResourceRequest(spread=SpreadTasks(2, 24, (Need(Unit("core"), 1000),)))


@pytest.mark.parametrize(
    ("resource", "field", "reason"),
    [
        ({}, "type", "is missing"),
        ({"type": 5}, "type", "5 is not a type"),
        ({"type": "a b"}, "type", "'a b' is not a type"),
        ({"type": "node", "count": 0}, "count", "0"),
        ({"type": "node", "count": 1.5}, "count", "1.5"),
        ({"type": "node", "count": {"min": 1}}, "count", "ranges of counts are not supported"),
        ({"type": "node", "count": 2, "replicas": 2}, "replicas", "stands beside a count above one"),
        ({"type": "node", "colour": "red"}, "colour", "unknown field 'colour'"),
        ({"type": "node", "attributes": {}}, "attributes", "is not supported"),
        ({"type": "node", "schedule": False}, "schedule", "is not supported"),
        ({"type": "rack", "exclusive": True}, "exclusive", "only nodes can be exclusive"),
        ({"type": "node", "exclusive": "yes"}, "exclusive", "'yes' is neither true nor false"),
        ({"type": "node", "with": 5}, "with", "5 is not a list"),
        ({"type": "slot"}, "with", "say what is inside a slot"),
        ({"type": "slot", "with": [{"type": "memory"}]}, "with.0.unit", "is missing"),
        ({"type": "slot", "with": [{"type": "memory", "unit": "GBs"}]}, "with.0.unit", "unknown unit 'GBs'"),
        ({"type": "core", "unit": "GB"}, "unit", "a core has no unit"),
        ({"type": "node", "requires": [{"name": "io", "match": "shm"}]}, "requires.0.field", "is missing"),
        ({"type": "node", "requires": {"name": "io"}}, "requires", "a mapping is not a list"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(resource: Any, field: str, reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        request_in(group(**resource))
    refused = {problem.field: problem.reason for problem in caught.value.problems}
    assert reason in refused[f"jobspec.resources.app.{field}"]


def test_levels_are_bounded() -> None:
    resource: dict[str, Any] = cores(1)
    for _ in range(MOST_LEVELS + 1):
        resource = {"type": "group", "with": [resource]}
    with pytest.raises(Invalid, match=f"deeper than {MOST_LEVELS} levels"):
        request_in(group(**resource))


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.*")))
def test_a_jobspec_and_its_job_ask_for_the_same(name: str) -> None:
    jobspec = yaml.safe_load((FILES / name).read_text())
    of_job = request_of(read_jobspec(jobspec, ("jobspec",)))
    graphs = [example(), *(read_description(cluster_document(nodes, cores, 2)) for nodes in (1, 2) for cores in (1, 4))]
    for graph in graphs:
        assert Matcher(request_in(jobspec)).fits(graph) == Matcher(of_job).fits(graph)
