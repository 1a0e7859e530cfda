"""Where new work would go after a change, and when it would start, on both databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.services import agents
from admin.services.context import Context
from admin.services.evictions import judge_health
from tests.conftest import MakeApp
from tests.support.agents import Clock, PlayedAgent, WatchedClock, played_agent
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    asked,
    created,
    delete_attribute,
    explanation,
    get,
    nothing_stored,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    refused,
    register_plan,
    register_workflow,
    switch,
)

SLOW_ON = ("postgresql",)

POOL, LABEL = "cluster_assignment", "execution_cluster_label"
HERE = {"project": PROJECT, "domain": DOMAIN}
SLOTS = {"capacity": {"cpu": "64", "executions": 3}, "free": {"cpu": "64", "executions": 3}}


def played(api: FlaskClient, context: Context, *names: str) -> dict[str, PlayedAgent]:
    """Agents of new clusters that report three slots each."""
    playing = {name: played_agent(api, context, name, instance=f"of-{name}") for name in names}
    for agent in playing.values():
        agent.sync(report=SLOTS)
    return playing


def tried(api: FlaskClient, *deleted: tuple[str, str]) -> Any:
    """The dry run of deleting several definitions as one change."""
    changes = [{"delete": True, f"{noun}_definition": {"name": name}} for noun, name in deleted]
    return ok(api.post(f"{API}/attribute_changes?dry_run=true&force=true", json={"changes": changes}))


def placed(api: FlaskClient, name: str, changes: list[Any] | None = None, **spec: Any) -> Any:
    body = asked(name, **spec)
    return ok(api.post(f"{API}/placements", json={**body, "changes": changes} if changes else body))


def test_clusters_that_are_deleted_together_are_missed_together(api: FlaskClient, context: Context) -> None:
    played(api, context, "aspen", "birch", "cedar")
    put_pool(api, "main", ["aspen", "birch"])
    put_label(api, "spare", ["cedar", "birch"])
    put_attribute(api, "project-domain", POOL, {"cluster_pool_name": "main"})
    put_attribute(api, "project-domain", LABEL, {"value": "spare"}, domain="staging")
    with nothing_stored(context):
        for name in ("aspen", "birch", "cedar"):
            assert "new_executions" not in tried(api, ("cluster", name))
        both = tried(api, ("cluster", "birch"), ("cluster", "aspen"))
        other = tried(api, ("cluster", "cedar"), ("cluster", "birch"))
        switched = {"clusters": ["birch", "aspen"], "switch": "disable"}
        disabled = ok(api.post(f"{API}/cluster_switches?dry_run=true", json=switched))
    new = both["new_executions"]
    assert (new["waiting"], new["refused"], new["complete"]) == (1, 0, True)
    assert new["waiting"] == disabled["new_executions"]["waiting"]
    assert (
        new["reasons"][0]["message"] == "No cluster of pool 'main' is able: 'aspen' was deleted, 'birch' was deleted."
    )
    assert {reach["name"]: reach["waiting"] for reach in both["reach"]} == {"aspen": 1, "birch": 1}
    assert other["new_executions"]["waiting"] == 1
    assert other["new_executions"]["reasons"][0]["domain"] == "staging"
    ok(
        api.post(
            f"{API}/attribute_changes?force=true",
            json={"changes": [{"delete": True, "cluster_definition": {"name": name}} for name in ("birch", "aspen")]},
        )
    )
    assert placed(api, "e").get("cluster") is None


def test_pools_that_are_deleted_together_are_missed_at_each_scope_that_names_one(
    api: FlaskClient, context: Context
) -> None:
    played(api, context, "aspen")
    for name, domain in (("one", DOMAIN), ("two", "staging")):
        put_pool(api, name, ["aspen"])
        put_attribute(api, "project-domain", POOL, {"cluster_pool_name": name}, domain=domain)
    answer = tried(api, ("pool", "one"), ("pool", "two"))
    assert (answer["new_executions"]["refused"], answer["new_executions"]["waiting"]) == (2, 0)
    alone = ok(api.delete(f"{API}/pools/one?force=true&dry_run=true"))
    assert (alone["new_executions"]["refused"], alone["reach"][0]["refused"]) == (1, 1)


def test_a_dry_run_says_that_nothing_is_left_that_decides(api: FlaskClient, context: Context) -> None:
    played(api, context, "aspen", "birch")
    switch(api, "birch", "disable")
    put_pool(api, "main", ["aspen"])
    put_attribute(api, "domain", POOL, {"cluster_pool_name": "main"}, domain="staging")
    path = f"{API}/domain_attributes/staging?resource_type=CLUSTER_ASSIGNMENT&dry_run=true"
    with nothing_stored(context):
        [route] = ok(api.delete(path))["routes"]
    assert route == {
        "domain": "staging",
        "noun": "any",
        "message": "New executions at domain staging would go to any enabled cluster ('aspen', 'local'), for no pool "
        "or label is left that decides.",
    }


@pytest.mark.parametrize("way", ["put", "plan"])
def test_a_dry_run_says_that_new_work_would_wait_for_an_agent_that_was_never_seen(
    api: FlaskClient, context: Context, way: str
) -> None:
    played(api, context, "aspen")
    put_cluster(api, "dogwood")
    put_pool(api, "main", ["aspen"])
    put_pool(api, "gpu", ["dogwood"])
    put_attribute(api, "project-domain", POOL, {"cluster_pool_name": "main"})
    attributes = {**HERE, "matching_attributes": {POOL: {"cluster_pool_name": "gpu"}}}
    with nothing_stored(context):
        if way == "put":
            path = f"{API}/project_domain_attributes/{PROJECT}/{DOMAIN}?dry_run=true"
            answer = ok(api.put(path, json={"attributes": attributes}))
        else:
            change = {"resource_type": "CLUSTER_ASSIGNMENT", **HERE, "payload": {"cluster_pool_name": "gpu"}}
            changes = {"changes": [change]}
            answer = ok(api.post(f"{API}/attribute_changes?dry_run=true", json=changes))
    new = answer["new_executions"]
    assert (new["waiting"], new["refused"]) == (1, 0)
    why = "By pool 'gpu' executions wait at 'dogwood': no agent of it has ever been seen."
    assert new["reasons"][0]["message"] == why
    put_attribute(api, "project-domain", POOL, {"cluster_pool_name": "gpu"})
    put_pool(api, "other", ["dogwood"])
    path = f"{API}/project_domain_attributes/{PROJECT}/{DOMAIN}?dry_run=true"
    elsewhere = {**HERE, "matching_attributes": {POOL: {"cluster_pool_name": "other"}}}
    assert "new_executions" not in ok(api.put(path, json={"attributes": elsewhere}))
    body = {"clusters": ["dogwood"], "switch": "disable"}
    assert ok(api.post(f"{API}/cluster_switches?dry_run=true", json=body))["new_executions"]["waiting"] == 1


def test_what_goes_to_a_full_cluster_would_wait_there_in_line(api: FlaskClient, context: Context) -> None:
    birch = played(api, context, "birch")["birch"]
    put_pool(api, "main", ["birch"])
    job = {"command": ["true"], "resources": {"duration": "600s"}}
    assert "wait" not in placed(api, "new", **pool("main"))
    for number in range(5):
        created(api, f"e{number}", **pool("main"), job=job)
    birch.start(3)
    birch.sync(report={**SLOTS, "free": {"cpu": "58", "executions": 0}})
    with nothing_stored(context):
        answer = placed(api, "new", **pool("main"))
    assert answer["cluster"] == "birch"
    wait = answer["wait"]
    assert wait["obstacle"] == "birch is full (3 of 3 executions taken)"
    start = wait["start"]
    assert (start["position"], start["running"], start["waiting"]) == (3, 3, 2)
    created(api, "new", **pool("main"))
    status = explanation(api, "new")["status"]
    assert {**status["start"], "message": "", "latest_at": ""} == {**start, "message": "", "latest_at": ""}
    assert "third in line at birch: birch is full (3 of 3 executions taken); " in status["message"]


def test_what_waits_before_it_counts_before_its_agent_has_it(api: FlaskClient, context: Context) -> None:
    played(api, context, "birch")
    put_pool(api, "main", ["birch"])
    for number in range(3):
        created(api, f"e{number}", **pool("main"))
    wait = placed(api, "new", **pool("main"))["wait"]
    assert (wait["obstacle"], wait["start"]["position"]) == ("birch is full (3 of 3 executions taken)", 4)


def test_a_placement_says_that_the_report_of_an_agent_outranks_a_given_capacity(
    api: FlaskClient, context: Context
) -> None:
    played(api, context, "birch")["birch"].sync(report={"capacity": {"cpu": "1"}})
    put_pool(api, "main", ["birch"])
    changes = [{"cluster_definition": {"name": "birch", "capacity": {"cpu": "64", "gpu": "1"}}}]
    small = {"command": ["true"], "resources": {"requests": {"cpu": "1"}}}
    [warning] = placed(api, "e", changes, **pool("main"), job=small)["warnings"]
    assert warning["code"] == "reported_capacity"
    assert warning["message"] == "Cluster 'birch' has 1 cpu, not 64: the report of its agent outranks its definition."
    job = {"command": ["true"], "resources": {"requests": {"cpu": "2"}}}
    body = {**asked("e", **pool("main"), job=job), "changes": changes}
    message = refused(api.post(f"{API}/placements", json=body), 400, "no_cluster_large_enough")["message"]
    assert "'birch' is too small: 1 cpu in all as its agent reports, not 64 as defined, 2 wanted" in message


def test_a_dry_run_names_the_scopes_below_whose_values_change(api: FlaskClient, context: Context) -> None:
    for name in ("fit", "train"):
        ok(register_workflow(api, name))
    put_attribute(api, "project", LABEL, {"value": "local"})
    put_attribute(api, "workflow", LABEL, {"value": "local"}, workflow="fit")
    path = f"{API}/project_attributes/{PROJECT}?resource_type=EXECUTION_CLUSTER_LABEL&dry_run=true"
    with nothing_stored(context):
        below = ok(api.delete(path))["changed_below"]
    domains = len(get(api, "domains")["domains"])
    assert (below["count"], below["complete"]) == (domains + 1, True)
    assert {"project": PROJECT, "domain": DOMAIN, "workflow": "train"} in below["scopes"]
    assert {"project": PROJECT, "domain": DOMAIN, "workflow": "fit"} not in below["scopes"]
    attributes = {"project": PROJECT, "matching_attributes": {LABEL: {"value": "other"}}}
    written = ok(api.put(f"{API}/project_attributes/{PROJECT}?dry_run=true", json={"attributes": attributes}))
    assert written["changed_below"] == below
    delete_attribute(api, "project", "EXECUTION_CLUSTER_LABEL")
    path = f"{API}/workflow_attributes/{PROJECT}/{DOMAIN}/fit?resource_type=EXECUTION_CLUSTER_LABEL&dry_run=true"
    assert "changed_below" not in ok(api.delete(path))


def test_what_nothing_uses_is_listed_and_is_what_can_be_deleted_without_force(
    api: FlaskClient, context: Context
) -> None:
    played(api, context, "aspen", "birch", "cedar", "dogwood")
    for name in ("by-setting", "by-plan", "by-run", "by-none"):
        put_pool(api, name, ["aspen"])
        put_label(api, name, ["aspen"])
    put_attribute(api, "domain", POOL, {"cluster_pool_name": "by-setting"})
    put_attribute(api, "domain", LABEL, {"value": "by-setting"})
    put_attribute(api, "project", LABEL, {"value": "birch"})
    ok(register_workflow(api, "wf"))
    ok(register_plan(api, "one", "wf", **pool("by-plan")))
    ok(register_plan(api, "two", "wf", execution_cluster_label={"value": "by-plan"}))
    created(api, "e1", **pool("by-run"))
    created(api, "e2", execution_cluster_label={"value": "by-run"})
    created(api, "e3", cluster="cedar")
    for noun, unused in (("pool", ["by-none"]), ("label", ["by-none"]), ("cluster", ["dogwood"])):
        nouns = f"{noun}s"
        assert [row["name"] for row in get(api, f"{nouns}?unused=true")[nouns]] == unused
        managed = [row["name"] for row in get(api, nouns)[nouns] if row["source"] == "managed"]
        answers = {name: api.delete(f"{API}/{nouns}/{name}?dry_run=true").status_code for name in managed}
        assert [name for name, status in answers.items() if status == 200] == unused
    refused(api.get(f"{API}/pools?unused=maybe"), 400, "invalid_request", "unused")


def registered_again(api: FlaskClient, context: Context, agent: PlayedAgent) -> None:
    """A cluster is deleted and defined again while its agent goes on, which then has another token."""
    ok(api.delete(f"{API}/clusters/{agent.cluster}?force=true"))
    assert agent.post().status_code == 401
    put_cluster(api, agent.cluster)
    agent.token = agents.rotate(context, agent.cluster, 0).token


def test_what_a_cluster_runs_is_not_free_before_its_agent_reports_again(api: FlaskClient, context: Context) -> None:
    birch = played(api, context, "birch")["birch"]
    put_pool(api, "main", ["birch", "later"], strategy="spill")
    put_cluster(api, "birch", capacity={"cpu": "64", "executions": 1})
    created(api, "long", cluster="birch")
    birch.start()
    registered_again(api, context, birch)
    put_cluster(api, "birch", capacity={"cpu": "64", "executions": 1})
    birch.sync()
    cluster = get(api, "clusters/birch")
    assert (cluster["running"], cluster["free"]["executions"], cluster["assigned"]["executions"]) == (1, 0, 1)
    assert "reported_at" not in cluster
    assert "is full (1 of 1 executions taken)" in cluster["summary"]
    assert placed(api, "e", **pool("main"))["reason"]["code"] != "ASSIGNED"
    report_again = {"capacity": {"executions": 2}, "free": {"executions": 1}}
    birch.sync(report=report_again)
    cluster = get(api, "clusters/birch")
    assert (cluster["free"]["executions"], "assigned" in cluster) == (1, False)


def test_the_first_report_counts_although_the_registration_said_the_same(make_app: MakeApp, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sesame")
    app = make_app(clusters={"registrationSecretFile": str(secret)})
    api = app.test_client()
    body = {"secret": "sesame", "description": SLOTS}
    token = ok(api.post(f"{API}/clusters/birch/register", json=body))["token"]
    agent = PlayedAgent(client=api, cluster="birch", token=token, instance="b")
    agent.sync()
    assert "reported_at" not in get(api, "clusters/birch")
    agent.sync(report=SLOTS)
    cluster = get(api, "clusters/birch")
    assert cluster["reported_free"]["executions"] == 3
    agent.sync(report=SLOTS)
    assert get(api, "clusters/birch")["reported_at"] == cluster["reported_at"]
    ok(api.delete(f"{API}/clusters/birch/tokens/{get(api, 'clusters/birch/tokens')['tokens'][0]['prefix']}"))
    ok(api.post(f"{API}/clusters/birch/register", json={**body, "description": {"capacity": SLOTS["capacity"]}}))
    assert get(api, "clusters/birch")["reported_free"] == cluster["reported_free"]


def test_a_cluster_whose_agent_was_seen_before_it_was_deleted_says_so(
    api: FlaskClient, app: Any, context: Context
) -> None:
    clock: Clock = WatchedClock(app)
    cedar = played(api, context, "cedar")["cedar"]
    put_pool(api, "old", ["cedar"])
    heard = get(api, "clusters/cedar")["last_sync_at"]
    registered_again(api, context, cedar)
    for in_pools in (True, False):
        cluster = get(api, "clusters/cedar")
        assert cluster["state"] == "expected"
        assert cluster["summary"].startswith(
            "Cluster 'cedar' is expected: no agent of it has been seen since it was deleted."
        )
        assert cluster["last_sync_at"] == heard
        answer = placed(api, "e", cluster="cedar")
        assert answer["wait"]["obstacle"] == "cedar is expected: no agent of it has been seen since it was deleted"
        assert "No agent of cluster 'cedar' has been seen since it was deleted." in answer["warnings"][0]["message"]
        clock.advance(1800)
        judge_health(context)
        if in_pools:
            ok(api.delete(f"{API}/pools/old"))
            ok(api.delete(f"{API}/clusters/cedar"))
            put_cluster(api, "cedar")
    put_cluster(api, "new")
    assert "no agent of it has ever been seen" in get(api, "clusters/new")["summary"]


def test_the_lease_of_what_runs_at_a_draining_cluster_says_so(api: FlaskClient, context: Context) -> None:
    birch = played(api, context, "birch")["birch"]
    created(api, "e", cluster="birch")
    birch.start()
    assert "draining" not in explanation(api, "e")["lease"]
    switch(api, "birch", "drain")
    assert explanation(api, "e")["lease"]["draining"] is True
