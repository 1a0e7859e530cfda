"""Clusters of which no agent has ever been seen: what goes there, who is told, and when it moves; on both databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.loops.waiting import WaitingLoop
from admin.services import agents
from admin.services.context import Context
from admin.services.redecisions import decide_waiting
from admin.services.state import StateSummary
from tests.conftest import MakeApp
from tests.support.agents import PlayedAgent, played_agent
from tests.support.backups import back_up, restore
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    asked,
    create,
    created,
    execution,
    explanation,
    get,
    ok,
    pool,
    put_cluster,
    put_pool,
    report,
    switch,
)

SLOW_ON = ("postgresql",)

WARNING = "unseen_cluster"


def listed(api: FlaskClient) -> dict[str, str]:
    """The clusters at which work waits though nobody runs them, with what `get warnings` says."""
    warnings = get(api, "warnings")["warnings"]
    return {warning["name"]: warning["message"] for warning in warnings if warning["code"] == WARNING}


def codes(answer: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in answer["warnings"]]


def clusters(api: FlaskClient, *names: str) -> list[str | None]:
    return [execution(api, name).get("cluster") for name in names]


def test_a_creation_that_goes_to_a_cluster_that_nobody_runs_is_warned_of_and_listed(
    api: FlaskClient, context: Context
) -> None:
    put_pool(api, "gpu", ["a"])
    assert listed(api) == {}
    answer = ok(create(api, "e", **pool("gpu")))
    assert codes(answer) == [WARNING]
    assert answer["warnings"][0]["message"] == (
        "No agent of cluster 'a' has ever been seen. The execution waits there until one is: start its agent, or add a "
        "cluster that has one and can run it to pool 'gpu'."
    )
    named = ok(create(api, "named", cluster="a"))
    assert named["warnings"][0]["message"].endswith(
        "start its agent, or end the execution, whose request names the cluster itself, and create it anew."
    )
    reason = execution(api, "e")["closure"]["reason"]
    assert (reason["code"], "no agent" in reason["message"]) == ("CLUSTER_EXPECTED", True)
    preview = ok(api.post(f"{API}/placements", json=asked("f", **pool("gpu"))))
    assert (codes(preview), preview["reason"]["code"]) == ([WARNING], "CLUSTER_EXPECTED")
    assert explanation(api, "e")["candidates"][0]["expected"]
    assert listed(api)["a"].endswith(
        "work waits there (executions: 2). Start its agent, or add a cluster that has one to the pools and labels that "
        "the executions were placed by, or end 1 of the executions, whose requests name the cluster itself, and create "
        "them anew."
    )
    alone = explanation(api, "named")["status"]["next"]
    assert alone == "The agent of a takes it once there is one. It is decided again when the fleet changes."
    state = StateSummary(context)()
    assert state is not None
    assert state.warnings[WARNING] == 1
    report(api, "a")
    assert listed(api) == {}
    assert codes(ok(create(api, "f", **pool("gpu")))) == []


def test_the_first_sync_of_a_cluster_decides_the_next_creation(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a", "b"])
    before = [ok(create(api, f"e{number}", **pool("gpu"))) for number in range(8)]
    assert {answer["execution"]["cluster"] for answer in before} == {"a", "b"}
    played_agent(api, context, "b")
    after = [ok(create(api, f"f{number}", **pool("gpu"))) for number in range(8)]
    assert {answer["execution"]["cluster"] for answer in after} == {"b"}
    assert [answer["warnings"] for answer in after] == [[]] * 8
    switch(api, "b", "cordon")
    waits = created(api, "waits", **pool("gpu"))
    assert ("cluster" in waits, waits["closure"]["reason"]["code"]) == (False, "CLUSTERS_CORDONED")


@pytest.mark.parametrize("strategy", ["weighted", "spill", "least-loaded"])
def test_what_waits_at_an_expected_cluster_moves_as_far_as_a_seen_one_has_room(
    api: FlaskClient, context: Context, strategy: str
) -> None:
    put_pool(api, "gpu", ["a"], strategy=strategy)
    names = ["e0", "e1", "e2", "e3"]
    for name in names:
        created(api, name, **pool("gpu"))
    put_pool(api, "gpu", ["a", "b"], strategy=strategy)
    assert decide_waiting(context) == []
    report(api, "b", capacity={"executions": 2}, free={"executions": 0})
    assert explanation(api, "e0")["status"]["next"] == (
        "The agent of a takes it once there is one. It is decided again when a cluster that has been seen has room for "
        "it, or the fleet changes."
    )
    loop = WaitingLoop(context, interval=0)
    report(api, "b", capacity={"executions": 2}, free={"executions": 2})
    loop()
    assert clusters(api, *names) == ["b", "b", "a", "a"]
    assert "(executions: 2)" in listed(api)["a"]
    assert execution(api, "e0")["closure"]["reason"]["code"] == "ASSIGNED"
    loop()
    assert clusters(api, *names) == ["b", "b", "a", "a"]
    ok(api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/e0", json={}))
    loop()
    assert clusters(api, "e1", "e2", "e3") == ["b", "b", "a"]
    switch(api, "b", "cordon")
    decide_waiting(context)
    # What waited at b waits for it, for b has been seen; what waits at a stays.
    assert clusters(api, "e1", "e2", "e3") == [None, None, "a"]


def test_room_that_a_report_of_load_alone_shows_is_found(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a"])
    created(api, "e", **pool("gpu"))
    agent = played_agent(api, context, "b")
    agent.sync(report={"capacity": {"executions": 1}, "free": {"executions": 0}})
    put_pool(api, "gpu", ["a", "b"])
    loop = WaitingLoop(context, interval=0)
    loop()
    assert clusters(api, "e") == ["a"]
    agent.sync(report={"capacity": {"executions": 1}, "free": {"executions": 1}})
    loop()
    assert clusters(api, "e") == ["b"]


def test_a_cluster_that_has_been_seen_stays_so_when_the_admin_starts_again(make_app: MakeApp) -> None:
    app = make_app()
    api, context = app.test_client(), app.extensions["rainbow"]
    put_pool(api, "gpu", ["a", "b"])
    played_agent(api, context, "b")
    api = make_app().test_client()
    assert {created(api, f"e{number}", **pool("gpu"))["cluster"] for number in range(8)} == {"b"}


def test_a_backup_of_before_the_first_sync_waits_for_the_agent_that_had_registered(
    make_app: MakeApp, database_url: str, tmp_path: Path
) -> None:
    app = make_app()
    api, context = app.test_client(), app.extensions["rainbow"]
    put_pool(api, "gpu", ["west", "east"], strategy="spill")
    east = played_agent(api, context, "east", instance="of-east")
    switch(api, "east", "disable")
    put_cluster(api, "west")
    west = PlayedAgent(client=api, cluster="west", token=agents.rotate(context, "west", 0).token, instance="of-west")
    created(api, "e", **pool("gpu"))
    assert clusters(api, "e") == ["west"]
    backup = back_up(database_url, tmp_path)

    assert west.start() == ["e"]
    context.close()
    context.database.engine.dispose()
    restore(database_url, backup)
    app = make_app()
    api = east.client = west.client = app.test_client()
    switch(api, "east", "enable")
    east.sync(seen=100)
    decide_waiting(app.extensions["rainbow"])  # for all that is stored, west has never been seen
    assert east.offered(seen=100) == {}
    assert west.sync(seen=100)["lost"] == []
    assert get(api, "clusters/west")["state"] == "ready"
    assert clusters(api, "e") == ["west"]


def test_room_is_not_promised_where_no_seen_cluster_could_run_the_job(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["a", "b"])
    report(api, "b", capacity={"cpu": 4, "gpu": 0}, free={"cpu": 4, "gpu": 0})
    job = {"command": ["x"], "resources": {"requests": {"gpu": "1"}, "limits": {"gpu": "1"}}}
    answer = ok(create(api, "e", job=job, **pool("gpu")))
    assert answer["execution"]["cluster"] == "a"
    assert "until one is: start its agent" in answer["warnings"][-1]["message"]
    assert explanation(api, "e")["status"]["next"] == (
        "The agent of a takes it once there is one. It is decided again when the fleet changes."
    )


def test_what_names_an_expected_cluster_itself_is_not_told_to_change_pools(api: FlaskClient) -> None:
    put_cluster(api, "a")
    created(api, "named", cluster="a")
    assert listed(api)["a"].endswith(
        "Start its agent, or end the executions, whose requests name the cluster itself, and create them anew."
    )
