"""The batch script of a Slurm job, and the arguments of sbatch.

Slurm counts time limits in minutes and checks them about twice a minute: the script enforces them to the second, and
Slurm's own limit applies if that fails.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.engines.base import Task, is_exclusive
from agent.engines.batch import script
from agent.engines.batch.shapes import cores, is_anywhere, shape
from agent.engines.slurm.requirements import ANY_NODES, NodeChoice, with_features
from agent.quantities import per_task, round_up

_COPY = 'RAINBOW_TASK="$SLURM_PROCID"; export RAINBOW_TASK; exec "$@"'


def batch_script(
    task: Task,
    directory: Path,
    work: Path,
    environment: Mapping[str, str],
    *,
    grace_seconds: float,
    log_limit_bytes: int,
) -> str:
    """The script that Slurm runs on the first node."""
    launcher = script.Launcher(
        command=_copies(task), program="srun", id_variable="SLURM_JOB_ID", has_coarse_limits=True
    )
    return script.batch_script(
        task, directory, work, environment, launcher, grace_seconds=grace_seconds, log_limit_bytes=log_limit_bytes
    )


def _copies(task: Task) -> str:
    """The command, or an srun that starts a copy of it for each task."""
    command = shlex.join(task.job["command"])
    nodes, tasks = shape(task)
    if tasks == 1:
        return command
    on_nodes = "" if is_anywhere(task) else f"--nodes={min(nodes, tasks)} "
    step = f"{on_nodes}--ntasks={tasks} --cpus-per-task={cores(task)}"
    return f'"$_rb_launcher" {step} /bin/sh -c {shlex.quote(_COPY)} sh {command}'


def arguments(
    task: Task, directory: Path, account: str, more: Sequence[str], choice: NodeChoice = ANY_NODES
) -> list[str]:
    """The arguments of sbatch for a job."""
    # sbatch replaces % patterns in file names.
    files = str(directory).replace("%", "%%")
    words = ["--job-name", task.key, "--no-requeue", "--export=ALL", "--ignore-pbs", "--input=/dev/null"]
    words += ["--chdir", str(directory), "--output", f"{files}/stdout", "--error", f"{files}/stderr"]
    if task.queue:
        words += ["--partition", task.queue]
    if account:
        words += ["--account", account]
    if task.time_limit_seconds is not None:
        words += ["--time", str(minutes(task.time_limit_seconds))]
    if task.labels:
        words += ["--comment", " ".join(f"{name}={value}" for name, value in sorted(task.labels.items()))[:1000]]
    return [*words, *_resources(task, choice.gpu_model), *with_features(more, choice.features)]


def _resources(task: Task, gpu_model: str) -> list[str]:
    nodes, tasks = shape(task)
    if is_anywhere(task):
        return _resources_anywhere(task, tasks, gpu_model)
    words = [f"--nodes={nodes}", f"--cpus-per-task={cores(task)}"]
    if is_exclusive(task.job):
        words.append("--exclusive")
    per_node = 1
    # With fewer tasks than nodes Slurm would reduce the nodes; without --ntasks it assumes one task on each.
    if tasks >= nodes:
        per_node = math.ceil(tasks / nodes)
        words += [f"--ntasks={tasks}", f"--ntasks-per-node={per_node}"]
    # Slurm ends a job that uses more memory than it requested, so the limit is what must be requested.
    if memory := per_task(task.job, "memory", "limits") or per_task(task.job, "memory"):
        words.append(f"--mem={round_up(memory * per_node / 2**20)}M")
    if gpus := per_task(task.job, "gpu"):
        words.append(f"--gpus={_typed(gpu_model)}{round_up(gpus) * tasks}")
    if storage := per_task(task.job, "ephemeral_storage"):
        words.append(f"--tmp={round_up(storage * per_node / 2**20)}M")
    return words


def _resources_anywhere(task: Task, tasks: int, gpu_model: str) -> list[str]:
    """The same of tasks that may run on any number of nodes: all amounts are those of each task."""
    words = [f"--ntasks={tasks}", f"--cpus-per-task={cores(task)}"]
    if memory := per_task(task.job, "memory", "limits") or per_task(task.job, "memory"):
        words.append(f"--mem-per-cpu={round_up(memory / cores(task) / 2**20)}M")
    if gpus := per_task(task.job, "gpu"):
        words.append(f"--gpus-per-task={_typed(gpu_model)}{round_up(gpus)}")
    if storage := per_task(task.job, "ephemeral_storage"):
        words.append(f"--tmp={round_up(storage / 2**20)}M")
    return words


def _typed(gpu_model: str) -> str:
    return f"{gpu_model}:" if gpu_model else ""


def minutes(seconds: float) -> int:
    """A time limit in Slurm's unit, rounded up."""
    return max(1, math.ceil(seconds / 60))
