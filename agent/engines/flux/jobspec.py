"""Jobspecs (version 1) of jobs, whose command is their batch script.

One copy of a command runs in the script itself. For several copies, or several nodes, the job is an instance of Flux of
its own on what it was given, as `flux batch` makes one: the script is its initial program, and `flux run` starts the
copies.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.engines.base import Task
from agent.engines.batch.script import Launcher
from agent.engines.batch.shapes import cores, is_anywhere, shape
from agent.engines.flux.resources import Demand
from agent.quantities import per_task, round_up

#: The batch script in the job's directory, and what Flux itself says of the job.
SCRIPT, FLUX_LOG = "script", "flux.log"
#: With what Flux ends jobs: a cancel, a time limit, and a broker its initial program.
_SIGNALS = "TERM ALRM HUP"
#: The streams of the script do not pass through Flux, which would keep their beginnings only.
_PRELUDE = 'exec >> "$_rb_directory/stdout" 2>> "$_rb_directory/stderr"\n'
_COPY = 'RAINBOW_TASK="$FLUX_TASK_RANK"; export RAINBOW_TASK; exec "$@"'
_NESTED = 'RAINBOW_NATIVE_ID="$FLUX_JOB_ID"; export RAINBOW_NATIVE_ID; exec "$@"'
#: Urgencies of Flux: 0 holds a job, 16 is the default, and above it only the owner of the instance may go.
_LEAST_URGENCY, DEFAULT_URGENCY, _MOST_URGENCY = 1, 16, 31
#: The priorities of executions that are told apart.
_MOST_PRIORITY = 100


def urgency(priority: float, *, is_owner: bool) -> int:
    """The urgency of a job whose execution has a priority, from -100 to 100."""
    steps = round(max(-_MOST_PRIORITY, min(_MOST_PRIORITY, priority)) * 15 / _MOST_PRIORITY)
    most = _MOST_URGENCY if is_owner else DEFAULT_URGENCY
    return max(_LEAST_URGENCY, min(most, DEFAULT_URGENCY + steps))


def is_nested(task: Task) -> bool:
    """Whether the job needs an instance of its own."""
    return shape(task) != (1, 1)


def memory_bytes(task: Task) -> int:
    """How much memory a task may use, in whole KiB; 0 where it names none."""
    memory = per_task(task.job, "memory", "limits") or per_task(task.job, "memory")
    return round_up(memory / 1024) << 10 if memory else 0


def launcher(task: Task, flux: str, *, limits_memory: bool) -> Launcher:
    """How its script starts its command."""
    limit = f"ulimit -v {memory >> 10} && " if limits_memory and (memory := memory_bytes(task)) else ""
    command = shlex.join(task.job["command"])
    if not is_nested(task):
        return _launcher(f"/bin/sh -c {shlex.quote(limit + _EXEC)} sh {command}" if limit else command, flux)
    nodes, tasks = shape(task)
    if tasks == 1:
        command = f"/bin/sh -c {shlex.quote(limit + _EXEC)} sh {command}" if limit else command
        return _launcher(command, flux, "RAINBOW_NATIVE_ID")
    on_nodes = "" if is_anywhere(task) else f"--nodes={min(nodes, tasks)} "
    gpus = f"--gpus-per-task={count} " if (count := Demand.of(task).gpus) else ""
    options = "-o exit-timeout=none -o output.limit=1G"
    step = f"run {on_nodes}--ntasks={tasks} --cores-per-task={cores(task)} {gpus}{options}"
    copy = shlex.quote(limit + _COPY)
    return _launcher(f'"$_rb_launcher" {step} /bin/sh -c {copy} sh {command}', flux, "RAINBOW_NATIVE_ID")


_EXEC = 'exec "$@"'


def _launcher(command: str, flux: str, id_variable: str = "FLUX_JOB_ID") -> Launcher:
    return Launcher(
        command=command, program=shlex.quote(flux), id_variable=id_variable, signals=_SIGNALS, prelude=_PRELUDE
    )


def jobspec(
    task: Task,
    directory: Path,
    environment: Mapping[str, str],
    flux: str,
    attributes: Mapping[str, Any],
    properties: Sequence[str] = (),
) -> dict[str, Any]:
    """The jobspec of a job whose script is in its directory, on nodes with some properties.

    `attributes` are more of `attributes.system`; constraints among them hold beside the properties.
    """
    command = ["/bin/sh", str(directory / SCRIPT)]
    # Patterns such as {{id}} in paths are replaced by Flux; keys and directories have none.
    log = {"type": "file", "path": str(directory / FLUX_LOG)}
    options: dict[str, Any] = {"output": {"stdout": log, "stderr": log}}
    if is_nested(task):
        command = ["/bin/sh", "-c", _NESTED, "sh", flux, "broker", *command]
        options |= {"per-resource": {"type": "node"}, "mpi": "none"}
    system: dict[str, Any] = {
        "duration": float(task.time_limit_seconds or 0.0),
        "environment": dict(environment),
        "cwd": str(directory),
        "job": {"name": task.key},
        "shell": {"options": options},
        **({"queue": task.queue} if task.queue else {}),
        **attributes,
    }
    if properties:
        required = {"properties": list(properties)}
        constraints = system.get("constraints")
        system["constraints"] = {"and": [constraints, required]} if constraints else required
    user = {"rainbow": {"labels": dict(task.labels)}} if task.labels else {"rainbow": {}}
    return {
        "version": 1,
        "resources": [_resources(Demand.of(task))],
        "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": system, "user": user},
    }


def _resources(demand: Demand) -> dict[str, Any]:
    has: list[dict[str, Any]] = [{"type": "core", "count": demand.cores}]
    if demand.gpus:
        has.append({"type": "gpu", "count": demand.gpus})
    slots = demand.slots if demand.nodes is None else demand.slots // demand.nodes
    slot = {"type": "slot", "label": "task", "count": slots, "with": has}
    if demand.nodes is None:
        return slot
    exclusive = {"exclusive": True} if demand.is_exclusive else {}
    return {"type": "node", "count": demand.nodes, **exclusive, "with": [slot]}
