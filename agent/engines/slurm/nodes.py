"""The nodes and partitions of a Slurm cluster."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import Task
from agent.engines.batch.shapes import shape
from agent.engines.slurm.commands import NativeJob, SlurmCommands
from agent.engines.slurm.script import minutes
from ctl.client.words import did_you_mean, listed

_FRESH_SECONDS = 60.0
#: Nodes in one of these states take no jobs.
_NOT_USABLE = {
    "DOWN",
    "DRAIN",
    "DRAINED",
    "DRAINING",
    "FAIL",
    "FAILING",
    "ERROR",
    "UNKNOWN",
    "NOT_RESPONDING",
    "MAINT",
}


class Room:
    """What is free on the nodes of a cluster: as they were last shown, less what jobs have that have started since.

    What starts is seen by a command that is run anyway. A job that started at about the time when the nodes were shown
    may count twice until they are shown again, and one that has ended counts until then.
    """

    def __init__(self) -> None:
        self._free: Counter[str] | None = None  #: when the nodes were last shown
        self._nodes: dict[str, _NodeFree] = {}  #: then, by name
        self._idle: set[str] = set()  #: nodes without a job then
        self._counted: set[str] = set()  #: jobs that ran then
        self._running: dict[str, tuple[Counter[str], Collection[str]]] = {}  #: what each job has, and its nodes, by id

    def show(self, nodes: Sequence[Mapping[str, str]]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The capacity of all nodes, and what is not allocated on those that are up.

        A node that is down counts in the first, so that jobs which need it wait instead of being refused.
        """
        total, self._free, self._idle = _sum(nodes)
        self._nodes = {node["NodeName"]: _node_free(node) for node in nodes if _is_named(node)}
        self._counted = set(self._running)
        return _quantities(total), _quantities(self._free)

    def note(self, job: NativeJob, nodes: Collection[str], *, is_running: bool) -> None:
        """Note whether a job runs."""
        if is_running:
            self._running[job.id] = (_amounts(job.allocated), nodes)
        else:
            self.forget(job.id)

    def forget(self, id: str) -> None:
        """Note that a job does not run."""
        self._running.pop(id, None)

    def free(self) -> dict[str, Any] | None:
        """What is free by now; None before the nodes were shown."""
        if self._free is None:
            return None
        left, idle = self._free.copy(), self._idle
        for id in self._running.keys() - self._counted:
            amounts, nodes = self._running[id]
            left.subtract(amounts)
            idle = idle - set(nodes)
        left["nodes"] = len(idle)
        return _quantities(Counter({resource: max(0, amount) for resource, amount in left.items()}))

    def free_nodes(self) -> dict[str, Any] | None:
        """What is free of each node by now, but for those that are free as a whole; None before they were shown."""
        if self._free is None:
            return None
        left = {name: node.free.copy() for name, node in self._nodes.items()}
        for id in self._running.keys() - self._counted:
            amounts, nodes = self._running[id]
            for name in nodes:
                if name in left:  # what a job has of each of its nodes is not shown
                    left[name].subtract({resource: -(-amount // len(nodes)) for resource, amount in amounts.items()})
        return {
            name: {"closed": True} if node.is_closed else _node_quantities(left[name])
            for name, node in self._nodes.items()
            if node.is_closed or left[name] != node.total
        }


class _NodeFree(NamedTuple):
    """What a node has, and what is free of it."""

    total: Counter[str]
    free: Counter[str]
    is_closed: bool


def _is_named(node: Mapping[str, str]) -> bool:
    return bool(node.get("NodeName")) and "FUTURE" not in node.get("State", "")


def _node_free(node: Mapping[str, str]) -> _NodeFree:
    total, free, _ = _sum([node])
    del total["nodes"]
    is_closed = not free
    del free["nodes"]
    return _NodeFree(total, free, is_closed)


def _node_quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    cpu, memory, gpu = (max(0, amounts[resource]) for resource in ("cpu", "memory", "gpu"))
    return {"cpu": str(cpu), "memory": f"{memory}Mi", "gpu": str(gpu)}


def _amounts(tres: str) -> Counter[str]:
    """The cores, MiB and gpus in `cpu=4,mem=2G,node=1,billing=4,gres/gpu=1`; a site may count gpus by type alone."""
    values = dict(entry.split("=", 1) for entry in tres.split(",") if "=" in entry)
    by_type = sum(_number(value) for name, value in values.items() if name.startswith("gres/gpu:"))
    gpus = _number(values["gres/gpu"]) if "gres/gpu" in values else by_type
    return Counter(cpu=_number(values.get("cpu")), memory=_mebibytes(values.get("mem", "")), gpu=gpus)


def _mebibytes(text: str) -> int:
    """`512M` or `1.50G` in MiB, which Slurm means where it names no unit."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)", text)
    return math.ceil(float(match.group(1)) * 1024.0 ** ("KMGTP".find(match.group(2) or "M") - 1)) if match else 0


def _sum(nodes: Sequence[Mapping[str, str]]) -> tuple[Counter[str], Counter[str], set[str]]:
    """What all nodes have, what is not allocated on those that are up, and the names of those without a job."""
    total: Counter[str] = Counter()
    free: Counter[str] = Counter()
    idle: set[str] = set()
    for node in nodes:
        state = node.get("State", "UNKNOWN")
        flags = set(re.findall(r"[A-Z_]+", state))
        if "FUTURE" in flags:
            continue
        cpu, memory = _number(node.get("CPUEfctv") or node.get("CPUTot")), _number(node.get("RealMemory"))
        gpu = _gpus(node.get("Gres", ""))
        total.update(cpu=cpu, memory=memory, gpu=gpu, nodes=1)
        # An asterisk marks a node that does not respond.
        if not flags & _NOT_USABLE and "*" not in state:
            free.update(
                cpu=max(0, cpu - _number(node.get("CPUAlloc"))),
                memory=max(0, memory - _number(node.get("AllocMem"))),
                gpu=max(0, gpu - _gpus(node.get("GresUsed", ""))),
                nodes=int("IDLE" in flags),
            )
            if "IDLE" in flags:
                idle.add(node.get("NodeName", ""))
    return total, free, idle


def _quantities(sums: Counter[str]) -> dict[str, Any]:
    return {"cpu": str(sums["cpu"]), "memory": f"{sums['memory']}Mi", "gpu": str(sums["gpu"]), "nodes": sums["nodes"]}


class Partitions:
    """The partitions of a cluster, read again when one is missing or after a minute."""

    def __init__(self, commands: SlurmCommands, clock: Clock = SYSTEM_CLOCK) -> None:
        self._commands = commands
        self._clock = clock
        self._records: dict[str, dict[str, str]] = {}
        self._fresh_until = 0.0

    def check(self, task: Task) -> str:
        """Why Slurm would never start a task in its partition, or an empty text."""
        partition = self._find(task.queue)
        if partition is not None:
            return _check_size(task, partition)
        partitions = sorted(self._records)
        if not task.queue:
            return f"queue: the job names none, and Slurm has no default partition: give one of {', '.join(partitions)}"
        suggestion = did_you_mean(task.queue, partitions)
        return f"queue: Slurm has no partition '{task.queue}'.{suggestion} There are {listed(partitions)}."

    def _find(self, name: str) -> dict[str, str] | None:
        """The record of a partition, or of the default one if there is no name."""
        if self._clock.steady() > self._fresh_until or self._known(name) is None:
            records = self._commands.records("show", "partitions")
            self._records = {record["PartitionName"]: record for record in records if "PartitionName" in record}
            self._fresh_until = self._clock.steady() + _FRESH_SECONDS
        return self._known(name)

    def _known(self, name: str) -> dict[str, str] | None:
        if name:
            return self._records.get(name)
        return next((record for record in self._records.values() if record.get("Default") == "YES"), None)


def _check_size(task: Task, partition: Mapping[str, str]) -> str:
    """Why Slurm would accept a task and never start it, or an empty text."""
    name = partition["PartitionName"]
    nodes, _ = shape(task)
    limits = [int(value) for key in ("TotalNodes", "MaxNodes") if (value := partition.get(key, "")).isdigit()]
    if limits and nodes > min(limits):
        return f"resources.nodes: {nodes} are more than the {min(limits)} that partition '{name}' gives a job"
    longest = _parse_minutes(partition.get("MaxTime", ""))
    if task.time_limit_seconds is not None and longest is not None:
        requested = minutes(task.time_limit_seconds)
        if requested > longest:
            return f"time limit: {requested} minutes are more than the {longest} that partition '{name}' allows"
    return ""


def _parse_minutes(text: str) -> int | None:
    """The minutes in `1-12:30:00`; None for UNLIMITED."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, mins, _ = (int(part or 0) for part in match.groups())
    return (days * 24 + hours) * 60 + mins


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _gpus(gres: str) -> int:
    """The number of gpus in `gpu:a100:4(S:0-1),shard:8`."""
    return sum(int(number) for number in re.findall(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)", gres))
