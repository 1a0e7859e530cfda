"""The local engine: processes on the agent's own machine.

Each job has a directory and a supervisor process, which writes the job's output to files there. A supervisor is known
to be alive by the lock that it holds, never by its process id alone, because process ids are reused.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import platform
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import agent
from agent.clocks import SYSTEM_CLOCK, Clock, boot_id
from agent.engines.base import Bid, EngineUnavailable, Handle, NativePhase, NativeState, OptionError, Task, is_exclusive
from agent.engines.command_engine import CommandEngine, is_locked
from agent.engines.graphs import GraphBuilder
from agent.engines.limits import LOG_LIMIT_BYTES
from agent.engines.local import cgroups, processes
from agent.engines.local.job_files import CANCEL, ENDED, LEASE, LOCK, STARTED, SUPERVISOR_LOST, TASK, write_lease
from agent.engines.room import seconds_until_room
from agent.files import read_file, read_json, write_json
from agent.quantities import count, per_task, requested, round_up
from ctl.client.quantities import parse_quantity

_STARTING_SECONDS = 30.0
#: What is read of a supervisor's own log.
_LOG_BYTES = 64 << 10
#: The variables of the agent's own environment that a job gets, unless the job sets them.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")
_MEMORY_LIMITS = ("address-space", "resident", "none")


class LocalEngine(CommandEngine):
    """Runs commands as processes of this machine."""

    name = "local"
    guards_leases = True
    can_switch_user = True
    defaults: ClassVar[Mapping[str, Any]] = {
        "ignoreImage": False,
        "memoryLimit": "address-space",
        "graceSeconds": 5,
        "keepSeconds": 3600,
        "logLimitBytes": LOG_LIMIT_BYTES,
        "runAs": "",
    }

    def __init__(self, options: Mapping[str, Any], directory: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(options, directory, clock=clock)
        if self.options["memoryLimit"] not in _MEMORY_LIMITS:
            raise OptionError(f"engineOptions.memoryLimit: must be one of {', '.join(_MEMORY_LIMITS)}")
        self._check_reach()
        self._cores = sorted(os.sched_getaffinity(0))
        #: Child processes, which must be reaped when they have ended.
        self._supervisors: set[int] = set()
        #: When this process first cancelled a job, by key.
        self._cancelled_at: dict[str, float] = {}
        #: The plans of jobs that run, by key; some may have ended since the last look.
        plans = {path.parent.name: read_json(path) for path in directory.glob(f"*/{TASK}")}
        self._plans = {key: plan for key, plan in plans.items() if plan and _is_running(directory / key)}

    def _check_reach(self) -> None:
        """Refuse a directory that the jobs' user cannot reach."""
        identity = self._identity()
        if self.user is None or identity is None or not self.directory.is_dir():
            return
        if subprocess.run(["test", "-x", str(self.directory)], cwd="/", **identity).returncode:
            raise OptionError(
                f"stateDirectory: the user '{self.user.name}', whom runAs names, cannot reach {self.directory}: choose "
                "a directory that everybody may pass through, such as /var/lib/rainbow-agent"
            )

    def version(self) -> str:
        """The kernel's release."""
        return platform.release()

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The machine's cores and memory, and what running jobs have not requested; an exclusive one leaves nothing."""
        cpu, memory = Fraction(len(self._cores)), Fraction(_memory_bytes())
        free_cpu, free_memory = cpu, memory
        plans = self._running_plans()
        for plan in plans:
            free_cpu -= cpu if plan.get("exclusive") else parse_quantity(plan["cpu"])
            free_memory -= memory if plan.get("exclusive") else parse_quantity(plan["memory"])
        free = _quantities(max(free_cpu, Fraction(0)), max(free_memory, Fraction(0)), nodes=0 if plans else 1)
        return _quantities(cpu, memory, nodes=1), free

    def graph(self) -> dict[str, Any] | None:
        """This machine with its cores and memory; jobs here have no gpu."""
        graph = GraphBuilder(_node())
        node = graph.add_node(_node(), {"arch": platform.machine(), "os": platform.system().lower()})
        graph.add_pool(node, "core", len(self._cores))
        graph.add_pool(node, "memory", _memory_bytes() >> 20, unit="MiB")
        return graph.document()

    def check(self, task: Task) -> str:
        """Accept commands that fit on this machine."""
        resources = task.job.get("resources", {})
        if reason := self._check_command(task):
            return reason
        if resources.get("nodes", 1) > 1:
            return f"the local engine has 1 node, the job asks for {resources['nodes']}"
        if (per_task(task.job, "gpu") or 0) > 0:
            return "the local engine has no gpu"
        cpu, memory = requested(task.job, "cpu"), requested(task.job, "memory")
        if cpu > len(self._cores):
            return f"the job asks for {round_up(cpu)} cpu, this machine has {len(self._cores)}"
        if memory > _memory_bytes():
            return f"the job asks for {round_up(memory) >> 20} MiB of memory, this machine has {_memory_bytes() >> 20}"
        return ""

    def submit(self, task: Task) -> Handle:
        """Start a supervisor, without waiting for it to start the job."""
        now = self._clock.steady()
        self._reap()
        directory, work = self._make_directories(task)
        plan = self._plan(task, work)
        write_json(directory / TASK, plan, is_durable=False)
        if task.lease_seconds is not None:
            write_lease(directory, now + task.lease_seconds)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            supervisor = _spawn(directory, lock)
        except OSError as error:
            raise EngineUnavailable(f"the job cannot be started on this machine now: {error.strerror}") from error
        finally:
            os.close(lock)
        self._supervisors.add(supervisor)
        self._plans[task.key] = plan
        return Handle(task.key, str(supervisor))

    def _plan(self, task: Task, work: Path) -> dict[str, Any]:
        """What the supervisor has to run."""
        cpu, memory = _limit(task, "cpu"), _limit(task, "memory")
        tasks = count(task.job, "tasks")
        plan: dict[str, Any] = {
            "key": task.key,
            "command": list(task.job["command"]),
            "work": str(work),
            "environment": {
                **self._login_environment(),
                **task.environment,
                processes.MARK: task.key,
            },
            "user": self._identity(),
            "tasks": tasks,
            "time_limit_seconds": task.time_limit_seconds,
            "grace_seconds": self.options["graceSeconds"],
            "log_limit_bytes": self.options["logLimitBytes"],
            "cpu": str(float(requested(task.job, "cpu"))),
            "memory": str(round_up(requested(task.job, "memory"))),
            "exclusive": is_exclusive(task.job),
            "cores": self._least_used_cores(round_up(cpu * tasks)) if cpu else None,
        }
        if memory and self.options["memoryLimit"] != "none":
            is_address_space = self.options["memoryLimit"] == "address-space"
            plan["memory_bytes"] = round_up(memory * tasks)
            plan["address_space_bytes"] = round_up(memory) if is_address_space else None
        return plan

    def _login_environment(self) -> dict[str, str]:
        variables = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        if self.user is None:
            return variables
        own = {"HOME": self.user.home, "USER": self.user.name, "LOGNAME": self.user.name, "SHELL": self.user.shell}
        variables.pop("TMPDIR", None)
        return {**variables, **own}

    def _identity(self) -> dict[str, Any] | None:
        """As whom processes of jobs are started, as arguments of Popen."""
        if self.user is None:
            return None
        return {"user": self.user.uid, "group": self.user.gid, "extra_groups": list(self.user.groups)}

    def _least_used_cores(self, number: int) -> list[int] | None:
        """The cores that the fewest jobs use; None if the job may use all."""
        if number >= len(self._cores):
            return None
        uses = Counter(core for plan in self._running_plans() for core in plan.get("cores") or ())
        return sorted(self._cores, key=lambda core: (uses[core], core))[:number]

    def find(self, key: str) -> Handle | None:
        """The job of that key; waits for a supervisor that is just starting."""
        directory = self.directory / key
        deadline = self._clock.steady() + _STARTING_SECONDS
        while (started := read_json(directory / STARTED)) is None:
            if not is_locked(directory / LOCK) and not (directory / STARTED).exists():
                return None
            if self._clock.steady() > deadline:
                raise EngineUnavailable(f"the supervisor of {key} has not started for {_STARTING_SECONDS:g} s")
            self._clock.sleep(0.005)
        return Handle(key, str(started["supervisor"]))

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each job, from its files."""
        self._reap()
        states = {}
        for handle in handles:
            try:
                states[handle.key] = self._state(handle.key)
            except PermissionError:
                # A job of the agent's own user may have closed its directory: the next look succeeds.
                with contextlib.suppress(OSError):
                    (self.directory / handle.key).chmod(0o700)
            except OSError:
                continue  # asked for again; the others must not wait for it
            except (KeyError, TypeError, ValueError) as error:
                message = f"its files on this machine were changed: {type(error).__name__}: {error}"
                states[handle.key] = NativeState(NativePhase.UNKNOWN, message=message)
        return states

    def _state(self, key: str) -> NativeState:
        directory = self.directory / key
        is_alive = is_locked(directory / LOCK)
        started = read_json(directory / STARTED)
        if started is None:
            return NativeState(NativePhase.QUEUED) if is_alive else self._never_started(directory)
        ended, started_at = read_json(directory / ENDED), datetime.fromisoformat(started["started_at"])
        if ended is None and is_alive:
            return NativeState(NativePhase.RUNNING, nodes=(_node(),), started_at=started_at)
        ended = ended or self._record_loss(key, started)
        return NativeState(
            NativePhase(ended["phase"]),
            exit_code=ended.get("exit_code"),
            signal=ended.get("signal"),
            nodes=(_node(),),
            reason=ended.get("reason", ""),
            message=ended.get("message", ""),
            started_at=started_at,
            finished_at=datetime.fromisoformat(ended["finished_at"]),
            duration=ended.get("duration"),
        )

    def _never_started(self, directory: Path) -> NativeState:
        """The state of a job that did not run because its supervisor ended first."""
        if not (directory / TASK).exists():
            return NativeState(NativePhase.UNKNOWN, message="its directory is gone from this machine")
        if (directory / CANCEL).exists():
            return NativeState(NativePhase.ABORTED)
        try:
            log = read_file(directory / "supervisor.log", _LOG_BYTES).decode(errors="replace")
        except OSError:
            log = ""
        last_line = log.strip().splitlines()[-1:]
        message = f"Its supervisor ended before it had started it: {''.join(last_line) or 'it did not say why'}"
        return NativeState(NativePhase.FAILED, reason="NOT_STARTED", message=message)

    def _record_loss(self, key: str, started: Mapping[str, Any]) -> dict[str, Any]:
        """Record the end of a job whose supervisor was killed, and kill what is left of the job."""
        self._kill_all(key, started)
        directory = self.directory / key
        if (directory / CANCEL).exists():
            ended = {"phase": "ABORTED"}
        elif started["boot"] != boot_id():
            message = "The machine was restarted while it ran."
            ended = {"phase": "FAILED", "reason": "MACHINE_RESTARTED", "message": message}
        else:
            message = "Its supervisor was killed, and the job with it; how far it came is not known."
            ended = {"phase": "FAILED", "reason": SUPERVISOR_LOST, "message": message}
        ended["finished_at"] = self._clock.now().isoformat()
        with contextlib.suppress(OSError):  # on a full disk it is recorded at a later look
            write_json(directory / ENDED, ended)
        return ended

    def renew(self, seconds: Mapping[Handle, float]) -> None:
        """Tell supervisors until when their jobs may go on."""
        now = self._clock.steady()
        for handle, left in seconds.items():
            directory = self.directory / handle.key
            if (directory / LEASE).exists() and not (directory / ENDED).exists():
                write_lease(directory, now + left)

    def cancel(self, handle: Handle) -> None:
        """Ask the supervisor to end the job; kill both if it does not."""
        directory = self.directory / handle.key
        if not (directory / TASK).exists() or (directory / ENDED).exists():
            return
        with contextlib.suppress(OSError):  # on a full disk the signal has to do
            (directory / CANCEL).touch()
        if not is_locked(directory / LOCK):
            self._state(handle.key)
            return
        requested_at = self._cancelled_at.setdefault(handle.key, self._clock.steady())
        is_overdue = self._clock.steady() - requested_at > self.options["graceSeconds"] + 10
        started = read_json(directory / STARTED) or {}
        watchers = _watchers(handle, started)
        if is_overdue:
            self._kill_all(handle.key, started, watchers)
        processes.signal_all(watchers, signal.SIGKILL if is_overdue else signal.SIGTERM)

    def forget(self, handle: Handle) -> None:
        """Remove the job's directory after keepSeconds."""
        self._cancelled_at.pop(handle.key, None)
        super().forget(handle)

    def must_wait(self, task: Task) -> str:
        """An exclusive job waits until nothing else runs, and everything waits until it has ended."""
        plans = self._running_plans()
        if any(plan.get("exclusive") for plan in plans):
            return "an exclusive job has this machine to itself"
        return (
            "an exclusive job waits until nothing else runs on this machine" if plans and is_exclusive(task.job) else ""
        )

    def eta(self, task: Task) -> float | None:
        """0 if the task fits beside the running jobs: nothing is ever queued."""
        free = self.capacity()[1]
        fits = all(requested(task.job, name) <= parse_quantity(free[name]) for name in ("cpu", "memory"))
        return 0.0 if fits and not self.must_wait(task) else None

    def bid(self, task: Task) -> Bid:
        """At once if the task fits beside the running jobs, else when the time limits of enough of them are over."""
        if reason := self.check(task):
            return Bid.never(reason)
        plans = self._running()
        # A job takes one of as many places as there can be jobs, an exclusive one all of them.
        places = Fraction(len(plans) + 1)
        total = {"cpu": Fraction(len(self._cores)), "memory": Fraction(_memory_bytes()), "places": places}
        amounts = {"cpu": requested(task.job, "cpu"), "memory": requested(task.job, "memory"), "places": Fraction(1)}
        running = [(self._ends_in(key, plan), _has(plan, total)) for key, plan in plans.items()]
        needed = total if is_exclusive(task.job) else amounts
        seconds = seconds_until_room(needed, total, running)
        if seconds == math.inf:
            return Bid.not_now("this machine has no room, and what runs there has no time limit")
        return Bid.yes(seconds)

    def _ends_in(self, key: str, plan: Mapping[str, Any]) -> float:
        """Seconds until the time limit of a running job is over; infinite where it has none."""
        limit, started = plan.get("time_limit_seconds"), read_json(self.directory / key / STARTED)
        if limit is None:
            return math.inf
        since = self._clock.now() if started is None else datetime.fromisoformat(started["started_at"])
        return max(0.0, float(limit) - (self._clock.now() - since).total_seconds())

    def _running(self) -> dict[str, dict[str, Any]]:
        self._plans = {key: plan for key, plan in self._plans.items() if _is_running(self.directory / key)}
        return self._plans

    def _running_plans(self) -> list[dict[str, Any]]:
        return list(self._running().values())

    def _kill_all(self, key: str, started: Mapping[str, Any], watchers: Sequence[int] = ()) -> None:
        """Kill every process that has a job's mark, is in its group or below what watches it, until none is left."""
        group = Path(started["group"]) if started.get("group") else None
        deadline = self._clock.steady() + 5
        while (pids := _processes_of(key, group, watchers)) and self._clock.steady() < deadline:
            processes.signal_all(pids, signal.SIGKILL)
            self._clock.sleep(0.02)
        cgroups.remove(group)

    def _reap(self) -> None:
        for pid in list(self._supervisors):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._supervisors.discard(pid)


def _spawn(directory: Path, lock: int) -> int:
    """Start a supervisor in a session of its own; it inherits the lock and holds it until it ends."""
    os.set_inheritable(lock, True)
    log = directory / "supervisor.log"
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-S", "-m", "agent.engines.local.supervisor", str(directory)],
        # Without the agent's own variables, which may hold tokens and secrets.
        {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAINBOW_")},
            "PYTHONPATH": str(Path(agent.__file__).parents[1]),
        },
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _watchers(handle: Handle, started: Mapping[str, Any]) -> list[int]:
    """The processes that watch a job and have not ended; the lock is held, so at first the native id is one."""
    watchers = started.get("watchers") or [[int(handle.native_id), processes.start_ticks(int(handle.native_id))]]
    return [pid for pid, ticks in watchers if ticks is not None and processes.start_ticks(pid) == ticks]


def _processes_of(key: str, group: Path | None, watchers: Sequence[int]) -> set[int]:
    """The processes of a job; those without a mark or a group are found below what watches it as long as that lives."""
    pids = processes.marked(key) | cgroups.members(group)
    return pids.union(*map(processes.descendants, watchers)) - {*watchers}


def _has(plan: Mapping[str, Any], total: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
    """What a running job has of this machine."""
    if plan.get("exclusive"):
        return total
    return {"cpu": parse_quantity(plan["cpu"]), "memory": parse_quantity(plan["memory"]), "places": Fraction(1)}


def _limit(task: Task, resource: str) -> Fraction | None:
    return per_task(task.job, resource, "limits") or per_task(task.job, resource)


def _quantities(cpu: Fraction, memory: Fraction, *, nodes: int) -> dict[str, Any]:
    return {"cpu": f"{round_up(cpu * 1000)}m", "memory": f"{int(memory) >> 20}Mi", "nodes": nodes}


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _node() -> str:
    return platform.node() or "localhost"


def _is_running(directory: Path) -> bool:
    return not (directory / ENDED).exists() and is_locked(directory / LOCK)
