"""Agents of this machine: why work waits is said everywhere, bids go on meanwhile, and what waits moves."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.admins import RunningAdmin
from tests.support.agent_processes import DOMAIN, PROJECT, Site, admin_of_agents, running_site
from tests.support.programs import clean_environment, run
from tests.support.waiting import wait_until

WAITS = "an exclusive job waits until nothing else runs on this machine"


def rainbowctl(admin: RunningAdmin, *arguments: str) -> str:
    """What a command prints, without its line breaks."""
    return " ".join(
        run("rainbowctl", *arguments, env=clean_environment(RAINBOW_ENDPOINT=admin.url)).stdout.decode().split()
    )


def message(site: Site, name: str) -> str:
    return str(site.get(name, "/explanation")["status"]["message"])


def put_pool(admin: RunningAdmin, *sites: Site, **fields: Any) -> None:
    pool = {"pool": {"members": [{"id": site.cluster} for site in sites], "strategy": "ask", **fields}}
    assert requests.put(f"{admin.url}/api/v1/pools/machines", json=pool, timeout=60).status_code == 200


def ask(admin: RunningAdmin, name: str, *command: str) -> None:
    """Create an execution in the pool that asks."""
    job = {"command": list(command or ("true",)), "resources": {"requests": {"cpu": "1"}, "duration": "1m"}}
    spec = {"cluster_assignment": {"cluster_pool_name": "machines"}, "job": job}
    body = {"project": PROJECT, "domain": DOMAIN, "name": name, "spec": spec}
    assert requests.post(f"{admin.url}/api/v1/executions", json=body, timeout=60).status_code == 200


def bids(site: Site, name: str) -> list[dict[str, Any]]:
    """The bids of the last round about an execution that has a cluster; empty before."""
    explained = site.get(name, "/explanation")
    return list(explained["rounds"][-1]["bids"]) if explained.get("cluster") else []


def test_what_an_exclusive_job_holds_back_says_so_and_bids_go_on(tmp_path: Path) -> None:
    (tmp_path / "admin").mkdir()
    with admin_of_agents(tmp_path / "admin") as admin, running_site(admin, tmp_path / "here") as site:
        site.start()
        site.create("runs", "sleep", "300", resources={"duration": "10m"})
        site.running("runs")
        put_pool(admin, site)
        site.create("alone", "sleep", "300", resources={"exclusive": True, "duration": "20m"})
        wait_until(lambda: WAITS in message(site, "alone"), explain=lambda: message(site, "alone"))
        assert f"the agent of {site.cluster} has it, and {WAITS}." in message(site, "alone")
        site.create("behind", "true")
        wait_until(lambda: f"its agent takes nothing now: {WAITS}." in message(site, "behind"))
        assert f"held back {WAITS}" in rainbowctl(admin, "get", "cluster", site.cluster)
        assert WAITS in rainbowctl(admin, "get", "execution", "behind", "-p", PROJECT, "-d", DOMAIN)
        ask(admin, "asked")
        [bid] = wait_until(lambda: bids(site, "asked"))
        assert bid["answer"] == "yes"
        assert bid["start_seconds"] == pytest.approx(1800, abs=120)
        for name in ("alone", "behind", "asked", "runs"):
            site.cancel(name)


def test_an_agent_that_starts_again_bids_once_it_knows_that_it_is_asked(tmp_path: Path) -> None:
    """Its first sync does not say that it can: until then its cluster is known by what it reports."""
    (tmp_path / "admin").mkdir()
    with admin_of_agents(tmp_path / "admin") as admin, running_site(admin, tmp_path / "here") as site:
        agent = site.start()
        put_pool(admin, site)
        ask(admin, "before")
        site.ended("before")
        agent.send_signal(signal.SIGTERM)
        agent.wait(60)
        ask(admin, "between")
        site.start()
        assert site.ended("between")["closure"]["phase"] == "SUCCEEDED"
        ask(admin, "after")
        site.ended("after")
        assert [bid["answer"] for bid in bids(site, "after")] == ["yes"]


@pytest.mark.slow
def test_what_waits_moves_to_the_machine_that_has_a_slot_first(tmp_path: Path) -> None:
    (tmp_path / "admin").mkdir()
    with (
        admin_of_agents(tmp_path / "admin") as admin,
        running_site(admin, tmp_path / "soon", slots=1) as soon,
        running_site(admin, tmp_path / "late", slots=1) as late,
    ):
        for site, duration in ((soon, "30m"), (late, "60m")):
            site.start()
            site.create(f"fills-{duration}", "sleep", "300", resources={"duration": duration})
            site.running(f"fills-{duration}")
        put_pool(admin, soon, late, rebalance="better-by 5s")
        ask(admin, "moves")
        wait_until(lambda: bids(soon, "moves"))
        assert soon.get("moves")["cluster"] == soon.cluster
        late.cancel("fills-60m")
        assert soon.ended("moves")["cluster"] == late.cluster
        explained = soon.get("moves", "/explanation")
        assert explained["because"].startswith(f"from {soon.cluster}, which would start it in 2")
        assert {bid["cluster"]: bid["answer"] for bid in explained["rounds"][-1]["bids"]} == {
            soon.cluster: "yes",
            late.cluster: "yes",
        }
        soon.cancel("fills-30m")
