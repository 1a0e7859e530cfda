"""What a Flux instance has: resource sets (R, version 1), and which jobs fit into them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from agent.engines.base import Task, is_exclusive
from agent.engines.batch.shapes import cores, is_anywhere, shape
from agent.engines.requirements import is_equal
from agent.quantities import per_task, round_up

#: The names of the main graph in requirements.
_OF_NODES = ("cluster", "containment")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Node:
    """A broker rank, or what is left of it: its name, its cores and gpus, and its properties."""

    rank: int
    name: str
    cores: frozenset[int] = frozenset()
    gpus: frozenset[int] = frozenset()
    properties: frozenset[str] = field(default=frozenset())

    def without(self, other: Node) -> Node:
        """What is left when something is taken."""
        return replace(self, cores=self.cores - other.cores, gpus=self.gpus - other.gpus)


Nodes = Mapping[int, Node]


def expand_ids(text: str) -> list[int]:
    """The numbers in `0-3,7`."""
    numbers: list[int] = []
    for part in text.strip("[] ").split(","):
        match = _RANGE.fullmatch(part)
        if match is not None:
            numbers += range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1)
    return numbers


def expand_hosts(text: str) -> list[str]:
    """The names in `login,node[08-10,12]-ib`."""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        begin, bracket, rest = part.partition("[")
        if not bracket:
            names.append(part)
            continue
        inside, _, end = rest.partition("]")
        for first, last in _RANGE.findall(inside):
            width = len(first)
            for number in range(int(first), int(last or first) + 1):
                names += expand_hosts(f"{begin}{number:0{width}}{end}")
    return names


def read_nodes(resource_set: Mapping[str, Any] | None) -> dict[int, Node]:
    """The nodes of a resource set by rank; names that several ranks have, as in a test instance, get theirs added."""
    execution = (resource_set or {}).get("execution") or {}
    children: dict[int, Mapping[str, str]] = {}
    for entry in execution.get("R_lite") or ():
        for rank in expand_ids(str(entry["rank"])):
            children[rank] = {**children.get(rank, {}), **entry.get("children", {})}
    names = [name for hosts in execution.get("nodelist") or () for name in expand_hosts(hosts)]
    by_rank = dict(zip(sorted(children), names, strict=False))
    properties: dict[int, set[str]] = {}
    for name, ranks in (execution.get("properties") or {}).items():
        for rank in expand_ids(ranks):
            properties.setdefault(rank, set()).add(name)
    return {
        rank: Node(
            rank=rank,
            name=_unique_name(rank, by_rank),
            cores=frozenset(expand_ids(has.get("core", ""))),
            gpus=frozenset(expand_ids(has.get("gpu", ""))),
            properties=frozenset(properties.get(rank, ())),
        )
        for rank, has in sorted(children.items())
    }


def _unique_name(rank: int, names: Mapping[int, str]) -> str:
    name = names.get(rank, f"rank{rank}")
    return f"{name}-{rank}" if list(names.values()).count(name) > 1 else name


def hosts_of(resource_set: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names of the machines in a resource set, each once."""
    lists = ((resource_set or {}).get("execution") or {}).get("nodelist") or ()
    return tuple(dict.fromkeys(name for hosts in lists for name in expand_hosts(hosts)))


@dataclass(frozen=True)
class Resources:
    """All nodes, and what is free of those that are up."""

    all: Nodes
    free: Nodes

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Resources:
        """From what Flux says is there, down and allocated."""
        nodes, down, allocated = (read_nodes(answer.get(state)) for state in ("all", "down", "allocated"))
        free = {
            rank: node.without(allocated[rank]) if rank in allocated else node
            for rank, node in nodes.items()
            if rank not in down
        }
        return cls(nodes, free)

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The sums of everything and of what is free; a node is free when it is so as a whole."""
        idle = sum(node == self.all[rank] for rank, node in self.free.items())
        return _sums(self.all, len(self.all)), _sums(self.free, idle)

    def room(self) -> dict[str, Any]:
        """What is free of each node by its name, but for those that are free as a whole."""
        rooms: dict[str, Any] = {}
        for rank, node in self.all.items():
            free = self.free.get(rank)
            if free is None:
                rooms[node.name] = {"closed": True}
            elif free != node:
                rooms[node.name] = {"cpu": str(len(free.cores)), "gpu": str(len(free.gpus))}
        return rooms

    def taken(self, resource_sets: Iterable[Mapping[str, Any]]) -> Resources:
        """What is left when jobs have started since."""
        free = dict(self.free)
        for resource_set in resource_sets:
            for rank, node in read_nodes(resource_set).items():
                if rank in free:
                    free[rank] = free[rank].without(node)
        return Resources(self.all, free)

    @property
    def properties(self) -> frozenset[str]:
        """All properties that nodes have."""
        return frozenset(name for node in self.all.values() for name in node.properties)

    def having(self, properties: Iterable[str]) -> Resources:
        """The nodes with all of these properties, as a queue or a job requires them."""
        needed = set(properties)
        ranks = {rank for rank, node in self.all.items() if needed <= node.properties}
        return Resources(*({rank: node for rank, node in of.items() if rank in ranks} for of in (self.all, self.free)))


def required_properties(task: Task, known: Collection[str]) -> list[str]:
    """The properties of nodes that a job requires as the description shows them, of those that the instance has."""
    names = []
    for entry in task.job.get("requires") or ():
        match = entry.get("match")
        # In the graph of its scheduler a property without a value is an empty text.
        is_of_node = entry.get("name") in _OF_NODES and any(is_equal(value, match) for value in ("", True))
        prefix, _, name = str(entry.get("field", "")).partition(".")
        if is_of_node and prefix == "properties" and name in known and name not in names:
            names.append(name)
    return names


def _sums(nodes: Nodes, count: int) -> dict[str, Any]:
    cpu, gpu = (sum(len(getattr(node, name)) for node in nodes.values()) for name in ("cores", "gpus"))
    return {"cpu": str(cpu), "gpu": str(gpu), "nodes": count}


@dataclass(frozen=True)
class Demand:
    """What a job asks for: so many slots, on so many nodes or anywhere, with so much each."""

    slots: int
    cores: int
    gpus: int = 0
    #: None where its slots may be on any number of nodes.
    nodes: int | None = None
    is_exclusive: bool = False

    @classmethod
    def of(cls, task: Task) -> Demand:
        nodes, tasks = shape(task)
        gpus = round_up(per_task(task.job, "gpu") or per_task(task.job, "gpu", "limits") or Fraction(0))
        per_node = -(-tasks // nodes)
        if is_anywhere(task) or (nodes == 1 and tasks == 1 and not is_exclusive(task.job)):
            return cls(tasks, cores(task), gpus)
        return cls(per_node * nodes, cores(task), gpus, nodes, is_exclusive(task.job))

    def fits(self, counts: Iterable[tuple[int, int]]) -> bool:
        """Whether it fits on nodes with so many free cores and gpus each."""
        slots = [self._slots(free_cores, free_gpus) for free_cores, free_gpus in counts]
        if self.nodes is None:
            return sum(slots) >= self.slots
        return sum(count >= self.slots // self.nodes for count in slots) >= self.nodes

    def _slots(self, free_cores: int, free_gpus: int) -> int:
        return min(free_cores // self.cores, free_gpus // self.gpus if self.gpus else free_cores)


def fits_now(demand: Demand, resources: Resources) -> bool:
    """Whether a job fits into what is free."""
    idle = {rank: node for rank, node in resources.free.items() if node == resources.all[rank]}
    return demand.fits(_counts(idle if demand.is_exclusive else resources.free))


def fits_ever(demand: Demand, resources: Resources) -> bool:
    """Whether a job fits where everything is up and free."""
    return demand.fits(_counts(resources.all))


def seconds_until_fit(
    demand: Demand, resources: Resources, running: Sequence[Mapping[str, Any]], now: float
) -> float | None:
    """When a job fits by the time limits of those that run; None where these do not tell.

    Jobs are not shown with their gpus, so nothing is said of one that waits for gpus.
    """
    if fits_now(demand, resources):
        return 0.0
    if demand.gpus:
        return None
    left = {rank: len(node.cores) for rank, node in resources.free.items()}
    ends = sorted((job for job in running if job.get("expiration")), key=lambda job: float(job["expiration"]))
    for job in ends:
        ranks = expand_ids(str(job.get("ranks", "")))
        for rank in ranks:
            if rank in left:
                share = -(-int(job.get("ncores", 0)) // len(ranks))
                left[rank] = min(len(resources.all[rank].cores), left[rank] + share)
        counts = [
            (count, 0)
            for rank, count in left.items()
            if not demand.is_exclusive or count == len(resources.all[rank].cores)
        ]
        if demand.fits(counts):
            return max(0.0, float(job["expiration"]) - now)
    return None


def seconds_until_over(waiting: Iterable[Mapping[str, Any]], now: float) -> float | None:
    """When the last of some waiting jobs has ended, by the scheduler's estimates of their start and by their limits.

    0 if none waits; None where one has no estimate or no limit.
    """
    ends = [0.0]
    for job in waiting:
        estimate = ((job.get("annotations") or {}).get("sched") or {}).get("t_estimate")
        if not isinstance(estimate, int | float) or not job.get("duration"):
            return None
        ends.append(max(float(estimate) - now, 0.0) + float(job["duration"]))
    return max(ends)


def _counts(nodes: Nodes) -> list[tuple[int, int]]:
    return [(len(node.cores), len(node.gpus)) for node in nodes.values()]
