"""One pool of a plain machine, Slurm, Kubernetes and, where it is installed, Flux.

The same jobs have the same logs and reasons on each, what one declines goes on, and what an agent does past its lease
changes nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
import requests

from agent.engines.kubernetes.api import Api
from agent.engines.local import processes
from tests.kubernetes.conftest import has_janitor, make_namespace, running_janitor, site_settings
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import DOMAIN, PROJECT, Site, admin_of_agents, running_site
from tests.support.flux import is_installed, running_flux
from tests.support.kubernetes import IMAGE, KubernetesCluster
from tests.support.slurm import SlurmCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("cluster")

Sites = dict[str, Site]
#: The names of the tests say whether Flux was among them.
ENGINES = ("local", "slurm", "kubernetes", *(["flux"] if is_installed() else []))
HELLO = ["sh", "-c", "echo hello; echo again"]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    times = {"leaseSeconds": 15, "waitSeconds": 3, "unreachableSeconds": 20, "lostSeconds": 25}
    with admin_of_agents(tmp_path_factory.mktemp("admin"), **times) as admin:
        yield admin


@pytest.fixture(scope="module", params=["-".join(ENGINES)])
def sites(
    admin: RunningAdmin,
    cluster: KubernetesCluster,
    api: Api,
    slurm_clusters: tuple[SlurmCluster, SlurmCluster],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Sites]:
    slurm = slurm_clusters[0]
    settings: dict[str, dict[str, Any]] = {
        "local": {},
        "slurm": {
            "engine": "slurm",
            "engine_options": {"configuration": str(slurm.configuration)},
            "environment": {"PATH": slurm.environment()["PATH"]},
        },
        "kubernetes": site_settings(cluster, make_namespace(api)),
    }
    with ExitStack() as stack:
        if "flux" in ENGINES:
            instance = stack.enter_context(running_flux())
            settings["flux"] = {"engine": "flux", "engine_options": {"uri": instance.uri}}
        sites = {
            name: stack.enter_context(running_site(admin, tmp_path_factory.mktemp(name), **settings[name]))
            for name in ENGINES
        }
        stack.enter_context(running_janitor(sites["kubernetes"]))
        for site in sites.values():
            site.start()
        for site in sites.values():
            wait_until(partial(is_ready, site), 60)
        yield sites


def is_ready(site: Site) -> bool:
    answer = requests.get(f"{site.admin.url}/api/v1/clusters/{site.cluster}", timeout=60)
    return bool(answer.json().get("state") == "ready")


def has_ended(key: str) -> bool:
    """Whether no process of a native job is left on this machine, in a pod or not."""
    return not processes.marked(key)


def holds_nothing(site: Site) -> bool:
    return site.intents() == []


def put_pool(admin: RunningAdmin, name: str, *sites: Site, strategy: str = "spill") -> None:
    """A pool; of the strategy spill it is filled in this order."""
    pool = {"members": [{"id": site.cluster} for site in sites], "strategy": strategy}
    answer = requests.put(f"{admin.url}/api/v1/pools/{name}", json={"pool": pool}, timeout=60)
    assert answer.status_code == 200, answer.text


def create_in(site: Site, pool: str, name: str, **job: Any) -> dict[str, Any]:
    """An execution in a pool, once it has ended."""
    begin_in(site, pool, name, **job)
    return site.ended(name)


def begin_in(site: Site, pool: str, name: str, *, retry: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
    """The answer to the creation of an execution in a pool."""
    spec = {"cluster_assignment": {"cluster_pool_name": pool}, "job": job, **({"retry": retry} if retry else {})}
    body = {"project": PROJECT, "domain": DOMAIN, "name": name, "spec": spec}
    answer = requests.post(f"{site.admin.url}/api/v1/executions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def outcome(site: Site, name: str) -> tuple[Any, ...]:
    """How an execution ended, in words that are the same on every engine."""
    execution = site.ended(name)
    closure = execution["closure"]
    return closure["phase"], closure.get("reason", {}).get("code"), execution.get("exit_code"), execution["attempt"]


def test_the_same_job_has_the_same_log_and_the_same_reasons_on_every_engine(sites: Sites) -> None:
    jobs: dict[str, dict[str, Any]] = {
        "ends": {"command": HELLO, "outputs": []},
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
    assert all(of_engine == ends["local"] for of_engine in ends.values()), ends
    assert ends["local"]["ends"][0] == "SUCCEEDED"
    assert ends["local"]["late"][:2] == ("TIMED_OUT", "TIME_LIMIT")
    logs = {
        engine: {name: site.printed(f"{engine}-{name}")["data"] for name in ("ends", "fails", "late")}
        for engine, site in sites.items()
    }
    assert logs["kubernetes"] == {"ends": "hello\nagain\n", "fails": "no\n", "late": "begun\n"}
    assert all(of_engine == logs["local"] for of_engine in logs.values()), logs


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


def test_a_pool_by_weights_runs_the_same_job_on_every_engine(admin: RunningAdmin, sites: Sites) -> None:
    put_pool(admin, "by-weights", *sites.values(), strategy="weighted")
    local, ran = sites["local"], dict[str, str]()
    for number in range(100):
        name = f"weighted-{number}"
        ran[name] = begin_in(local, "by-weights", name, command=HELLO)["execution"]["cluster"]
        if len(set(ran.values())) == len(sites):
            break
    assert set(ran.values()) == {site.cluster for site in sites.values()}
    for name in ran:
        assert outcome(local, name) == ("SUCCEEDED", "SUCCEEDED", 0, 1)
        assert (local.get(name)["cluster"], local.printed(name)["data"]) == (ran[name], "hello\nagain\n")
    image = create_in(local, "by-weights", "weighted-image", command=HELLO, image=IMAGE)
    assert (image["closure"]["phase"], image["cluster"]) == ("SUCCEEDED", sites["kubernetes"].cluster), image


def test_a_pool_that_asks_hears_every_engine_and_goes_where_none_says_never(admin: RunningAdmin, sites: Sites) -> None:
    put_pool(admin, "asking", *sites.values(), strategy="ask")
    local = sites["local"]
    jobs: dict[str, dict[str, Any]] = {
        "plain": {},
        "image": {"image": IMAGE},
        "alone": {"resources": {"exclusive": True}},
    }
    for name, job in jobs.items():
        begin_in(local, "asking", f"asked-{name}", command=HELLO, **job)
    heard = {}
    for name in jobs:
        assert outcome(local, f"asked-{name}") == ("SUCCEEDED", "SUCCEEDED", 0, 1)
        assert local.printed(f"asked-{name}")["data"] == "hello\nagain\n"
        # A round without a yes is asked anew, and silence is no answer.
        rounds = local.get(f"asked-{name}", "/explanation")["rounds"]
        answers = [(bid["cluster"], bid["answer"], bid.get("reason", "")) for round in rounds for bid in round["bids"]]
        heard[name] = {
            engine: {(answer, reason) for cluster, answer, reason in answers if cluster == site.cluster}
            for engine, site in sites.items()
        }
    assert all("yes" in dict(answers) for answers in heard["plain"].values()), heard["plain"]
    assert "yes" in dict(heard["image"]["kubernetes"])
    assert local.get("asked-image")["cluster"] == sites["kubernetes"].cluster
    for engine in set(sites) - {"kubernetes"}:
        assert any(answer == "never" and "image" in reason for answer, reason in heard["image"][engine]), heard["image"]
    refusal = ("never", "resources.exclusive: Kubernetes gives no job a node of its own")
    assert refusal in heard["alone"]["kubernetes"], heard["alone"]


def test_an_agent_that_was_stopped_past_its_lease_changes_nothing_of_the_attempt_after_it(
    admin: RunningAdmin, sites: Sites, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wait_until(lambda: has_janitor(api, sites["kubernetes"]), 60, interval=0.5)
    retry = {"attempts": 3, "backoff": "1s", "on_lost": "retry"}
    script = "echo attempt $RAINBOW_ATTEMPT; [ $RAINBOW_ATTEMPT -gt 1 ] || sleep 600"
    with running_site(admin, tmp_path_factory.mktemp("spare")) as spare:
        spare.start()
        wait_until(partial(is_ready, spare), 60)
        for engine, site in sites.items():
            put_pool(admin, f"fenced-{engine}", site, spare)
            begin_in(site, f"fenced-{engine}", f"fenced-{engine}", command=["sh", "-c", script], retry=retry)
        for engine, site in sites.items():
            assert site.running(f"fenced-{engine}")["cluster"] == site.cluster
            site.agents[-1].send_signal(signal.SIGSTOP)
        try:
            for engine, site in sites.items():
                wait_until(partial(has_ended, site.key(f"fenced-{engine}", 1)), 60)
                execution = spare.ended(f"fenced-{engine}")
                assert (execution["cluster"], execution["attempt"]) == (spare.cluster, 2), execution
        finally:
            for site in sites.values():
                site.agents[-1].send_signal(signal.SIGCONT)
        for engine, site in sites.items():
            name = f"fenced-{engine}"
            wait_until(partial(is_ready, site), 60)
            wait_until(partial(holds_nothing, site), 60)
            assert outcome(site, name) == ("SUCCEEDED", "SUCCEEDED", 0, 2)
            assert site.printed(name)["data"] == "attempt 2\n"
            attempts = site.get(name, "/explanation")["attempts"]
            ends = [(attempt["cluster"], attempt["phase"], attempt["reason"]["code"]) for attempt in attempts]
            assert ends == [(site.cluster, "FAILED", "CLUSTER_LOST"), (spare.cluster, "SUCCEEDED", "SUCCEEDED")], ends
