from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import GRAPH_TYPES, request_of, with_settings
from admin.core.graph.jobspec_requests import MOST_LEVELS, layered_request, request_in
from admin.core.graph.matching import Matcher
from admin.core.graph.requests import Need, ResourceRequest, Slot, SpreadTasks, Unit, Vertex
from admin.core.graph.requirements import Requirement
from admin.core.graph.summaries import Prune
from admin.core.jobs.jobspecs import read_jobspec
from admin.core.problems import Invalid
from admin.core.resources import parse_demand
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
        (
            group(type="node", count=2, replicas=3, **{"with": [cores(4)]}),
            [Need(Vertex("node", (FOUR_CORES,)), 6)],
        ),
        (
            group(type="node", count={"min": 2, "max": 8}, schedule=True, attributes={}, **{"with": [cores(4)]}),
            [Need(Vertex("node", (FOUR_CORES,)), 2)],
        ),
        (
            group(type="node", **{"with": [cores(4) | {"replicas": 3}]}),
            [Need(Vertex("node", (Need(Slot((FOUR_CORES,)), 3),)), 1)],
        ),
        (group(type="node", count=2), [Need(Unit("node"), 2)]),
        (
            group(type="rack", **{"with": [{"type": "node", "count": 2, "exclusive": True, "with": [cores(4)]}]}),
            [Need(Vertex("rack", (Need(Vertex("node", (FOUR_CORES,), is_exclusive=True), 2),)), 1)],
        ),
        (
            group(type="rack", count=2, **{"with": [cores(4)]}),
            [Need(Vertex("rack", (Need(Slot((FOUR_CORES,)), 1),)), 2)],
        ),
        (
            group(type="rack", **{"with": [cores(4), {"type": "gpu"}, {"type": "ssd"}]}),
            [Need(Vertex("rack", (Need(Slot((FOUR_CORES, Need(Unit("gpu"), 1))), 1), Need(Unit("ssd"), 1))), 1)],
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
            flux(
                {
                    "type": "node",
                    "with": [
                        {
                            "type": "socket",
                            "count": 2,
                            "with": [{"type": "slot", "count": 1, "label": "task", "with": [cores(4)]}],
                        }
                    ],
                }
            ),
            [Need(Vertex("node", (Need(Vertex("socket", (Need(Slot((FOUR_CORES,)), 1),)), 2),)), 1)],
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
        ({"type": "node", "count": {"max": 1}}, "count.min", "is missing"),
        ({"type": "node", "colour": "red"}, "colour", "unknown field 'colour'"),
        ({"type": "node", "with": [{"type": "core", "attributes": {}}]}, "with.0.attributes", "is not supported"),
        ({"type": "node", "with": [{"type": "core", "schedule": False}]}, "with.0.schedule", "is not supported"),
        ({"type": "node", "schedule": False}, "schedule", "the task uses this group"),
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


def slots_in_nodes(nodes: int, slots: int, count: Any = None, held: int = 4) -> dict[str, Any]:
    inner = {"type": "slot", "count": slots, "label": "task", "with": [cores(held)]}
    jobspec = flux({"type": "node", "count": nodes, "with": [inner]})
    return {**jobspec, "tasks": [{**jobspec["tasks"][0], "count": count or {"per_slot": 1}}]}


def asked_of(jobspec: Any) -> ResourceRequest:
    return layered_request(jobspec, ("jobspec",)) or request_of(read_jobspec(jobspec, ("jobspec",)))


def uneven() -> Any:
    """A node of 16 cores and two of 4."""
    document = cluster_document(3, 4)
    document["graph"]["nodes"]["extra"] = {"metadata": {"type": "core", "size": 12}}
    document["graph"]["edges"].append({"source": "1", "target": "extra", "relation": "contains"})
    return read_description(document)


@pytest.mark.parametrize(
    ("jobspec", "is_fitting"),
    [
        (slots_in_nodes(3, 1), True),
        (slots_in_nodes(1, 4), True),
        # Six slots of 4 cores there are, but not two in each of three nodes.
        (slots_in_nodes(3, 2), False),
        (group(type="node", count=3, **{"with": [{"type": "slot", "count": 2, "with": [cores(4)]}]}), False),
        (group(type="node", count=3, **{"with": [cores(4) | {"replicas": 2}]}), False),
        (group(type="node", count=3, **{"with": [{"type": "socket", "with": [cores(4) | {"replicas": 2}]}]}), False),
        # Four tasks in three slots of 4 cores share them; each by itself would need 3.
        (slots_in_nodes(3, 1, {"total": 4}), True),
        # Four tasks in six slots leave two of them empty, which are asked for all the same.
        (slots_in_nodes(3, 2, {"total": 4}, held=2), True),
        (slots_in_nodes(3, 2, {"total": 4}), False),
    ],
)
def test_slots_are_in_every_node(jobspec: Any, is_fitting: bool) -> None:
    assert Matcher(asked_of(jobspec)).fits(uneven()) == is_fitting


def test_what_settings_give_a_job_is_asked_for_in_each_slot() -> None:
    memory = Need(Unit("memory", is_default=True), 2**30)
    job = {"resources": {"tasks": 6, "requests": {"cpu": "4", "memory": "1Gi"}}}
    given = {"resources": {"requests": {"cpu": "4"}}}

    def asked(*needs: Need) -> tuple[Need, ...]:
        return with_settings(ResourceRequest(needs), job, given).needs

    slot = Slot((FOUR_CORES, memory))
    assert asked(Need(Slot((FOUR_CORES,)), 6)) == (Need(slot, 6),)
    assert asked(Need(Vertex("node", (Need(Slot((FOUR_CORES,)), 3),)), 2)) == (
        Need(Vertex("node", (Need(Slot((FOUR_CORES,)), 3), Need(memory.resource, 3 * 2**30))), 2),
    )
    # Of a slot that holds a node, the node has it.
    assert asked(Need(Slot((Need(Vertex("node", (FOUR_CORES,)), 1),)), 6)) == (
        Need(Slot((Need(Vertex("node", (FOUR_CORES, memory)), 1),)), 6),
    )
    assert asked(Need(Vertex("rack", (Need(Unit("node"), 3),)), 2)) == (
        Need(Vertex("rack", (Need(Vertex("node", (memory,)), 3),)), 2),
    )
    # Two tasks in each slot.
    assert asked(Need(Slot((FOUR_CORES,)), 3)) == (
        Need(Slot((FOUR_CORES, Need(Unit("memory", is_default=True), 2**31))), 3),
    )
    assert with_settings(ResourceRequest((Need(slot, 6),)), job, job).needs == (Need(slot, 6),)


@pytest.mark.parametrize("inside", [[cores(4)], [{"type": "socket", "with": [cores(4)]}]], ids=["cores", "socket"])
def test_a_slot_that_holds_one_node_is_that_node_with_a_slot(inside: list[dict[str, Any]]) -> None:
    requires = [{"name": "io", "field": "type", "match": "nvme"}]
    turned = group(
        type="slot", count=3, label="x", **{"with": [{"type": "node", "requires": requires, "with": inside}]}
    )
    plain = group(type="node", count=3, requires=requires, **{"with": [{"type": "slot", "label": "x", "with": inside}]})
    assert read_jobspec(turned, ("jobspec",)) == read_jobspec(plain, ("jobspec",))
    assert request_in(turned) == request_in(plain)
    assert layered_request(turned, ("jobspec",)) == layered_request(plain, ("jobspec",))
    several = group(type="slot", count=3, **{"with": [{"type": "node", "count": 2, "with": inside}]})
    with pytest.raises(Invalid, match="a node cannot stand here"):
        read_jobspec(several, ("jobspec",))


@pytest.mark.parametrize("around", [[], [("rack", 1)], [("rack", 1), ("node", 2)], [("node", 2), ("socket", 1)]])
def test_constraints_of_flux_hold_for_every_node(around: list[tuple[str, int]]) -> None:
    """Two of three nodes are big."""
    document = json.loads((FILES.parent / "graphs" / "cluster-nodes.json").read_text())
    for node in ("2", "16"):
        document["graph"]["nodes"][node]["metadata"]["properties"] = {"big": ""}
    graph = read_description(document)
    for slots, is_fitting in ((12, True), (13, False)):
        count = slots if ("node", 2) in around else 2 * slots
        resource: dict[str, Any] = {"type": "slot", "count": count, "label": "task", "with": [cores(1)]}
        for type_, number in reversed(around):
            resource = {"type": type_, "count": number, "with": [resource]}
        jobspec = flux(resource) | {"attributes": {"system": {"constraints": {"properties": ["big"]}}}}
        assert Matcher(asked_of(jobspec)).fits(graph) == is_fitting


@pytest.mark.parametrize("big", [2, 3])
def test_constraints_of_flux_hold_for_the_node_of_a_slot(big: int) -> None:
    document = json.loads((FILES.parent / "graphs" / "cluster-nodes.json").read_text())
    for node in ("2", "16", "30")[:big]:
        document["graph"]["nodes"][node]["metadata"]["properties"] = {"big": ""}
    held = {"type": "node", "with": [cores(2)]}
    jobspec = flux({"type": "slot", "count": 3, "label": "task", "with": [held]}) | {
        "attributes": {"system": {"constraints": {"properties": ["big"]}}}
    }
    jobspec["tasks"][0]["count"] = {"total": 6}
    assert Matcher(asked_of(jobspec)).fits(read_description(document)) == (big == 3)


def test_one_type_with_several_requirements() -> None:
    """Four gpus, of two models: each of which is enough for two, and none for three."""
    vertices: dict[str, Any] = {"node": {"metadata": {"type": "node"}}}
    for model in ("a100", "h100"):
        vertices[model] = {"metadata": {"type": "gpu", "size": 2, "model": model}}
    edges = [{"source": "node", "target": model, "relation": "contains"} for model in ("a100", "h100")]
    graph = read_description({"graph": {"nodes": vertices, "edges": edges}})

    def fits(**counts: int) -> bool:
        gpus = [
            {"type": "gpu", "count": count, "requires": [{"name": "cluster", "field": "model", "match": model}]}
            for model, count in counts.items()
        ]
        jobspec = group(type="node", **{"with": gpus})
        assert read_jobspec(jobspec, ("jobspec",))["resources"]["requests"]["gpu"] == str(sum(counts.values()))
        return Matcher(asked_of(jobspec)).fits(graph)

    assert fits(a100=2, h100=2)
    assert not fits(a100=3, h100=1)


#: What may stand inside each level, and the amounts of a task.
INSIDE = {
    "cluster": ("rack", "chassis", "node", "slot", "amount"),
    "rack": ("chassis", "node", "slot", "amount"),
    "chassis": ("blade", "node", "slot", "amount"),
    "blade": ("node", "numanode", "amount"),
    "node": ("socket", "numanode", "slot", "amount", "amount"),
    "socket": ("slot", "amount"),
    "numanode": ("slot", "amount"),
    "slot": ("node", "socket", "amount", "amount"),
}


def drawn_resource(random: Random, levels: int, *types: str) -> dict[str, Any]:
    type_ = random.choice(types)
    if type_ == "amount" or not levels:
        amount = random.choice(("core", "core", "gpu", "memory", "fpga"))
        unit = {"unit": "GiB"} if amount == "memory" else {}
        replicas = {"replicas": 2} if random.random() < 0.1 else {}
        return {"type": amount, "count": random.randint(1, 3), **unit, **replicas}
    inner = [drawn_resource(random, levels - 1, *INSIDE[type_]) for _ in range(random.choice((1, 1, 1, 2)))]
    return {"type": type_, "count": random.randint(1, 3), "with": inner}


def slots_in(needs: tuple[Need, ...]) -> int:
    """How many slots needs have in all, those inside their vertices among them."""
    slots = 0
    for resource, count in needs:
        if not isinstance(resource, Unit):
            slots += count * (1 if isinstance(resource, Slot) else slots_in(resource.contents))
    return slots


def test_a_group_asks_of_a_graph_what_its_job_has() -> None:
    """A cluster that is described and one that is not are asked for the same amounts, and each slot is a task."""
    taken = 0
    for seed in range(3000):
        random = Random(seed)
        jobspec = group(**drawn_resource(random, 4, *INSIDE, "amount"))
        try:
            resources = read_jobspec(jobspec, ())["resources"]
        except Invalid:
            continue
        taken += 1
        request = request_in(jobspec)
        totals = Prune.of(request).totals
        for name, type_ in GRAPH_TYPES.items():
            each = parse_demand(name, resources.get("requests", {}).get(name, "0"))
            assert totals.get(type_, 0) == each * resources["tasks"], jobspec
        assert slots_in(request.needs) in (0, resources["tasks"]), jobspec
    assert taken > 1000
