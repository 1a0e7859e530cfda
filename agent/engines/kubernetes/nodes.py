"""The nodes of a cluster: what they have, what is free of them, and their description."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from agent.engines.graphs import GraphBuilder
from agent.engines.kubernetes.placings import selects, tolerates
from agent.engines.kubernetes.states import condition, is_ended
from agent.engines.requirements import is_equal, required_fields, required_properties
from agent.quantities import count, per_task, tasks_on_node
from ctl.client.quantities import parse_quantity

Object = Mapping[str, Any]
Amounts = dict[str, Fraction]

_NATIVE = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "ephemeral_storage"}
_RESOURCES = ("cpu", "memory", "gpu", "ephemeral_storage")
#: Labels that say what requirements ask by other names, or that are a node's own name.
_LEFT_OUT = re.compile(r"(beta\.)?kubernetes\.io/(arch|os|hostname)")
_MODEL = "nvidia.com/gpu.product"
#: The labels that say what requirements ask by other names, and what images and Kubernetes call architectures.
ARCHITECTURE, SYSTEM = "kubernetes.io/arch", "kubernetes.io/os"
_FIELDS = {"arch": ARCHITECTURE, "os": SYSTEM, "model": _MODEL}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Nodes:
    """The nodes of one moment, and the pods on them."""

    def __init__(
        self,
        nodes: Iterable[Object],
        pods: Iterable[Object],
        gpu: str,
        placings: Sequence[Object] = ({},),
        known: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """`placings` are what pods are created with, any of tolerations, affinity and nodeSelector: nodes that none of
        them lets pods go to are left out. `known` are the labels that nodes have or had."""
        self._nodes = {
            node["metadata"]["name"]: node for node in nodes if any(selects(placing, node) for placing in placings)
        }
        self._gpu = gpu
        self._tolerations = [entry for placing in placings for entry in placing.get("tolerations") or ()]
        self._known = known_labels(self._nodes.values()) if known is None else known
        self.total = {name: self._amounts(node["status"].get("allocatable", {})) for name, node in self._nodes.items()}
        self._free = {name: dict(amounts) for name, amounts in self.total.items()}
        self._busy: Counter[str] = Counter()
        for pod in pods:
            name = pod["spec"].get("nodeName")
            if name in self._free and not is_ended(pod):
                self._busy[name] += not _is_of_daemon_set(pod)
                for resource, amount in self._amounts(_requested(pod)).items():
                    self._free[name][resource] -= amount

    def _amounts(self, quantities: Mapping[str, Any]) -> Amounts:
        amounts = dict.fromkeys(_RESOURCES, Fraction(0))
        for name, quantity in quantities.items():
            resource = "gpu" if name == self._gpu else _NATIVE.get(name)
            if resource is not None:
                amounts[resource] += parse_quantity(quantity)
        return amounts

    def _is_closed(self, name: str) -> bool:
        node = self._nodes[name]
        taints = [taint for taint in node["spec"].get("taints") or () if taint["effect"] != "PreferNoSchedule"]
        is_tolerated = all(any(tolerates(entry, taint) for entry in self._tolerations) for taint in taints)
        return bool(node["spec"].get("unschedulable")) or condition(node, "Ready") is None or not is_tolerated

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What all nodes have, and what is free of those that take pods; `nodes` are those without one."""
        open_nodes = [name for name in self._nodes if not self._is_closed(name)]
        total = _sum(self.total.values()) | {"nodes": len(self._nodes)}
        free = _sum(self._free[name] for name in open_nodes)
        return total, free | {"nodes": sum(not self._busy[name] for name in open_nodes)}

    def room(self) -> dict[str, Any]:
        """What is free of each node, but for those that are free as a whole."""
        return {
            name: {"closed": True} if self._is_closed(name) else _quantities(self._free[name], _RESOURCES[:3])
            for name in self._nodes
            if self._is_closed(name) or self._free[name] != self.total[name]
        }

    def fits(self, job: Mapping[str, Any], *, when_empty: bool) -> bool:
        """Whether the tasks of a job fit on the nodes: each on one of them, on as many as the job wants."""
        needed = {resource: per_task(job, resource) or Fraction(0) for resource in _RESOURCES}
        selector = node_selector(job, self._known)
        able = [name for name, node in self._nodes.items() if _has(_labels(node), selector)]
        free = {n: self.total[n] if when_empty else self._free[n] for n in able if when_empty or not self._is_closed(n)}
        places = [_times(amounts, needed, count(job, "tasks")) for amounts in free.values()]
        if count(job, "nodes") > 1 and places:
            # Kubernetes puts no more of them on a node than so many beside the node that has least.
            most = min(places) + tasks_on_node(job)
            places = [min(place, most) for place in places]
        return sum(places) >= count(job, "tasks") and sum(map(bool, places)) >= count(job, "nodes")

    def describe(self, cluster: str) -> dict[str, Any] | None:
        """The graph of all nodes, whatever their state; None where there are none yet."""
        graph = GraphBuilder(cluster)
        for name, node in sorted(self._nodes.items()):
            labels = _labels(node)
            info, total = node["status"].get("nodeInfo", {}), self.total[name]
            properties: dict[str, Any] = {key: text for key, text in labels.items() if not _LEFT_OUT.fullmatch(key)}
            for taint in node["spec"].get("taints") or ():
                if not taint["key"].startswith("node.kubernetes.io/"):  # which says how the node is by now
                    properties[f"taint:{taint['key']}"] = taint.get("value") or True
            fields = {
                **({"arch": info["architecture"]} if info.get("architecture") else {}),
                **({"os": info["operatingSystem"]} if info.get("operatingSystem") else {}),
                **({"properties": properties} if properties else {}),
            }
            vertex = graph.add_node(name, fields)
            cores, thousandths = divmod(math.floor(total["cpu"] * 1000), 1000)
            if thousandths:  # of most nodes, since some of their processors is kept for the system
                graph.add_pool(vertex, "core", cores * 1000 + thousandths, unit="m")
            else:
                graph.add_pool(vertex, "core", cores)
            graph.add_pool(vertex, "memory", int(total["memory"] / 2**20), unit="MiB")
            model = {"model": labels[_MODEL]} if _MODEL in labels else {}
            graph.add_pool(vertex, "gpu", int(total["gpu"]), **model)
        return graph.document() if self._nodes else None


def node_selector(job: Mapping[str, Any], known: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """The labels of the nodes that a job requires, each with the values that will do.

    What is known of no node as a label is left out. Where no node has a value that will do, the job waits for one that
    has it.
    """
    wanted = required_properties(job)
    wanted |= {_FIELDS[field]: match for field, match in required_fields(job).items() if field in _FIELDS}
    selector: dict[str, tuple[str, ...]] = {}
    for label, match in wanted.items():
        if label == ARCHITECTURE:
            match = _ARCHITECTURES.get(match, match)
        if label in known:
            values = sorted(value for value in known[label] if is_equal(value, match))
            selector[label] = tuple(values) or (_label_text(match),)
    return selector


def known_labels(nodes: Iterable[Object]) -> dict[str, set[str]]:
    """The labels of nodes, each with the values that it has."""
    known: dict[str, set[str]] = {}
    for node in nodes:
        for label, value in _labels(node).items():
            known.setdefault(label, set()).add(value)
    return known


def _label_text(match: Any) -> str:
    return str(match).lower() if isinstance(match, bool) else str(match)


def _has(labels: Mapping[str, str], selector: Mapping[str, Collection[str]]) -> bool:
    return all(labels.get(label) in values for label, values in selector.items())


def _labels(node: Object) -> dict[str, str]:
    return node["metadata"].get("labels") or {}


def _is_of_daemon_set(pod: Object) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ())


def _requested(pod: Object) -> dict[str, Any]:
    """What a pod requests: of all containers together, those that run beside them included, or of the largest first."""
    spec = pod["spec"]
    sums: defaultdict[str, Fraction] = defaultdict(Fraction)
    most: defaultdict[str, Fraction] = defaultdict(Fraction)
    for container in spec["containers"]:
        _add(sums, container)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(sums, container)
        else:
            for name, quantity in (container.get("resources", {}).get("requests") or {}).items():
                most[name] = max(most[name], parse_quantity(quantity))
    return {name: _text(max(sums[name], most[name])) for name in {*sums, *most}}


def _add(sums: defaultdict[str, Fraction], container: Object) -> None:
    for name, quantity in (container.get("resources", {}).get("requests") or {}).items():
        sums[name] += parse_quantity(quantity)


def _text(amount: Fraction) -> str:
    return f"{math.ceil(amount * 1000)}m"


def _times(free: Amounts, needed: Amounts, most: int) -> int:
    """How often an amount fits, up to so many times."""
    return max(0, min([most, *(math.floor(free[name] / amount) for name, amount in needed.items() if amount)]))


def _sum(amounts: Iterable[Amounts]) -> dict[str, Any]:
    sums = dict.fromkeys(_RESOURCES, Fraction(0))
    for entry in amounts:
        for resource in sums:
            sums[resource] += max(Fraction(0), entry[resource])
    return _quantities(sums, _RESOURCES)


def _quantities(amounts: Amounts, resources: Iterable[str]) -> dict[str, Any]:
    written = {
        "cpu": lambda amount: f"{math.floor(amount * 1000)}m",
        "memory": lambda amount: f"{math.floor(amount / 2**20)}Mi",
        "ephemeral_storage": lambda amount: f"{math.floor(amount / 2**20)}Mi",
        "gpu": lambda amount: str(math.floor(amount)),
    }
    return {resource: written[resource](max(Fraction(0), amounts[resource])) for resource in resources}
