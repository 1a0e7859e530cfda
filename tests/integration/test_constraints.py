"""Pools and requests that choose by rules, over the API: checks, choices, reasons, new decisions; on both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.loops.waiting import WaitingLoop
from admin.services.context import Context
from admin.services.redecisions import decide_waiting, is_room_again
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
    nothing_stored,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_pool,
    refused,
    report,
)
from tests.support.small_fleets import group

SLOW_ON = ("postgresql",)

PRICE: list[dict[str, Any]] = [{"calculate": {"price": "cost_per_node_hour * job.nodes"}}, {"sort": "price"}]
FREE = [{"filter": "nodes_free >= job.nodes"}, *PRICE]


def put_clusters(api: FlaskClient, **prices: float) -> None:
    """Clusters of four nodes that have reported, with their prices."""
    for name, price in prices.items():
        put_cluster(api, name, properties={"cost_per_node_hour": price})
        report(api, name, capacity={"nodes": 4, "executions": 9}, free={"nodes": 4, "executions": 9})


def by_rules(rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {"strategy": "constraint", "rules": rules}


def nodes(number: int) -> dict[str, Any]:
    return {"job": {"command": ["true"], "resources": {"nodes": number}}}


def why_not(answer: Any) -> dict[str, str]:
    return {entry["cluster"]: entry["why_not"] for entry in answer["candidates"] if not entry["chosen"]}


def test_a_pool_chooses_by_its_rules_and_every_answer_says_why(api: FlaskClient) -> None:
    put_clusters(api, a=3, b=1.5, c=1)
    report(api, "c", capacity={"nodes": 4}, free={"nodes": 1})
    put_pool(api, "p", ["a", "b", "c"], **by_rules(FREE))
    assert get(api, "pools/p")["rules"] == FREE
    placed = ok(api.post(f"{API}/placements", json=asked("e", **pool("p"), **nodes(2))))
    assert created(api, "e", **pool("p"), **nodes(2))["cluster"] == "b"
    explained = explanation(api, "e")
    reasons = {
        "a": "able; rule 3: price 6 against 3, and the lowest is best",
        "c": "rule 1: nodes_free >= job.nodes is false, where nodes_free is 1 and job.nodes is 2",
    }
    for answer in (placed, explained):
        assert (answer["strategy"], answer["rules"], "strategy_source" in answer) == ("constraint", FREE, False)
        assert why_not(answer) == reasons
        assert {entry["cluster"]: entry.get("values") for entry in answer["candidates"]} == {
            "a": {"price": 6},
            "b": {"price": 3.0},
            "c": None,
        }


@pytest.mark.parametrize(
    "given",
    [
        {
            "version": 1,
            "resources": {"ior": {"type": "node", "replicas": 2, "with": [{"type": "core", "count": 2}]}},
            "tasks": [{"command": ["ior"], "resources": "ior"}],
            "attributes": {"parameter": {"seconds_per_gb": 0.4}},
        },
        {"command": "ior", "nodes": 2, "parameters": {"seconds_per_gb": 0.4}},
    ],
    ids=["next-gen", "simple"],
)
def test_rules_calculate_with_the_parameters_of_a_jobspec(api: FlaskClient, given: dict[str, Any]) -> None:
    for name, cost in {"a": 3, "b": 2}.items():
        put_cluster(api, name, properties={"cost_per_node_hour": cost, "memory_per_node": 225})
        report(api, name, capacity={"nodes": 4}, free={"nodes": 4})
    price = "cost_per_node_hour * memory_per_node * job.parameters.seconds_per_gb / 3600"
    put_pool(api, "p", ["a", "b"], **by_rules([{"calculate": {"price": price}}, {"sort": "price"}]))
    assert created(api, "e", **pool("p"), jobspec=given)["cluster"] == "b"
    explained = explanation(api, "e")
    assert {entry["cluster"]: entry["values"]["price"] for entry in explained["candidates"]} == {
        "a": pytest.approx(0.075),
        "b": pytest.approx(0.05),
    }
    without = {"command": "ior", "nodes": 2}
    assert created(api, "f", **pool("p"), jobspec=without)["closure"]["reason"]["code"] == "CLUSTERS_RULED_OUT"


def test_nodes_that_were_assigned_since_the_report_are_not_free(api: FlaskClient) -> None:
    put_clusters(api, a=1, b=2)
    put_pool(api, "p", ["a", "b"], **by_rules(FREE))
    answers = [created(api, f"e{number}", **pool("p"), **nodes(2)) for number in range(5)]
    assert [answer.get("cluster") for answer in answers] == ["a", "a", "b", "b", None]
    reason = answers[-1]["closure"]["reason"]
    assert reason["code"] == "CLUSTERS_RULED_OUT"
    assert "'a' rule 1: nodes_free >= job.nodes is false, 'b' rule 1: " in reason["message"]
    status = explanation(api, "e4")["status"]
    assert "where nodes_free is 0 and job.nodes is 2" in status["message"]
    assert "passes the rules" in status["next"]
    foreseen = ok(api.post(f"{API}/placements", json=asked("x", **pool("p"), **nodes(2))))
    assert "where nodes_free is 0 and job.nodes is 2" in foreseen["reason"]["message"]


def test_what_no_cluster_passes_is_placed_when_one_does(api: FlaskClient, context: Context) -> None:
    put_clusters(api, a=1)
    put_pool(api, "p", ["a"], **by_rules(FREE))
    report(api, "a", capacity={"nodes": 4}, free={"nodes": 2})
    created(api, "large", **pool("p"), **nodes(4))
    created(api, "small", **pool("p"), **nodes(3))
    assert not is_room_again(context)
    report(api, "a", capacity={"nodes": 4}, free={"nodes": 3})
    assert is_room_again(context)  # though the oldest does not pass
    [changed] = decide_waiting(context)
    assert (changed.id.name, changed.cluster, changed.reason) == ("small", "a", "ASSIGNED")
    report(api, "a", capacity={"nodes": 4}, free={"nodes": 4})
    assert decide_waiting(context) == []  # what was assigned is not free


def test_what_ends_lets_another_pass_the_rules(api: FlaskClient, context: Context) -> None:
    put_clusters(api, a=1)
    put_pool(api, "p", ["a"], **by_rules(FREE))
    created(api, "first", **pool("p"), **nodes(4))
    created(api, "second", **pool("p"), **nodes(4))
    WaitingLoop(context)()
    assert execution(api, "second").get("cluster") is None
    ok(api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/first", json={}))
    assert is_room_again(context)


def test_rules_do_not_take_away_what_waits_at_a_cluster(api: FlaskClient, context: Context) -> None:
    put_clusters(api, a=1, b=2)
    put_pool(api, "p", ["a", "b"], **by_rules(PRICE))
    created(api, "e", **pool("p"))
    put_cluster(api, "a", properties={"cost_per_node_hour": 9})
    assert decide_waiting(context) == []
    assert execution(api, "e")["cluster"] == "a"
    assert created(api, "f", **pool("p"))["cluster"] == "b"


@pytest.mark.parametrize(
    ("rules", "field", "words"),
    [
        ([{"filter": "nodes_free >"}], "rules.0.filter", "rule 1: 'nodes_free >' is not an expression"),
        ([*PRICE, {"sort": "cost_per_nod_hour"}], "rules.2.sort", "Did you mean 'cost_per_node_hour'"),
        ([{"filter": "1 / 0 > True", "sort": "cost"}], "rules.0", "rule 1: give one of filter"),
        ([{"filter": "[x for x in name]"}], "rules.0.filter", "rule 1: a loop cannot be used."),
    ],
)
def test_bad_rules_are_refused_and_nothing_is_changed(
    api: FlaskClient, context: Context, rules: list[dict[str, Any]], field: str, words: str
) -> None:
    put_clusters(api, a=1)
    with nothing_stored(context):
        body = {"pool": group(["a"], **by_rules(rules))}
        answer = refused(api.put(f"{API}/pools/p", json=body), 400, "invalid_request", field)
        assert words in answer["message"]
        answer = refused(create(api, "e", **by_rules(rules)), 400, "invalid_request", f"spec.{field}")
        assert words in answer["message"]


def test_a_property_may_come_with_the_same_change_or_later(api: FlaskClient) -> None:
    change = {"pool_definition": {"name": "p", **group(["a"], **by_rules([{"sort": "power"}]))}}
    cluster = {"cluster_definition": {"name": "a", "properties": {"power": 5}}}
    refused(api.post(f"{API}/attribute_changes", json={"changes": [change]}), 400, "invalid_request")
    ok(api.post(f"{API}/attribute_changes", json={"changes": [change, cluster]}))
    put_pool(api, "q", ["a"], **by_rules([{"sort": "default(properties.speed, 1)"}]))
    report(api, "a", properties={"speed": 3})
    put_pool(api, "q", ["a"], **by_rules([{"sort": "speed"}]))


def test_rules_have_a_history_and_can_be_rolled_back(api: FlaskClient) -> None:
    put_clusters(api, a=1)
    first = put_pool(api, "p", ["a"], **by_rules(PRICE))
    put_pool(api, "p", ["a"], **by_rules([{"sort": "name"}]))
    body = {"to": first["revision"], "everything": True}
    assert ok(api.post(f"{API}/rollbacks?dry_run=true", json=body))["dry_run"] is True
    assert get(api, "pools/p")["rules"] == [{"sort": "name"}]
    ok(api.post(f"{API}/rollbacks", json=body))
    assert get(api, "pools/p")["rules"] == PRICE


def test_a_request_brings_its_own_rules_which_no_other_one_sees(api: FlaskClient, context: Context) -> None:
    put_clusters(api, a=1, b=2)
    put_pool(api, "p", ["a", "b"], **by_rules(PRICE))
    dearest = by_rules([{"sort": "cost_per_node_hour", "descending": True}])
    assert created(api, "own", **pool("p"), **dearest)["cluster"] == "b"
    assert created(api, "other", **pool("p"))["cluster"] == "a"
    answer = explanation(api, "own")
    assert (answer["strategy_source"], answer["rules"]) == ("request", dearest["rules"])
    assert why_not(answer) == {"a": "able; rule 1: cost_per_node_hour 1 against 2, and the highest is best"}
    # It counts when it is decided again, too.
    ok(api.post(f"{API}/clusters/b/cordon", json={}))
    decide_waiting(context)
    assert execution(api, "own")["cluster"] == "a"
    ok(api.post(f"{API}/clusters/b/uncordon", json={}))
    ok(api.post(f"{API}/clusters/a/cordon", json={}))
    decide_waiting(context)
    assert [execution(api, name)["cluster"] for name in ("own", "other")] == ["b", "b"]


def test_a_strategy_of_a_request_looks_at_the_latest_load_also_where_no_pool_does(
    api: FlaskClient, context: Context
) -> None:
    put_clusters(api, a=1, b=2)
    put_pool(api, "p", ["a", "b"])
    report(api, "a", capacity={"nodes": 4, "executions": 9}, free={"nodes": 0, "executions": 9})
    roomy = by_rules([{"filter": "nodes_free > 0"}, {"sort": "position"}])
    assert {created(api, f"e{number}", **pool("p"), **roomy)["cluster"] for number in range(4)} == {"b"}
    report(api, "b", capacity={"nodes": 4, "executions": 9}, free={"nodes": 0, "executions": 9})
    waiting = created(api, "late", **pool("p"), **roomy)
    assert waiting["closure"]["reason"]["code"] == "CLUSTERS_RULED_OUT"
    report(api, "a", capacity={"nodes": 4, "executions": 9}, free={"nodes": 4, "executions": 9})
    assert is_room_again(context)
    assert {change.cluster for change in decide_waiting(context)} == {"a"}


def test_a_request_may_ask_for_any_strategy_and_a_relaunch_for_another(api: FlaskClient) -> None:
    put_cluster(api, "a", cost=2)
    put_cluster(api, "b", cost=1)
    put_pool(api, "p", ["a", "b"], strategy="spill")
    assert created(api, "e", **pool("p"), strategy="cheapest")["cluster"] == "b"
    again = {"id": {"project": PROJECT, "domain": DOMAIN, "name": "e"}, "name": "f"}
    answer = ok(api.post(f"{API}/executions/relaunch", json={**again, **by_rules([{"sort": "position"}])}))
    assert answer["execution"]["cluster"] == "a"
    third = {"id": {"project": PROJECT, "domain": DOMAIN, "name": "f"}, "name": "g", "strategy": "cheapest"}
    assert ok(api.post(f"{API}/executions/relaunch", json=third))["execution"]["cluster"] == "b"


def test_a_fence_keeps_requests_to_the_strategy_of_the_pool(make_app: Callable[..., Any]) -> None:
    api = make_app(placement={"requestMayOverride": {DOMAIN: False}}).test_client()
    put_cluster(api, "a", cost=1)
    put_pool(api, "p", ["a"], **by_rules([{"sort": "cost"}]))
    assert created(api, "free", strategy="cheapest")["cluster"] == "a"  # no setting names a pool
    put_attribute(api, "project", "cluster_assignment", {"cluster_pool_name": "p"})
    answer = refused(create(api, "e", strategy="cheapest"), 400, "request_fenced", "spec.strategy")
    assert "project flytesnacks says pool 'p'" in answer["message"]
    refused(create(api, "e", **by_rules([{"sort": "name"}])), 400, "request_fenced", "spec.strategy")
    assert created(api, "e", **by_rules([{"sort": "cost"}]))["cluster"] == "a"


@pytest.mark.parametrize(
    ("rules", "cluster", "reason"),
    [
        ([PRICE[0], {**PRICE[1], "descending": True}], "b", "ASSIGNED"),
        ([{"filter": "job.nodes > 1"}], None, "CLUSTERS_RULED_OUT"),
    ],
)
def test_a_simulation_places_by_changed_rules(
    api: FlaskClient, rules: list[dict[str, Any]], cluster: str | None, reason: str
) -> None:
    put_clusters(api, a=1, b=2)
    put_pool(api, "p", ["a", "b"], **by_rules(PRICE))
    for number in range(3):
        created(api, f"e{number}", **pool("p"))
    definition = {"name": "p", **group(["a", "b"], **by_rules(rules))}
    body = {"changes": [{"pool_definition": definition}], "since": "24h"}
    answer = ok(api.post(f"{API}/simulations", json=body))
    assert answer["moved"] == 3
    after = [row["after"] for row in answer["executions"]]
    assert {(place.get("cluster"), place["reason"]) for place in after} == {(cluster, reason)}


def test_configuration_may_have_rules(make_app: Callable[..., Any]) -> None:
    clusters = {
        "clusterConfigs": [
            {"name": "a", "properties": {"cost_per_node_hour": 2}},
            {"name": "b", "properties": {"cost_per_node_hour": 1}},
        ],
        "poolNameClusterMap": {"p": [{"id": "a"}, {"id": "b"}]},
        "poolStrategies": {"p": "constraint"},
        "poolRules": {"p": PRICE},
    }
    api = make_app(clusters=clusters).test_client()
    assert get(api, "pools/p")["rules"] == PRICE
    assert created(api, "e", **pool("p"))["cluster"] == "b"
