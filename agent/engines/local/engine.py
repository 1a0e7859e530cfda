"""The local engine: real processes on the agent's own machine.

Each job has a supervisor (see supervisor) and a directory with its files. What a job prints goes straight to
files there, so that the agent is in nobody's way. Whether a supervisor lives is told by a lock that only it holds,
never by a process id alone: ids are used again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import agent
from agent.clocks import boot_id
from agent.engines import task_files
from agent.engines.base import (
    EngineUnavailable,
    Handle,
    NativePhase,
    NativeState,
    OptionError,
    Task,
    refuse_unknown,
)
from agent.engines.local import processes
from agent.engines.local.job_files import CANCEL, ENDED, LOCK, STARTED, TASK
from agent.files import read_json, write_json
from agent.quantities import amount, of_task, whole

_STARTING_SECONDS = 30.0
#: What a job gets from the agent's own environment unless its own says otherwise; nothing else leaks into it.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")
_MEMORY_LIMITS = ("address-space", "resident", "none")
_OPTIONS = {"ignoreImage": False, "memoryLimit": "address-space", "graceSeconds": 5, "keepSeconds": 3600}


class LocalEngine:
    """Runs commands as processes of this machine."""

    name = "local"

    def __init__(self, options: Mapping[str, Any], directory: Path) -> None:
        refuse_unknown(options, _OPTIONS)
        chosen = {**_OPTIONS, **options}
        self.ignores_images = bool(_checked(chosen, "ignoreImage", bool, "true or false"))
        self.memory_limit = str(_checked(chosen, "memoryLimit", str, f"one of {', '.join(_MEMORY_LIMITS)}"))
        if self.memory_limit not in _MEMORY_LIMITS:
            raise OptionError(f"engineOptions.memoryLimit: must be one of {', '.join(_MEMORY_LIMITS)}")
        self.grace_seconds = _seconds(chosen, "graceSeconds")
        self.keep_seconds = _seconds(chosen, "keepSeconds")
        self.directory = directory
        self._cores = sorted(os.sched_getaffinity(0))
        #: Processes started by this one, which must be waited for when they have ended.
        self._supervisors: set[int] = set()
        #: What each supervisor at work was told, by key; some may have ended meanwhile.
        self._live = {path.parent.name: read_json(path) or {} for path in directory.glob(f"*/{TASK}")}
        self._live = {key: task for key, task in self._live.items() if task and _lives(directory / key)}

    def version(self) -> str:
        """The kernel's release."""
        return platform.release()

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The machine's cores and memory, and what running jobs have not asked for."""
        cpu, memory = Fraction(len(self._cores)), Fraction(_memory_bytes())
        free_cpu, free_memory = cpu, memory
        for task in self._running():
            free_cpu -= amount(task["cpu"])
            free_memory -= amount(task["memory"])
        return _amounts(cpu, memory), _amounts(max(free_cpu, Fraction(0)), max(free_memory, Fraction(0)))

    def check(self, task: Task) -> str:
        """Commands only, on one machine, no larger than it is."""
        resources = task.job.get("resources", {})
        if task.job.get("image") and not self.ignores_images:
            return (
                "the local engine runs commands, not images: leave out the image, or set engineOptions.ignoreImage "
                "to run the command without it"
            )
        if not task.job.get("command"):
            return "the local engine needs a command"
        if resources.get("nodes", 1) > 1:
            return f"the local engine has 1 node, the job asks for {resources['nodes']}"
        if (of_task(task.job, "gpu") or 0) > 0:
            return "the local engine hands out no gpu"
        cpu, memory = _asked(task, "cpu"), _asked(task, "memory")
        if cpu > len(self._cores):
            return f"the job asks for {whole(cpu)} cpu, this machine has {len(self._cores)}"
        if memory > _memory_bytes():
            return f"the job asks for {whole(memory) >> 20} MiB of memory, this machine has {_memory_bytes() >> 20}"
        return ""

    def submit(self, task: Task) -> Handle:
        """Start a supervisor, which takes it from there; it is not waited for."""
        self._reap()
        directory = self.directory / task.key
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        plan = self._plan(task, task_files.working_directory(directory, task.job.get("working_directory")))
        write_json(directory / TASK, plan, is_durable=False)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            supervisor = _spawn(directory, lock)
        except OSError as error:
            raise EngineUnavailable(f"the job cannot be started on this machine now: {error.strerror}") from error
        finally:
            os.close(lock)
        self._supervisors.add(supervisor)
        self._live[task.key] = plan
        return Handle(task.key, str(supervisor))

    def _plan(self, task: Task, work: Path) -> dict[str, Any]:
        """What the supervisor is told."""
        limits = {
            resource: of_task(task.job, resource, "limits") or of_task(task.job, resource) for resource in _LIMITED
        }
        memory, cpu = limits["memory"], limits["cpu"]
        tasks = _tasks(task)
        plan: dict[str, Any] = {
            "key": task.key,
            "command": list(task.job["command"]),
            "work": str(work),
            "environment": {
                **{name: os.environ[name] for name in _INHERITED if name in os.environ},
                **task.environment,
                processes.MARK: task.key,
            },
            "tasks": tasks,
            "time_limit_seconds": task.time_limit_seconds,
            "grace_seconds": self.grace_seconds,
            "cpu": str(float(_asked(task, "cpu"))),
            "memory": str(whole(_asked(task, "memory"))),
            "cores": self._least_used(whole(cpu * tasks)) if cpu else None,
        }
        if memory and self.memory_limit != "none":
            plan["memory_bytes"] = whole(memory * tasks)
            plan["address_space_bytes"] = whole(memory) if self.memory_limit == "address-space" else None
        return plan

    def _least_used(self, number: int) -> list[int] | None:
        """Cores for a job, those that fewest others were given; None where it may have all."""
        if number >= len(self._cores):
            return None
        used = Counter(core for task in self._running() for core in task.get("cores") or ())
        return sorted(self._cores, key=lambda core: (used[core], core))[:number]

    def find(self, key: str) -> Handle | None:
        """The job of that key; one whose supervisor is about to start is waited for."""
        directory = self.directory / key
        deadline = time.monotonic() + _STARTING_SECONDS
        while (started := read_json(directory / STARTED)) is None:
            if not _is_locked(directory) and not (directory / STARTED).exists():
                return None
            if time.monotonic() > deadline:
                raise EngineUnavailable(f"the supervisor of {key} has not started for {_STARTING_SECONDS:g} s")
            time.sleep(0.005)
        return Handle(key, str(started["supervisor"]))

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each job by its files."""
        self._reap()
        return {handle.key: self._state(handle.key) for handle in handles}

    def _state(self, key: str) -> NativeState:
        directory = self.directory / key
        is_alive = _is_locked(directory)
        started = read_json(directory / STARTED)
        if started is None:
            return NativeState(NativePhase.QUEUED) if is_alive else self._never_started(directory)
        ended = read_json(directory / ENDED)
        if ended is None and is_alive:
            return NativeState(NativePhase.RUNNING, nodes=(_node(),), started_at=_moment(started["started_at"]))
        ended = ended or self._lost(key, started)
        return NativeState(
            NativePhase(ended["phase"]),
            exit_code=ended.get("exit_code"),
            signal=ended.get("signal"),
            nodes=(_node(),),
            reason=ended.get("reason", ""),
            message=ended.get("message", ""),
            started_at=_moment(started["started_at"]),
            finished_at=_moment(ended["finished_at"]),
        )

    def _never_started(self, directory: Path) -> NativeState:
        """What became of a job whose supervisor ended before it took it over: it did not run."""
        if not (directory / TASK).exists():
            return NativeState(NativePhase.UNKNOWN, message="its directory is gone from this machine")
        if (directory / CANCEL).exists():
            return NativeState(NativePhase.ABORTED)
        log = directory / "supervisor.log"
        why = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
        message = f"Its supervisor ended before it had started it: {''.join(why) or 'it did not say why'}"
        return NativeState(NativePhase.FAILED, reason="NOT_STARTED", message=message)

    def _lost(self, key: str, started: Mapping[str, Any]) -> dict[str, Any]:
        """The end of a job whose supervisor did not live to record it; what is left of it is ended too."""
        _kill_marked(key)
        directory = self.directory / key
        if (directory / CANCEL).exists():
            ended = {"phase": "ABORTED"}
        elif started["boot"] != boot_id():
            message = "The machine was restarted while it ran."
            ended = {"phase": "FAILED", "reason": "MACHINE_RESTARTED", "message": message}
        else:
            message = "Its supervisor was killed, and the job with it; how far it came is not known."
            ended = {"phase": "FAILED", "reason": "SUPERVISOR_LOST", "message": message}
        ended["finished_at"] = datetime.now(UTC).isoformat()
        write_json(directory / ENDED, ended)
        return ended

    def cancel(self, handle: Handle) -> None:
        """Have the supervisor end all of it; a supervisor that does not is ended with it."""
        directory = self.directory / handle.key
        if not (directory / TASK).exists() or (directory / ENDED).exists():
            return
        if not (directory / CANCEL).exists():
            (directory / CANCEL).touch()
        if not _is_locked(directory):
            self._state(handle.key)
            return
        overdue = time.time() - (directory / CANCEL).stat().st_mtime > self.grace_seconds + 10
        # The lock is held: the id is its supervisor's.
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(handle.native_id), signal.SIGKILL if overdue else signal.SIGTERM)
        if overdue:
            _kill_marked(handle.key)

    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        """A piece of what it printed."""
        return task_files.read_log(self.directory / handle.key, stream, offset, limit)

    def read_output(self, handle: Handle, path: str, limit: int) -> tuple[bytes, int, bool] | None:
        """A file below its working directory, or with its whole path."""
        task = read_json(self.directory / handle.key / TASK)
        return None if task is None else task_files.read_output(Path(task["work"]) / path, limit)

    def eta(self, task: Task) -> float | None:
        """Nothing waits here: at once, where there is room."""
        free = self.capacity()[1]
        fits = _asked(task, "cpu") <= amount(free["cpu"]) and _asked(task, "memory") <= amount(free["memory"])
        return 0.0 if fits else None

    def forget(self, handle: Handle) -> None:
        """Let its directory go, after the time that such directories are kept for people to look at."""
        task_files.forget(self.directory / handle.key, self.keep_seconds)

    def _running(self) -> list[dict[str, Any]]:
        """What the supervisors at work were told."""
        self._live = {key: task for key, task in self._live.items() if _lives(self.directory / key)}
        return list(self._live.values())

    def _reap(self) -> None:
        for pid in list(self._supervisors):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._supervisors.discard(pid)


_LIMITED = ("cpu", "memory")


def _spawn(directory: Path, lock: int) -> int:
    """Start a supervisor in a session of its own; it inherits the lock, and holds it as long as it lives."""
    os.set_inheritable(lock, True)
    log = directory / "supervisor.log"
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-S", "-m", "agent.engines.local.supervisor", str(directory)],
        {**os.environ, "PYTHONPATH": str(Path(agent.__file__).parents[1])},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _checked(options: Mapping[str, Any], name: str, kind: type, rule: str) -> Any:
    if not isinstance(options[name], kind):
        raise OptionError(f"engineOptions.{name}: must be {rule}")
    return options[name]


def _seconds(options: Mapping[str, Any], name: str) -> float:
    value = options[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise OptionError(f"engineOptions.{name}: must be a number of seconds, 0 or more")
    return float(value)


def _tasks(task: Task) -> int:
    return int(task.job.get("resources", {}).get("tasks", 1))


def _asked(task: Task, resource: str) -> Fraction:
    """What all tasks of a job ask for together."""
    return (of_task(task.job, resource) or Fraction(0)) * _tasks(task)


def _amounts(cpu: Fraction, memory: Fraction) -> dict[str, Any]:
    return {"cpu": f"{whole(cpu * 1000)}m", "memory": f"{int(memory) >> 20}Mi", "nodes": 1}


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _node() -> str:
    return platform.node() or "localhost"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _lives(directory: Path) -> bool:
    """Whether a job has not ended."""
    return not (directory / ENDED).exists() and _is_locked(directory)


def _is_locked(directory: Path) -> bool:
    """Whether a supervisor lives there."""
    try:
        lock = os.open(directory / LOCK, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _kill_marked(key: str) -> None:
    """End whatever carries a job's mark, until a look finds nothing."""
    deadline = time.monotonic() + 5
    while (found := processes.marked(key)) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
