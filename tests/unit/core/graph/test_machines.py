"""Machines: the answers about described clusters, and the forms in which graphs and requests are kept."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admin.core.graph.compiled import compile_description, read_document, read_folded
from admin.core.graph.descriptions import read_description
from admin.core.graph.folding import fold, unfold
from admin.core.graph.inventories import differences, warnings_of
from admin.core.graph.job_requests import request_of
from admin.core.graph.machines import Machines
from admin.core.graph.matching import Matcher
from admin.core.graph.memory import MemoryBackend
from admin.core.graph.request_texts import read_request, write_request
from admin.core.graph.shapes import Shapes
from admin.core.graph.summaries import summarize
from admin.core.graph.trees import tree_of
from tests.support.descriptions import example, example_description, graph, mixed, pooled, vertex
from tests.support.small_graphs import likely_request, random_graph, random_request


def asks(cpu: str, **resources: Any) -> str:
    return write_request(request_of({"resources": {**resources, "requests": {"cpu": cpu}}}))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**64))
def test_what_is_kept_of_a_graph_and_a_request_answers_as_they_do(seed: int) -> None:
    random = Random(seed)
    small = random_graph(random)
    graph = read_description(*small.documents(random))
    request = random_request(random) if random.random() < 0.5 else likely_request(small, random)
    assert read_request(write_request(request)) == request
    kept = unfold(json.loads(json.dumps(fold(graph))), Shapes())
    assert summarize(kept) == summarize(graph)
    assert Matcher(request).fits(kept) == Matcher(request).fits(graph)
    assert tree_of(kept.root) == tree_of(graph.root)


def test_nodes_are_found_in_a_graph_that_was_kept() -> None:
    graph = unfold(fold(read_description(pooled(3, 4))), Shapes())
    left = graph.with_free({"n2": {"core": 1000}}, closed=["n3"])
    assert left.root.below["core"] == 5000


def test_a_machine_is_asked_once_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryBackend()
    machines = Machines(backend)
    small, large = (
        machines.add(name, read_description(document, shapes=machines.shapes))
        for name, document in (("small", pooled(3, 12)), ("large", pooled(3, 64)))
    )
    wanted = asks("13")
    misfits = machines.misfits(wanted, [small, large])
    assert misfits == {"small": "cores: needs 13 on one node, largest node has 12", "large": ""}
    monkeypatch.setattr(backend, "match", None)
    assert machines.misfits(wanted, [large, small]) == misfits
    monkeypatch.undo()
    machines.keep(["large"])
    assert machines.get("small") is None
    assert machines.get("large") is large
    # A decision by an older fleet goes on.
    assert machines.misfits(wanted, [small])["small"] == misfits["small"]


def test_shortages_of_one_cluster_are_one_part_of_a_message() -> None:
    machines = Machines(MemoryBackend())
    machine = machines.add("a", read_description(pooled(3, 12)))
    missing = machines.misfits(asks("1", nodes=4, tasks=48), [machine])["a"]
    assert missing == "cores: needs 48, the cluster has 36, and nodes: needs 4, the cluster has 3"
    assert "; " not in missing


def test_a_machine_tells_of_memory_only_where_its_description_does() -> None:
    machines = Machines(MemoryBackend())
    plain = machines.add("a", read_description(pooled(1, 1)))
    whole = machines.add("b", read_description(pooled(1, 1, memory=4)))
    assert set(plain.totals) == {"cpu", "gpu", "nodes"}
    assert set(whole.totals) == {"cpu", "gpu", "nodes", "memory"}


def test_a_machine_tells_what_each_of_its_nodes_has_at_least() -> None:
    nodes = mixed({"core": 8, "gpu": 2}, {"core": 4, "memory": 4}, {"core": 6})
    machine = Machines(MemoryBackend()).add("a", read_description(nodes))
    assert machine.of_node == {"cpu": 4_000, "gpu": 0, "memory": 0}
    racks = Machines(MemoryBackend()).add("b", read_description(example_description()))
    assert (racks.of_node["cpu"], racks.totals["nodes"]) == (12_000, 3)


def test_a_description_that_says_the_same_has_the_same_digest() -> None:
    description = example_description()
    compiled = compile_description(description, 1000)
    shuffled = {name: description[name] for name in reversed(description)}
    assert compile_description(shuffled, 1000).digest == compiled.digest
    assert read_document(compiled.document) == description
    assert read_folded(compiled.folded, Shapes()).root.below["core"] == 36_000
    assert compiled.inventory["types"]["core"] == {"vertices": 36, "amount": "36"}


def test_a_graph_without_a_node_is_warned_of() -> None:
    racks = graph(
        {"c": vertex(type="cluster"), "r": vertex(type="rack"), "k": vertex(type="core")}, ("c", "r"), ("r", "k")
    )
    [warning] = warnings_of(compile_description(racks, 1000).inventory)
    assert "counts as one machine" in warning
    assert warnings_of(compile_description(pooled(1, 4), 1000).inventory) == []


def test_differences_name_what_changed() -> None:
    def inventory(document: dict[str, Any]) -> dict[str, Any]:
        return compile_description(document, 1000).inventory

    three, four = inventory(pooled(3, 12)), inventory(pooled(4, 12, memory=2))
    assert differences(None, three) == ["first description"]
    assert differences(three, None) == ["removed"]
    assert differences(three, four) == ["nodes: 3 → 4", "cores: 36 → 48", "memory: 0 → 8Gi"]
    assert differences(three, three) == ["the same amounts, arranged or named differently"]
    whole, main = inventory(example_description()), inventory(example("cluster-nodes.json"))
    assert differences(whole, main) == ["subsystem io: removed", "subsystem spack: removed"]
    assert differences(three, main) == ["cores: 36 in 36 vertices, before in 3", "racks: 0 → 1", "sockets: 0 → 3"]


def test_differences_name_the_fields_that_changed() -> None:
    """A feature that was added to a node of Slurm was told as `the same amounts, arranged or named differently`."""

    def inventory(*properties: dict[str, Any]) -> dict[str, Any]:
        document = pooled(len(properties), 4)
        for number, fields in enumerate(properties, start=1):
            document["graph"]["nodes"][f"n{number}"]["metadata"]["properties"] = fields
        return compile_description(document, 1000).inventory

    zones = inventory({"zone": "a"}, {"zone": "b"})
    added = inventory({"zone": "a", "ssd": True}, {"zone": "b"})
    assert differences(zones, added) == ["containment properties.ssd: on 0 → 1 vertices"]
    assert differences(zones, inventory({"zone": "a"}, {"zone": "c"})) == ["containment properties.zone: other values"]
    earlier = {name: part for name, part in zones.items() if name != "fields"}
    assert differences(earlier, added) == ["the same amounts, arranged or named differently"]


def test_an_amount_that_was_written_in_another_unit_is_the_same() -> None:
    inventory = compile_description(pooled(1, 4, memory=1), 1000).inventory
    earlier = {**inventory, "types": {**inventory["types"], "memory": {"vertices": 1, "amount": "1048576Ki"}}}
    assert differences(earlier, inventory) == ["the same amounts, arranged or named differently"]
