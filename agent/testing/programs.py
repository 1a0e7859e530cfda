"""What the jobs of a fake engine do: their states, and programs, which go through them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from agent.engines.base import NativePhase, NativeState

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


@dataclass(frozen=True, kw_only=True)
class Program:
    """What the jobs of a command do in a fake engine."""

    states: tuple[NativeState, ...] = (QUEUED,)  #: one for each time the engine is asked; a job stays in the last
    stdout: bytes = b""
    stderr: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)  #: output files by path
    dropped: tuple[int, int] = (0, 0)  #: from where to where bytes of stdout are not kept


#: What the commands of `check_engine` do, for a fake engine that is to pass it.
CHECKED_PROGRAMS = {
    "echo": Program(states=(QUEUED, RUNNING, SUCCEEDED), stdout=b"hello\n"),
    "touch": Program(states=(QUEUED, SUCCEEDED), files={"result": b""}),
    "false": Program(states=(QUEUED, FAILED)),
    "sleep": Program(states=(QUEUED, RUNNING)),
    "sh": Program(states=(QUEUED, RUNNING, OUT_OF_MEMORY)),
    "tail": Program(states=(QUEUED, RUNNING, TIMED_OUT)),
}
