"""A machine on which an exclusive job waits: why is said everywhere, and its bids are when that has ended."""

from __future__ import annotations

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


def ask(admin: RunningAdmin, name: str) -> dict[str, Any]:
    """The only bid for an execution that is created now in a pool that asks."""
    job = {"command": ["true"], "resources": {"requests": {"cpu": "1"}, "duration": "1m"}}
    spec = {"cluster_assignment": {"cluster_pool_name": "machines"}, "job": job}
    body = {"project": PROJECT, "domain": DOMAIN, "name": name, "spec": spec}
    assert requests.post(f"{admin.url}/api/v1/executions", json=body, timeout=60).status_code == 200
    path = f"{admin.url}/api/v1/executions/{PROJECT}/{DOMAIN}/{name}/explanation"

    def bid() -> dict[str, Any]:
        explained = requests.get(path, timeout=60).json()
        [answer] = explained["rounds"][0]["bids"]
        return answer if explained.get("cluster") else {}

    return wait_until(bid)


def test_what_an_exclusive_job_holds_back_says_so_and_bids_go_on(tmp_path: Path) -> None:
    (tmp_path / "admin").mkdir()
    with admin_of_agents(tmp_path / "admin") as admin, running_site(admin, tmp_path / "here") as site:
        site.start()
        site.create("runs", "sleep", "300", resources={"duration": "10m"})
        site.running("runs")
        pool = {"pool": {"members": [{"id": site.cluster}], "strategy": "ask"}}
        assert requests.put(f"{admin.url}/api/v1/pools/machines", json=pool, timeout=60).status_code == 200
        site.create("alone", "sleep", "300", resources={"exclusive": True, "duration": "20m"})
        wait_until(lambda: WAITS in message(site, "alone"), explain=lambda: message(site, "alone"))
        assert f"the agent of {site.cluster} has it, and {WAITS}." in message(site, "alone")
        site.create("behind", "true")
        wait_until(lambda: f"its agent takes nothing now: {WAITS}." in message(site, "behind"))
        assert f"held back {WAITS}" in rainbowctl(admin, "get", "cluster", site.cluster)
        assert WAITS in rainbowctl(admin, "get", "execution", "behind", "-p", PROJECT, "-d", DOMAIN)
        bid = ask(admin, "asked")
        assert bid["answer"] == "yes"
        assert bid["start_seconds"] == pytest.approx(1800, abs=120)
        for name in ("alone", "behind", "asked", "runs"):
            site.cancel(name)
