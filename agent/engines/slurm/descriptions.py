"""The description of a Slurm cluster, from what scontrol shows of its nodes and partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent.engines.graphs import GraphBuilder

_GPU = re.compile(r"(?:^|,)gpu(?::([^:,()]+))?:(\d+)")
#: What Slurm shows of a field that is empty.
_NONE = ("", "(null)", "N/A")


def describe(
    cluster: str, nodes: Sequence[Mapping[str, str]], partitions: Sequence[Mapping[str, str]]
) -> dict[str, Any] | None:
    """The graph of all nodes, whatever their state; None where there are none yet.

    Cores are what Slurm calls CPUs and jobs get of a node. Features are properties of the nodes, and partitions are a
    subsystem that is linked to the nodes that each has.
    """
    graph = GraphBuilder(cluster)
    by_partition: dict[str, list[str]] = {}
    named = [node for node in nodes if node.get("NodeName") and "FUTURE" not in node.get("State", "")]
    for node in sorted(named, key=lambda node: node["NodeName"]):
        id_ = graph.add_node(node["NodeName"], _fields(node))
        _add_cores(graph, id_, node)
        if memory := _number(node.get("RealMemory")):
            graph.add_pool(id_, "memory", memory, unit="MiB")
        for model, number in _GPU.findall(node.get("Gres", "")):
            graph.add_pool(id_, "gpu", int(number), **({"model": model} if model else {}))
        for name in _listed(node.get("Partitions")):
            by_partition.setdefault(name, []).append(id_)
    for partition in partitions:
        name = partition.get("PartitionName", "")
        if name in by_partition:
            fields = {"default": partition.get("Default") == "YES"}
            graph.link("partition", name, fields, by_partition[name])
    return graph.document() if named else None


def _fields(node: Mapping[str, str]) -> dict[str, Any]:
    features = _listed(node.get("AvailableFeatures"))
    fields: dict[str, Any] = {"properties": dict.fromkeys(features, True)} if features else {}
    return fields | {"arch": node["Arch"]} if node.get("Arch", "") not in _NONE else fields


def _add_cores(graph: GraphBuilder, node: str, record: Mapping[str, str]) -> None:
    cpus = _number(record.get("CPUEfctv")) or _number(record.get("CPUTot"))
    sockets = _number(record.get("Sockets"))
    if sockets < 2 or cpus % sockets:  # some cores are Slurm's own: nobody knows of which socket
        graph.add_pool(node, "core", cpus)
        return
    for number in range(sockets):
        graph.add_pool(graph.add_holder(node, "socket", number), "core", cpus // sockets)


def _listed(text: str | None) -> list[str]:
    return [] if text is None or text in _NONE else sorted(filter(None, text.split(",")))


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
