"""The cluster report: what there is, what is free, and how long new work would wait."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.config import Config
from agent.engines.base import EngineError, Task
from agent.engines.room import room_beside
from agent.engines.safe import SafeEngine
from agent.intents import Stage
from agent.work import Work

_INTERVAL_SECONDS = 5.0
#: Nodes with something in use, or closed, that a report tells of: as many as the admin takes.
_MOST_NODES = 10_000
#: How much of a problem is told.
_MOST_PROBLEM = 4000
#: How often the engine is asked when new work would start; sooner while it would wait, since that ends with a job.
_ETA_INTERVAL_SECONDS, _BUSY_ETA_INTERVAL_SECONDS = 60.0, 10.0
#: A wait that is shorter counts as none.
_NO_WAIT_SECONDS = 1.0
#: Schedulers that cannot tell give a time far in the future.
_LONGEST_ETA_SECONDS = 366 * 86400.0
#: The job whose waiting time is reported for any job.
_SMALL_JOB = {"command": ["true"], "resources": {"nodes": 1, "tasks": 1}}


class Reporter:
    """Measures the cluster at intervals, and when jobs start or end."""

    def __init__(self, config: Config, engine: SafeEngine, clock: Clock = SYSTEM_CLOCK) -> None:
        self.report: dict[str, Any] | None = None
        #: The fields that an older admin does not know, as long as none refused it.
        self.tells = {"nodes", "waits_for", "problem", "queued"}
        self._config = config
        self._engine = engine
        self._clock = clock
        self._due_at = 0.0
        #: Why the engine did not answer when it was last asked; nothing new is taken until it does.
        self._problem = ""
        #: What the engine said when it was last asked, and the jobs that it counted as running.
        self._measured: dict[str, Any] | None = None
        self._counted: frozenset[str] = frozenset()
        #: Why executions wait in the engine as of then, by the uid of each.
        self._queued: dict[str, str] = {}
        #: The jobs that ran or had ended when the engine was last asked, with their stages.
        self._begun: dict[str, Stage] = {}
        self._eta_due_at = 0.0
        self._eta: str | None = None
        self._version = version("rainbow")

    def measure(self, work: Work) -> None:
        """Update the report; ask the engine if that is due, or if jobs have started or ended.

        The admin counts what waits beside the report, and what runs as part of it, so the report that goes with a start
        must count it. An engine is asked at most twice for each job, and once for all whose changes were seen together.
        A shared engine is not asked more often for them: it tells what it knows, or what they request is subtracted.
        """
        now, begun = self._clock.steady(), work.intents.begun
        is_changed = any(self._begun.get(key) is not intent.stage for key, intent in begun.items())
        if now >= self._due_at or (is_changed and not self._engine.is_shared):
            self._due_at = now + _INTERVAL_SECONDS
            self._begun = {key: intent.stage for key, intent in begun.items()}
            self._queued = work.queued
            try:
                self._measured = self._ask(now)
                self._counted = frozenset(begun)
                self._problem = ""
            except EngineError as error:
                self._problem = str(error)
        work.problem = work.problem or self._problem
        report: dict[str, Any] = {}
        if self._measured is not None:
            jobs = [
                intent.lease["job"]
                for key, intent in begun.items()
                if intent.stage is Stage.SUBMITTED and key not in self._counted
            ]
            room = self._room(self._measured, jobs)
            report = self._with_slots({**self._measured, "free": room}, work.intents.active)
            if "nodes" in self.tells and (nodes := self._nodes()) is not None:
                report["nodes"] = nodes
            if "waits_for" in self.tells and work.waits_for:
                report["waits_for"] = work.waits_for
            if "queued" in self.tells and self._queued:
                report["queued"] = self._queued
        if "problem" in self.tells and self._problem:
            # Of an engine that has told nothing yet the admin keeps what it knows.
            report = {"engine": self._engine.name, **report, "problem": self._problem[:_MOST_PROBLEM]}
        self.report = report or None

    def _ask(self, now: float) -> dict[str, Any]:
        """Ask the engine for everything that the report has of it."""
        capacity, free = self._engine.capacity()
        engine_version = self._engine.version()
        if now >= self._eta_due_at:
            seconds = self._ask_eta()
            # At least 1 ms: a duration must be greater than zero.
            self._eta = None if seconds is None else f"{max(1, round(seconds * 1000))}ms"
            has_room = seconds is None or seconds < _NO_WAIT_SECONDS
            self._eta_due_at = now + (_ETA_INTERVAL_SECONDS if has_room else _BUSY_ETA_INTERVAL_SECONDS)
        return {
            "engine": self._engine.name,
            "engine_version": engine_version,
            "capacity": {**capacity, "executions": self._config.slots},
            "free": free,
            "plugins": list(self._config.plugins),
            "properties": {"agent_version": self._version, **self._config.properties},
        }

    def _room(self, measured: dict[str, Any], jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What is free by now: as the engine knows it, else less what jobs request that it has not counted."""
        room: dict[str, Any] | None = None
        with contextlib.suppress(EngineError):
            room = self._engine.room()
        with contextlib.suppress(ValueError):  # of a quantity that only the engine can read
            room = room or room_beside(jobs, measured["capacity"], measured["free"])
        return room or measured["free"]

    def _nodes(self) -> dict[str, Any] | None:
        """What is free of each node; None where the engine does not tell, or there are too many to report."""
        nodes: dict[str, Any] | None = None
        with contextlib.suppress(EngineError):
            nodes = self._engine.node_room()
        return nodes if nodes is not None and len(nodes) <= _MOST_NODES else None

    def _with_slots(self, report: dict[str, Any], active: int) -> dict[str, Any]:
        """A report with the slots that so many executions leave, and how long new work would wait."""
        unused = max(0, self._config.slots - active)
        # Without a slot new work waits for an execution to end, and nobody knows when that is.
        eta = self._eta if unused else None
        with_slots = {**report, "free": {**report["free"], "executions": unused}, "eta": eta}
        return {name: value for name, value in with_slots.items() if value is not None}

    def _ask_eta(self) -> float | None:
        """Seconds until a small job would start; None where the engine cannot tell."""
        task = Task(key="rb-eta", job=_SMALL_JOB, directory=self._config.state_directory / "jobs")
        try:
            seconds = self._engine.eta(task)
        except EngineError:
            return None
        return seconds if seconds is not None and seconds <= _LONGEST_ETA_SECONDS else None
