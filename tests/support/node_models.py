"""A model of the nodes of a cluster: what is free of each, and whether jobs have places on them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

#: The cores and GPUs that are free of each node.
Nodes = tuple[tuple[int, int], ...]


class ModelJob(NamedTuple):
    """A job of some nodes, with so many cores and GPUs on each."""

    nodes: int
    cores: int
    gpus: int

    @property
    def spec(self) -> dict[str, Any]:
        """The part of a request that asks for it."""
        requests = {"cpu": str(self.cores), **({"gpu": str(self.gpus)} if self.gpus else {})}
        resources = {"nodes": self.nodes, "tasks": self.nodes, "requests": requests, "duration": "10s"}
        return {"job": {"command": ["true"], "resources": resources}}


def places(nodes: Nodes, jobs: Sequence[ModelJob]) -> Nodes | None:
    """What jobs leave of nodes where they have places together, None where they have none: tries everything."""
    return _places(tuple(sorted(nodes)), sorted(jobs, reverse=True), set())


def _places(nodes: Nodes, jobs: Sequence[ModelJob], failed: set[tuple[Nodes, int]]) -> Nodes | None:
    if not jobs:
        return nodes
    if (nodes, len(jobs)) in failed:
        return None
    for left in _placed(nodes, jobs[0], jobs[0].nodes, 0):
        result = _places(tuple(sorted(left)), jobs[1:], failed)
        if result is not None:
            return result
    failed.add((nodes, len(jobs)))
    return None


def _placed(nodes: Nodes, job: ModelJob, count: int, start: int) -> Iterator[Nodes]:
    """What every way to place a job on so many nodes from one on leaves of them."""
    if count == 0:
        yield nodes
        return
    for number in range(start, len(nodes)):
        cores, gpus = nodes[number]
        if cores >= job.cores and gpus >= job.gpus:
            taken = (*nodes[:number], (cores - job.cores, gpus - job.gpus), *nodes[number + 1 :])
            yield from _placed(taken, job, count - 1, number + 1)


@dataclass
class ModelCluster:
    """A cluster whose nodes are alike, of which some is in use."""

    name: str
    cores: int
    gpus: int
    free: Nodes

    @property
    def report(self) -> dict[str, Any]:
        """What its agent reports."""
        nodes = {
            f"n{number}": {"cpu": str(cores), "gpu": str(gpus)}
            for number, (cores, gpus) in enumerate(self.free, start=1)
        }
        total = {"cpu": str(len(self.free) * self.cores), "gpu": str(len(self.free) * self.gpus)}
        free = {"cpu": str(sum(cores for cores, _ in self.free)), "gpu": str(sum(gpus for _, gpus in self.free))}
        return {"capacity": {**total, "nodes": len(self.free)}, "free": free, "nodes": nodes}

    def grow(self, number: int) -> None:
        """Have something of a node given back by others."""
        cores, gpus = self.free[number]
        more = (min(self.cores, cores + 1), min(self.gpus, gpus + 1))
        self.free = (*self.free[:number], more, *self.free[number + 1 :])
