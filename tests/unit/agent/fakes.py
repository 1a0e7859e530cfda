"""An engine without a back end, for tests of what the agent makes of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agent.engines.base import EngineUnavailable, Handle, NativePhase, NativeState, Task

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
QUEUED = NativeState(NativePhase.QUEUED)
RUNNING = NativeState(NativePhase.RUNNING, started_at=STARTED, nodes=("n1",))
SUCCEEDED = NativeState(NativePhase.SUCCEEDED, exit_code=0, started_at=STARTED, finished_at=STARTED)
ABORTED = NativeState(NativePhase.ABORTED, started_at=STARTED, finished_at=STARTED)
ABORTED_IN_QUEUE = NativeState(NativePhase.ABORTED)
UNKNOWN = NativeState(NativePhase.UNKNOWN)


@dataclass
class FakeEngine:
    """Remembers what it is told, and says what the test wants."""

    name: str = "fake"
    jobs: dict[str, NativeState] = field(default_factory=dict)
    submitted: list[Task] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    printed: bytes = b""
    declines: str = ""
    is_down: bool = False
    obeys: bool = False
    wait: float | None = 1.5

    def version(self) -> str:
        return "1"

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"cpu": "4"}, {"cpu": "2"}

    def check(self, task: Task) -> str:
        return self.declines

    def submit(self, task: Task) -> Handle:
        self._check()
        assert task.key not in self.jobs, "submitted twice"
        self.submitted.append(task)
        self.jobs[task.key] = QUEUED
        return Handle(task.key, "7")

    def find(self, key: str) -> Handle | None:
        self._check()
        return Handle(key, "7") if key in self.jobs else None

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        self._check()
        return {handle.key: self.jobs[handle.key] for handle in handles if handle.key in self.jobs}

    def cancel(self, handle: Handle) -> None:
        self._check()
        self.cancelled.append(handle.key)
        if self.obeys:
            self.jobs[handle.key] = ABORTED

    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        return self.printed[offset : offset + limit] if stream == "stdout" else b""

    def read_output(self, handle: Handle, path: str, limit: int) -> tuple[bytes, int, bool] | None:
        return (b"data", 4, False) if path == "there" else None

    def eta(self, task: Task) -> float | None:
        return self.wait

    def forget(self, handle: Handle) -> None:
        self.forgotten.append(handle.key)

    def _check(self) -> None:
        if self.is_down:
            raise EngineUnavailable("the back end does not answer")
