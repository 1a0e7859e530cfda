"""What a Slurm cluster has: its nodes, what is free on them, and its partitions."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agent.engines.base import Task, closest
from agent.engines.slurm import script
from agent.engines.slurm.commands import SlurmCommands

_FRESH_SECONDS = 60.0
#: Nodes in one of these states take no jobs.
_USELESS = {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN", "NOT_RESPONDING", "MAINT"}


def capacity(nodes: Sequence[Mapping[str, str]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that there is, and what is not given away on the nodes that work.

    A node that is down for a while still counts as there: what needs it waits, and is not refused.
    """
    whole, free = _Sum(), _Sum()
    for node in nodes:
        shown = node.get("State", "UNKNOWN")
        states = set(re.findall(r"[A-Z_]+", shown))
        if "FUTURE" in states:
            continue
        cpu, memory = _number(node.get("CPUEfctv") or node.get("CPUTot")), _number(node.get("RealMemory"))
        gpu = _gpus(node.get("Gres", ""))
        whole.add(cpu, memory, gpu, 1)
        # A star says that the node does not answer.
        if not states & _USELESS and "*" not in shown:
            cpu -= _number(node.get("CPUAlloc"))
            memory -= _number(node.get("AllocMem"))
            free.add(cpu, memory, gpu - _gpus(node.get("GresUsed", "")), int("IDLE" in states))
    return whole.amounts(), free.amounts()


class _Sum:
    """Amounts over nodes."""

    def __init__(self) -> None:
        self.cpu = self.memory = self.gpu = self.nodes = 0

    def add(self, cpu: int, memory: int, gpu: int, nodes: int) -> None:
        self.cpu += max(0, cpu)
        self.memory += max(0, memory)
        self.gpu += max(0, gpu)
        self.nodes += nodes

    def amounts(self) -> dict[str, Any]:
        return {"cpu": str(self.cpu), "memory": f"{self.memory}Mi", "gpu": str(self.gpu), "nodes": self.nodes}


class Partitions:
    """The partitions of a cluster, asked for anew when one is missing, or after a minute."""

    def __init__(self, commands: SlurmCommands) -> None:
        self._commands = commands
        self._records: dict[str, dict[str, str]] = {}
        self._fresh_until = 0.0

    def check(self, task: Task) -> str:
        """Why Slurm would never start a task in its partition, or an empty text."""
        partition = self._find(task.queue)
        if partition is not None:
            return _too_large(task, partition)
        known = sorted(self._records)
        if not task.queue:
            return f"queue: the job names none, and Slurm has no default partition: give one of {', '.join(known)}"
        near = closest(task.queue, known)
        return f"queue: Slurm has no partition '{task.queue}'{near}; there are {', '.join(known)}"

    def _find(self, name: str) -> dict[str, str] | None:
        """What Slurm says of a partition, of the default one where there is no name."""
        if time.monotonic() > self._fresh_until or self._known(name) is None:
            records = self._commands.records("show", "partitions")
            self._records = {record["PartitionName"]: record for record in records if "PartitionName" in record}
            self._fresh_until = time.monotonic() + _FRESH_SECONDS
        return self._known(name)

    def _known(self, name: str) -> dict[str, str] | None:
        if name:
            return self._records.get(name)
        return next((record for record in self._records.values() if record.get("Default") == "YES"), None)


def _too_large(task: Task, partition: Mapping[str, str]) -> str:
    """What Slurm would take, and keep waiting for ever."""
    name = partition["PartitionName"]
    nodes, _ = script.shape(task)
    most = [int(value) for key in ("TotalNodes", "MaxNodes") if (value := partition.get(key, "")).isdigit()]
    if most and nodes > min(most):
        return f"resources.nodes: {nodes} are more than the {min(most)} that partition '{name}' gives a job"
    longest = _minutes(partition.get("MaxTime", ""))
    if task.time_limit_seconds is not None and longest is not None:
        asked = script.minutes(task.time_limit_seconds)
        if asked > longest:
            return f"time limit: {asked} minutes are more than the {longest} that partition '{name}' allows"
    return ""


def _minutes(text: str) -> int | None:
    """The minutes in `1-12:30:00`; None for UNLIMITED."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if found is None:
        return None
    days, hours, minutes, _ = (int(part or 0) for part in found.groups())
    return (days * 24 + hours) * 60 + minutes


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _gpus(gres: str) -> int:
    """The number of gpus in `gpu:a100:4(S:0-1),shard:8`."""
    return sum(int(number) for number in re.findall(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)", gres))
