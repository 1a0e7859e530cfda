"""A model of the nodes of a cluster: what is free of each, and whether jobs have places on them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class ModelNode(NamedTuple):
    """The cores and GPUs that are free of a node, and those that it has."""

    cores: int
    gpus: int
    all_cores: int
    all_gpus: int
    name: str = ""

    def without(self, job: ModelJob) -> ModelNode | None:
        """What a job leaves of it; None where it has no place."""
        is_idle = (self.cores, self.gpus) == (self.all_cores, self.all_gpus)
        if self.cores < job.cores or self.gpus < job.gpus or (job.exclusive and not is_idle):
            return None
        if job.exclusive:
            return self._replace(cores=0, gpus=0)
        return self._replace(cores=self.cores - job.cores, gpus=self.gpus - job.gpus)


Nodes = tuple[ModelNode, ...]


class ModelJob(NamedTuple):
    """A job of some nodes, with so many cores and GPUs on each."""

    nodes: int
    cores: int
    gpus: int
    exclusive: bool = False

    @property
    def spec(self) -> dict[str, Any]:
        """The part of a request that asks for it."""
        requests = {"cpu": str(self.cores), **({"gpu": str(self.gpus)} if self.gpus else {})}
        resources = {"nodes": self.nodes, "tasks": self.nodes, "requests": requests, "duration": "10s"}
        resources |= {"exclusive": True} if self.exclusive else {}
        return {"job": {"command": ["true"], "resources": resources}}


def places(nodes: Nodes, jobs: Sequence[ModelJob]) -> Nodes | None:
    """What jobs leave of nodes where they have places together, None where they have none: tries everything."""
    return _places(nodes, sorted(jobs, key=lambda job: (job.exclusive, job), reverse=True), set())


def _places(nodes: Nodes, jobs: Sequence[ModelJob], failed: set[tuple[tuple[Any, ...], int]]) -> Nodes | None:
    if not jobs:
        return nodes
    alike = tuple(sorted(node[:4] for node in nodes))
    if (alike, len(jobs)) in failed:
        return None
    for left in _placed(nodes, jobs[0], jobs[0].nodes, 0):
        result = _places(left, jobs[1:], failed)
        if result is not None:
            return result
    failed.add((alike, len(jobs)))
    return None


def _placed(nodes: Nodes, job: ModelJob, count: int, start: int) -> Iterator[Nodes]:
    """What every way to place a job on so many nodes from one on leaves of them."""
    if count == 0:
        yield nodes
        return
    for number in range(start, len(nodes)):
        left = nodes[number].without(job)
        if left is not None:
            yield from _placed((*nodes[:number], left, *nodes[number + 1 :]), job, count - 1, number + 1)


@dataclass
class ModelCluster:
    """A cluster of which some is in use."""

    name: str
    free: Nodes

    @property
    def report(self) -> dict[str, Any]:
        """What its agent reports."""
        nodes = {node.name: {"cpu": str(node.cores), "gpu": str(node.gpus)} for node in self.free}
        total = {"cpu": _sum(node.all_cores for node in self.free), "gpu": _sum(node.all_gpus for node in self.free)}
        free = {"cpu": _sum(node.cores for node in self.free), "gpu": _sum(node.gpus for node in self.free)}
        return {"capacity": {**total, "nodes": len(self.free)}, "free": free, "nodes": nodes}

    def grow(self, number: int) -> None:
        """Have something of a node given back by others."""
        node = self.free[number]
        more = node._replace(cores=min(node.all_cores, node.cores + 1), gpus=min(node.all_gpus, node.gpus + 1))
        self.free = (*self.free[:number], more, *self.free[number + 1 :])


def _sum(amounts: Iterable[int]) -> str:
    return str(sum(amounts))
