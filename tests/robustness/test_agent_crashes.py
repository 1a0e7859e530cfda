"""Agents killed at every step between lease and report: after a restart, each execution has run exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.crashes import STEPS, VARIABLE
from agent.engines.local import processes
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import Site, admin_of_agents, waiting_for
from tests.support.waiting import wait_until

#: The steps at which executions have ended.
AFTER_THE_END = STEPS[STEPS.index("after-finish") :]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    with admin_of_agents(tmp_path_factory.mktemp("admin"), leaseSeconds=30, waitSeconds=5) as admin:
        yield admin


def crash(site: Site, step: str) -> None:
    """Run an agent until it kills itself; executions end before the steps that follow their end, and not sooner."""
    if step in AFTER_THE_END:
        finish(site)
    agent = site.start(**{VARIABLE: step})
    wait_until(
        lambda: agent.poll() is not None, 120, explain=lambda: f"the agent did not reach the step {step}:\n{site.log}"
    )
    assert agent.returncode == -9, site.log


def finish(site: Site) -> None:
    """Let the executions end."""
    (site.directory / "go").touch()


def create(site: Site, number: int, script: str = "true") -> tuple[str, Path]:
    """An execution that appends to a file each time it runs, and ends with a script once it may."""
    name, ran = f"{site.cluster}-{number}", site.directory / f"ran-{number}"
    site.create(name, "sh", "-c", f"echo ran >> {ran}; {waiting_for(site.directory / 'go', script)[-1]}")
    return name, ran


def check(site: Site, executions: list[tuple[str, Path]]) -> None:
    """Every execution ran exactly once, is reported so, and has left nothing behind."""
    finish(site)
    for name, ran in executions:
        execution = site.ended(name)
        outcome = (execution["closure"]["phase"], execution["attempt"], execution["exit_code"])
        assert outcome == ("SUCCEEDED", 1, 0), site.log
        assert ran.read_text() == "ran\n"
        types = [event["type"] for event in site.get(name, "/events")["events"]]
        assert types.count("SUCCEEDED") == 1
        assert types.count("RUNNING") <= 1
        assert processes.marked(site.key(name)) == set()
    wait_until(lambda: site.intents() == [], explain=lambda: f"intents are left: {site.intents()}")


@pytest.mark.parametrize("step", STEPS)
def test_each_execution_runs_exactly_once(site: Site, step: str) -> None:
    executions = [create(site, number) for number in range(3)]
    crash(site, step)
    site.start()
    check(site, executions)


def test_an_agent_that_crashes_at_every_step_in_turn(site: Site) -> None:
    executions = [create(site, number) for number in range(len(STEPS))]
    for step in STEPS:
        crash(site, step)
    site.start()
    check(site, executions)


def test_an_execution_that_ends_without_an_agent_is_reported_later(site: Site) -> None:
    name, ran = create(site, 0, "exit 7")
    agent = site.start()
    site.running(name)
    agent.kill()
    agent.wait()
    finish(site)
    wait_until(lambda: not processes.marked(site.key(name)))
    site.start()
    execution = site.ended(name)
    assert (execution["closure"]["phase"], execution["exit_code"], ran.read_text()) == ("FAILED", 7, "ran\n")


def test_a_cancel_while_the_agent_is_dead_is_carried_out_later(site: Site) -> None:
    name, ran = create(site, 0)
    agent = site.start()
    site.running(name)
    wait_until(ran.exists)  # a batch script counts as running before its command has begun
    agent.kill()
    agent.wait()
    site.cancel(name)
    assert site.phase(name) == "ABORTING"
    site.start()
    assert site.ended(name)["closure"]["phase"] == "ABORTED"
    wait_until(lambda: not processes.marked(site.key(name)), explain=lambda: "a native job is left")
    assert ran.read_text() == "ran\n"


def test_an_agent_without_its_intents_adopts_the_jobs_that_its_engine_knows(site: Site) -> None:
    """Only the intents are gone: the admin asks, and the engine knows the job by its name."""
    name, ran = create(site, 0)
    agent = site.start()
    site.running(name)
    agent.kill()
    agent.wait()
    for intent in (site.state / "intents").iterdir():
        intent.unlink()
    site.start()
    site.wait_for_log("adopted")
    finish(site)
    assert (site.ended(name)["closure"]["phase"], ran.read_text()) == ("SUCCEEDED", "ran\n")


def test_an_execution_that_neither_agent_nor_engine_knows_is_lost(site: Site) -> None:
    name, _ = create(site, 0)
    crash(site, "after-confirm")
    for intent in (site.state / "intents").iterdir():
        intent.unlink()
    site.start()
    closure = site.ended(name)["closure"]
    assert (closure["phase"], closure["reason"]["code"]) == ("FAILED", "CLUSTER_LOST")
