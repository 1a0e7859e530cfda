"""The shapes of jobs: how many tasks on how many nodes, with how many cores each."""

from __future__ import annotations

from fractions import Fraction

from agent.engines.base import Task, is_exclusive
from agent.quantities import count, per_task, round_up


def shape(task: Task) -> tuple[int, int]:
    """The numbers of nodes and tasks of a job."""
    return count(task.job, "nodes"), count(task.job, "tasks")


def is_anywhere(task: Task) -> bool:
    """Whether its tasks may run on any number of nodes."""
    resources = task.job.get("resources", {})
    return "nodes" not in resources and resources.get("tasks", 1) > 1 and not is_exclusive(task.job)


def cores(task: Task) -> int:
    return max(1, round_up(per_task(task.job, "cpu") or Fraction(1)))
