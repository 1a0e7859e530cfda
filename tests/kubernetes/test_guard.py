"""What must end with its lease ends without its agent, and then runs once more."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from agent.engines.base import EngineUnavailable
from agent.engines.kubernetes import names
from agent.engines.kubernetes.api import Api
from agent.engines.kubernetes.guard import LeaseObject
from agent.engines.kubernetes.states import is_finished
from tests.kubernetes.conftest import MakeSite, has_janitor, running_janitor
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import Site, admin_of_agents
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("cluster")

#: It does not end by itself, nor when it is asked to.
STUBBORN = "trap '' TERM; echo begun; while :; do sleep 0.2; done"


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    intervals = {"leaseSeconds": 15, "waitSeconds": 3, "unreachableSeconds": 20, "lostSeconds": 25}
    with admin_of_agents(tmp_path_factory.mktemp("admin"), **intervals) as admin:
        yield admin


@pytest.fixture
def site(make_site: MakeSite, admin: RunningAdmin) -> Iterator[Site]:
    """A cluster with a janitor, whose jobs would get half a minute to end."""
    site = make_site(admin, graceSeconds=30)
    with running_janitor(site):
        yield site


def job_of(api: Api, site: Site, attempt: int) -> dict[str, Any]:
    return api.get(names.jobs_path(str(site.engine_options["namespace"]), site.key("guarded", attempt)))


def pods_of(api: Api, site: Site, attempt: int) -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/{site.engine_options['namespace']}/pods"
    pods: list[dict[str, Any]] = api.get(path, labelSelector=f"{names.KEY}={site.key('guarded', attempt)}")["items"]
    return pods


def test_a_job_of_a_killed_agent_is_ended_by_the_janitor_before_its_next_attempt_begins(site: Site, api: Api) -> None:
    agent = site.start()
    wait_until(lambda: has_janitor(api, site), 60, interval=0.5)
    spec = {"retry": {"attempts": 3, "backoff": "1s", "on_lost": "retry"}}
    site.create("guarded", "sh", "-c", STUBBORN, resources={"requests": {"cpu": "1m"}}, spec=spec)
    site.running("guarded")
    (pod,) = pods_of(api, site, 1)
    assert pod["spec"]["terminationGracePeriodSeconds"] <= 3
    agent.kill()
    agent.wait()

    # Kubernetes removes the pod when its containers have ended.
    wait_until(
        lambda: pods_of(api, site, 1) == [],
        60,
        interval=0.5,
        explain=lambda: (site.directory / "janitor.log").read_text(),
    )
    wait_until(lambda: is_finished(job_of(api, site, 1)), 30, interval=0.5)
    job = job_of(api, site, 1)
    assert names.annotation(job, names.ENDED) == names.LEASE_OVER
    assert site.get("guarded")["attempt"] == 1  # no other was begun until then
    site.start()
    wait_until(
        lambda: site.get("guarded")["attempt"] == 2 and site.phase("guarded") == "RUNNING",
        120,
        interval=0.5,
        explain=lambda: f"{site.get('guarded')}\n{site.log[-3000:]}",
    )
    (ended,) = (entry for entry in job["status"]["conditions"] if entry["type"] == "Failed")
    assert ended["lastTransitionTime"] <= job_of(api, site, 2)["metadata"]["creationTimestamp"]
    site.cancel("guarded")
    assert site.ended("guarded")["closure"]["phase"] == "ABORTED"


def test_the_lease_of_another_cluster_is_not_taken_for_ones_own(api: Api) -> None:
    """Leases are named without capitals and '_'."""
    mark = secrets.token_hex(4)
    for role in ("agent", "janitor"):
        first, second = (LeaseObject(api, "rainbow", role, f"{name}{mark}", "me") for name in ("East_", "east-"))
        assert first.name == second.name
        first.renew(15)
        with pytest.raises(EngineUnavailable, match=f"belongs to another cluster .*East_{mark}"):
            second.renew(15)
        first.renew(15)
        assert first.seconds_since_renewal() is not None
        assert second.seconds_since_renewal() is None


def test_without_a_janitor_what_must_end_with_its_lease_is_declined(make_site: MakeSite, admin: RunningAdmin) -> None:
    site = make_site(admin)
    site.start()
    site.create("unguarded", "true", spec={"retry": {"on_lost": "fail"}})
    site.wait_for_log("DECLINED REFUSED on_lost: nothing would end it if this agent were gone")
    assert "had not been submitted" not in site.log
    site.cancel("unguarded")


def test_a_janitor_that_starts_after_its_agent_is_waited_for(make_site: MakeSite, admin: RunningAdmin) -> None:
    site = make_site(admin)
    site.start()
    site.create("waits", "true", resources={"requests": {"cpu": "1m"}}, spec={"retry": {"on_lost": "fail"}})
    site.wait_for_log("nothing would end it if this agent were gone")
    with running_janitor(site):
        assert site.ended("waits")["closure"]["phase"] == "SUCCEEDED", site.log
