"""Descriptions of clusters that tests send."""

from __future__ import annotations

import json
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
    vertices: dict[str, Any] = {"0": {"metadata": {"type": "cluster"}}}
    edges = []
    for number in range(1, nodes + 1):
        node = f"n{number}"
        vertices[node] = {"metadata": {"type": "node", "name": node}}
        edges.append({"source": "0", "target": node, "relation": "contains"})
        for type_, size in {"core": cores, **amounts}.items():
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
