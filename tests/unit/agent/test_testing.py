"""The fake engine keeps the promises of an engine, and the check finds the ones that an engine breaks."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import pytest

from agent.engines.base import BUILT_IN, EngineUnavailable, Handle, NativeState, Orphan, SubmitRefused, Task
from agent.engines.local import LocalEngine
from agent.testing import (
    ABORTED,
    CHECKED_PROGRAMS,
    CHECKS,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    UNKNOWN,
    FakeClock,
    FakeEngine,
    Program,
    check_engine,
)
from tests.support.conformance import conformance


def task(command: str = "true") -> Task:
    return Task(key="k", job={"command": [command]}, directory=Path("/none"))


def test_the_fake_engine_passes_the_check(tmp_path: Path) -> None:
    checked = check_engine(FakeEngine(programs=CHECKED_PROGRAMS), tmp_path, clock=FakeClock())
    assert [name for name, is_made in checked.items() if not is_made] == ["orphans", "leases"]


def test_the_documentation_tells_which_checks_each_engine_passes() -> None:
    table = conformance()
    assert set(table) == set(BUILT_IN)
    for cells in table.values():
        assert tuple(cells) == CHECKS
        assert {cell.rstrip(" ¹²") for cell in cells.values()} <= {"passes", "not applicable"}


class ForgetfulEngine(FakeEngine):
    def find(self, key: str) -> Handle | None:
        return None


class GreedyEngine(FakeEngine):
    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"cpu": "2"}, {"cpu": "3"}


class StubbornEngine(FakeEngine):
    def cancel(self, handle: Handle) -> None:
        pass


class OmniscientEngine(FakeEngine):
    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        return {handle.key: SUCCEEDED for handle in handles}


class LoudEngine(FakeEngine):
    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        return super().logs(handle, stream, 0, 1000) if handle.key in self.jobs else b""


class PatientEngine(FakeEngine):
    """Calls a time limit that is over an abort."""

    def __init__(self, **fields: Any) -> None:
        programs = {**CHECKED_PROGRAMS, "tail": Program(states=(QUEUED, RUNNING, ABORTED))}
        super().__init__(**{**fields, "programs": programs})


class WastefulEngine(FakeEngine):
    """Limits no memory."""

    def __init__(self, **fields: Any) -> None:
        programs = {**CHECKED_PROGRAMS, "sh": Program(states=(QUEUED, RUNNING, SUCCEEDED))}
        super().__init__(**{**fields, "programs": programs})


class SecretiveEngine(FakeEngine):
    def orphans(self, known: Collection[str]) -> list[Orphan]:
        return []


class CarelessEngine(FakeEngine):
    """Ends nothing when a lease is over."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(guards_leases=True, **fields)


@pytest.mark.parametrize(
    ("engine_type", "problem"),
    [
        (ForgetfulEngine, "find() returns None for a job that was submitted as"),
        (GreedyEngine, "capacity() has 3 of 2 cpu free"),
        (StubbornEngine, "rb-c0ffee-sleep-1 is "),
        (OmniscientEngine, "for a job that was never submitted"),
        (LoudEngine, "from offset 1, limited to 3 bytes, are b'hello\\n'"),
        (PatientEngine, "a job that ran longer than its limit ended ABORTED"),
        (WastefulEngine, "a job above its memory limit ended SUCCEEDED, not FAILED OUT_OF_MEMORY"),
        (SecretiveEngine, "orphans() leaves out rb-c0ffee-orphan-1"),
        (CarelessEngine, "rb-c0ffee-never-renewed-1 is "),
    ],
)
def test_the_check_names_a_broken_promise(tmp_path: Path, engine_type: type[FakeEngine], problem: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_engine(engine_type(programs=CHECKED_PROGRAMS), tmp_path, clock=FakeClock())
    assert problem in str(caught.value)


def test_checks_that_a_back_end_cannot_keep_are_left_out_by_name(tmp_path: Path) -> None:
    engine = WastefulEngine()
    checked = check_engine(engine, tmp_path, clock=FakeClock(), checks=[name for name in CHECKS if name != "memory"])
    assert not checked["memory"]
    with pytest.raises(ValueError, match="there is no 'memroy'; there are description, "):
        check_engine(engine, tmp_path, checks=["memroy"])


def test_a_job_goes_through_the_states_of_its_program() -> None:
    engine = FakeEngine(programs={"train": Program(states=(QUEUED, RUNNING, SUCCEEDED), stderr=b"slow\n")})
    handle = engine.submit(task("train"))
    assert [engine.states([handle])["k"] for _ in range(4)] == [QUEUED, RUNNING, SUCCEEDED, SUCCEEDED]
    assert engine.logs(handle, "stderr", 1, 3) == b"low"


def test_a_test_may_assign_any_state() -> None:
    engine = FakeEngine()
    handle = engine.submit(task())
    engine.jobs["k"] = UNKNOWN
    assert engine.states([handle]) == {"k": UNKNOWN}


def test_calls_raise_the_failures_that_a_test_sets() -> None:
    engine = FakeEngine(failures={"submit": SubmitRefused("no such account")})
    with pytest.raises(SubmitRefused):
        engine.submit(task())
    assert engine.find("k") is None
    engine.unavailable = "the back end does not answer"
    with pytest.raises(EngineUnavailable):
        engine.find("k")


def test_a_job_is_not_submitted_twice() -> None:
    engine = FakeEngine()
    engine.submit(task())
    with pytest.raises(AssertionError, match="k was submitted twice"):
        engine.submit(task())


def test_waiting_advances_the_fake_clock() -> None:
    clock = FakeClock()
    before = clock.steady(), clock.now()
    queue: SimpleQueue[int] = SimpleQueue()
    assert clock.wait_for(queue, 2.0) is None
    clock.sleep(3.0)
    queue.put(7)
    assert clock.wait_for(queue, 60.0) == 7
    assert (clock.steady() - before[0], (clock.now() - before[1]).total_seconds()) == (5.0, 5.0)


def test_the_examples_in_the_documentation_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = ModuleType("mysite.engine")
    vars(site)["MyEngine"] = LocalEngine
    monkeypatch.setitem(sys.modules, "mysite", ModuleType("mysite"))
    monkeypatch.setitem(sys.modules, "mysite.engine", site)
    page = (Path(__file__).parents[3] / "docs/engines/writing-your-own.md").read_text()
    check, fake = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(check, names)
    names["test_it_keeps_the_promises_of_an_engine"](tmp_path)
    exec(fake, {})
