"""The batch script of a Slurm job, and the arguments of sbatch.

The script runs the command only if it is the first to create the mark file: a second job of the same key, which a crash
or a lost answer may leave behind, ends without doing anything, and so does a job that starts after it was cancelled.

The script of a guarded job looks at the lease file every second, by the clock of its own node. It starts the command
only once the agent has renewed the lease since the script began, because the time in the queue is unknown; and
it ends the command when the lease is over.

The output goes through pipes, and its beginning and its end are kept in files as `agent.engines.limits` says. If the
file system has no pipes, Slurm writes all of it.

Slurm counts time limits in minutes and checks them about twice a minute: `timeout` enforces the limit to the second,
and Slurm's own limit applies if that fails.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from agent.engines.base import Task, is_exclusive
from agent.engines.limits import log_sizes
from agent.engines.slurm import job_files
from agent.engines.slurm.requirements import ANY_NODES, NodeChoice, with_features
from agent.quantities import count, per_task, round_up

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Names that some shell reserves: assigning them fails, or gives another value.
_RESERVED = re.compile(
    r"BASH.*|COMP_.*|DIRSTACK|EPOCH.*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OLDPWD|OPTIND|PIPESTATUS|PPID|PWD|RANDOM"
    r"|SECONDS|SHELLOPTS|SRANDOM|UID|_"
)
_COPY = 'RAINBOW_TASK="$SLURM_PROCID"; export RAINBOW_TASK; exec "$@"'

# The command gets its environment in a subshell, so that a PATH of its own does not affect the rest of the script.
# The script does not end on SIGTERM: it waits for the command, which gets the signal too.
_SCRIPT = """\
#!/bin/sh
_rb_directory={directory} _rb_timeout=$(command -v timeout) _rb_srun=$(command -v srun)
_rb_stdbuf=$(command -v stdbuf)
if ! (set -C; echo "$SLURM_JOB_ID" > "$_rb_directory/{files.MARK}") 2>/dev/null; then
  echo "rainbow: not started: another job of {key} has been, or $_rb_directory is not there" >&2
  exit 75
fi
_rb_time() {{ read -r _rb_now _ < /proc/uptime; _rb_now=${{_rb_now%.*}}; }}
printf '%-60s\\n' - 2>/dev/null > "$_rb_directory/{files.RESERVE}"
_rb_record() {{
  printf '%-60s\\n' "$1 $2" 1<> "$_rb_directory/{files.RESERVE}"
  mv -f "$_rb_directory/{files.RESERVE}" "$_rb_directory/{files.ENDED}" ||
    echo "$1 $2" > "$_rb_directory/{files.ENDED}"
}} 2>/dev/null
_rb_ended() {{ _rb_record "$1" "$2"; exit "$1"; }}
_rb_reason=- _rb_guard=
trap '_rb_reason={files.TERMINATED}' TERM
_rb_go_on() {{
  [ "$_rb_reason" = - ] || _rb_ended 75 "$_rb_reason"
  [ ! -e "$_rb_directory/{files.CANCELLED}" ] || _rb_ended 75 {files.CANCELLED}
}}
_rb_go_on
_rb_time
{guard}_rb_keep() {{
  trap '' TERM
  ${{_rb_stdbuf:+"$_rb_stdbuf" -o0}} head -c {sizes.head}
  _rb_at={sizes.head}
  while [ {sizes.part} -gt 0 ]; do
    head -c 1 > "$1.$_rb_at"
    [ -s "$1.$_rb_at" ] || break
    _rb_oldest="$1.$((_rb_at - {sizes.part} * {sizes.parts}))"
    [ ! -e "$_rb_oldest" ] || rm -f "$_rb_oldest"
    ${{_rb_stdbuf:+"$_rb_stdbuf" -o0}} head -c $(({sizes.part} - 1)) >> "$1.$_rb_at"
    _rb_at=$((_rb_at + {sizes.part}))
  done
  rm -f "$1.$_rb_at"
  cat > /dev/null
}} 2>/dev/null
_rb_out= _rb_err= _rb_left=100
exec 3>&1 4>&2
if mkfifo "$_rb_directory/{files.PIPES[0]}" "$_rb_directory/{files.PIPES[1]}" 2>/dev/null; then
  _rb_keep "$_rb_directory/stdout" 3>&- 4>&- < "$_rb_directory/{files.PIPES[0]}" &
  _rb_out=$!
  _rb_keep "$_rb_directory/stderr" 3>&- 4>&- < "$_rb_directory/{files.PIPES[1]}" >&2 &
  _rb_err=$!
  exec 3> "$_rb_directory/{files.PIPES[0]}" 4> "$_rb_directory/{files.PIPES[1]}"
  rm -f "$_rb_directory/{files.PIPES[0]}" "$_rb_directory/{files.PIPES[1]}"
fi
_rb_began=$_rb_now
(
{exports}
cd -- {work} || _rb_ended 1 {files.NO_WORKING_DIRECTORY}
if ! command -v -- {program} >/dev/null; then
  printf 'rainbow: there is no command %s\\n' {program} >&2
  _rb_ended 127 {files.COMMAND_NOT_FOUND}
fi
{record}exec {command}
) >&3 2>&4 3>&- 4>&-
_rb_code=$?
[ -z "$_rb_guard" ] || {{ kill -KILL "$_rb_guard"; wait "$_rb_guard"; }} 2>/dev/null
exec 3>&- 4>&-
while [ "$_rb_left" -gt 0 ] && {{ kill -0 "$_rb_out" || kill -0 "$_rb_err"; }} 2>/dev/null; do
  sleep 0.05
  _rb_left=$((_rb_left - 1))
done
[ ! -s "$_rb_directory/{files.ENDED}" ] || exit "$((_rb_code ? _rb_code : 75))"
_rb_time
case $_rb_code in
  124 | 137) [ "$((_rb_now - _rb_began))" -lt {limit} ] || _rb_ended "$_rb_code" {files.TIME_LIMIT} ;;
esac
_rb_ended "$_rb_code" "$_rb_reason"
"""

# A lease counts from the look before the one that saw it change. After a pause (scontrol suspend) the script cannot
# tell when that was: half of it is time for the next renewal, without which no command is started. The guard survives
# the signals that it sends, and files that cannot be written: a shell ends if a special built-in such as `:` fails.
_GUARD = """\
_rb_look() {{
  _rb_looked=$_rb_now
  _rb_time
  read -r _rb_text _rb_seconds < "$_rb_directory/{files.LEASE}" || return 0
  [ "$_rb_text" != "$_rb_lease" ] || return 0
  _rb_lease=$_rb_text _rb_until=$((_rb_looked + _rb_seconds)) _rb_least=$((_rb_now + _rb_seconds / 2))
  [ "$_rb_until" -ge "$_rb_least" ] || {{ _rb_until=$_rb_least; _rb_first=$_rb_lease; }}
}} 2>/dev/null
_rb_lease= _rb_until=0
_rb_look
_rb_first=$_rb_lease
until [ "$_rb_lease" != "$_rb_first" ] && [ "$_rb_now" -lt "$_rb_until" ]; do
  [ "$_rb_now" -lt "$_rb_until" ] || _rb_ended 75 {files.LEASE_OVER}
  sleep 0.2
  _rb_go_on
  _rb_look
done
_rb_go_on
_rb_watch() {{
  trap '' TERM
  while [ "$_rb_now" -lt "$_rb_until" ]; do sleep 1; _rb_look; done
  _rb_record 75 {files.LEASE_OVER}
  read -r _rb_pid < "$_rb_directory/{files.PROCESS}"
  kill -s TERM -- 0 "$_rb_pid"
  sleep {grace}
  kill -s KILL -- "-$_rb_pid"
  kill -s KILL -- 0
}}
_rb_watch >/dev/null 2>&1 &
_rb_guard=$!
"""
_RECORD = 'read -r _rb_pid _ < /proc/self/stat && echo "$_rb_pid" > "$_rb_directory/{files.PROCESS}"\n'


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
    unexportable = {name: value for name, value in environment.items() if not _can_be_exported(name)}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items() if _can_be_exported(name)]
    limit, is_guarded = task.time_limit_seconds, task.lease_seconds is not None
    command = ""
    if unexportable:
        command = shlex.join(["/usr/bin/env", *(f"{name}={value}" for name, value in unexportable.items())]) + " "
    if limit is not None:
        command += f'"$_rb_timeout" --kill-after={grace_seconds:.3f} {limit:.3f} '
    return _SCRIPT.format(
        key=task.key,
        directory=shlex.quote(str(directory)),
        exports="\n".join(exports),
        work=shlex.quote(str(work)),
        program=shlex.quote(task.job["command"][0]),
        command=command + _copies(task),
        # Without a limit, a number that no elapsed time reaches.
        limit=2**62 if limit is None else math.floor(limit),
        sizes=log_sizes(log_limit_bytes),
        guard=_GUARD.format(files=job_files, grace=f"{grace_seconds:.3f}") if is_guarded else "",
        record=_RECORD.format(files=job_files) if is_guarded else "",
        files=job_files,
    )


def _can_be_exported(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and _RESERVED.fullmatch(name) is None


def _copies(task: Task) -> str:
    """The command, or an srun that starts a copy of it for each task."""
    command = shlex.join(task.job["command"])
    nodes, tasks = shape(task)
    if tasks == 1:
        return command
    on_nodes = "" if _is_anywhere(task) else f"--nodes={min(nodes, tasks)} "
    step = f"{on_nodes}--ntasks={tasks} --cpus-per-task={_cores(task)}"
    return f'"$_rb_srun" {step} /bin/sh -c {shlex.quote(_COPY)} sh {command}'


def shape(task: Task) -> tuple[int, int]:
    """The numbers of nodes and tasks of a job."""
    return count(task.job, "nodes"), count(task.job, "tasks")


def _is_anywhere(task: Task) -> bool:
    """Whether its tasks may run on any number of nodes."""
    resources = task.job.get("resources", {})
    return "nodes" not in resources and resources.get("tasks", 1) > 1 and not is_exclusive(task.job)


def _cores(task: Task) -> int:
    return max(1, round_up(per_task(task.job, "cpu") or Fraction(1)))


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
    if _is_anywhere(task):
        return _resources_anywhere(task, tasks, gpu_model)
    words = [f"--nodes={nodes}", f"--cpus-per-task={_cores(task)}"]
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
    words = [f"--ntasks={tasks}", f"--cpus-per-task={_cores(task)}"]
    if memory := per_task(task.job, "memory", "limits") or per_task(task.job, "memory"):
        words.append(f"--mem-per-cpu={round_up(memory / _cores(task) / 2**20)}M")
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


def check_environment(environment: Mapping[str, str]) -> str:
    """Why no process can have that environment, or an empty text."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name:
            return f"environment: '{name}' cannot be the name of a variable"
        if "\0" in value:
            return f"environment.{name}: contains a null character, which no variable can"
    return ""
