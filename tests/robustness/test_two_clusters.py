"""One admin and two clusters: the pools of the proposal on two real Slurms, and work that moves between agents."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.support.admins import RunningAdmin, running_admin
from tests.support.agent_processes import DOMAIN, PROJECT, SECRET, Site, running_site, waiting_for
from tests.support.programs import clean_environment, run
from tests.support.slurm import SlurmCluster
from tests.support.waiting import wait_until

SCOPE = ("-p", PROJECT, "-d", DOMAIN)


def write_configuration(directory: Path, **agents: float) -> Path:
    """Two pools of one cluster each, as the proposal writes them."""
    secret = directory / "registration.secret"
    secret.write_text(SECRET)
    document = {
        "clusters": {
            "registrationSecretFile": str(secret),
            "poolNameClusterMap": {
                "pool_1": [{"id": "red", "weight": 1}],
                "pool_2": [{"id": "blue", "weight": 99}],
                "both": [{"id": "first", "weight": 1}, {"id": "second", "weight": 1}],
            },
            "poolStrategies": {"both": "spill"},
        },
        "agents": agents,
    }
    path = directory / "rainbow.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    directory = tmp_path_factory.mktemp("admin")
    with running_admin(directory, "--config", str(write_configuration(directory))) as admin:
        yield admin


@pytest.fixture(scope="module")
def impatient_admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    """An admin that gives the work of a silent cluster away after a few seconds."""
    directory = tmp_path_factory.mktemp("impatient-admin")
    configuration = write_configuration(directory, leaseSeconds=3, waitSeconds=1, unreachableSeconds=4, lostSeconds=5)
    with running_admin(directory, "--config", str(configuration)) as admin:
        yield admin


def rainbowctl(admin: RunningAdmin, *arguments: str) -> str:
    done = run("rainbowctl", *arguments, env=clean_environment(RAINBOW_ENDPOINT=admin.url))
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_pool_runs_jobs_on_its_own_slurm_and_a_cancel_ends_them_there(
    admin: RunningAdmin, slurm_clusters: tuple[SlurmCluster, SlurmCluster], tmp_path: Path
) -> None:
    red, blue = slurm_clusters
    settings = [
        {
            "cluster": cluster.name,
            "engine": "slurm",
            "engine_options": {"configuration": str(cluster.configuration)},
            "environment": {"PATH": cluster.environment()["PATH"]},
        }
        for cluster in (red, blue)
    ]
    with (
        running_site(admin, tmp_path / "red", **settings[0]) as red_site,
        running_site(admin, tmp_path / "blue", **settings[1]) as blue_site,
    ):
        red_site.start()
        blue_site.start()
        rainbowctl(
            admin,
            "create",
            "execution",
            "to-blue",
            *SCOPE,
            "--clusterPool",
            "pool_2",
            "--cpu",
            "1",
            "--",
            "sleep",
            "300",
        )
        blue_site.running("to-blue")
        key = blue_site.key("to-blue")
        assert key in blue.run("squeue", "-h", "-o", "%j")
        assert key not in red.run("squeue", "-h", "-o", "%j")
        explained = rainbowctl(admin, "explain", "execution", "to-blue", *SCOPE)
        assert "cluster blue (pool pool_2" in explained
        rainbowctl(admin, "delete", "execution", "to-blue", *SCOPE, "--cause", "enough", "--force")
        assert blue_site.ended("to-blue")["closure"]["phase"] == "ABORTED"
        wait_until(lambda: key not in blue.run("squeue", "-h", "-o", "%j"), explain=lambda: "the job is still there")
        done = rainbowctl(
            admin, "create", "execution", "to-red", *SCOPE, "--clusterPool", "pool_1", "--cpu", "1", "--logs", "--",
            "sh", "-c", "echo on $SLURM_JOB_NAME",
        )  # fmt: skip
        assert red_site.key("to-red") in done
        assert red_site.get("to-red")["cluster"] == "red"


def test_reports_of_an_agent_that_was_stopped_past_its_lease_are_refused(
    impatient_admin: RunningAdmin, tmp_path: Path
) -> None:
    admin, gone = impatient_admin, tmp_path / "gone"
    with (
        running_site(admin, tmp_path / "first", cluster="first") as first,
        running_site(admin, tmp_path / "second", cluster="second") as second,
    ):
        agent = first.start()
        _create_in_both(admin, "moves", waiting_for(gone)[-1])
        first.running("moves")
        agent.send_signal(signal.SIGSTOP)  # its job goes on, and its end is reported when the agent goes on
        gone.touch()
        try:
            second.start()
            phase, cluster, attempt = outcome = _outcome(second.ended("moves"))
            # On a slow machine the second agent may lose its short lease too, and run it again.
            assert (phase, cluster) == ("SUCCEEDED", "second")
            assert attempt >= 2
        finally:
            agent.send_signal(signal.SIGCONT)
        wait_until(lambda: _has_refusal(second), explain=lambda: f"no report was refused:\n{first.log}")
        wait_until(lambda: first.intents() == [], explain=lambda: f"its intents are still there:\n{first.log}")
        assert _outcome(second.get("moves")) == outcome


def _create_in_both(admin: RunningAdmin, name: str, command: str) -> None:
    spec = {
        "cluster_assignment": {"cluster_pool_name": "both"},
        "retry": {"attempts": 3, "on_lost": "retry"},
        "job": {"command": ["sh", "-c", command], "resources": {"requests": {"cpu": "1"}}},
    }
    body = {"project": PROJECT, "domain": DOMAIN, "name": name, "spec": spec}
    answer = requests.post(f"{admin.url}/api/v1/executions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.json()["execution"]["cluster"] == "first"


def _outcome(execution: dict[str, Any]) -> tuple[str, str, int]:
    return execution["closure"]["phase"], execution["cluster"], execution["attempt"]


def _has_refusal(site: Site) -> bool:
    return any(event["type"] in ("REFUSED", "CONFIRMED") for event in site.get("moves", "/events")["events"])
