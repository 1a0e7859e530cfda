"""Agents beside a real admin: broken connections, an admin that is started again, clocks that differ."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.engines.local import processes
from tests.support.admins import RunningAdmin, running_admin
from tests.support.agent_processes import (
    admin_of_agents,
    running_site,
    waiting_for,
    wire_to,
    write_admin_configuration,
)
from tests.support.waiting import wait_until

LEASE_SECONDS = 10


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    """An admin that soon gives up clusters that do not sync."""
    silence = {"unreachableSeconds": 6, "lostSeconds": LEASE_SECONDS + 2}
    with admin_of_agents(
        tmp_path_factory.mktemp("admin"), leaseSeconds=LEASE_SECONDS, waitSeconds=2, **silence
    ) as admin:
        yield admin


def beating(file: Path) -> str:
    """A command that writes the time to a file, ten times a second."""
    return f"while :; do date +%s.%N >> {file}; sleep 0.1; done"


def last_beat(file: Path) -> float:
    return float(file.read_text().split()[-1])


def test_an_agent_that_is_cut_off_ends_its_work_before_the_admin_gives_it_away(
    admin: RunningAdmin, tmp_path: Path
) -> None:
    with wire_to(admin) as wire, running_site(admin, tmp_path / "site", endpoint=wire.url) as site:
        name, beats = f"{site.cluster}-cut", tmp_path / "beats"
        site.create(name, "sh", "-c", beating(beats), spec={"retry": {"attempts": 2, "on_lost": "retry"}})
        agent = site.start()
        site.running(name)
        wire.cut()
        cut_at = time.time()
        wait_until(lambda: site.get(name)["attempt"] == 2, 120, explain=lambda: "the admin did not give it away")
        given_away_at = time.time()
        assert processes.marked(site.key(name)) == set()
        assert cut_at - LEASE_SECONDS < last_beat(beats) < given_away_at
        assert agent.poll() is None
        # Connected again, the agent resumes by itself, and its cluster may run the second attempt.
        wire.mend()
        wait_until(lambda: last_beat(beats) > given_away_at, 120, explain=lambda: f"it did not resume:\n{site.log}")
        site.cancel(name)
        assert site.ended(name)["closure"]["phase"] == "ABORTED"


def test_a_short_break_of_the_connection_changes_nothing(admin: RunningAdmin, tmp_path: Path) -> None:
    with wire_to(admin) as wire, running_site(admin, tmp_path / "site", endpoint=wire.url) as site:
        name, go = f"{site.cluster}-break", tmp_path / "go"
        site.create(name, *waiting_for(go, "echo done"))
        site.start()
        site.running(name)
        wire.cut()
        wait_until(lambda: wire.held_back)
        wire.mend()
        go.touch()
        execution = site.ended(name)
        assert (execution["closure"]["phase"], execution["attempt"]) == ("SUCCEEDED", 1)
        assert site.printed(name)["data"] == "done\n"


def test_agents_reconnect_to_an_admin_that_was_restarted(tmp_path: Path) -> None:
    configuration = write_admin_configuration(tmp_path, leaseSeconds=60, waitSeconds=5)
    with ExitStack() as stack:
        first = stack.enter_context(running_admin(tmp_path, "--config", str(configuration)))
        wire = stack.enter_context(wire_to(first))
        with running_site(first, tmp_path / "site", endpoint=wire.url) as site:
            name, go = f"{site.cluster}-1", tmp_path / "go"
            site.create(name, *waiting_for(go))
            agent = site.start()
            site.running(name)
            first.process.kill()
            first.process.wait()
            site.wait_for_log("cannot be reached")
            go.touch()
            with running_admin(tmp_path, "--config", str(configuration)) as second:
                wire.connect_to(second.url)
                site.admin = second
                assert site.ended(name)["closure"]["phase"] == "SUCCEEDED"
                site.create(f"{site.cluster}-2", "true")
                assert site.ended(f"{site.cluster}-2")["closure"]["phase"] == "SUCCEEDED"
                assert agent.poll() is None


OFF = """
import datetime, time
_now, _time = datetime.datetime, time.time
class Off(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return _now.now(tz) + datetime.timedelta(seconds={seconds})
datetime.datetime = Off
time.time = lambda: _time() + {seconds}
"""


@pytest.mark.parametrize("seconds", [300, -300])
def test_a_clock_five_minutes_off(admin: RunningAdmin, seconds: int, tmp_path: Path) -> None:
    (tmp_path / "off").mkdir()
    (tmp_path / "off/sitecustomize.py").write_text(OFF.format(seconds=seconds))
    path = f"{tmp_path / 'off'}:{os.environ.get('PYTHONPATH', '')}"
    with wire_to(admin) as wire, running_site(admin, tmp_path / "site", endpoint=wire.url) as site:
        name, go = f"{site.cluster}-clock", tmp_path / "go"
        before = time.monotonic()
        site.create(name, *waiting_for(go), resources={"duration": "10m"})
        site.start(PYTHONPATH=path)
        site.running(name)
        # Several requests and answers, so that the lease is renewed more than once.
        enough = wire.passed + 8
        wait_until(lambda: wire.passed >= enough)
        go.touch()
        execution = site.ended(name)
        assert (execution["closure"]["phase"], execution["attempt"]) == ("SUCCEEDED", 1)
        assert 0 < execution["closure"]["duration"] < time.monotonic() - before
        assert execution["closure"]["started_at"] < execution["closure"]["finished_at"]
