"""The states of Flux jobs, from their events and from the jobs' own files, in the words of executions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.engines.base import NativePhase, NativeState
from agent.engines.batch.endings import timed_out, with_code, with_details

#: Exceptions that end a job as somebody wanted, with their phases; any other one is a failure.
_ENDINGS = {"cancel": NativePhase.ABORTED, "timeout": NativePhase.TIMED_OUT}


@dataclass
class FluxJob:
    """What the events of a job have said of it."""

    events: list[Mapping[str, Any]] = field(default_factory=list)
    #: What it has, as a resource set; None where it has nothing, or is not known yet.
    resource_set: Mapping[str, Any] | None = None

    def take(self, message: Mapping[str, Any]) -> None:
        """Take what Flux has sent of it."""
        self.events += message["events"]
        self.resource_set = message.get("R") or self.resource_set

    def find(self, name: str) -> Mapping[str, Any] | None:
        """The last event of that name."""
        return next((event for event in reversed(self.events) if event["name"] == name), None)

    @property
    def has_begun(self) -> bool:
        """Whether it has been given resources."""
        return self.find("alloc") is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.find("clean") is not None

    @property
    def exception(self) -> Mapping[str, Any] | None:
        """What ended it, if it did not end by itself: the first exception of severity 0."""
        contexts: Iterable[Mapping[str, Any]] = (
            event.get("context", {}) for event in self.events if event["name"] == "exception"
        )
        return next((context for context in contexts if context.get("severity") == 0), None)


def state_of(job: FluxJob, nodes: tuple[str, ...], directory: Path) -> NativeState:
    """The state of a job that Flux knows."""
    start, finish = _time(job.find("start")), _time(job.find("finish"))
    if not job.is_over:
        if start is None:
            return NativeState(NativePhase.QUEUED, message=_waiting_reason(job))
        return NativeState(NativePhase.RUNNING, nodes=nodes, started_at=start)
    ended = finish or _time(job.find("clean"))
    state = NativeState(
        NativePhase.SUCCEEDED, nodes=nodes if start else (), started_at=start, finished_at=ended if start else None
    )
    exception = job.exception
    if exception is not None:
        return _excepted(state, exception, directory)
    status = int((job.find("finish") or {}).get("context", {}).get("status", 0))
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
    if status:
        state = replace(state, phase=NativePhase.FAILED)
    return with_details(with_code(state, code, number), directory)


def _excepted(state: NativeState, exception: Mapping[str, Any], directory: Path) -> NativeState:
    """The state of a job that an exception ended."""
    kind, note = str(exception.get("type", "")), str(exception.get("note") or "")
    phase = _ENDINGS.get(kind, NativePhase.FAILED)
    state = replace(state, phase=phase)
    if phase is NativePhase.TIMED_OUT:
        return timed_out(state, directory)
    if phase is NativePhase.ABORTED:
        return state
    message = f"Flux ended it: {kind}{f': {note}' if note else ''}."
    return replace(state, reason=kind.upper().replace("-", "_"), message=message)


def _waiting_reason(job: FluxJob) -> str:
    """Why a job waits, as far as the scheduler says."""
    annotations = (job.find("annotations") or {}).get("context", {}).get("annotations") or {}
    scheduler = annotations.get("sched") or {}
    if reason := scheduler.get("reason_pending"):
        return f"Flux says: {reason}"
    estimate = scheduler.get("t_estimate")
    if isinstance(estimate, int | float) and estimate > 0:
        return f"Flux expects to start it at {datetime.fromtimestamp(estimate, UTC):%Y-%m-%d %H:%M:%S} UTC."
    return ""


def _time(event: Mapping[str, Any] | None) -> datetime | None:
    return None if event is None else datetime.fromtimestamp(event["timestamp"], UTC)
