"""Clusters, pools and labels over the API: definitions, events, reports, and who uses what; on both databases."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.redecisions import decide_waiting
from admin.store import active_plans
from tests.conftest import MakeApp
from tests.support.agents import Clock, played_agent
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    create,
    created,
    execution,
    get,
    label,
    nothing_stored,
    ok,
    pages,
    pool,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    refused,
    register_plan,
    register_workflow,
    report,
    switch,
)
from tests.support.small_fleets import group

SLOW_ON = ("postgresql",)

#: The sample of the pools proposal.
SECTIONS: dict[str, Any] = {
    "clusters": {
        "poolNameClusterMap": {
            "pool_1": [{"id": "flyte-1-k8s", "weight": 1}, {"id": "flyte-2-k8s", "weight": 2}],
            "pool_2": [{"id": "flyte-3-k8s", "weight": 6}, {"id": "flyte-4-k8s", "weight": 99}],
        },
        "labelClusterMap": {"production": [{"id": "flyte-1-k8s", "weight": 1}]},
        "clusterConfigs": [
            {
                "name": f"flyte-{number}-k8s",
                "endpoint": f"127.0.0.{number}",
                "enabled": True,
                "auth": {"type": "file_path", "tokenPath": f"/etc/token{number}", "certPath": "/etc/cert"},
            }
            for number in (1, 2)
        ],
    }
}


def head(api: FlaskClient) -> int:
    return int(get(api, "revisions?limit=1")["head"])


def test_the_sample_of_the_pools_proposal_is_shown_with_its_expected_clusters_and_warnings(make_app: MakeApp) -> None:
    api = make_app(**SECTIONS).test_client()
    clusters = {cluster["name"]: cluster for cluster in get(api, "clusters")["clusters"]}
    assert {name: (cluster["source"], cluster["state"], cluster["enabled"]) for name, cluster in clusters.items()} == {
        "flyte-1-k8s": ("configuration", "expected", True),
        "flyte-2-k8s": ("configuration", "expected", True),
        "flyte-3-k8s": ("expected", "expected", True),
        "flyte-4-k8s": ("expected", "expected", True),
    }
    assert clusters["flyte-1-k8s"]["auth"] == {
        "type": "file_path",
        "token_path": "/etc/token1",
        "cert_path": "/etc/cert",
    }
    assert (clusters["flyte-1-k8s"]["pools"], clusters["flyte-1-k8s"]["labels"]) == (["pool_1"], ["production"])
    assert get(api, "pools/pool_2")["members"] == [
        {"id": "flyte-3-k8s", "weight": 6, "expected": True},
        {"id": "flyte-4-k8s", "weight": 99, "expected": True},
    ]
    warnings = [
        (warning["code"], warning["resource_type"], warning["name"]) for warning in get(api, "warnings")["warnings"]
    ]
    assert warnings == [("expected_cluster", "POOL", "pool_2")] * 2
    assert created(api, "e0", **pool("pool_2"))["cluster"] in ("flyte-3-k8s", "flyte-4-k8s")


@pytest.mark.parametrize("noun", ["pool", "label", "cluster"])
def test_a_definition_is_created_read_listed_changed_and_deleted_as_revisions(shared: FlaskClient, noun: str) -> None:
    name = f"life-{noun}"
    path = f"{API}/{noun}s/{name}"
    body: dict[str, Any] = (
        {"description": "first"} if noun == "cluster" else group(["flyte-1-k8s"], description="first")
    )
    refused(shared.get(path), 404, f"{noun}_not_found", "name")
    start = head(shared)
    made = ok(shared.post(f"{API}/{noun}s", json={noun: {"name": name, **body}, "message": "why", "claimedBy": "ann"}))
    assert (made["changed"], made["revision"], made["version"]) == (True, start + 1, start + 1)
    assert (made[noun]["name"], made[noun]["source"], made[noun]["version"]) == (name, "managed", start + 1)
    refused(shared.post(f"{API}/{noun}s", json={noun: {"name": name, **body}}), 409, "already_exists", f"{noun}.name")
    again = ok(shared.put(path, json={noun: body}))
    assert (again["changed"], again["revision"], head(shared)) == (False, start + 1, start + 1)
    changed = ok(
        shared.put(path, json={noun: {**body, "description": "second"}}, headers={"If-Match": f'"{start + 1}"'})
    )
    assert (changed["changed"], changed["version"]) == (True, start + 2)
    refused(shared.put(path, json={noun: body}, headers={"If-Match": f'"{start + 1}"'}), 409, "version_conflict")
    refused(shared.put(path, json={noun: body}, headers={"If-None-Match": "*"}), 409, "version_conflict")
    assert name in [definition["name"] for definition in get(shared, f"{noun}s?limit=1000")[f"{noun}s"]]
    shown = get(shared, f"revisions/{start + 1}")
    assert (shown["message"], shown["claimed_by"]) == ("why", "ann")
    [row] = shown["changes"]
    assert (row["resource_type"], row["name"], row["level"]) == (noun.upper(), name, "platform")
    assert row["after"]["description"] == "first"
    [moved] = get(shared, f"revision_diff?from={start}&to={start + 2}")["rows"]
    assert (moved["action"], moved["name"], moved["after"]["description"]) == ("create", name, "second")
    assert ok(shared.delete(f"{path}?dry_run=true"))["dry_run"] is True
    gone = ok(shared.delete(path))
    assert (gone["changed"], noun in gone, gone["revision"]) == (True, False, start + 3)
    assert ok(shared.delete(path))["changed"] is False
    assert head(shared) == start + 3
    refused(shared.get(path), 404, f"{noun}_not_found")
    back = ok(shared.post(f"{API}/rollbacks", json={"revision": start + 3}))
    assert back["changed"] is True
    assert get(shared, f"{noun}s/{name}")["description"] == "second"


@pytest.mark.parametrize("noun", ["pool", "label", "cluster"])
def test_what_configuration_declares_cannot_be_changed_or_deleted(
    shared: FlaskClient, shared_context: Context, noun: str
) -> None:
    name = {"pool": "pool_1", "label": "production", "cluster": "flyte-1-k8s"}[noun]
    body: dict[str, Any] = {} if noun == "cluster" else group(["flyte-2-k8s"])
    before = get(shared, f"{noun}s/{name}")
    change = {f"{noun}_definition": {"name": name, **body}}
    with nothing_stored(shared_context):
        for answer in (
            shared.put(f"{API}/{noun}s/{name}", json={noun: body}),
            shared.post(f"{API}/{noun}s", json={noun: {"name": name, **body}}),
            shared.delete(f"{API}/{noun}s/{name}"),
            shared.delete(f"{API}/{noun}s/{name}?force=true"),
            shared.post(f"{API}/attribute_changes", json={"changes": [change]}),
        ):
            refused(answer, 409, "declared_in_configuration", "name")
    assert get(shared, f"{noun}s/{name}") == before


BAD_GROUPS: list[tuple[Any, str]] = [
    (group({"a": -1}), "members.0.weight"),
    (group({"a": 1e13}), "members.0.weight"),
    ({"members": [{"id": "a", "weight": "1"}]}, "members.0.weight"),
    (group({"a": 0, "b": 0}), "members"),
    ({"members": [{"id": "a"}, {"id": "a"}]}, "members"),
    ({"members": []}, "members"),
    ({}, "members"),
    ({"members": [{"id": "a"}], "wieghts": 1}, "wieghts"),
]


@pytest.mark.parametrize("noun", ["pool", "label"])
@pytest.mark.parametrize(
    ("body", "field"), BAD_GROUPS, ids=[f"{field}-{index}" for index, (_, field) in enumerate(BAD_GROUPS)]
)
def test_a_bad_pool_or_label_is_refused_by_field_and_nothing_is_stored(
    shared: FlaskClient, shared_context: Context, noun: str, body: Any, field: str
) -> None:
    change = {"changes": [{f"{noun}_definition": {"name": "bad", **body}}]}
    with nothing_stored(shared_context):
        refused(shared.put(f"{API}/{noun}s/bad", json={noun: body}), 400, "invalid_request", field)
        refused(shared.post(f"{API}/{noun}s", json={noun: {"name": "bad", **body}}), 400, "invalid_request", field)
        answer = refused(shared.post(f"{API}/attribute_changes", json=change), 400, "invalid_request")
        assert f"{noun}_definition.{field}" in [detail["field"] for detail in answer["details"]]
        assert answer["details"][0]["index"] == 0


@pytest.mark.parametrize("noun", ["pool", "label"])
def test_every_problem_of_a_pool_or_label_is_named_at_once(shared: FlaskClient, noun: str) -> None:
    body = {"members": [{"id": "a"}, {"id": "a"}, {"id": "b", "weight": -1}], "wieghts": 1}
    answer = refused(shared.put(f"{API}/{noun}s/bad", json={noun: body}), 400, "invalid_request")
    assert [detail["field"] for detail in answer["details"]] == ["wieghts", "members.2.weight", "members"]
    assert "the cluster 'a' is listed twice" in answer["message"]


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_no_finite_number_is_refused(
    shared: FlaskClient, shared_context: Context, weight: float
) -> None:
    with nothing_stored(shared_context):
        response = shared.put(f"{API}/pools/bad", json={"pool": group({"a": weight, "b": 1})})
        assert (response.status_code, response.get_json()["error"]) == (400, "invalid_request")


def test_a_bad_cluster_or_report_is_refused_by_field_and_nothing_is_stored(
    shared: FlaskClient, shared_context: Context
) -> None:
    with nothing_stored(shared_context):
        for payload, field in (
            ({"capacity": {"cpu": "two"}}, "capacity.cpu"),
            ({"capacity": {"memory": "1GB"}}, "capacity.memory"),
            ({"cost": -1}, "cost"),
            ({"enabled": 1}, "enabled"),
            ({"color": "red"}, "color"),
        ):
            refused(shared.put(f"{API}/clusters/bad", json={"cluster": payload}), 400, "invalid_request", field)
        for state, field in (
            ({"free": {"cpu": "-1"}}, "free.cpu"),
            ({"capacity": {"executions": 1.5}}, "capacity.executions"),
            ({"eta": "soon"}, "eta"),
            ({"plugins": "spark"}, "plugins"),
            ({"load": 1}, "load"),
        ):
            refused(shared.put(f"{API}/clusters/flyte-1-k8s/state", json=state), 400, "invalid_request", field)
        refused(shared.put(f"{API}/clusters/flyte-9-k8s/state", json={}), 404, "cluster_not_found", "name")
        refused(shared.post(f"{API}/clusters/flyte-9-k8s/cordon"), 404, "cluster_not_found", "name")
        refused(shared.put(f"{API}/pools/a", json={"pool": {"name": "b", **group(["x"])}}), 400, "invalid_request")
        refused(shared.post(f"{API}/pools", json={"pool": group(["x"])}), 400, "invalid_request", "pool.name")
        refused(shared.get(f"{API}/clusters?pool=pool_3"), 404, "pool_not_found", "name")


def test_switching_a_cluster_is_an_event_and_no_revision(shared: FlaskClient) -> None:
    put_cluster(shared, "switched")
    start = head(shared)
    for word, field, value in (
        ("cordon", "cordoned", True),
        ("uncordon", "cordoned", False),
        ("disable", "enabled", False),
        ("enable", "enabled", True),
    ):
        answer = switch(shared, "switched", word, reason=f"to {word}", claimed_by="ann")
        assert (answer["changed"], answer["cluster"][field]) == (True, value)
        assert switch(shared, "switched", word)["changed"] is False
    report(shared, "switched", engine="slurm")
    assert head(shared) == start
    events = get(shared, "clusters/switched/events")["events"]
    assert [event["type"] for event in events] == ["REPORTED", "ENABLED", "DISABLED", "UNCORDONED", "CORDONED"]
    assert (events[-1]["reason"], events[-1]["claimed_by"]) == ("to cordon", "ann")
    first = get(shared, "clusters/switched/events?limit=2")
    rest = get(shared, f"clusters/switched/events?limit=9&token={first['token']}")
    assert first["events"] + rest["events"] == events
    assert "token" not in rest


def test_clusters_of_configuration_and_expected_ones_can_be_switched_too(shared: FlaskClient) -> None:
    for name in ("flyte-2-k8s", "flyte-3-k8s"):
        assert switch(shared, name, "cordon", reason="disks")["cluster"]["cordon_reason"] == "disks"
        assert switch(shared, name, "cordon", reason="disks")["changed"] is False
        assert switch(shared, name, "cordon", reason="no, fans")["cluster"]["cordon_reason"] == "no, fans"
        assert "cordon_reason" not in switch(shared, name, "uncordon")["cluster"]


def test_a_report_counts_for_more_than_the_definition_and_free_is_less_what_waits(shared: FlaskClient) -> None:
    put_cluster(shared, "reporter", capacity={"cpu": "4", "gpu": "1"}, properties={"zone": "a", "rack": "1"})
    assert get(shared, "clusters/reporter")["state"] == "expected"
    cluster = report(
        shared,
        "reporter",
        capacity={"cpu": "16"},
        free={"cpu": "8", "executions": 5},
        eta="30s",
        plugins=["spark"],
        engine="slurm",
        engine_version="23.11",
        properties={"zone": "b"},
    )
    assert (cluster["state"], cluster["capacity"], cluster["free"]) == (
        "ready",
        {"cpu": "16", "gpu": "1"},
        {"cpu": "8", "gpu": "1", "executions": 5},
    )
    assert (cluster["eta"], cluster["plugins"], cluster["engine"], cluster["engine_version"]) == (
        "30s",
        ["spark"],
        "slurm",
        "23.11",
    )
    assert cluster["properties"] == {"zone": "b", "rack": "1"}
    created(shared, "reported", cluster="reporter", job={"command": ["x"], "resources": {"requests": {"cpu": "1500m"}}})
    cluster = get(shared, "clusters/reporter")
    assert (cluster["waiting"], cluster["running"], cluster["free"]) == (
        1,
        0,
        {"cpu": "6500m", "gpu": "1", "executions": 4},
    )


def test_a_cluster_may_be_in_several_pools_and_the_list_is_filtered_and_paged(shared: FlaskClient) -> None:
    put_pool(shared, "several-1", ["s1", "s2"])
    put_pool(shared, "several-2", ["s2", "s3"])
    put_label(shared, "several", ["s1", "s3"])
    assert get(shared, "clusters/s2")["pools"] == ["several-1", "several-2"]
    assert [cluster["name"] for cluster in get(shared, "clusters?pool=several-2")["clusters"]] == ["s2", "s3"]
    assert [cluster["name"] for cluster in get(shared, "clusters?label=several&pool=several-1")["clusters"]] == ["s1"]
    assert [cluster["name"] for cluster in get(shared, "clusters?label=s2")["clusters"]] == ["s2"]
    names = [cluster["name"] for clusters in pages(shared, "clusters?limit=2", "clusters") for cluster in clusters]
    assert names == sorted(set(names))
    assert names == [cluster["name"] for cluster in get(shared, "clusters?limit=1000")["clusters"]]


def test_clusters_are_searched_filtered_by_state_and_counted(shared: FlaskClient) -> None:
    for name in ("states-ash", "states-elm", "states-fir"):
        put_cluster(shared, name)
    for name in ("states-ash", "states-elm"):
        report(shared, name, capacity={"cpu": "4"})
    switch(shared, "states-elm", "cordon")

    def names(filters: str) -> list[str]:
        answer = get(shared, f"clusters?search=STATES-{filters}")
        assert answer["counts"] == {
            "clusters": 3,
            "takes_work": 1,
            "states": {"ready": 2, "cordoned": 1, "expected": 1},
        }
        return [cluster["name"].removeprefix("states-") for cluster in answer["clusters"]]

    assert names("&state=ready") == ["ash", "elm"]
    assert names("&state=cordoned") == ["elm"]
    assert names("&state=lost") == []
    assert names("&takes_work=true") == ["ash"]
    assert names("&takes_work=false") == ["elm", "fir"]
    refused = shared.get(f"{API}/clusters?state=tired")
    assert refused.status_code == 400
    assert refused.get_json()["details"][0]["field"] == "state"


def test_a_cluster_that_takes_no_work_has_nothing_free_and_says_why(api: FlaskClient) -> None:
    put_cluster(api, "fir", capacity={"cpu": "4"})
    unseen = get(api, "clusters/fir")
    assert (unseen["takes_work"], unseen["takes_none_because"], unseen["free"]) == (False, ["expected"], {"cpu": "0"})
    assert "reported_free" not in unseen
    report(api, "fir", free={"cpu": "3"})
    put_pool(api, "one", ["fir"])
    ready = get(api, "clusters/fir")
    assert (ready["takes_work"], ready["free"], ready["reported_free"]) == (True, {"cpu": "3"}, {"cpu": "3"})
    assert ready["summary"] == "Cluster 'fir' takes work; free are 3 of 4 cpu."
    assert get(api, "pools/one")["summary"].endswith("its one member takes work; free are 3 of 4 cpu.")
    report(api, "fir", free={"cpu": "0"})
    created(api, "waits", **pool("one"))
    full = get(api, "clusters/fir")
    assert (full["full"], full["takes_work"], ready.get("full")) == (["cpu"], True, None)
    one = get(api, "pools/one")
    assert one["summary"].endswith("its one member is full; free are 0 of 4 cpu.")
    assert (one["total"]["able"], one["total"]["full"]) == (1, ["fir"])
    assert (full["summary"], full["waiting"]) == ("Cluster 'fir' is full (4 of 4 cpu taken), 1 waits.", 1)
    report(api, "fir", free={"cpu": "3"})
    switch(api, "fir", "drain", reason="new disks", claimed_by="otto")
    draining = get(api, "clusters/fir")
    assert (draining["takes_none_because"], draining["free"]) == (["draining"], {"cpu": "0"})
    assert draining["reported_free"] == {"cpu": "3"}
    assert draining["summary"].startswith("Cluster 'fir' takes no work: it is draining (event ")
    assert ", anonymous (says otto), " in draining["summary"]
    assert draining["summary"].endswith(" ago, 'new disks').")
    [listed] = [cluster for cluster in get(api, "clusters")["clusters"] if cluster["name"] == "fir"]
    assert listed["summary"][:60] == draining["summary"][:60]
    one = get(api, "pools/one")
    event = one["switched_off"]["fir"]["draining"]
    assert (event["claimed_by"], event["message"]) == ("otto", "new disks")
    assert (
        f"no member takes work now, so that what is placed by it waits: fir (draining: event {event['event']}, "
        in (one["summary"])
    )
    assert one["summary"].endswith("'new disks') takes no work.")
    metrics = api.get("/metrics").get_data(as_text=True)
    assert 'rainbow_cluster_free{cluster="fir",resource="cpu"} 0.0' in metrics


def test_deleting_what_is_in_use_lists_its_users_and_force_deletes_it(api: FlaskClient) -> None:
    put_cluster(api, "c1")
    put_pool(api, "gpu", ["c1"])
    put_label(api, "fast", ["c1"])
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    put_attribute(api, "domain", "execution_cluster_label", {"value": "fast"})
    ok(register_workflow(api, "wf"))
    ok(register_plan(api, "plan", "wf", **pool("gpu")))
    ok(register_plan(api, "sunny", "wf", **label("fast")))
    created(api, "by-pool")
    created(api, "by-label", domain="staging", **label("fast"))

    def users(noun: str, name: str) -> dict[str, list[str]]:
        answer = refused(api.delete(f"{API}/{noun}s/{name}"), 409, "in_use")
        assert "or force it (`force=true`, --force of rainbowctl)." in answer["message"]
        reasons: dict[str, list[str]] = {}
        for detail in answer["details"]:
            reasons.setdefault(detail["field"], []).append(detail["reason"])
        return reasons

    start = head(api)
    by_pool = users("pool", "gpu")
    assert set(by_pool) == {"attributes", "launch_plans", "executions"}
    assert f"project-domain {PROJECT}/{DOMAIN}" in by_pool["attributes"][0]
    assert f"{PROJECT}/{DOMAIN}/plan version v1" in by_pool["launch_plans"][0]
    assert "1 unfinished" in by_pool["executions"][0]
    by_label = users("label", "fast")
    assert set(by_label) == {"attributes", "launch_plans", "executions"}
    assert "domain development" in by_label["attributes"][0]
    assert users("cluster", "c1").keys() == {"pools", "labels", "executions"}
    assert head(api) == start
    refused(api.delete(f"{API}/pools/gpu?dry_run=true"), 409, "in_use")
    assert ok(api.delete(f"{API}/pools/gpu?force=true"))["changed"] is True
    assert ok(api.delete(f"{API}/clusters/c1?force=true"))["changed"] is True
    assert get(api, "clusters/c1")["source"] == "expected"  # the label still names it
    assert ok(api.delete(f"{API}/labels/fast?force=true"))["changed"] is True
    refused(api.get(f"{API}/clusters/c1"), 404, "cluster_not_found")
    refused(create(api, "after"), 400, "unknown_pool", "pool")


@pytest.mark.slow
def test_settings_that_name_a_deleted_pool_are_listed_up_to_a_number_and_counted(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["c1"])
    put_pool(api, "spare", ["c1"])

    def row(number: int, pool: str) -> dict[str, Any]:
        payload = {"cluster_pool_name": pool}
        place = {"project": PROJECT, "domain": DOMAIN, "workflow": f"w{number:03}"}
        return {"resource_type": "CLUSTER_ASSIGNMENT", **place, "payload": payload}

    def change(*changes: dict[str, Any], query: str) -> Any:
        return api.post(f"{API}/attribute_changes?{query}", json={"changes": list(changes)})

    delete = {"pool_definition": {"name": "gpu"}, "delete": True}
    ok(change(*(row(number, "gpu") for number in range(503)), query="force=true"))
    refusal = refused(change(delete, query="dry_run=true"), 409, "in_use")
    assert " And 498 more. " in refusal["message"]
    assert sum(detail.get("count", 1) for detail in refusal["details"]) == 503
    users = ok(change(delete, query="dry_run=true&force=true"))["users"]
    assert [len(users), users[-1]["reason"]] == [501, "pool 'gpu': 3 more settings name it."]
    # What the same change leaves without the name does not count, and what it gives the name does.
    others = [*(row(number, "spare") for number in range(2)), row(600, "gpu")]
    users = ok(change(delete, *others, query="dry_run=true&force=true"))["users"]
    assert [len(users), users[-1]["reason"]] == [501, "pool 'gpu': 2 more settings name it."]
    ok(change(delete, *(row(number, "spare") for number in range(503)), query=""))


def test_a_refusal_names_a_user_of_each_definition_and_counts_all(api: FlaskClient) -> None:
    changes: list[dict[str, Any]] = []
    for name, number in (("many", 60), ("few", 1)):
        put_pool(api, name, ["c1"])
        for index in range(number):
            place = {"project": PROJECT, "domain": DOMAIN, "workflow": f"{name}-{index:02}"}
            payload = {"cluster_pool_name": name}
            changes.append({"resource_type": "CLUSTER_ASSIGNMENT", **place, "payload": payload})
    ok(api.post(f"{API}/attribute_changes?force=true", json={"changes": changes}))
    created(api, "placed", **pool("many"))
    gone = [{"pool_definition": {"name": name}, "delete": True} for name in ("many", "few")]
    answer = refused(api.post(f"{API}/attribute_changes", json={"changes": gone}), 409, "in_use")
    counts = Counter[str]()
    for detail in answer["details"]:
        counts[detail["name"]] += detail.get("count", 1)
    assert counts == {"many": 61, "few": 1}
    assert len(answer["details"]) == 28
    assert "pool 'many': 35 more use it." in [detail["reason"] for detail in answer["details"]]
    assert " And 57 more. " in answer["message"]


def test_launch_plans_that_name_a_pool_are_found_up_to_a_number_and_counted(api: FlaskClient, context: Context) -> None:
    ok(register_workflow(api, "wf"))
    put_pool(api, "gpu", ["c1"])
    for name in ("second", "first", "third"):
        ok(register_plan(api, name, "wf", **pool("gpu")))
    path = ("cluster_assignment", "cluster_pool_name")
    with context.database.reading() as connection:
        plans = active_plans.naming(connection, path, "gpu", 2)
        assert [plan.id.name for plan in plans] == ["first", "second"]
        assert active_plans.count_naming(connection, path, "gpu") == 3


def test_a_cluster_whose_own_name_is_used_as_a_label_is_in_use(api: FlaskClient) -> None:
    put_cluster(api, "lonely")
    put_attribute(api, "domain", "execution_cluster_label", {"value": "lonely"})
    answer = refused(api.delete(f"{API}/clusters/lonely"), 409, "in_use", "attributes")
    assert "domain development" in answer["message"]
    put_label(api, "lonely", ["local"])  # the label of that name answers from now on
    assert ok(api.delete(f"{API}/clusters/lonely"))["changed"] is True


def test_configuration_that_names_a_managed_pool_uses_it(make_app: MakeApp) -> None:
    api = make_app(
        clusters={"defaultClusterPool": "base"},
        clusterPools={"clusterPoolAssignments": {"production": {"pool": "live"}}},
    ).test_client()
    put_pool(api, "base", ["local"])
    put_pool(api, "live", ["local"])
    for name, key in (
        ("base", "clusters.defaultClusterPool"),
        ("live", "clusterPools.clusterPoolAssignments.production"),
    ):
        answer = refused(api.delete(f"{API}/pools/{name}"), 409, "in_use", "configuration")
        assert key in answer["message"]


def test_a_change_that_stops_to_use_a_pool_may_delete_it_in_the_same_breath(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["local"])
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    row = {"resource_type": "CLUSTER_ASSIGNMENT", "domain": DOMAIN}
    gone = {"pool_definition": {"name": "gpu"}, "delete": True}
    refused(api.post(f"{API}/attribute_changes", json={"changes": [gone]}), 409, "in_use")
    changes = [
        gone,
        {**row, "payload": {"cluster_pool_name": "next"}},
        {"pool_definition": {"name": "next", **group(["local"])}},
    ]
    answer = ok(api.post(f"{API}/attribute_changes", json={"changes": changes}))
    assert [(row["resource_type"], row["action"], row.get("name")) for row in answer["rows"]] == [
        ("POOL", "delete", "gpu"),
        ("CLUSTER_ASSIGNMENT", "update", None),
        ("POOL", "create", "next"),
    ]
    assert answer["warnings"] == []


def test_everything_is_rolled_back_definitions_too_and_events_stay(app: Flask, api: FlaskClient) -> None:
    put_cluster(api, "c1", cost=1)
    put_pool(api, "gpu", ["c1"])
    mark = head(api)
    switch(api, "c1", "cordon")
    put_pool(api, "gpu", ["c1", "c2"], strategy="spill")
    put_cluster(api, "c1", cost=2)
    put_label(api, "new", ["c2"])
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    moved = get(api, f"revision_diff?from={mark}&to={head(api)}")["rows"]
    assert {(row["resource_type"], row.get("name", ""), row["action"]) for row in moved} == {
        ("POOL", "gpu", "update"),
        ("CLUSTER", "c1", "update"),
        ("LABEL", "new", "create"),
        ("CLUSTER_ASSIGNMENT", "", "create"),
    }
    dry = ok(api.post(f"{API}/rollbacks?dry_run=true", json={"to": mark, "everything": True}))
    assert (dry["changed"], dry["counts"]) == (True, {"create": 0, "update": 2, "delete": 2, "unchanged": 0})
    assert ok(api.post(f"{API}/rollbacks", json={"to": mark, "everything": True}))["changed"] is True
    shown = get(api, "pools/gpu")
    assert (shown["strategy"], [member["id"] for member in shown["members"]]) == ("weighted", ["c1"])
    assert get(api, "clusters/c1")["cost"] == 1
    refused(api.get(f"{API}/labels/new"), 404, "label_not_found")
    assert get(api, "clusters/c1")["cordoned"] is True
    numbers = [revision["number"] for revision in get(api, "revisions?limit=100&resource_type=POOL")["revisions"]]
    assert len(numbers) == 3


def test_one_revision_of_a_pool_is_undone_unless_the_pool_moved_since(api: FlaskClient) -> None:
    first = put_pool(api, "gpu", ["a"])["revision"]
    second = put_pool(api, "gpu", ["b"])["revision"]
    answer = refused(api.post(f"{API}/rollbacks", json={"revision": first}), 409, "version_conflict")
    (detail,) = answer["details"]
    assert detail.pop("provenance")["revision"] == second
    assert detail == {"resource_type": "POOL", "name": "gpu", "changed_by_revision": second}
    ok(api.post(f"{API}/rollbacks", json={"revision": second}))
    assert [member["id"] for member in get(api, "pools/gpu")["members"]] == ["a"]


def test_a_cluster_that_is_deleted_and_made_again_starts_anew(api: FlaskClient) -> None:
    put_cluster(api, "c1")
    switch(api, "c1", "cordon", reason="old")
    report(api, "c1", free={"cpu": "1"})
    ok(api.delete(f"{API}/clusters/c1"))
    put_cluster(api, "c1")
    cluster = get(api, "clusters/c1")
    assert (cluster["cordoned"], cluster["state"], "free" in cluster) == (False, "expected", False)


def test_deleting_the_pool_that_executions_wait_for_is_told_to_them(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["local"])
    created(api, "e", **pool("gpu"))
    ok(api.delete(f"{API}/pools/gpu?force=true"))
    decide_waiting(context)
    waiting = execution(api, "e")
    assert (waiting["closure"]["phase"], waiting["closure"]["reason"]["code"]) == ("QUEUED", "POOL_GONE")
    assert "cluster" not in waiting
    put_pool(api, "gpu", ["local"])
    decide_waiting(context)
    assert execution(api, "e")["cluster"] == "local"


def test_a_managed_pool_that_configuration_declares_too_gives_way_and_can_be_deleted(make_app: MakeApp) -> None:
    put_pool(make_app().test_client(), "gpu", ["managed"])
    declared = {"poolNameClusterMap": {"gpu": [{"id": "configured", "weight": 1}]}}
    api = make_app(
        clusters=declared, clusterPools={"clusterPoolAssignments": {"development": {"pool": "gpu"}}}
    ).test_client()
    assert created(api, "e")["cluster"] == "configured"
    assert "shadowed_definition" in [warning["code"] for warning in get(api, "warnings")["warnings"]]
    refused(api.put(f"{API}/pools/gpu", json={"pool": group(["other"])}), 409, "declared_in_configuration")
    assert ok(api.delete(f"{API}/pools/gpu"))["changed"] is True
    assert "shadowed_definition" not in [warning["code"] for warning in get(api, "warnings")["warnings"]]
    assert get(api, "pools/gpu")["source"] == "configuration"
    refused(api.delete(f"{API}/pools/gpu"), 409, "declared_in_configuration")


def test_definitions_are_read_as_they_were_at_a_revision(api: FlaskClient) -> None:
    first = put_pool(api, "gpu", {"a": 1})["revision"]
    second = put_pool(api, "gpu", {"a": 1, "b": 2}, description="two")["revision"]
    put_label(api, "other", {"a": 1})
    third = ok(api.delete(f"{API}/pools/gpu"))["revision"]
    fourth = put_pool(api, "late", {"c": 1})["revision"]

    def defined(query: str) -> Any:
        return get(api, f"definitions?resource_type=POOL{query}")

    def members(query: str) -> dict[str, list[str]]:
        definitions = defined(query)["definitions"]
        return {entry["name"]: [member["id"] for member in entry["definition"]["members"]] for entry in definitions}

    assert members(f"&at={first - 1}") == {}
    assert members(f"&at={first}") == members(f"&at={first}&name=gpu") == {"gpu": ["a"]}
    assert members(f"&at={second}") == members(f"&at={third - 1}") == {"gpu": ["a", "b"]}
    assert members(f"&at={third}") == {}
    assert members("") == members(f"&at={fourth}") == {"late": ["c"]}
    assert get(api, "definitions?resource_type=pool") == defined("")
    answer = defined(f"&at={second}")
    [entry] = answer["definitions"]
    assert (answer["revision"], entry["version"], entry["provenance"]["revision"]) == (second, second, second)
    assert entry["definition"]["description"] == "two"
    refusal = refused(api.get(f"{API}/definitions?resource_type=POOL&name=late&at={first}"), 404, "pool_not_found")
    assert f"It was defined later, by revision {fourth}, anonymous" in refusal["message"]
    refusal = refused(api.get(f"{API}/definitions?resource_type=POOL&name=gpuu&at={first}"), 404, "pool_not_found")
    assert "Did you mean 'gpu'?" in refusal["message"]
    assert refusal["details"][0]["closest"] == ["gpu"]
    refused(api.get(f"{API}/definitions?resource_type=POOL&at={fourth + 1}"), 404, "revision_not_found")
    refused(api.get(f"{API}/definitions?resource_type=QUEUE"), 400, "invalid_request", "resource_type")
    refused(api.get(f"{API}/definitions?resource_type=POOL&name=a%00&at={first}"), 400, "invalid_request", "name")
    put_pool(api, "more", {"c": 1})
    page = defined("&limit=1")
    assert [entry["name"] for entry in page["definitions"]] == ["late"]
    assert [entry["name"] for entry in defined(f"&limit=1&token={page['token']}")["definitions"]] == ["more"]


def test_warnings_say_by_which_revision_something_was_deleted_that_is_still_named(api: FlaskClient) -> None:
    put_cluster(api, "east")
    put_pool(api, "big", ["east"])
    put_label(api, "fast", ["east"])
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "big"}, domain="staging")
    put_attribute(api, "domain", "execution_cluster_label", {"value": "fast"}, domain="production")
    why = {"message": "sold", "claimed_by": "ana"}
    for path in ("pools/big", "labels/fast"):
        ok(api.delete(f"{API}/{path}?force=true", json=why))
    for path in ("warnings", "matchable_attributes/no_effect"):
        by_kind = {warning["resource_type"]: warning for warning in get(api, path)["warnings"]}
        for kind, word in (("CLUSTER_ASSIGNMENT", "pool 'big'"), ("EXECUTION_CLUSTER_LABEL", "label 'fast'")):
            warning = by_kind[kind]
            assert warning["message"].startswith(f"The {word} was deleted by revision "), path
            assert "anonymous (says ana)" in warning["message"]
            assert "once it is defined again; until then executions that need it are refused." in warning["message"]
            assert warning["deleted_by"]["message"] == "sold"
    written = put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "big"}, domain="development")
    assert written["warnings"][0]["deleted_by"]["message"] == "sold"
    put_pool(api, "big", ["east"])
    ok(api.delete(f"{API}/clusters/east?force=true", json=why))
    expected = [warning for warning in get(api, "warnings")["warnings"] if warning["code"] == "expected_cluster"]
    assert [warning["deleted_by"]["message"] for warning in expected] == ["sold"]
    assert expected[0]["message"].startswith("The cluster 'east' was deleted by revision ")
    cluster = get(api, "clusters/east")
    assert cluster["provenance"]["deleted"]["message"] == "sold"
    assert "It was deleted by revision " in cluster["summary"]
    put_pool(api, "new", ["never"])
    assert "deleted" not in (get(api, "clusters/never").get("provenance") or {})


def test_the_events_of_a_cluster_are_listed_without_reports_on_request(api: FlaskClient) -> None:
    put_cluster(api, "east")
    for number in range(3):
        report(api, "east", free={"executions": number})
        switch(api, "east", "cordon" if number % 2 == 0 else "uncordon")
    everything = get(api, "clusters/east/events")
    assert ([event["type"] for event in everything["events"]].count("REPORTED"), "left_out" in everything) == (3, False)
    page = get(api, "clusters/east/events?reports=false&limit=2")
    assert ([event["type"] for event in page["events"]], page["left_out"]) == (["CORDONED", "UNCORDONED"], 1)
    rest = get(api, f"clusters/east/events?reports=false&token={page['token']}")
    assert ([event["type"] for event in rest["events"]], rest["left_out"]) == (["CORDONED"], 2)


def test_a_cluster_tells_how_long_its_newest_executions_waited(
    api: FlaskClient, context: Context, app_clock: Clock
) -> None:
    agent = played_agent(api, context, "east")
    assert "recent_wait" not in get(api, "clusters/east")
    for seconds in (2, 4):
        created(api, f"e{seconds}", cluster="east")
        app_clock.advance(seconds)
        agent.start()
    created(api, "waits", cluster="east")
    assert get(api, "clusters/east")["recent_wait"] == {"seconds": 3.0, "executions": 2, "examined": 3}


def test_what_is_tried_again_waited_until_its_first_start(api: FlaskClient, context: Context, app_clock: Clock) -> None:
    agent = played_agent(api, context, "east")
    created(api, "again", cluster="east", retry={"attempts": 3, "backoff": "60s"})
    app_clock.advance(6)
    first = {"seconds": 6.0, "executions": 1, "examined": 1}
    agent.start()
    assert get(api, "clusters/east")["recent_wait"] == first
    app_clock.advance(10)
    agent.finish(["again"], "FAILED", exit_code=1)
    assert get(api, "clusters/east")["recent_wait"] == first, "while it is in back-off"
    app_clock.advance(60)
    agent.start()
    assert get(api, "clusters/east")["recent_wait"] == first, "in its second attempt"
