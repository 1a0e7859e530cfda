"""An engine without a back end, for tests of what uses an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.engines.base import Bid, EngineUnavailable, Handle, NativePhase, NativeState, Task
from agent.testing.programs import ABORTED, ABORTED_IN_QUEUE, QUEUED, Program


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
