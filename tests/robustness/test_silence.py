"""Agents that fall silent: what waits goes on, and what does not is ended on its node, agent or no agent."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.engines.local import processes
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import Site, admin_of_agents, waiting_for
from tests.support.waiting import wait_until

#: The engines that end a job whose lease is over without an agent.
GUARDING = ("local", "slurm")


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    """An admin whose leases are over soon, but not before a busy machine has started a job."""
    times = {"leaseSeconds": 10, "waitSeconds": 2, "unreachableSeconds": 4, "lostSeconds": 15}
    with admin_of_agents(tmp_path_factory.mktemp("admin"), **times) as admin:
        yield admin


def create(site: Site, on_lost: str) -> tuple[str, Path]:
    """An execution that appends to a file when it begins, and ends once it may."""
    name, began = f"{site.cluster}-{on_lost}", site.directory / "began"
    script = f"echo $RAINBOW_ATTEMPT >> {began}; {waiting_for(site.directory / 'go')[-1]}"
    site.create(name, "sh", "-c", script, spec={"retry": {"on_lost": on_lost}})
    return name, began


@pytest.mark.parametrize("site", GUARDING, indirect=True)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_guarded_job_is_ended_on_its_node_when_there_is_no_agent(site: Site, end: signal.Signals) -> None:
    check_that_a_guarded_job_is_ended(site, end)


def check_that_a_guarded_job_is_ended(site: Site, end: signal.Signals) -> None:
    name, began = create(site, "fail")
    agent = site.start()
    wait_until(lambda: began.exists() and site.phase(name) != "QUEUED", explain=lambda: site.log)
    agent.send_signal(end)
    agent.wait(timeout=60)
    wait_until(lambda: not processes.marked(site.key(name)), 60, explain=lambda: "it goes on")
    site.start()
    closure = site.ended(name)["closure"]
    assert (closure["phase"], closure["reason"]["code"], began.read_text()) == ("FAILED", "CLUSTER_LOST", "1\n")


def wait_until_silent(site: Site, name: str) -> None:
    wait_until(
        lambda: site.get(name)["closure"]["reason"]["code"] == "CLUSTER_SILENT",
        60,
        explain=lambda: f"{site.get(name)['closure']}\n{site.log}",
    )
    assert site.phase(name) == "RUNNING"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_that_waits_goes_on_without_an_agent_and_its_result_counts(site: Site, end: signal.Signals) -> None:
    name, began = create(site, "wait")
    agent = site.start()
    site.running(name)
    agent.send_signal(end)
    agent.wait(timeout=60)
    wait_until_silent(site, name)
    assert processes.marked(site.key(name))
    (site.directory / "go").touch()
    wait_until(lambda: not processes.marked(site.key(name)))
    site.start()
    execution = site.ended(name)
    assert (execution["closure"]["phase"], execution["attempt"], began.read_text()) == ("SUCCEEDED", 1, "1\n")


@pytest.mark.parametrize("site", ["local"], indirect=True)
def test_an_agent_that_returns_ends_what_was_given_up_and_confirms_that(site: Site) -> None:
    name, began = create(site, "wait")
    agent = site.start()
    site.running(name)
    agent.send_signal(signal.SIGKILL)
    agent.wait(timeout=60)
    wait_until_silent(site, name)
    site.cancel(name, give_up=True)
    assert (site.phase(name), site.get(name)["unconfirmed"]) == ("FAILED", True)
    assert processes.marked(site.key(name))
    site.start()
    wait_until(lambda: "unconfirmed" not in site.get(name), 60, explain=lambda: site.log)
    assert not processes.marked(site.key(name))
    [attempt] = site.get(name, "/explanation")["attempts"]
    assert "unconfirmed" not in attempt
    assert attempt["ended_at"] <= attempt["confirmed_at"]
    assert (site.phase(name), began.read_text()) == ("FAILED", "1\n")


def test_an_agent_that_was_stopped_past_its_lease_ends_nothing_that_waits(site: Site) -> None:
    name, began = create(site, "wait")
    agent = site.start()
    site.running(name)
    agent.send_signal(signal.SIGSTOP)
    try:
        wait_until_silent(site, name)
    finally:
        agent.send_signal(signal.SIGCONT)
    wait_until(lambda: site.get(name)["closure"]["reason"]["code"] != "CLUSTER_SILENT", explain=lambda: site.log)
    (site.directory / "go").touch()
    execution = site.ended(name)
    assert (execution["closure"]["phase"], execution["attempt"], began.read_text()) == ("SUCCEEDED", 1, "1\n")
    assert "ending it" not in site.log
