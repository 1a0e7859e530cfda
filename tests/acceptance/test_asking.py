"""A pool that asks two real Slurms and this machine: who is idle wins, else who is free first; who is silent is out."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import requests

from tests.conftest import Scale
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import DOMAIN, FINISHED, PROJECT, Site, admin_of_agents, running_site
from tests.support.programs import clean_environment, run
from tests.support.slurm import SlurmCluster
from tests.support.waiting import wait_until

Document = dict[str, Any]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    with admin_of_agents(tmp_path_factory.mktemp("admin")) as admin:
        yield admin


@pytest.fixture(scope="module")
def sites(
    admin: RunningAdmin, slurm_clusters: tuple[SlurmCluster, SlurmCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Site]]:
    """The agents of all three clusters, which can bid by now."""
    directory = tmp_path_factory.mktemp("sites")
    settings: dict[str, Document] = {
        cluster.name: {
            "cluster": cluster.name,
            "engine": "slurm",
            "engine_options": {"configuration": str(cluster.configuration)},
            "environment": {"PATH": cluster.environment()["PATH"]},
        }
        for cluster in slurm_clusters
    }
    settings["here"] = {"cluster": "here"}
    with (
        running_site(admin, directory / "red", **settings["red"]) as red,
        running_site(admin, directory / "blue", **settings["blue"]) as blue,
        running_site(admin, directory / "here", **settings["here"]) as here,
    ):
        sites = {"red": red, "blue": blue, "here": here}
        for site in sites.values():
            site.start()
        members = [{"id": name} for name in sites]
        call(admin, "PUT", "pools/any", {"pool": {"members": members, "strategy": "ask"}})
        for site in sites.values():
            wait_until(partial(can_bid, admin, site))
        yield sites


def call(admin: RunningAdmin, method: str, path: str, body: Document | None = None) -> Document:
    answer = requests.request(method, f"{admin.url}/api/v1/{path}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    document: Document = answer.json()
    return document


def can_bid(admin: RunningAdmin, site: Site) -> bool:
    """Whether the agent of a cluster answers a question of a pool of its own."""
    if call(admin, "GET", f"clusters/{site.cluster}")["state"] != "ready":
        return False
    name = f"probe-{site.cluster}"
    call(admin, "PUT", f"pools/{name}", {"pool": {"members": [{"id": site.cluster}], "strategy": "ask"}})
    created = ask(admin, f"{name}-{os.urandom(4).hex()}", pool=name)
    explained = wait_until(lambda: decided(admin, created))
    site.cancel(created)
    return [bid["answer"] for bid in explained["rounds"][0]["bids"]] == ["yes"]


def ask(admin: RunningAdmin, name: str, *command: str, pool: str = "any", **resources: Any) -> str:
    """Create an execution in a pool that asks; its answer does not wait for any bid."""
    job = {"command": list(command or ("sleep", "300")), "resources": {"requests": {"cpu": "1"}, **resources}}
    spec = {"cluster_assignment": {"cluster_pool_name": pool}, "job": job}
    body = {"project": PROJECT, "domain": DOMAIN, "name": name, "spec": spec}
    created = call(admin, "POST", "executions", body)["execution"]
    assert created["closure"]["reason"]["code"] == "ASKING"
    return name


def explain(admin: RunningAdmin, name: str) -> Document:
    return call(admin, "GET", f"executions/{PROJECT}/{DOMAIN}/{name}/explanation")


def decided(admin: RunningAdmin, name: str) -> Document:
    """The explanation of an execution that has a cluster; empty before."""
    explained = explain(admin, name)
    return explained if explained.get("cluster") else {}


def asked(admin: RunningAdmin, name: str) -> Document:
    """The decision of an execution of five minutes that is created now."""
    ask(admin, name, duration="5m")
    return wait_until(lambda: decided(admin, name))


def answers(explained: Document) -> dict[str, str]:
    return {bid["cluster"]: bid["answer"] for bid in explained["rounds"][-1]["bids"]}


def is_over(site: Site, name: str) -> bool:
    return site.phase(name) in FINISHED


def fill(site: Site, duration: str) -> str:
    """Have a cluster run something that takes all of it for so long at most."""
    name = f"fill-{site.cluster}-{os.urandom(4).hex()}"
    site.create(name, "sleep", "300", resources={"exclusive": True, "duration": duration})
    site.running(name)
    return name


@pytest.mark.slow
def test_the_idle_cluster_wins_then_the_first_that_is_free_and_a_silent_one_is_out(
    admin: RunningAdmin, sites: dict[str, Site]
) -> None:
    full = {name: fill(sites[name], duration) for name, duration in (("red", "10m"), ("here", "60m"))}
    first = asked(admin, "idle")
    assert (first["cluster"], answers(first)) == ("blue", {"red": "yes", "blue": "yes", "here": "yes"})
    sites["blue"].cancel("idle")
    full["blue"] = fill(sites["blue"], "30m")
    second = asked(admin, "soonest")
    starts = {bid["cluster"]: bid["start_seconds"] for bid in second["rounds"][0]["bids"]}
    assert (second["cluster"], min(starts, key=lambda name: starts[name])) == ("red", "red"), starts
    assert starts["red"] < starts["blue"] < starts["here"]
    sites["red"].cancel("soonest")
    agent = sites["red"].agents[-1]
    agent.send_signal(signal.SIGSTOP)
    try:
        third = asked(admin, "deadline")
    finally:
        agent.send_signal(signal.SIGCONT)
    assert (third["cluster"], answers(third)["red"]) == ("blue", "silent")
    text = run(
        *("rainbowctl", "explain", "execution", "deadline", "-p", PROJECT, "-d", DOMAIN),
        env=clean_environment(RAINBOW_ENDPOINT=admin.url),
    ).stdout.decode()
    assert "did not answer within 3 s" in text
    assert "Round 1 of bids" in text
    assert max(map(len, text.splitlines())) <= 100
    sites["blue"].cancel("deadline")
    for name, filling in full.items():
        sites[name].cancel(filling)
        sites[name].ended(filling)


@pytest.mark.slow
def test_many_that_are_asked_at_once_all_finish_and_none_is_asked_twice_without_need(
    admin: RunningAdmin, sites: dict[str, Site], scale: Scale
) -> None:
    number = scale(12, full=500)
    names = [f"many-{index}" for index in range(number)]
    members = [{"id": name} for name in sites]
    # So long that agents answer all in time on a busy machine: each shape of job is a question to Slurm.
    call(admin, "PUT", "pools/many", {"pool": {"members": members, "strategy": "ask", "ask_deadline": "60s"}})

    def ask_one(index: int) -> str:
        shape = {
            "duration": f"{1 + index // 6 % 6}m",
            "requests": {"cpu": f"{1 + index % 2}", "memory": f"{64 * (1 + index % 3)}Mi"},
        }
        return ask(admin, names[index], "true", pool="many", **shape)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask_one, range(number)))
    here = sites["here"]
    for name in names:
        wait_until(partial(is_over, here, name), 600)
    ended = {name: here.get(name) for name in names}
    assert Counter(execution["closure"]["phase"] for execution in ended.values()) == {"SUCCEEDED": number}
    assert {execution["attempt"] for execution in ended.values()} == {1}
    for name in names:
        rounds = explain(admin, name)["rounds"]
        assert [told["outcome"] for told in rounds] == ["chosen"], rounds
        assert {bid["cluster"]: bid["answer"] for bid in rounds[0]["bids"]} == dict.fromkeys(sites, "yes"), rounds
