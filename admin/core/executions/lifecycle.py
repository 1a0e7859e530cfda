"""The lifecycle of an execution: its phases, and which may follow which."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Protocol


class Phase(Enum):
    """The phase of an execution."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    ABORTING = "ABORTING"
    ABORTED = "ABORTED"

    @property
    def is_finished(self) -> bool:
        return not _NEXT[self]

    def may_become(self, other: Phase) -> bool:
        """Whether a phase may follow this one within one attempt; only a new attempt goes back to QUEUED."""
        return other in _NEXT[self]


_ENDS = {Phase.SUCCEEDED, Phase.FAILED, Phase.TIMED_OUT}
_NEXT: dict[Phase, set[Phase]] = {
    Phase.QUEUED: {Phase.RUNNING, *_ENDS, Phase.ABORTING, Phase.ABORTED},
    Phase.RUNNING: {*_ENDS, Phase.ABORTING, Phase.ABORTED},
    Phase.ABORTING: {Phase.SUCCEEDED, Phase.ABORTED},  # the first only where a drain came too late
    Phase.SUCCEEDED: set(),
    Phase.FAILED: set(),
    Phase.TIMED_OUT: set(),
    Phase.ABORTED: set(),
}


class Timed(Protocol):
    """The times of an execution."""

    @property
    def created_at(self) -> datetime: ...

    @property
    def started_at(self) -> datetime | None: ...

    @property
    def finished_at(self) -> datetime | None: ...

    @property
    def phase_since(self) -> datetime | None: ...


def phase_began_at(execution: Timed) -> datetime:
    """When an execution came to its phase."""
    first = execution.started_at or execution.created_at  # of what came to its phase before that was kept
    return execution.finished_at or execution.phase_since or first


UNFINISHED = tuple(phase for phase in Phase if not phase.is_finished)
