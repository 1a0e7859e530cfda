"""The cluster report: what there is, what is free, and how long new work would wait."""

from __future__ import annotations

import contextlib
from importlib.metadata import version
from typing import Any

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.config import Config
from agent.engines.base import EngineError, Task
from agent.engines.safe import SafeEngine
from agent.work import Work

_INTERVAL_SECONDS = 5.0
_ETA_INTERVAL_SECONDS = 60.0
#: Schedulers that cannot tell give a time far in the future.
_LONGEST_ETA_SECONDS = 366 * 86400.0
#: The job whose waiting time is reported for any job.
_SMALL_JOB = {"command": ["true"], "resources": {"nodes": 1, "tasks": 1}}


class Reporter:
    """Measures the cluster at intervals."""

    def __init__(self, config: Config, engine: SafeEngine, clock: Clock = SYSTEM_CLOCK) -> None:
        self.report: dict[str, Any] | None = None
        self._config = config
        self._engine = engine
        self._clock = clock
        self._due_at = 0.0
        self._active = 0  #: executions that the agent had at the last measurement
        self._eta_due_at = 0.0
        self._eta: str | None = None
        self._version = version("rainbow")

    def measure(self, work: Work) -> None:
        """Update the report if it is due, or if executions came or ended and the engine tells at once what is free.

        The admin counts what waits beside the report, and what runs as part of it, so no report may be older than a
        start. A shared engine is not asked more often for that: it tells what it knows.
        """
        now, active = self._clock.steady(), work.intents.active
        if now < self._due_at and self._engine.is_shared:
            self._update(active)
        if now < self._due_at and (self._engine.is_shared or active == self._active):
            return
        self._due_at, self._active = now + _INTERVAL_SECONDS, active
        try:
            capacity, free = self._engine.capacity()
            engine_version = self._engine.version()
            if now >= self._eta_due_at:
                self._eta_due_at = now + _ETA_INTERVAL_SECONDS
                self._eta = self._ask_eta()
        except EngineError as error:
            work.problem = work.problem or str(error)
            return
        report = {
            "engine": self._engine.name,
            "engine_version": engine_version,
            "capacity": {**capacity, "executions": self._config.slots},
            "free": free,
            "plugins": list(self._config.plugins),
            "properties": {"agent_version": self._version, **self._config.properties},
        }
        self.report = self._with_slots(report, active)

    def _update(self, active: int) -> None:
        """Update what is free as far as the engine knows, since it was last asked."""
        if self.report is None:
            return
        free: dict[str, Any] | None = None
        with contextlib.suppress(EngineError):
            free = self._engine.room()
        self.report = self._with_slots({**self.report, "free": free or self.report["free"]}, active)

    def _with_slots(self, report: dict[str, Any], active: int) -> dict[str, Any]:
        """A report with the slots that so many executions leave, and how long new work would wait."""
        unused = max(0, self._config.slots - active)
        # Without a slot new work waits for an execution to end, and nobody knows when that is.
        eta = self._eta if unused else None
        with_slots = {**report, "free": {**report["free"], "executions": unused}, "eta": eta}
        return {name: value for name, value in with_slots.items() if value is not None}

    def _ask_eta(self) -> str | None:
        task = Task(key="rb-eta", job=_SMALL_JOB, directory=self._config.state_directory / "jobs")
        try:
            seconds = self._engine.eta(task)
        except EngineError:
            return None
        if seconds is None or not seconds <= _LONGEST_ETA_SECONDS:
            return None
        # At least 1 ms: a duration must be greater than zero.
        return f"{max(1, round(seconds * 1000))}ms"
