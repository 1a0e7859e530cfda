"""Work goes only where it fits on the free nodes beside what was assigned since the last report; on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.redecisions import decide_waiting
from tests.support.descriptions import describe, mixed, pooled
from tests.support.placing import (
    API,
    asked,
    created,
    execution,
    explanation,
    get,
    ok,
    pool,
    put_attribute,
    put_pool,
    report,
)

SLOW_ON = ("postgresql",)


def job(cpu: int, **resources: Any) -> dict[str, Any]:
    return {"job": {"command": ["true"], "resources": {**resources, "requests": {"cpu": str(cpu)}}}}


@pytest.fixture
def two(api: FlaskClient) -> FlaskClient:
    """Two clusters of three nodes with four cores, of which some is in use."""
    limits = {"limits": {"cpu": "64"}}
    put_attribute(api, "project-domain", "task_resource_attributes", limits)
    for name in ("a", "b"):
        describe(api, name, pooled(3, 4))
    nodes = {"n1": {"cpu": "3"}, "n2": {"cpu": "1"}}
    report(api, "a", capacity={"cpu": "12", "nodes": 3}, free={"cpu": "8"}, nodes=nodes)
    report(
        api,
        "b",
        capacity={"cpu": "12", "nodes": 3},
        free={"cpu": "4"},
        nodes={"n1": {"closed": True}, "n2": {"cpu": "0"}},
    )
    return api


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_a_cluster_without_a_node_that_is_free_enough_is_passed_over(
    two: FlaskClient, context: Context, strategy: str
) -> None:
    put_pool(two, "p", ["a", "b"], strategy=strategy)
    assert created(two, "first", **job(4), **pool("p"))["cluster"] == "a"
    assert created(two, "second", **job(4), **pool("p"))["cluster"] == "b"
    third = created(two, "third", **job(4), **pool("p"))
    assert third["closure"]["reason"]["code"] == "CLUSTERS_FULL"
    message = third["closure"]["reason"]["message"]
    assert "'a' is full (cores: needs 4 on one node, the most free on one node is 3)" in message
    why = {candidate["cluster"]: candidate["why_not"] for candidate in explanation(two, "third")["candidates"]}
    assert "the most free on one node is 3" in why["a"]
    assert created(two, "small", **job(3), **pool("p"))["cluster"] == "a"
    report(two, "a", capacity={"cpu": "12", "nodes": 3}, free={"cpu": "12"}, nodes={})
    decide_waiting(context)
    assert execution(two, "third")["cluster"] == "a"


def test_of_an_idle_cluster_all_nodes_are_free_and_no_job_goes_across_two(two: FlaskClient) -> None:
    put_pool(two, "p", ["a"], strategy="spill")
    report(two, "a", capacity={"cpu": "12", "nodes": 3}, free={"cpu": "12"}, nodes={})
    bodies = [asked(f"e{number}", **job(3), **pool("p")) for number in range(4)]
    results = ok(two.post(f"{API}/executions", json={"executions": bodies}))["results"]
    assert [result.get("cluster") for result in results] == ["a", "a", "a", None]


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_those_that_are_created_together_have_places_beside_each_other(two: FlaskClient, strategy: str) -> None:
    put_pool(two, "p", ["a", "b"], strategy=strategy)
    bodies = [asked(f"e{number}", **job(cpu), **pool("p")) for number, cpu in enumerate((4, 4, 4, 3, 3, 1))]
    results = ok(two.post(f"{API}/executions", json={"executions": bodies}))["results"]
    assert [result.get("cluster") for result in results] == ["a", "b", None, "a", None, "a"]


def test_rules_may_ask_for_a_place_on_the_free_nodes(two: FlaskClient, context: Context) -> None:
    put_pool(two, "p", ["a", "b"], strategy="constraint", rules=[{"filter": "fits_now"}, {"sort": "position"}])
    assert created(two, "first", **job(4), **pool("p"))["cluster"] == "a"
    assert created(two, "second", **job(4), **pool("p"))["cluster"] == "b"
    third = created(two, "third", **job(4), **pool("p"))
    assert third["closure"]["reason"]["code"] == "CLUSTERS_RULED_OUT"
    assert created(two, "small", **job(3), **pool("p"))["cluster"] == "a"
    asked_for = {"strategy": "constraint", "rules": [{"filter": "fits_now"}]}
    put_pool(two, "q", ["a", "b"])
    fourth = created(two, "fourth", **job(4), **pool("q"), **asked_for)
    assert fourth["closure"]["reason"]["code"] == "CLUSTERS_RULED_OUT"
    report(two, "a", capacity={"cpu": "12", "nodes": 3}, free={"cpu": "12"}, nodes={})
    decide_waiting(context)
    assert execution(two, "third")["cluster"] == "a"
    assert execution(two, "fourth")["closure"]["reason"]["code"] == "CLUSTERS_RULED_OUT"
    report(two, "b", capacity={"cpu": "12", "nodes": 3}, free={"cpu": "12"}, nodes={})
    decide_waiting(context)
    assert execution(two, "fourth")["cluster"] == "b"


def test_a_report_is_warned_of_that_has_more_than_there_is_and_none_of_it_counts(two: FlaskClient) -> None:
    put_pool(two, "p", ["a"], strategy="spill")
    nodes = {"n1": {"cpu": "99", "gpu": "1"}, "n2": {"cpu": "0"}, "n3": {"closed": True}, "zzz": {"cpu": "3"}}
    state = {"capacity": {"cpu": "12", "nodes": 3}, "free": {"cpu": "99"}, "nodes": nodes}
    answer = ok(two.put(f"{API}/clusters/a/state", json=state))
    told = [
        "99 cpu free, of 12 in all: 12 count.",
        "'zzz': the description has no such node, so that nothing of it counts.",
        "'n1' with 99 cores free, of 4, 'n1' with 1 gpu free, of 0: what a node does not have does not count.",
    ]
    assert answer["warnings"] == [{"code": "doubtful_report", "message": message} for message in told]
    assert get(two, "clusters/a")["report_warnings"] == told
    assert answer["cluster"]["reported_free"]["cpu"] == "12"
    bodies = [asked(f"e{number}", **job(3), **pool("p")) for number in range(2)]
    results = ok(two.post(f"{API}/executions", json={"executions": bodies}))["results"]
    assert [result.get("cluster") for result in results] == ["a", None]
    right = ok(two.put(f"{API}/clusters/a/state", json={**state, "free": {"cpu": "4"}, "nodes": {"n1": {"cpu": "4"}}}))
    assert right["warnings"] == []
    assert "report_warnings" not in get(two, "clusters/a")


def test_nodes_of_one_name_are_warned_of(api: FlaskClient) -> None:
    graph = pooled(3, 4)
    graph["graph"]["nodes"]["n2"]["metadata"]["name"] = "n1"
    answer = describe(api, "a", graph)
    [warning] = answer["description"]["warnings"]
    assert warning.startswith("2 nodes are called 'n1': ")
    assert get(api, "clusters/a/description/tree")["warnings"] == [warning]
    assert "warnings" not in describe(api, "a", pooled(3, 4))["description"]


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_an_exclusive_job_takes_an_idle_node_that_has_less_than_others(two: FlaskClient, strategy: str) -> None:
    describe(two, "c", mixed({"core": 8, "gpu": 2}, {"core": 8}, {"core": 4}))
    nodes = {"n1": {"cpu": "0", "gpu": "0"}, "n3": {"closed": True}}
    report(two, "c", capacity={"cpu": "20", "gpu": "2", "nodes": 3}, free={"cpu": "8", "gpu": "0"}, nodes=nodes)
    put_pool(two, "p", ["c"], strategy=strategy)
    assert created(two, "first", **job(1, nodes=1, exclusive=True), **pool("p"))["cluster"] == "c"
    for name, resources in (("second", {"nodes": 1, "exclusive": True}), ("third", {})):
        waits = created(two, name, **job(1, **resources), **pool("p"))
        assert (waits.get("cluster"), waits["closure"]["reason"]["code"]) == (None, "CLUSTERS_FULL")


def test_work_of_a_weighted_pool_waits_at_a_busy_cluster(two: FlaskClient) -> None:
    put_pool(two, "p", ["a"])
    assert [created(two, f"e{number}", **job(4), **pool("p"))["cluster"] for number in range(5)] == ["a"] * 5


@pytest.mark.parametrize(
    "told",
    [
        {"free": {"cpu": "500", "nodes": 70, "gpu": "5"}},
        {"capacity": {"cpu": "99"}, "free": {"cpu": "99"}},
        {"plugins": ["sleep"]},
    ],
)
def test_no_more_is_assigned_than_the_description_has_whatever_is_reported(
    two: FlaskClient, told: dict[str, Any]
) -> None:
    describe(two, "c", pooled(2, 2))
    report(two, "c", **told)
    put_pool(two, "p", ["c"], strategy="spill")
    bodies = [asked(f"e{number}", **job(1), **pool("p")) for number in range(6)]
    results = ok(two.post(f"{API}/executions", json={"executions": bodies}))["results"]
    assert [result.get("cluster") for result in results] == ["c"] * 4 + [None] * 2
    rules = [{"filter": "cpu_free > 4 or nodes_free > 2 or gpu_free > 0"}]
    put_pool(two, "q", ["c"], strategy="constraint", rules=rules)
    ruled = created(two, "ruled", **job(1), **pool("q"))
    assert ruled["closure"]["reason"]["code"] == "CLUSTERS_RULED_OUT"
