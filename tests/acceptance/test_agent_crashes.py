"""Agents killed at every step between lease and report: started again, each execution has run exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.crashes import STEPS, VARIABLE
from agent.engines.local import processes
from tests.support.admins import RunningAdmin, running_admin
from tests.support.agent_processes import Site, native_key, running_site, until, write_admin_configuration
from tests.support.slurm import SlurmCluster

Clusters = tuple[SlurmCluster, SlurmCluster]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    directory = tmp_path_factory.mktemp("admin")
    configuration = write_admin_configuration(directory, leaseSeconds=30, waitSeconds=5)
    with running_admin(directory, "--config", str(configuration)) as found:
        yield found


@pytest.fixture(params=["local", "slurm"])
def site(request: pytest.FixtureRequest, admin: RunningAdmin, tmp_path: Path) -> Iterator[Site]:
    """A cluster of each engine."""
    settings: dict[str, object] = {"engine": request.param}
    if request.param == "slurm":
        clusters: Clusters = request.getfixturevalue("slurm_clusters")
        settings["engine_options"] = {"configuration": str(clusters[0].configuration)}
        settings["environment"] = {"PATH": clusters[0].environment()["PATH"]}
    with running_site(admin, tmp_path, **settings) as found:
        yield found


def crash(site: Site, step: str) -> None:
    """Run an agent until it kills itself."""
    agent = site.start(**{VARIABLE: step})
    until(lambda: agent.poll() is not None, what=lambda: f"the agent did not come to {step}:\n{site.log}")
    assert agent.returncode == -9, site.log


def create(site: Site, number: int, command: str = "") -> tuple[str, Path]:
    """An execution that says in a file each time it runs."""
    name, ran = f"{site.cluster}-{number}", site.directory / f"ran-{number}"
    site.create(name, "sh", "-c", f"echo ran >> {ran}; {command or 'sleep 0.3'}")
    return name, ran


def check(site: Site, executions: list[tuple[str, Path]]) -> None:
    """Everything ran exactly once, is known to have, and has left nothing behind."""
    for name, ran in executions:
        found = site.ended(name)
        assert (found["closure"]["phase"], found["attempt"], found["exit_code"]) == ("SUCCEEDED", 1, 0), site.log
        assert ran.read_text() == "ran\n"
        types = [event["type"] for event in site.get(name, "/events")["events"]]
        assert types.count("SUCCEEDED") == 1
        assert types.count("RUNNING") <= 1
        assert processes.marked(native_key(name)) == set()
    until(lambda: site.intents() == [], what=lambda: f"intents are left: {site.intents()}")


@pytest.mark.parametrize("step", STEPS)
def test_each_execution_runs_exactly_once(site: Site, step: str) -> None:
    executions = [create(site, number) for number in range(3)]
    crash(site, step)
    site.start()
    check(site, executions)


def test_an_agent_that_dies_at_every_step_in_turn(site: Site) -> None:
    executions = [create(site, number, "sleep 1") for number in range(len(STEPS))]
    for step in STEPS:
        crash(site, step)
    site.start()
    check(site, executions)


def test_what_ends_while_nobody_looks_is_reported_later(site: Site) -> None:
    name, ran = create(site, 0, "sleep 1; exit 7")
    agent = site.start()
    site.running(name)
    agent.kill()
    agent.wait()
    until(lambda: not processes.marked(native_key(name)))
    site.start()
    found = site.ended(name)
    assert (found["closure"]["phase"], found["exit_code"], ran.read_text()) == ("FAILED", 7, "ran\n")


def test_a_cancel_while_the_agent_is_dead_is_carried_out_later(site: Site) -> None:
    name, ran = create(site, 0, "sleep 600")
    agent = site.start()
    site.running(name)
    agent.kill()
    agent.wait()
    site.cancel(name)
    assert site.phase(name) == "ABORTING"
    site.start()
    assert site.ended(name)["closure"]["phase"] == "ABORTED"
    until(lambda: not processes.marked(native_key(name)), what="a native job is left")
    assert ran.read_text() == "ran\n"


def test_an_agent_that_has_lost_its_memory_adopts_what_its_engine_knows(site: Site) -> None:
    """Only the intents are gone: the admin asks, and the engine knows the job by its name."""
    name, ran = create(site, 0, "sleep 2")
    agent = site.start()
    site.running(name)
    agent.kill()
    agent.wait()
    for intent in (site.state / "intents").iterdir():
        intent.unlink()
    site.start()
    assert (site.ended(name)["closure"]["phase"], ran.read_text()) == ("SUCCEEDED", "ran\n")


def test_what_nobody_knows_any_more_is_lost(site: Site) -> None:
    name, _ = create(site, 0)
    crash(site, "after-confirm")
    for intent in (site.state / "intents").iterdir():
        intent.unlink()
    site.start()
    found = site.ended(name)
    assert (found["closure"]["phase"], found["closure"]["reason"]["code"]) == ("FAILED", "CLUSTER_LOST")
