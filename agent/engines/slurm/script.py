"""The batch script of a job on Slurm, and the two small files by which it tells how it went.

The script runs the command only if it can create the mark `native-id`, and whoever creates it first is the only one:
a second job of the same key, as one that a crash or a lost answer may leave behind, ends without having done anything,
and so does one that starts although it was cancelled.
At the end it leaves `ended`. Both outlast the memory of Slurm's controller, which is short.

Slurm counts time in minutes and looks at it now and then: `timeout` keeps the limit to the second, Slurm's is the net
below it.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from agent.engines.base import Task
from agent.quantities import of_task, whole

TASK, MARK, ENDED, CANCELLED = "task.json", "native-id", "ended", "cancelled"

#: What the script says of itself, beside the exit code of the command.
TIME_LIMIT, COMMAND_NOT_FOUND, NO_WORKING_DIRECTORY = "TIME_LIMIT", "COMMAND_NOT_FOUND", "NO_WORKING_DIRECTORY"
#: Slurm had it end: only Slurm knows why.
TERMINATED = "TERMINATED"
_FILES_AND_REASONS = {
    "MARK": MARK,
    "ENDED": ENDED,
    "CANCELLED": CANCELLED,
    "TERMINATED": TERMINATED,
    "TIME_LIMIT": TIME_LIMIT,
    "COMMAND_NOT_FOUND": COMMAND_NOT_FOUND,
    "NO_WORKING_DIRECTORY": NO_WORKING_DIRECTORY,
}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Names that one shell or another keeps to itself: assigning them fails, or gives another value.
_SHELLS_OWN = re.compile(
    r"BASH.*|COMP_.*|DIRSTACK|EPOCH.*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OLDPWD|OPTIND|PIPESTATUS|PPID|PWD|RANDOM"
    r"|SECONDS|SHELLOPTS|SRANDOM|UID|_"
)
_COPY = 'RAINBOW_TASK="$SLURM_PROCID"; export RAINBOW_TASK; exec "$@"'

# The command gets its environment in a subshell, so that what it is told of PATH and the like does not reach what
# runs around it. SIGTERM is for the command: the shell waits for what that makes of it.
_SCRIPT = """\
#!/bin/sh
_rb_directory={directory} _rb_timeout=$(command -v timeout) _rb_srun=$(command -v srun)
if ! (set -C; echo "$SLURM_JOB_ID" > "$_rb_directory/{MARK}") 2>/dev/null; then
  echo "rainbow: not started: another job of {key} has been, or $_rb_directory is not there" >&2
  exit 75
fi
_rb_ended() {{ echo "$1 $2" > "$_rb_directory/{ENDED}"; exit "$1"; }}
[ ! -e "$_rb_directory/{CANCELLED}" ] || _rb_ended 75 {CANCELLED}
_rb_reason=-
trap '_rb_reason={TERMINATED}' TERM
_rb_began=$(date +%s)
(
{exports}
cd -- {work} || _rb_ended 1 {NO_WORKING_DIRECTORY}
if ! command -v -- {program} >/dev/null; then
  printf 'rainbow: there is no command %s\\n' {program} >&2
  _rb_ended 127 {COMMAND_NOT_FOUND}
fi
exec {command}
)
_rb_code=$?
[ ! -s "$_rb_directory/{ENDED}" ] || exit "$_rb_code"
_rb_elapsed=$(($(date +%s) - _rb_began))
case $_rb_code in 124 | 137) [ "$_rb_elapsed" -lt {limit} ] || _rb_ended "$_rb_code" {TIME_LIMIT} ;; esac
_rb_ended "$_rb_code" "$_rb_reason"
"""


def batch_script(task: Task, directory: Path, work: Path, environment: Mapping[str, str], grace_seconds: float) -> str:
    """What Slurm runs on the first node."""
    odd = {name: value for name, value in environment.items() if not _can_be_exported(name)}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items() if name not in odd]
    limit = task.time_limit_seconds
    command = shlex.join(["/usr/bin/env", *(f"{name}={value}" for name, value in odd.items())]) + " " if odd else ""
    if limit is not None:
        command += f'"$_rb_timeout" --kill-after={grace_seconds:.3f} {limit:.3f} '
    return _SCRIPT.format(
        key=task.key,
        directory=shlex.quote(str(directory)),
        exports="\n".join(exports),
        work=shlex.quote(str(work)),
        program=shlex.quote(task.job["command"][0]),
        command=command + _copies(task),
        # Without a limit no time is beyond it.
        limit=2**62 if limit is None else math.floor(limit),
        **_FILES_AND_REASONS,
    )


def _can_be_exported(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and _SHELLS_OWN.fullmatch(name) is None


def _copies(task: Task) -> str:
    """The command, or what starts so many copies of it."""
    command = shlex.join(task.job["command"])
    nodes, tasks = shape(task)
    if tasks == 1:
        return command
    step = f"--nodes={min(nodes, tasks)} --ntasks={tasks} --cpus-per-task={_cores(task)}"
    return f'"$_rb_srun" {step} /bin/sh -c {shlex.quote(_COPY)} sh {command}'


def shape(task: Task) -> tuple[int, int]:
    """How many nodes and tasks a job has."""
    resources = task.job.get("resources", {})
    return int(resources.get("nodes", 1)), int(resources.get("tasks", 1))


def _cores(task: Task) -> int:
    return max(1, whole(of_task(task.job, "cpu") or Fraction(1)))


def arguments(task: Task, directory: Path, account: str, more: Sequence[str]) -> list[str]:
    """What sbatch is told about a job."""
    files = str(directory).replace("%", "%%")
    told = ["--job-name", task.key, "--no-requeue", "--export=ALL", "--ignore-pbs", "--input=/dev/null"]
    told += ["--chdir", str(directory), "--output", f"{files}/stdout", "--error", f"{files}/stderr"]
    if task.queue:
        told += ["--partition", task.queue]
    if account:
        told += ["--account", account]
    if task.time_limit_seconds is not None:
        told += ["--time", str(minutes(task.time_limit_seconds))]
    if task.labels:
        told += ["--comment", " ".join(f"{name}={value}" for name, value in sorted(task.labels.items()))[:1000]]
    return [*told, *_resources(task), *more]


def _resources(task: Task) -> list[str]:
    nodes, tasks = shape(task)
    told = [f"--nodes={nodes}", f"--cpus-per-task={_cores(task)}"]
    on_each = 1
    # With fewer tasks than nodes Slurm would take nodes away; left alone it reckons with one task on each.
    if tasks >= nodes:
        on_each = math.ceil(tasks / nodes)
        told += [f"--ntasks={tasks}", f"--ntasks-per-node={on_each}"]
    # Slurm ends what uses more memory than it asked for, so the limit is what has to be asked for.
    if memory := of_task(task.job, "memory", "limits") or of_task(task.job, "memory"):
        told.append(f"--mem={whole(memory * on_each / 2**20)}M")
    if gpus := of_task(task.job, "gpu"):
        told.append(f"--gpus={whole(gpus) * tasks}")
    if storage := of_task(task.job, "ephemeral_storage"):
        told.append(f"--tmp={whole(storage * on_each / 2**20)}M")
    return told


def minutes(seconds: float) -> int:
    """A time limit as Slurm keeps it."""
    return max(1, math.ceil(seconds / 60))


def unfit_environment(environment: Mapping[str, str]) -> str:
    """Why no process can have that environment, or an empty text."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name:
            return f"environment: '{name}' cannot be the name of a variable"
        if "\0" in value:
            return f"environment.{name}: has a null character in it, which no process can be given"
    return ""


@dataclass(frozen=True)
class Ending:
    """What the script left at its end."""

    code: int
    #: One of the script's own reasons, or empty where the command ended by itself.
    reason: str
    finished_at: datetime


def marked_id(directory: Path) -> str | None:
    """The native id of the job that runs, or ran, the command; None where none has started."""
    try:
        return (directory / MARK).read_text(encoding="ascii").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def started_at(directory: Path) -> datetime | None:
    """When the command started."""
    return _changed(directory / MARK)


def ending(directory: Path) -> Ending | None:
    """How the command ended; None where it has not, or could not say."""
    try:
        code, reason = (directory / ENDED).read_text(encoding="ascii").split()
        finished = _changed(directory / ENDED)
        return None if finished is None else Ending(int(code), "" if reason == "-" else reason, finished)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _changed(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
