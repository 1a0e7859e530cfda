"""Agents on Kubernetes: killed at every step, stopped for longer than their lease, gone with their state."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from agent.crashes import STEPS, VARIABLE
from agent.engines.kubernetes.api import Api
from agent.engines.local import processes
from tests.conftest import Scale
from tests.kubernetes.conftest import MakeSite
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import DOMAIN, PROJECT, Site, admin_of_agents
from tests.support.kubernetes import KubernetesCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("cluster")

#: The steps at which executions have ended.
AFTER_THE_END = STEPS[STEPS.index("after-finish") :]
WAITING = "until [ -e /go ]; do sleep 0.1; done"


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    intervals = {"leaseSeconds": 15, "waitSeconds": 3, "unreachableSeconds": 20, "lostSeconds": 25}
    with admin_of_agents(tmp_path_factory.mktemp("admin"), **intervals) as admin:
        yield admin


@pytest.fixture
def site(make_site: MakeSite, admin: RunningAdmin) -> Site:
    return make_site(admin)


def create(site: Site, number: int, script: str = WAITING) -> str:
    """An execution that says that it ran, and ends with a script."""
    name = f"{site.cluster}-{number}"
    site.create(name, "sh", "-c", f"echo ran; {script}", resources={"requests": {"cpu": "1m"}})
    return name


def let_end(site: Site, names: list[str]) -> None:
    """Open the gates of what runs by now, in the file systems of its containers."""
    for name in names:
        for pid in processes.marked(site.key(name)):
            with suppress(OSError):
                Path(f"/proc/{pid}/root/go").touch()


def crash(site: Site, step: str) -> None:
    """Run an agent until it kills itself."""
    agent = site.start(**{VARIABLE: step})
    wait_until(lambda: agent.poll() is not None, 120, explain=lambda: f"{step} was not reached:\n{site.log}")
    assert agent.returncode == -9, site.log


def check(site: Site, names: list[str], api: Api, *, most_attempts: int = 1) -> None:
    """Every execution ran exactly once, is reported so, and is left to Kubernetes to remove.

    One that had not started when its cluster was lost may have another attempt; the first then has no Job.
    """

    def have_ended() -> bool:
        let_end(site, [name for name in names if site.phase(name) == "RUNNING"])
        return all(site.phase(name) == "SUCCEEDED" for name in names)

    wait_until(have_ended, 120, interval=0.3, explain=lambda: f"{[site.get(name) for name in names]}\n{site.log}")
    keys: set[str] = set()
    for name in names:
        execution = site.get(name)
        keys.add(site.key(name, execution["attempt"]))
        assert execution["attempt"] <= most_attempts, site.log
        assert execution["exit_code"] == 0, site.log
        assert site.printed(name)["data"] == "ran\n"
        types = Counter(event["type"] for event in site.get(name, "/events")["events"])
        assert types["SUCCEEDED"] == 1
        assert types["RUNNING"] <= 1
    wait_until(lambda: site.intents() == [], explain=lambda: f"intents are left: {site.intents()}")
    namespace = site.engine_options["namespace"]
    jobs = {job["metadata"]["name"]: job for job in listed(api, "/apis/batch/v1", namespace, "jobs")}
    assert set(jobs) == keys
    assert all(job["spec"]["ttlSecondsAfterFinished"] == 3600 for job in jobs.values())
    pods = Counter(pod["metadata"]["labels"]["rainbow/key"] for pod in listed(api, "/api/v1", namespace, "pods"))
    assert pods == dict.fromkeys(jobs, 1)


def listed(api: Api, root: str, namespace: str, resource: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.get(f"{root}/namespaces/{namespace}/{resource}")["items"]
    return items


@pytest.mark.parametrize("step", STEPS)
def test_each_execution_runs_exactly_once(site: Site, api: Api, step: str) -> None:
    names = [create(site, number, "true" if step in AFTER_THE_END else WAITING) for number in range(2)]
    crash(site, step)
    site.start()
    check(site, names, api)


def test_many_executions_outlive_an_api_server_and_an_agent_that_is_stopped_for_longer_than_its_lease(
    site: Site, cluster: KubernetesCluster, api: Api, scale: Scale
) -> None:
    count = scale(10, full=500)
    names = [create(site, number, "true") for number in range(count)]
    namespace = str(site.engine_options["namespace"])
    before = cluster.calls(namespace)  # lists and watches are of all namespaces, and earlier tests made some
    agent = site.start()
    ended: set[str] = set()

    def have_ended(share: float) -> bool:
        ended.update(name for name in names if name not in ended and site.phase(name) == "SUCCEEDED")
        return len(ended) >= share * count

    wait_until(lambda: have_ended(0.3), 60 + count, interval=1.0, explain=lambda: f"{len(ended)}\n{site.log[-3000:]}")
    cluster.kill_api_server()
    cluster.start_api_server()
    agent.send_signal(signal.SIGSTOP)
    wait_until(lambda: health(site) == "lost", 90, interval=0.5)  # its leases are over by then
    agent.send_signal(signal.SIGCONT)
    wait_until(lambda: have_ended(1.0), 120 + 4 * count, interval=1.0, explain=lambda: f"{ended}\n{site.log[-3000:]}")
    check(site, names, api, most_attempts=2)
    counts = cluster.calls(namespace) - before
    print(f"{count} executions:", dict(counts))
    # A call that the API server did not answer when it was killed is made again.
    assert count <= counts["create jobs"] <= count + 5, counts
    assert count <= counts["patch jobs"] <= count + 5, counts
    assert count <= counts["get pods/log"] <= count * 2
    # One watch of each kind, begun anew where the API server was away; each list and watch is one call.
    assert max(number for name, number in counts.items() if name.startswith("watch ")) <= 40, counts


def health(site: Site) -> str:
    answer = requests.get(f"{site.admin.url}/api/v1/clusters/{site.cluster}", timeout=60)
    return str(answer.json()["state"])


def test_what_a_dead_agent_left_is_found_and_cleared(site: Site, api: Api) -> None:
    name = create(site, 0)
    agent = site.start()
    site.running(name)
    agent.kill()
    agent.wait()
    for part in ("intents", "jobs"):  # its disk is gone
        shutil.rmtree(site.state / part)
    (site.state / "instance").unlink()
    path = f"{site.admin.url}/api/v1/executions/{PROJECT}/{DOMAIN}/{name}"

    def is_given_up() -> bool:
        body = {"cause": "the disk is gone", "give_up": True}
        return requests.delete(path, json=body, timeout=60).status_code == 200

    wait_until(is_given_up, 120, interval=1.0)
    assert site.phase(name) == "FAILED"
    key, namespace = site.key(name), site.engine_options["namespace"]
    assert [job["metadata"]["name"] for job in listed(api, "/apis/batch/v1", str(namespace), "jobs")] == [key]
    site.start("--take-over")
    site.wait_for_log(f"{key}: adopted")

    def is_cleared() -> bool:
        (job,) = listed(api, "/apis/batch/v1", str(namespace), "jobs")
        return "ttlSecondsAfterFinished" in job["spec"]

    wait_until(is_cleared, 60, interval=0.3, explain=lambda: site.log)
    assert site.phase(name) == "FAILED"
