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

from agent.testing.checks import CHECKS, check_engine
from agent.testing.fake_clock import FakeClock
from agent.testing.fake_engine import FakeEngine
from agent.testing.programs import (
    ABORTED,
    ABORTED_IN_QUEUE,
    CHECKED_PROGRAMS,
    FAILED,
    OUT_OF_MEMORY,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    TIMED_OUT,
    UNKNOWN,
    Program,
)

__all__ = [
    "ABORTED",
    "ABORTED_IN_QUEUE",
    "CHECKED_PROGRAMS",
    "CHECKS",
    "FAILED",
    "OUT_OF_MEMORY",
    "QUEUED",
    "RUNNING",
    "SUCCEEDED",
    "TIMED_OUT",
    "UNKNOWN",
    "FakeClock",
    "FakeEngine",
    "Program",
    "check_engine",
]
