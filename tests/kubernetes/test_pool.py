"""One pool of a plain machine, Slurm and Kubernetes: the same jobs, logs and reasons, and what one declines goes on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import requests

from tests.kubernetes.conftest import MakeSite
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import DOMAIN, PROJECT, Site, admin_of_agents, running_site
from tests.support.kubernetes import IMAGE
from tests.support.slurm import SlurmCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("cluster")

Sites = dict[str, Site]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    with admin_of_agents(tmp_path_factory.mktemp("admin")) as admin:
        yield admin


@pytest.fixture
def sites(
    admin: RunningAdmin,
    make_site: MakeSite,
    slurm_clusters: tuple[SlurmCluster, SlurmCluster],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Sites]:
    slurm = slurm_clusters[0]
    of_slurm = {
        "engine": "slurm",
        "engine_options": {"configuration": str(slurm.configuration)},
        "environment": {"PATH": slurm.environment()["PATH"]},
    }
    with (
        running_site(admin, tmp_path_factory.mktemp("local")) as local,
        running_site(admin, tmp_path_factory.mktemp("slurm"), **of_slurm) as batch,
    ):
        sites = {"local": local, "slurm": batch, "kubernetes": make_site(admin)}
        for site in sites.values():
            site.start()
        for site in sites.values():
            wait_until(partial(is_ready, site), 60)
        yield sites


def is_ready(site: Site) -> bool:
    answer = requests.get(f"{site.admin.url}/api/v1/clusters/{site.cluster}", timeout=60)
    return bool(answer.json().get("state") == "ready")


def put_pool(admin: RunningAdmin, name: str, *sites: Site) -> None:
    """A pool that is filled in this order."""
    pool = {"members": [{"id": site.cluster} for site in sites], "strategy": "spill"}
    answer = requests.put(f"{admin.url}/api/v1/pools/{name}", json={"pool": pool}, timeout=60)
    assert answer.status_code == 200, answer.text


def create_in(site: Site, pool: str, name: str, **job: Any) -> dict[str, Any]:
    """An execution in a pool, once it has ended."""
    assignment = {"cluster_assignment": {"cluster_pool_name": pool}}
    body = {"project": PROJECT, "domain": DOMAIN, "name": name, "spec": {**assignment, "job": job}}
    answer = requests.post(f"{site.admin.url}/api/v1/executions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return site.ended(name)


def outcome(site: Site, name: str) -> tuple[Any, ...]:
    """How an execution ended, in words that are the same on every engine."""
    execution = site.ended(name)
    closure = execution["closure"]
    return closure["phase"], closure.get("reason", {}).get("code"), execution.get("exit_code"), execution["attempt"]


def test_the_same_job_has_the_same_log_and_the_same_reasons_on_every_engine(sites: Sites) -> None:
    jobs: dict[str, dict[str, Any]] = {
        "ends": {"command": ["sh", "-c", "echo hello; echo again"], "outputs": []},
        "fails": {"command": ["sh", "-c", "echo no; exit 3"]},
        "late": {"command": ["sh", "-c", "echo begun; sleep 600"], "resources": {"duration": "2s"}},
        "missing": {"command": ["no-such-command"]},
        "files": {"command": ["sh", "-c", "echo content > result"], "outputs": ["result"]},
    }
    for engine, site in sites.items():
        for name, job in jobs.items():
            site.create(f"{engine}-{name}", *job["command"], **{key: job[key] for key in job if key != "command"})
        site.create(f"{engine}-cancelled", "sleep", "600")
    for engine, site in sites.items():
        site.running(f"{engine}-cancelled")
        site.cancel(f"{engine}-cancelled")
    names = [*jobs, "cancelled"]
    ends = {engine: {name: outcome(site, f"{engine}-{name}") for name in names} for engine, site in sites.items()}
    assert ends["local"] == ends["slurm"] == ends["kubernetes"]
    assert ends["local"]["ends"][0] == "SUCCEEDED"
    assert ends["local"]["late"][:2] == ("TIMED_OUT", "TIME_LIMIT")
    logs = {
        engine: {name: site.printed(f"{engine}-{name}")["data"] for name in ("ends", "fails", "late")}
        for engine, site in sites.items()
    }
    assert logs["kubernetes"] == {"ends": "hello\nagain\n", "fails": "no\n", "late": "begun\n"}
    assert logs["local"] == logs["slurm"] == logs["kubernetes"]


def test_what_an_engine_cannot_do_is_declined_with_its_reason_and_goes_elsewhere(
    admin: RunningAdmin, sites: Sites
) -> None:
    local, slurm, kubernetes = (sites[name] for name in ("local", "slurm", "kubernetes"))
    put_pool(admin, "plain-first", local, slurm, kubernetes)
    put_pool(admin, "kubernetes-first", kubernetes, slurm)
    image = create_in(local, "plain-first", "with-image", command=["echo", "in a pod"], image=IMAGE)
    assert (image["closure"]["phase"], image["cluster"]) == ("SUCCEEDED", kubernetes.cluster), image
    declined = [event for event in local.get("with-image", "/events")["events"] if event["type"] == "DECLINED"]
    assert len(declined) == 2, declined
    assert all("image" in str(event) for event in declined)
    alone = create_in(
        kubernetes, "kubernetes-first", "exclusive", command=["echo", "alone"], resources={"exclusive": True}
    )
    assert (alone["closure"]["phase"], alone["cluster"]) == ("SUCCEEDED", slurm.cluster), alone
    events = str(slurm.get("exclusive", "/events")["events"])
    assert "resources.exclusive: Kubernetes gives no job a node of its own" in events
