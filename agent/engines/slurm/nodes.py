"""The nodes and partitions of a Slurm cluster."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import Task
from agent.engines.slurm.commands import SlurmCommands
from agent.engines.slurm.script import minutes, shape
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


def sum_capacity(nodes: Sequence[Mapping[str, str]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The capacity of all nodes, and what is not allocated on those that are up.

    A node that is down counts in the first, so that jobs which need it wait instead of being refused.
    """
    total: Counter[str] = Counter()
    free: Counter[str] = Counter()
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
    return _quantities(total), _quantities(free)


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
