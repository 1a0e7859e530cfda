"""The batch script of a job of a back end that runs one on the job's first node: Slurm, Flux.

The script runs the command only if it is the first to create the mark file: a second job of the same key, which a crash
or a lost answer may leave behind, ends without doing anything, and so does a job that starts after it was cancelled.

The script of a guarded job looks at the lease file every second, by the clock of its own node. It starts the command
only once the agent has renewed the lease since the script began, because the time in the queue is unknown; and
it ends the command when the lease is over.

The output goes through pipes, and its beginning and its end are kept in files as `agent.engines.limits` says. If the
file system has no pipes, all of it is written.

Where the back end's own time limits are too coarse, `timeout` enforces them to the second. That the kernel ended a
command for its memory is known where the job is in a control group: by how many processes it has ended there.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.engines.base import Task
from agent.engines.batch import job_files
from agent.engines.limits import log_sizes

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Names that some shell reserves: assigning them fails, or gives another value.
_RESERVED = re.compile(
    r"BASH.*|COMP_.*|DIRSTACK|EPOCH.*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OLDPWD|OPTIND|PIPESTATUS|PPID|PWD|RANDOM"
    r"|SECONDS|SHELLOPTS|SRANDOM|UID|_"
)

# The command gets its environment in a subshell, so that a PATH of its own does not affect the rest of the script.
# The script does not end on SIGTERM: it waits for the command, which gets the signal too.


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """What differs between back ends."""

    #: The command as it starts in the script, with what starts its copies if there are several: `"$_rb_launcher" …`.
    command: str
    #: The program that starts copies.
    program: str
    #: The variable in which the back end gives its own id of the job.
    id_variable: str
    #: With what it ends a job, before SIGKILL.
    signals: str = "TERM"
    #: Commands of the script's own, once it is the one that runs.
    prelude: str = ""
    #: Whether the script has to enforce time limits to the second.
    has_coarse_limits: bool = False


_SCRIPT = """\
#!/bin/sh
_rb_directory={directory} _rb_timeout=$(command -v timeout) _rb_launcher=$(command -v {launcher.program})
_rb_stdbuf=$(command -v stdbuf)
if ! (set -C; echo "${launcher.id_variable}" > "$_rb_directory/{files.MARK}") 2>/dev/null; then
  echo "rainbow: not started: another job of {key} has been, or $_rb_directory is not there" >&2
  exit 75
fi
{launcher.prelude}_rb_time() {{ read -r _rb_now _ < /proc/uptime; _rb_now=${{_rb_now%.*}}; }}
printf '%-60s\\n' - 2>/dev/null > "$_rb_directory/{files.RESERVE}"
_rb_record() {{
  printf '%-60s\\n' "$1 $2" 1<> "$_rb_directory/{files.RESERVE}"
  mv -f "$_rb_directory/{files.RESERVE}" "$_rb_directory/{files.ENDED}" ||
    echo "$1 $2" > "$_rb_directory/{files.ENDED}"
}} 2>/dev/null
_rb_ended() {{ _rb_record "$1" "$2"; exit "$1"; }}
_rb_reason=- _rb_guard=
trap '_rb_reason={files.TERMINATED}' {launcher.signals}
_rb_go_on() {{
  [ "$_rb_reason" = - ] || _rb_ended 75 "$_rb_reason"
  [ ! -e "$_rb_directory/{files.CANCELLED}" ] || _rb_ended 75 {files.CANCELLED}
}}
_rb_go_on
_rb_count_killed() {{
  _rb_killed=0
  while IFS=: read -r _ _rb_controller _rb_group; do
    case $_rb_controller in
      '') _rb_events=/sys/fs/cgroup$_rb_group/memory.events ;;
      memory) _rb_events=/sys/fs/cgroup/memory$_rb_group/memory.oom_control ;;
      *) continue ;;
    esac
    [ -r "$_rb_events" ] || continue
    while read -r _rb_event _rb_number; do
      [ "$_rb_event" != oom_kill ] || _rb_killed=$((_rb_killed + _rb_number))
    done < "$_rb_events"
  done < /proc/self/cgroup
}} 2>/dev/null
_rb_count_killed
_rb_killed_before=$_rb_killed
_rb_time
{guard}_rb_keep() {{
  trap '' {launcher.signals}
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
if [ "$_rb_code" = 137 ]; then
  _rb_count_killed
  [ "$_rb_killed" -le "$_rb_killed_before" ] || _rb_ended "$_rb_code" {files.OUT_OF_MEMORY}
fi
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
  trap '' {signals}
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
    launcher: Launcher,
    *,
    grace_seconds: float,
    log_limit_bytes: int,
) -> str:
    """The script that runs on the first node."""
    unexportable = {name: value for name, value in environment.items() if not _can_be_exported(name)}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items() if _can_be_exported(name)]
    limit, is_guarded = task.time_limit_seconds, task.lease_seconds is not None
    command = ""
    if unexportable:
        command = shlex.join(["/usr/bin/env", *(f"{name}={value}" for name, value in unexportable.items())]) + " "
    if limit is not None and launcher.has_coarse_limits:
        command += f'"$_rb_timeout" --kill-after={grace_seconds:.3f} {limit:.3f} '
    return _SCRIPT.format(
        key=task.key,
        directory=shlex.quote(str(directory)),
        exports="\n".join(exports),
        work=shlex.quote(str(work)),
        program=shlex.quote(task.job["command"][0]),
        command=command + launcher.command,
        launcher=launcher,
        # Without a limit, a number that no elapsed time reaches.
        limit=2**62 if limit is None or not launcher.has_coarse_limits else math.floor(limit),
        sizes=log_sizes(log_limit_bytes),
        guard=_guard(grace_seconds, launcher) if is_guarded else "",
        record=_RECORD.format(files=job_files) if is_guarded else "",
        files=job_files,
    )


def _guard(grace_seconds: float, launcher: Launcher) -> str:
    return _GUARD.format(files=job_files, grace=f"{grace_seconds:.3f}", signals=launcher.signals)


def _can_be_exported(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and _RESERVED.fullmatch(name) is None


def check_environment(environment: Mapping[str, str]) -> str:
    """Why no process can have that environment, or an empty text."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name:
            return f"environment: '{name}' cannot be the name of a variable"
        if "\0" in value:
            return f"environment.{name}: contains a null character, which no variable can"
    return ""
