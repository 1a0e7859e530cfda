"""Small parts of the agent: keys, quantities, the guard, back-off, crash points."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

import agent
from agent.calls import Backoff
from agent.clocks import SYSTEM_CLOCK
from agent.crashes import STEPS, VARIABLE, check_crash_variable
from agent.engines.base import OptionError, find_engine
from agent.engines.local import LocalEngine
from agent.guard import LeaseGuard
from agent.tasks import key_of
from ctl.client.quantities import parse_quantity


def test_nothing_is_measured_by_a_clock_that_somebody_may_set() -> None:
    assert abs(SYSTEM_CLOCK.steady() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60
    modules = [path for path in Path(agent.__file__).parent.rglob("*.py") if "time.time(" in path.read_text()]
    assert {path.name for path in modules} <= {"command_engine.py"}  # which compares it with the times of files


@pytest.mark.parametrize("uid", ["", "0123456789abcdef"])
@pytest.mark.parametrize("attempt", [1, 100_000, 2**62])
@pytest.mark.parametrize("name", ["n", "A_b.C", "x" * 255, "---", "a" * 39 + ".b", "ünï"])
def test_keys_are_valid_job_names_everywhere(name: str, attempt: int, uid: str) -> None:
    key = key_of({"id": {"project": "p", "domain": "d", "name": name}, "attempt": attempt, "uid": uid})
    unique = uid or "[0-9a-f]{12}"
    assert re.fullmatch(rf"rb-{unique}(-[a-z0-9]([a-z0-9-]*[a-z0-9])?)?-{attempt}", key), key
    assert len(key) <= 57


def test_keys_tell_executions_and_attempts_apart() -> None:
    ids = [{"project": p, "domain": d, "name": n} for p in ("a", "b") for d in ("a", "b") for n in ("x", "X", "x.")]
    assert len({key_of({"id": execution, "attempt": attempt}) for execution in ids for attempt in (1, 2)}) == 24


def test_keys_tell_executions_of_one_name_apart() -> None:
    reference = {"id": {"project": "p", "domain": "d", "name": "n"}, "attempt": 1}
    assert len({key_of({**reference, "uid": uid}) for uid in ("", "00ff", "00fe")}) == 3


@pytest.mark.parametrize("uid", ["../../etc", "a/b", "-", "G", "f" * 33])
def test_a_uid_that_could_leave_the_directory_of_jobs_is_refused(uid: str) -> None:
    with pytest.raises(ValueError, match="uid"):
        key_of({"id": {"project": "p", "domain": "d", "name": "n"}, "attempt": 1, "uid": uid})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("500m", Fraction(1, 2)),
        ("1.5Gi", 3 * 2**29),
        ("2e3", 2000),
        ("2E", 2 * 10**18),
        ("1Ki", 1024),
        (".5", Fraction(1, 2)),
        ("3k", 3000),
        (4, 4),
    ],
)
def test_quantities(text: str | int, value: Fraction | int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "x", "1x", "ki", "1K", "-1", "1 Gi", "1mi", "1ki", "0x1"])
def test_texts_that_are_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("lease", [1.0, 4.0, 20.0, 60.0, 3600.0])
def test_the_guard_leaves_time_to_end_work(lease: float) -> None:
    guard = LeaseGuard(lease_seconds=lease)
    guard.renew("k", 100.0)
    assert guard.seconds_left("k", 100.0) >= lease / 3
    assert guard.seconds_left("k", 100.0 + lease - min(7.0, lease / 2)) <= 1e-9


def test_the_guard_counts_from_the_newest_renewal() -> None:
    guard = LeaseGuard(lease_seconds=60)
    assert guard.seconds_left("k", 0.0) < 0
    guard.renew("k", 100.0)
    guard.renew("k", 90.0)
    assert guard.seconds_left("k", 100.0) == 40.0
    guard.forget("k")
    assert guard.seconds_left("k", 100.0) < 0


def test_pauses_grow_up_to_a_limit_and_differ() -> None:
    for _ in range(20):
        backoff = Backoff()
        pauses = [backoff.next_seconds() for _ in range(10)]
        assert 0.25 <= pauses[0] <= 0.5
        assert 15 <= pauses[-1] <= 30
    assert len({Backoff().next_seconds() for _ in range(20)}) > 10
    assert Backoff().next_seconds(at_most=0.1) <= 0.1


def test_the_admin_may_ask_for_a_pause() -> None:
    assert 7 <= Backoff().next_seconds(retry_after=7) <= 8.4


def test_success_resets_the_pauses() -> None:
    backoff = Backoff()
    for _ in range(8):
        backoff.next_seconds()
    backoff.reset()
    assert backoff.next_seconds() <= 0.5


def test_a_crash_point_kills_only_if_the_environment_names_it() -> None:
    code = f"import os; os.environ[{VARIABLE!r}] = 'after-submit'\nfrom agent.crashes import crash_point\n"
    code += "crash_point('after-lease'); print('on', flush=True); crash_point('after-submit'); print('no')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-9, "on\n")


def test_an_unknown_crash_point_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_crash_variable() == ""
    for step in STEPS:
        monkeypatch.setenv(VARIABLE, step)
        assert check_crash_variable() == ""
    monkeypatch.setenv(VARIABLE, "sometime")
    assert "sometime" in check_crash_variable()


def test_engines_are_found_by_name() -> None:
    assert find_engine("local") is LocalEngine
    with pytest.raises(OptionError, match="Did you mean local"):
        find_engine("locale")
