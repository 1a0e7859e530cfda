"""The jobs by which an engine is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.clocks import Clock
from agent.engines.base import Engine, Handle, NativeState, Task

#: The execution that they are of.
EXECUTION = {"project": "flytesnacks", "domain": "development", "name": "check"}


@dataclass(frozen=True)
class CheckedJobs:
    """Submits jobs to an engine as the agent does, and waits for them."""

    engine: Engine
    #: The engine of an agent that was started again.
    restarted: Engine
    directory: Path
    prefix: str
    #: How long a state may take.
    seconds: float
    clock: Clock

    def submit(self, name: str, *command: str, **fields: Any) -> Handle:
        """Submit a job as the agent does, and look it up as a restarted agent would."""
        task = self.task(name, *command, **fields)
        task.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        assert self.engine.find(task.key) is None, f"find() returns a job of the key {task.key} before it was submitted"
        handle = self.engine.submit(task)
        assert handle.key == task.key, f"submit() returns the key {handle.key} for the task {task.key}"
        assert handle.native_id, "submit() returns no native id"
        other = self.restarted.find(task.key)
        assert other == handle, f"find() returns {other} for a job that was submitted as {handle}"
        return handle

    def wait(
        self, handle: Handle, is_reached: Callable[[NativeState], bool], engine: Engine | None = None
    ) -> NativeState:
        """The state of a job once it is as expected, as the engine or another one tells it."""
        deadline = self.clock.steady() + self.seconds
        while True:
            state = (engine or self.engine).states([handle]).get(handle.key)
            if state is not None and is_reached(state):
                return state
            assert self.clock.steady() < deadline, f"{handle.key} is {state} after {self.seconds:g} s"
            self.clock.sleep(0.05)

    def task(
        self,
        name: str,
        *command: str,
        lease_seconds: float | None = None,
        time_limit_seconds: float | None = None,
        **job: Any,
    ) -> Task:
        """What an agent would submit."""
        key = self.key(name)
        named = {"PROJECT": EXECUTION["project"], "DOMAIN": EXECUTION["domain"], "EXECUTION": EXECUTION["name"]}
        return Task(
            key=key,
            job={"command": list(command), **job},
            directory=self.directory / key,
            environment={f"RAINBOW_{part}": value for part, value in {**named, "ATTEMPT": "1"}.items()},
            time_limit_seconds=time_limit_seconds,
            lease_seconds=lease_seconds,
        )

    def key(self, name: str) -> str:
        """The key of the job of a check."""
        return f"{self.prefix}-{name}-1"


def describe(state: NativeState) -> str:
    """A state in words."""
    return " ".join(part for part in (state.phase.value, state.reason, state.message) if part)
