"""Descriptions of clusters that tests send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient

from tests.support.placing import API, ok, put_cluster

DATA = Path(__file__).parents[1] / "data"


def example(name: str) -> Any:
    """One of the example graphs of Rainbow's first scheduler."""
    return json.loads((DATA / "graphs" / name).read_text())


def example_description() -> dict[str, Any]:
    """Three nodes of twelve cores in a rack, with storage and software linked to the nodes."""
    subsystems = {"io": example("cluster-io-subsystem.json"), "spack": example("spack-subsystem.json")}
    return {**example("cluster-nodes.json"), "subsystems": subsystems}


def pooled(nodes: int, cores: int, **amounts: int) -> dict[str, Any]:
    """A graph of nodes n1, n2 … whose cores, and other amounts by type, are one vertex each."""
    return mixed(*[{"core": cores, **amounts}] * nodes)


def mixed(*nodes: Mapping[str, int]) -> dict[str, Any]:
    """The same of nodes that have different amounts."""
    vertices: dict[str, Any] = {"0": {"metadata": {"type": "cluster"}}}
    edges = []
    for number, amounts in enumerate(nodes, start=1):
        node = f"n{number}"
        vertices[node] = {"metadata": {"type": "node", "name": node}}
        edges.append({"source": "0", "target": node, "relation": "contains"})
        for type_, size in amounts.items():
            vertices[f"{node}-{type_}"] = {"metadata": {"type": type_, "size": size}}
            if type_ == "memory":
                vertices[f"{node}-{type_}"]["metadata"]["unit"] = "GiB"
            edges.append({"source": node, "target": f"{node}-{type_}", "relation": "contains"})
    return {"graph": {"nodes": vertices, "edges": edges}}


def describe(api: FlaskClient, cluster: str, description: Any = None, **more: Any) -> Any:
    """Set the description of a cluster, which is defined first; the example's by default."""
    put_cluster(api, cluster)
    document = example_description() if description is None else description
    return ok(api.put(f"{API}/clusters/{cluster}/description", json={**document, **more}))


def vertex(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"type": "node", **metadata}}


def graph(nodes: Any, *edges: tuple[str, str], **more: Any) -> dict[str, Any]:
    listed = [{"source": source, "target": target, "relation": "contains"} for source, target in edges]
    return {"graph": {"nodes": nodes, "edges": listed}, **more}


_TWO = {"a": vertex(), "b": vertex(type="core")}
#: Descriptions that are refused, with the field and part of the reason.
BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "dangling edge": (graph(_TWO, ("a", "b"), ("a", "c")), "graph.edges.1", "no vertex has the id 'c'"),
    "cycle": (graph({"r": vertex(), **_TWO}, ("a", "b"), ("b", "a")), "graph.edges", "inside itself"),
    "two roots": (graph(_TWO), "graph.nodes", "inside no other"),
    "no root": (graph(_TWO, ("a", "b"), ("b", "a")), "graph.nodes", "has no root"),
    "duplicate ids": (
        graph([{"id": "a", **vertex()}, {"id": "a", **vertex()}]),
        "graph.nodes.a",
        "is given twice",
    ),
    "negative size": (graph({"a": vertex(size=-1)}), "graph.nodes.a.metadata.size", "is below zero"),
    "fractional size": (graph({"a": vertex(size=1.5)}), "graph.nodes.a.metadata.size", "is not a whole number"),
    "unknown type": (graph({"a": vertex(type="7 up")}), "graph.nodes.a.metadata.type", "is not a type"),
    "a slot": (graph({"a": vertex(type="slot")}), "graph.nodes.a.metadata.type", "is what jobs ask for"),
    "a size beside the metadata": (
        graph({"a": {**vertex(), "size": 4}}),
        "graph.nodes.a.size",
        "is outside the metadata of the vertex",
    ),
    "no nodes": (graph({}), "graph.nodes", "is empty"),
    "no graph": ({}, "graph", "is missing"),
    "no mapping": ({"graph": 7}, "graph", "is not a mapping"),
    "a subsystem of nobody": (
        graph({"a": vertex()}, subsystems={"io": graph({"x": vertex()}, ("a", "y"))}),
        "subsystems.io.graph.edges.0",
        "no vertex has the id 'y'",
    ),
    "a cycle in a subsystem": (
        graph({"a": vertex()}, subsystems={"io": graph({"x": vertex()}, ("a", "x"), ("x", "x"))}),
        "subsystems.io.graph.edges",
        "inside themselves",
    ),
    "a subsystem without a link": (
        graph({"a": vertex()}, subsystems={"io": graph({"x": vertex()})}),
        "subsystems.io.graph.nodes",
        "no link to the main graph",
    ),
    "a unit of cores": (graph({"a": vertex(type="core", unit="GiB")}), "graph.nodes.a.metadata.unit", "has no unit"),
    "subsystems as a list": (graph({"a": vertex()}, subsystems=[]), "subsystems", "is not a mapping"),
    "both graphs": (graph({"a": vertex()}, scheduling={"graph": {}}), "scheduling", "give one of the two"),
    "an unknown field": (
        graph({"a": vertex()}, colour="red"),
        "colour",
        "Known: attributes, claimed_by, execution, graph, message, ",
    ),
    "a long message": (graph({"a": vertex()}, message="x" * 1001), "message", "1000"),
}
