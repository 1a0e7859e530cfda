"""The supervisor of one local job: starts it, enforces its limits, ends all its processes, and records how it ended.

It is a process of its own, in its own session, so that the job outlives the agent: `python -m` this module with the
job's directory, whose lock it inherits. `job_files` describes the files in that directory; the job's output goes to
`stdout` and `stderr` there, and `work/` is its working directory.

Two processes watch the job: the supervisor, and its parent, the keeper, which passes signals on. If a job kills one of
them, the other ends all its processes, so that nothing is left behind even if the agent is away.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.clocks import SYSTEM_CLOCK, boot_id
from agent.engines.leases import CLUSTER_LOST, LEASE_OVER_MESSAGE
from agent.engines.limits import LOG_LIMIT_BYTES
from agent.engines.local import cgroups, processes
from agent.engines.local.job_files import CANCEL, STARTED, SUPERVISOR_LOST, TASK, read_lease, reserve_ended, write_ended
from agent.engines.local.streams import Stream
from agent.engines.memory_words import find_lack_of_memory, lack_of_memory_message
from agent.engines.users import hide_process
from agent.files import read_json, write_json

COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE = 127, 126

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_WATCHED = {signal.SIGCHLD, signal.SIGTERM}
_MEMORY_INTERVAL_SECONDS = 0.5
#: How long the rest of the output is waited for when every process of the job has ended.
_OUTPUT_SECONDS = 10.0
#: How often the lease and the time limit are looked at, because a wait does not count the time of a suspension.
_CLOCK_INTERVAL_SECONDS = 1.0
#: The part of its limit that a process must have used for doubtful words of its to count.
_NEAR_LIMIT = 0.75
_libc = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """One job: its processes, its limits and its end."""

    def __init__(self, directory: Path, task: Mapping[str, Any], keeper: int, group: Path | None) -> None:
        self.directory = directory
        self.task = task
        self.keeper = keeper
        #: The group of the job's processes, where there can be one.
        self.group = group
        #: The rank of each copy of the command that runs, by process id.
        self.copies: dict[int, int] = {}
        #: The wait status of each copy that has ended.
        self.statuses: list[int] = []
        #: Why the supervisor ends the job, if it does: the phase, a reason code and a message.
        self.verdict: tuple[str, str, str] | None = None
        #: Until when the job may go on unless its lease is renewed; None if it is not guarded.
        self.lease = read_lease(directory)
        self.streams: list[Stream] = []
        #: The most memory that a process of the job had at once, of those that have ended.
        self.most_bytes = 0

    def run(self) -> None:
        """Start the job, and record how it ends."""
        if (self.directory / CANCEL).exists():
            return
        started = {
            "supervisor": self.keeper,
            "watchers": [[pid, processes.start_ticks(pid)] for pid in (self.keeper, os.getpid())],
            "group": str(self.group) if self.group else None,
            "boot": boot_id(),
            "started_at": datetime.now(UTC).isoformat(),
        }
        reserve_ended(self.directory)
        write_json(self.directory / STARTED, started)
        begin = SYSTEM_CLOCK.steady()
        failure = self._lease_failure() or self._start_in_group()
        if failure is None:
            first = min(self.copies)
            started |= {"pid": first, "start_ticks": processes.start_ticks(first)}
            with contextlib.suppress(OSError):  # details, which a full disk may do without
                write_json(self.directory / STARTED, started, is_durable=False)
            limit = self.task.get("time_limit_seconds")
            self._watch(None if limit is None else begin + float(limit))
        self._end_processes()
        cgroups.remove(self.group)
        for stream in self.streams:
            stream.finish(_OUTPUT_SECONDS)
        ending = failure or self._outcome()
        ended = {**ending, "duration": SYSTEM_CLOCK.steady() - begin, "finished_at": datetime.now(UTC).isoformat()}
        write_ended(self.directory, ended)

    def _lease_failure(self) -> dict[str, Any] | None:
        """The outcome of a job that must not start because its lease is over."""
        if not self._lease_is_over():
            return None
        return {"phase": "FAILED", "exit_code": None, "reason": CLUSTER_LOST, "message": LEASE_OVER_MESSAGE}

    def _lease_is_over(self) -> bool:
        if self.lease is None:
            return False
        # A file that a job removed does not end the guard.
        self.lease = read_lease(self.directory) or self.lease
        return SYSTEM_CLOCK.steady() >= self.lease

    def _start(self) -> dict[str, Any] | None:
        """Start every copy of the command; the outcome of the job if one cannot be started."""
        work = Path(self.task["work"])
        # An agent that has been replaced on disk while it runs does not give a limit.
        limit = int(self.task.get("log_limit_bytes", LOG_LIMIT_BYTES))
        self.streams = [Stream(self.directory / name, limit) for name in ("stdout", "stderr")]
        out, err = self.streams
        user = self.task.get("user") or {}
        if user:
            for stream in self.streams:
                os.fchown(stream.writer, user["user"], user["group"])  # so that it can open /dev/stdout
        try:
            for rank in range(self.task["tasks"]):
                try:
                    copy = subprocess.Popen(
                        self.task["command"],
                        cwd=None if user else work,  # another user enters it with its own rights, in _prepare()
                        env={**self.task["environment"], "RAINBOW_TASK": str(rank)},
                        stdin=subprocess.DEVNULL,
                        stdout=out.writer,
                        stderr=err.writer,
                        start_new_session=True,
                        preexec_fn=self._prepare,
                        **user,
                    )
                except (OSError, ValueError, subprocess.SubprocessError) as error:
                    return self._start_failure(error, work)
                self.copies[copy.pid] = rank
                copy.returncode = 0  # keeps Popen from waiting for it, which _reap() does
        finally:
            for stream in self.streams:
                stream.start()
        return None

    def _start_in_group(self) -> dict[str, Any] | None:
        """Start every copy in the group of the job, so that whatever they start is in it too."""
        parent = cgroups.own()
        if self.group is None or parent is None or not cgroups.enter(self.group):
            return self._start()
        try:
            return self._start()
        finally:
            cgroups.enter(parent)

    def _start_failure(self, error: Exception, work: Path) -> dict[str, Any]:
        command = self.task["command"][0]
        if not work.is_dir():
            reason, code = "NO_WORKING_DIRECTORY", None
            message = f"The working directory {work} does not exist on this machine."
        elif isinstance(error, subprocess.SubprocessError) and not self._can_enter(work):
            reason, code = "NO_WORKING_DIRECTORY", None
            message = f"The working directory {work} cannot be entered by the user that jobs run as: check its mode."
        elif isinstance(error, (FileNotFoundError, NotADirectoryError)):
            reason, code = "COMMAND_NOT_FOUND", COMMAND_NOT_FOUND
            message = f"There is no command '{command}' on this machine: check its name, and PATH in its environment."
        elif isinstance(error, PermissionError):
            reason, code = "COMMAND_NOT_EXECUTABLE", COMMAND_NOT_EXECUTABLE
            message = f"The command '{command}' may not be executed: check its mode."
        elif isinstance(error, OSError):
            reason, code = "COMMAND_NOT_EXECUTABLE", COMMAND_NOT_EXECUTABLE
            message = f"The command '{command}' cannot be executed: {error.strerror}."
        else:
            reason, code = "NOT_STARTED", None
            message = f"The command '{command}' cannot be started: {error}"
        return {"phase": "FAILED", "exit_code": code, "reason": reason, "message": message}

    def _can_enter(self, work: Path) -> bool:
        user = self.task.get("user") or {}
        return subprocess.run(["test", "-x", f"{work}/."], cwd="/", **user).returncode == 0

    def _prepare(self) -> None:
        """Set the limits of the job; runs in the new process as the job's user, before the command."""
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the job ends with its supervisor
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if cores := self.task.get("cores"):
            os.sched_setaffinity(0, cores)
        if space := self.task.get("address_space_bytes"):
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            limit = space if hard == resource.RLIM_INFINITY else min(space, hard)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self.task.get("user"):
            os.chdir(self.task["work"])

    def _watch(self, deadline: float | None) -> None:
        """Wait until every copy has ended, or the job must be ended."""
        memory = self.task.get("memory_bytes")
        interval = 3600.0 if self.lease is None and deadline is None else _CLOCK_INTERVAL_SECONDS
        if memory:
            interval = min(interval, _MEMORY_INTERVAL_SECONDS)
        while self.copies and self.verdict is None:
            timeout = interval if deadline is None else max(0.0, min(interval, deadline - SYSTEM_CLOCK.steady()))
            received = _wait_for_signal(timeout)
            self._reap()
            if not self.copies:
                break
            if received == signal.SIGTERM:
                self.verdict = self._verdict_on_sigterm()
            elif deadline is not None and SYSTEM_CLOCK.steady() >= deadline:
                seconds = float(self.task["time_limit_seconds"])
                self.verdict = ("TIMED_OUT", "TIME_LIMIT", f"It ran longer than its limit of {seconds:g} s.")
            elif self._lease_is_over():
                self.verdict = ("FAILED", CLUSTER_LOST, LEASE_OVER_MESSAGE)
            elif memory and (used := processes.memory_bytes(processes.children_of(os.getpid()), memory)) > memory:
                message = f"Its processes used {used >> 20} MiB of memory; the limit is {memory >> 20} MiB."
                self.verdict = ("FAILED", "OUT_OF_MEMORY", message)

    def _verdict_on_sigterm(self) -> tuple[str, str, str]:
        if (self.directory / CANCEL).exists():
            return "ABORTED", "", ""
        if os.getppid() != self.keeper:
            return "FAILED", SUPERVISOR_LOST, "A process that watched it was killed, and the job was ended."
        return "FAILED", "SUPERVISOR_STOPPED", "Its supervisor was told to stop, as when the machine shuts down."

    def _end_processes(self) -> None:
        """End every process of the job, with SIGTERM first and SIGKILL after the grace period."""
        remaining = self._remaining()
        if not remaining:
            return
        processes.signal_all(remaining, signal.SIGTERM)
        deadline = time.monotonic() + float(self.task["grace_seconds"])
        while self._remaining() and time.monotonic() < deadline:
            _wait_for_signal(0.05)
            self._reap()
        # Repeated, because a process may fork between being listed and being killed.
        while remaining := self._remaining():
            processes.signal_all(remaining, signal.SIGKILL)
            _wait_for_signal(0.02)
            self._reap()

    def _remaining(self) -> set[int]:
        self._reap()
        return _processes_of(self.task["key"], self.group)

    def _reap(self) -> None:
        """Wait for every child that has ended, orphans of the job included."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.most_bytes = max(self.most_bytes, usage.ru_maxrss << 10)
                if self.copies.pop(pid, None) is not None:
                    self.statuses.append(status)

    def _outcome(self) -> dict[str, Any]:
        """How the job ended: as its worst copy did."""
        codes = [os.waitstatus_to_exitcode(status) for status in self.statuses]
        killed = next((-code for code in codes if code < 0), None)
        code = None if killed is not None else max(codes, default=None)
        ending: dict[str, Any] = {"exit_code": code, "signal": killed}
        if self.verdict is not None:
            phase, reason, message = self.verdict
            return {**ending, "phase": phase, "reason": reason, "message": message}
        if message := self._lack_of_memory(code, killed):
            return {**ending, "phase": "FAILED", "reason": "OUT_OF_MEMORY", "message": message}
        if killed is not None:
            name = signal.Signals(killed).name if killed in set(signal.Signals) else str(killed)
            return {**ending, "phase": "FAILED", "reason": "SIGNAL", "message": f"It was ended by the signal {name}."}
        return {**ending, "phase": "SUCCEEDED" if code == 0 else "FAILED", "reason": "", "message": ""}

    def _lack_of_memory(self, code: int | None, killed: int | None) -> str:
        """What shows that a job failed for its memory limit; "" where nothing does.

        A process to which the system gives no more memory ends by itself, and prints that at best.
        """
        limit, space = self.task.get("memory_bytes"), self.task.get("address_space_bytes")
        if not limit or (code == 0 and killed is None):
            return ""
        # A process counts what it shared with the supervisor before it became the command.
        shared = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        if self.most_bytes > max(limit, shared):
            return f"A process of it used {self.most_bytes >> 20} MiB of memory; the limit is {limit >> 20} MiB."
        if not space or not self.streams:
            return ""
        is_near = self.most_bytes > max(_NEAR_LIMIT * space, shared)
        printed = find_lack_of_memory(self.streams[1].tail, is_near=is_near)
        return lack_of_memory_message(printed, space) if printed else ""


def _wait_for_signal(timeout: float) -> int | None:
    received = signal.sigtimedwait(_WATCHED, timeout)
    return None if received is None else received.si_signo


def _processes_of(key: str, group: Path | None) -> set[int]:
    """Every process of a job that this one watches."""
    return processes.descendants(os.getpid()) | processes.marked(key) | cgroups.members(group)


def keep(supervisor: int, key: str, group: Path | None) -> None:
    """Pass SIGTERM on to a supervisor, and end what is left of its job if it is killed."""
    code: int | None = None
    while code is None:
        if signal.sigwait(_WATCHED) == signal.SIGTERM:
            os.kill(supervisor, signal.SIGTERM)
        code = _reap_all(supervisor)
    while code != 0 and (remaining := _processes_of(key, group)):
        processes.signal_all(remaining, signal.SIGKILL)
        _wait_for_signal(0.02)
        _reap_all(supervisor)
    cgroups.remove(group)


def _reap_all(supervisor: int) -> int | None:
    """Wait for every child that has ended; the exit code of the supervisor if it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if ended[0] == supervisor:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def main() -> None:
    """Supervise the job whose directory the command line names."""
    hide_process()
    directory = Path(sys.argv[1]).absolute()
    os.chdir("/")  # so that the supervisor does not keep a file system from being unmounted
    task = read_json(directory / TASK)
    if task is None or (directory / STARTED).exists():
        sys.exit(1)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    keeper = os.getpid()
    group = cgroups.make(task["key"])
    _adopt_orphans()
    supervisor = os.fork()
    if supervisor:
        keep(supervisor, task["key"], group)
        return
    os.setsid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    _adopt_orphans()
    if os.getppid() == keeper:
        Supervisor(directory, task, keeper, group).run()


def _adopt_orphans() -> None:
    """Make orphaned processes of the job, daemons included, children of this process instead of init."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    main()
