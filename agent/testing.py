"""For tests of engines and agents: a fake engine, a fake clock, and a check of the engine interface.

`check_engine` exercises an engine as the agent does:

    def test_my_engine(tmp_path):
        check_engine(MyEngine({}, tmp_path), tmp_path)

`FakeEngine` has no back end. Its jobs go through the states that a test assigns, or that a `Program` lists:

    engine = FakeEngine(programs={"train": Program(states=(QUEUED, RUNNING, SUCCEEDED), stdout=b"epoch 1\\n")})
    engine.jobs[key] = FAILED
    engine.failures["states"] = EngineUnavailable("the back end does not answer")

`FakeClock` stands still until it is told to advance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import (
    Bid,
    Engine,
    EngineUnavailable,
    GuardingEngine,
    Handle,
    NativePhase,
    NativeState,
    OrphanEngine,
    Task,
    bid_of,
)
from agent.engines.leases import CLUSTER_LOST
from agent.quantities import parse_quantity

T = TypeVar("T")

_TIME = datetime(2026, 1, 1, tzinfo=UTC)

#: States of a job, for `FakeEngine.jobs` and `Program.states`.
QUEUED = NativeState(NativePhase.QUEUED)
RUNNING = NativeState(NativePhase.RUNNING, started_at=_TIME, nodes=("n1",))
SUCCEEDED = NativeState(NativePhase.SUCCEEDED, exit_code=0, started_at=_TIME, finished_at=_TIME, nodes=("n1",))
FAILED = replace(SUCCEEDED, phase=NativePhase.FAILED, exit_code=1)
ABORTED = replace(SUCCEEDED, phase=NativePhase.ABORTED, exit_code=None)
TIMED_OUT = replace(ABORTED, phase=NativePhase.TIMED_OUT, reason="TIME_LIMIT")
OUT_OF_MEMORY = replace(ABORTED, phase=NativePhase.FAILED, reason="OUT_OF_MEMORY")
ABORTED_IN_QUEUE = NativeState(NativePhase.ABORTED)
UNKNOWN = NativeState(NativePhase.UNKNOWN)


class FakeClock(Clock):
    """A clock that stands still until a test advances it; waiting advances it at once."""

    def __init__(self, steady: float = 1000.0, now: datetime = _TIME) -> None:
        self._steady = steady
        self._now = now

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self._steady += seconds
        self._now += timedelta(seconds=seconds)

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._now += timedelta(seconds=seconds)

    def steady(self) -> float:
        return self._steady

    def now(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def wait_for(self, queue: SimpleQueue[T], seconds: float) -> T | None:
        """The next item of a queue; if it is empty, advance the clock and return None."""
        if queue.empty():
            self.advance(max(0.0, seconds))
            return None
        return queue.get()


@dataclass(frozen=True, kw_only=True)
class Program:
    """What the jobs of a command do in a fake engine."""

    states: tuple[NativeState, ...] = (QUEUED,)  #: one for each time the engine is asked; a job stays in the last
    stdout: bytes = b""
    stderr: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)  #: output files by path
    dropped: tuple[int, int] = (0, 0)  #: from where to where bytes of stdout are not kept


@dataclass(kw_only=True)
class FakeEngine:
    """An engine without a back end, which keeps jobs in memory and records the calls that change something."""

    name: str = "fake"
    poll_seconds: float = 0.5
    is_shared: bool = False
    #: Whether the agent is told that the engine ends jobs whose lease is over; the test ends them.
    guards_leases: bool = False
    total: Mapping[str, Any] = field(default_factory=lambda: {"cpu": "4"})
    free: Mapping[str, Any] = field(default_factory=lambda: {"cpu": "2"})
    eta_seconds: float | None = 1.5
    #: What bid() answers, or what check() and eta() say if it is None.
    next_bid: Bid | None = None
    #: The tasks that bid() was asked about.
    asked: list[Task] = field(default_factory=list)
    #: What jobs do, by the first word of their command; a job of any other command stays QUEUED.
    programs: dict[str, Program] = field(default_factory=dict)
    #: The present state of each job, by key; a test may assign any.
    jobs: dict[str, NativeState] = field(default_factory=dict)
    #: Why check() declines every task; empty to accept them.
    decline_reason: str = ""
    #: Why a task cannot be started beside what runs, by its key.
    waits: dict[str, str] = field(default_factory=dict)
    #: Why no call is answered (EngineUnavailable); empty while the back end answers.
    unavailable: str = ""
    #: What a method raises, by its name: `SubmitRefused` for submit, or any other exception.
    failures: dict[str, Exception] = field(default_factory=dict)
    #: Whether cancel() ends a job at once; else it only records the call.
    ends_on_cancel: bool = True
    submitted: list[Task] = field(default_factory=list)
    #: For how many seconds each job's lease was last renewed, by key.
    renewed: dict[str, float] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def version(self) -> str:
        self._fail("version")
        return "1"

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        self._fail("capacity")
        return dict(self.total), dict(self.free)

    def check(self, task: Task) -> str:
        self._fail("check")
        return self.decline_reason

    def must_wait(self, task: Task) -> str:
        """Why the test lets the task wait at the agent."""
        return self.waits.get(task.key, "")

    def submit(self, task: Task) -> Handle:
        """Queue a job; AssertionError if there is one of its key already."""
        self._fail("submit")
        assert task.key not in self.jobs, f"{task.key} was submitted twice"
        self.submitted.append(task)
        self.jobs[task.key] = QUEUED
        return Handle(task.key, self._native_id(task.key))

    def find(self, key: str) -> Handle | None:
        """The job of that key, submitted or assigned by the test."""
        self._fail("find")
        return Handle(key, self._native_id(key)) if key in self.jobs else None

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each job, which then moves on to the next state of its program."""
        self._fail("states")
        states = {handle.key: self.jobs[handle.key] for handle in handles if handle.key in self.jobs}
        for key, state in states.items():
            remaining = self._program(key).states
            if state in remaining[:-1]:
                self.jobs[key] = remaining[remaining.index(state) + 1]
        return states

    def renew(self, seconds: Mapping[Handle, float]) -> None:
        """Record the seconds."""
        self._fail("renew")
        self.renewed |= {handle.key: left for handle, left in seconds.items()}

    def cancel(self, handle: Handle) -> None:
        """Record the call and end the job, unless `ends_on_cancel` is False."""
        self._fail("cancel")
        self.cancelled.append(handle.key)
        state = self.jobs.get(handle.key)
        if self.ends_on_cancel and state is not None and not state.phase.finished:
            self.jobs[handle.key] = ABORTED_IN_QUEUE if state.phase is NativePhase.QUEUED else ABORTED

    def withdraw(self, handle: Handle) -> bool:
        """Record the call, and end a job that is queued."""
        self._fail("withdraw")
        self.withdrawn.append(handle.key)
        if self.jobs.get(handle.key) != QUEUED:
            return False
        self.jobs[handle.key] = ABORTED_IN_QUEUE
        return True

    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        """A piece of the program's stdout or stderr."""
        self._fail("logs")
        parts = self.log_parts(handle, stream)
        end = next((end for start, end in parts if start <= offset < end), offset)
        return self._printed(handle, stream)[offset : min(end, offset + limit)]

    def log_parts(self, handle: Handle, stream: str) -> list[tuple[int, int]]:
        """What is before and after the bytes that the program's stdout has lost."""
        start, end = self._program(handle.key).dropped if stream == "stdout" else (0, 0)
        parts = [(0, start), (end, len(self._printed(handle, stream)))]
        return [(start, end) for start, end in parts if start < end]

    def read_output(self, handle: Handle, path: str, limit: int, offset: int = 0) -> tuple[bytes, int, bool] | None:
        """One of the program's files."""
        self._fail("read_output")
        content = self._program(handle.key).files.get(path)
        if content is None:
            return None
        return content[offset : offset + limit], len(content), len(content) > offset + limit

    def eta(self, task: Task) -> float | None:
        self._fail("eta")
        return self.eta_seconds

    def bid(self, task: Task) -> Bid:
        """Record the task, and bid as the test says."""
        self._fail("bid")
        self.asked.append(task)
        if self.next_bid is not None:
            return self.next_bid
        if reason := self.check(task):
            return Bid.never(reason)
        seconds = self.eta(task)
        return Bid.not_now("the test says nothing") if seconds is None else Bid.yes(seconds)

    def forget(self, handle: Handle) -> None:
        self._fail("forget")
        self.forgotten.append(handle.key)

    def _fail(self, method: str) -> None:
        if self.unavailable:
            raise EngineUnavailable(self.unavailable)
        if method in self.failures:
            raise self.failures[method]

    def _printed(self, handle: Handle, stream: str) -> bytes:
        program = self._program(handle.key)
        return {"stdout": program.stdout, "stderr": program.stderr}[stream]

    def _native_id(self, key: str) -> str:
        return str(1 + list(self.jobs).index(key))

    def _program(self, key: str) -> Program:
        command = next((task.job.get("command") or [""] for task in self.submitted if task.key == key), [""])
        return self.programs.get(command[0], Program())


#: What the commands of `check_engine` do, for a fake engine that is to pass it.
CHECKED_PROGRAMS = {
    "echo": Program(states=(QUEUED, RUNNING, SUCCEEDED), stdout=b"hello\n"),
    "touch": Program(states=(QUEUED, SUCCEEDED), files={"result": b""}),
    "false": Program(states=(QUEUED, FAILED)),
    "sleep": Program(states=(QUEUED, RUNNING)),
    "sh": Program(states=(QUEUED, RUNNING, OUT_OF_MEMORY)),
    "tail": Program(states=(QUEUED, RUNNING, TIMED_OUT)),
}

#: What `check_engine` checks, in this order.
CHECKS = (
    "description",  # name, version and optional attributes
    "capacity",  # what is free is part of what there is
    "bids",  # a bid submits nothing
    "unknown",  # a job that was never submitted
    "success",  # a job that ends well, its times, its log and its look-up
    "outputs",  # output files
    "failure",  # an exit code
    "cancel",  # a job that is ended, twice
    "time_limit",  # a job that runs too long: TIMED_OUT
    "memory",  # a job above its memory limit: FAILED with the reason OUT_OF_MEMORY
    "crash",  # an agent that is gone after each step: before submit, after it, while it runs, after the end
    "orphans",  # what a dead agent left, of an engine that has `orphans`
    "leases",  # a job whose lease is over, of an engine that guards leases
)

#: The execution that the jobs of `check_engine` are of.
_EXECUTION = {"project": "flytesnacks", "domain": "development", "name": "check"}
_RESOURCES = ("cpu", "memory", "gpu", "ephemeral_storage", "nodes", "executions")


def check_engine(
    engine: Engine,
    directory: Path,
    *,
    restarted: Engine | None = None,
    prefix: str = "rb-c0ffee",
    seconds: float = 120.0,
    clock: Clock = SYSTEM_CLOCK,
    checks: Collection[str] = CHECKS,
) -> None:
    """Exercise an engine as the agent does; AssertionError with a sentence for the first promise that it breaks.

    The engine runs `echo`, `touch`, `false`, `sleep`, `sh` and `tail` in jobs whose keys start with `prefix`, and may
    take so many seconds for each. `directory` is the directory that the engine was built with. `restarted` is a second
    engine of the same back end, in the place of an agent that was started again; without it the first engine is used.
    `checks` are those of CHECKS that the back end can keep: one without a limit of memory leaves out `memory`.
    """
    if unknown := sorted(set(checks) - set(CHECKS)):
        raise ValueError(f"checks: there is no '{unknown[0]}'; there are {', '.join(CHECKS)}")
    check = _Check(engine, restarted or engine, directory, prefix, seconds, clock)
    for name in CHECKS:
        if name in checks:
            getattr(check, name)()


@dataclass(frozen=True)
class _Check:
    engine: Engine
    restarted: Engine
    directory: Path
    prefix: str
    seconds: float
    clock: Clock

    def description(self) -> None:
        engine = self.engine
        assert engine.name, "name is empty"
        assert isinstance(engine.version(), str), "version() does not return a text"
        assert getattr(engine, "poll_seconds", 0.5) > 0, "poll_seconds is not greater than 0"
        assert isinstance(getattr(engine, "is_shared", False), bool), "is_shared is not True or False"
        task = self._task("eta", "true")
        eta = engine.eta(task)
        assert eta is None or eta >= 0, f"eta() returns {eta}, which is neither None nor 0 or more seconds"
        assert engine.check(task) == "", f"check() declines the command `true`: {engine.check(task)}"

    def capacity(self) -> None:
        capacity, free = self.engine.capacity()
        for resource in {*capacity, *free}:
            assert resource in _RESOURCES, f"capacity() has the resource '{resource}': use {', '.join(_RESOURCES)}"
        for resource, quantity in free.items():
            assert resource in capacity, f"capacity() has free {resource} but no {resource} at all"
            total = capacity[resource]
            is_less = 0 <= parse_quantity(quantity) <= parse_quantity(total)
            assert is_less, f"capacity() has {quantity} of {total} {resource} free"

    def bids(self) -> None:
        task = self._task("bid", "true")
        bid = bid_of(self.engine, task)
        assert bid.answer in ("yes", "not-now"), f"bid() says {bid.answer} to the command `true`: {bid.reason}"
        has_start = bid.start_seconds is not None and math.isfinite(bid.start_seconds) and bid.start_seconds >= 0
        assert bid.answer != "yes" or has_start, f"bid() says yes, and starts in {bid.start_seconds} s"
        assert bid.answer == "yes" or bid.reason, f"bid() says {bid.answer} without a reason"
        assert self.engine.find(task.key) is None, "bid() has submitted the task that it was asked about"

    def unknown(self) -> None:
        key = self._key("unknown")
        assert self.engine.find(key) is None, f"find() returns a job of the key {key}, which was never submitted"
        handle = Handle(key, "999999999")
        state = self.engine.states([handle]).get(key)
        is_unknown = state is None or state.phase is NativePhase.UNKNOWN
        assert is_unknown, f"states() returns {state} for a job that was never submitted"
        self.engine.cancel(handle)
        assert self.engine.logs(handle, "stdout", 0, 10) == b"", (
            "logs() of a job that was never submitted are not empty"
        )
        assert self.engine.read_output(handle, "result", 10) is None, (
            "a job that was never submitted has an output file"
        )
        self.engine.forget(handle)

    def success(self) -> None:
        handle = self._submit("echo", "echo", "hello")
        state = self._wait(handle, lambda state: state.phase.finished)
        assert state.phase is NativePhase.SUCCEEDED, f"`echo hello` ended {_describe(state)}"
        assert state.exit_code == 0, f"`echo hello` ended with exit code {state.exit_code}"
        assert state.started_at is not None, "a job that has ended has no started_at"
        assert state.finished_at is not None, "a job that has ended has no finished_at"
        assert state.started_at.tzinfo is not None, "started_at has no time zone"
        assert state.started_at <= state.finished_at, "a job has ended before it started"
        logs = self.engine.logs(handle, "stdout", 0, 100)
        assert logs == b"hello\n", f"logs() of `echo hello` are {logs!r}"
        piece = self.engine.logs(handle, "stdout", 1, 3)
        assert piece == b"ell", f"logs() of `echo hello` from offset 1, limited to 3 bytes, are {piece!r}"
        assert self.engine.logs(handle, "stdout", 6, 3) == b"", "logs() after the end of a stream are not empty"
        assert self.engine.logs(handle, "stderr", 0, 3) == b"", "`echo hello` has written to stderr"
        assert self.engine.find(handle.key) == handle, "find() does not return a job that has ended"
        self.engine.cancel(handle)
        after = self.engine.states([handle]).get(handle.key)
        assert after == state, "cancel() changes the state of a job that has ended"
        self.engine.forget(handle)

    def outputs(self) -> None:
        handle = self._submit("touch", "touch", "result", outputs=["result", "absent"])
        self._wait(handle, lambda state: state.phase.finished)
        output = self.engine.read_output(handle, "result", 10)
        assert output == (b"", 0, False), f"read_output() of an empty file returns {output}"
        later = self.engine.read_output(handle, "result", 10, 0)
        assert later == output, f"read_output() of an empty file from offset 0 on returns {later}"
        assert self.engine.read_output(handle, "absent", 10) is None, "read_output() of a missing file is not None"
        self.engine.forget(handle)

    def failure(self) -> None:
        handle = self._submit("false", "false")
        state = self._wait(handle, lambda state: state.phase.finished)
        assert state.phase is NativePhase.FAILED, f"`false` ended {_describe(state)}"
        assert state.exit_code == 1, f"`false` ended with exit code {state.exit_code}"
        self.engine.forget(handle)

    def cancel(self) -> None:
        handle = self._submit("sleep", "sleep", "600")
        state = self._wait(handle, lambda state: state.phase is not NativePhase.QUEUED)
        assert state.phase is NativePhase.RUNNING, f"`sleep 600` ended {_describe(state)}"
        assert state.started_at is not None, "a job that runs has no started_at"
        assert state.finished_at is None, "a job that runs has a finished_at"
        self.engine.cancel(handle)
        self.engine.cancel(handle)
        state = self._wait(handle, lambda state: state.phase.finished)
        assert state.phase is NativePhase.ABORTED, f"`sleep 600` was cancelled, and ended {_describe(state)}"
        self.engine.forget(handle)

    def time_limit(self) -> None:
        handle = self._submit("time-limit", "tail", "-f", "/dev/null", time_limit_seconds=1.0)
        state = self._wait(handle, lambda state: state.phase.finished)
        assert state.phase is NativePhase.TIMED_OUT, f"a job that ran longer than its limit ended {_describe(state)}"
        self.engine.forget(handle)

    def memory(self) -> None:
        script = "head -c 268435456 /dev/zero | tail -c 268435456 > /dev/null"
        resources = {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}
        handle = self._submit("memory", "sh", "-c", script, resources=resources)
        state = self._wait(handle, lambda state: state.phase.finished)
        is_told = (state.phase, state.reason) == (NativePhase.FAILED, "OUT_OF_MEMORY")
        assert is_told, f"a job above its memory limit ended {_describe(state)}, not FAILED OUT_OF_MEMORY"
        self.engine.forget(handle)

    def crash(self) -> None:
        task = self._task("crash", "echo", "hello")
        assert self.restarted.find(task.key) is None, "find() returns a job that an agent had only meant to submit"
        handle = self._submit("crash", "echo", "hello")
        state = self._wait(handle, lambda state: state.phase.finished, self.restarted)
        assert state.phase is NativePhase.SUCCEEDED, f"after a restart `echo hello` ended {_describe(state)}"
        logs = self.restarted.logs(handle, "stdout", 0, 100)
        assert logs == b"hello\n", f"after a restart logs() of `echo hello` are {logs!r}"
        first = self._wait(handle, lambda state: state.phase.finished)
        assert (first.phase, first.exit_code) == (state.phase, state.exit_code), (
            f"a job ended {_describe(first)}, and after a restart {_describe(state)}"
        )
        self.restarted.forget(handle)
        handle = self._submit("crash-running", "sleep", "600")
        self._wait(handle, lambda state: state.phase is NativePhase.RUNNING)
        state = self._wait(handle, lambda state: state.phase is not NativePhase.QUEUED, self.restarted)
        assert state.phase is NativePhase.RUNNING, f"after a restart `sleep 600` is {_describe(state)}"
        self.restarted.cancel(handle)
        state = self._wait(handle, lambda state: state.phase.finished, self.restarted)
        assert state.phase is NativePhase.ABORTED, f"cancelled after a restart, `sleep 600` ended {_describe(state)}"
        self.restarted.forget(handle)

    def orphans(self) -> None:
        if not hasattr(self.engine, "orphans"):
            return
        engine = cast(OrphanEngine, self.restarted)
        handle = self._submit("orphan", "echo", "hello")
        self._wait(handle, lambda state: state.phase.finished)
        adopted = {orphan.handle.key: orphan for orphan in engine.orphans(())}.get(handle.key)
        assert adopted is not None, f"orphans() leaves out {handle.key}"
        told = (dict(adopted.id), adopted.attempt, adopted.handle)
        assert told == (_EXECUTION, 1, handle), f"orphans() tells {told} of a job of {_EXECUTION}"
        known = [orphan.handle.key for orphan in engine.orphans([handle.key])]
        assert handle.key not in known, "orphans() has a job whose key is known"
        engine.forget(handle)
        left = [orphan.handle.key for orphan in engine.orphans(())]
        assert handle.key not in left, "orphans() has a job that was forgotten"

    def leases(self) -> None:
        if not getattr(self.engine, "guards_leases", False):
            return
        engine = cast(GuardingEngine, self.engine)
        handle = self._submit("never-renewed", "sleep", "600", lease_seconds=1.0)
        self._assert_lease_over(handle)
        handle = self._submit("renewed", "sleep", "600", lease_seconds=self.seconds * 10)
        self._wait(handle, lambda state: state.phase is NativePhase.RUNNING)
        engine.renew({handle: self.seconds * 10})
        state = engine.states([handle]).get(handle.key)
        assert state is None or not state.phase.finished, f"a job ended {_describe(state)} when its lease was renewed"
        engine.renew({handle: 1.0, Handle(self._key("unknown"), "999999999"): 1.0})
        self._assert_lease_over(handle)

    def _assert_lease_over(self, handle: Handle) -> None:
        state = self._wait(handle, lambda state: state.phase.finished)
        is_ended = state.phase is NativePhase.FAILED and state.reason == CLUSTER_LOST
        assert is_ended, f"a job whose lease was over ended {_describe(state)}, not {CLUSTER_LOST}"
        self.engine.forget(handle)

    def _submit(self, name: str, *command: str, **fields: Any) -> Handle:
        """Submit a job as the agent does, and look it up as a restarted agent would."""
        task = self._task(name, *command, **fields)
        task.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        assert self.engine.find(task.key) is None, f"find() returns a job of the key {task.key} before it was submitted"
        handle = self.engine.submit(task)
        assert handle.key == task.key, f"submit() returns the key {handle.key} for the task {task.key}"
        assert handle.native_id, "submit() returns no native id"
        other = self.restarted.find(task.key)
        assert other == handle, f"find() returns {other} for a job that was submitted as {handle}"
        return handle

    def _wait(
        self, handle: Handle, is_reached: Callable[[NativeState], bool], engine: Engine | None = None
    ) -> NativeState:
        deadline = self.clock.steady() + self.seconds
        while True:
            state = (engine or self.engine).states([handle]).get(handle.key)
            if state is not None and is_reached(state):
                return state
            assert self.clock.steady() < deadline, f"{handle.key} is {state} after {self.seconds:g} s"
            self.clock.sleep(0.05)

    def _task(
        self,
        name: str,
        *command: str,
        lease_seconds: float | None = None,
        time_limit_seconds: float | None = None,
        **job: Any,
    ) -> Task:
        key = self._key(name)
        named = {"PROJECT": _EXECUTION["project"], "DOMAIN": _EXECUTION["domain"], "EXECUTION": _EXECUTION["name"]}
        return Task(
            key=key,
            job={"command": list(command), **job},
            directory=self.directory / key,
            environment={f"RAINBOW_{part}": value for part, value in {**named, "ATTEMPT": "1"}.items()},
            time_limit_seconds=time_limit_seconds,
            lease_seconds=lease_seconds,
        )

    def _key(self, name: str) -> str:
        return f"{self.prefix}-{name}-1"


def _describe(state: NativeState) -> str:
    return " ".join(part for part in (state.phase.value, state.reason, state.message) if part)
