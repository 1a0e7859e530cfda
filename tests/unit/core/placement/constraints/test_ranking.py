"""Ranking by rules: who is dropped and why, who stands before whom, and which of the best is picked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from admin.core.fleet.fleet import Fleet
from admin.core.graph.descriptions import read_description
from admin.core.graph.machines import Machines
from admin.core.graph.memory import MemoryBackend
from admin.core.placement.candidates import JobParameters, RequestedStrategy, Workload
from admin.core.placement.decisions import Decision, decide
from admin.core.placement.stored_candidates import render_candidates
from admin.core.resources import Amounts
from tests.support.small_fleets import NOW, group, pool, reports, small_fleet
from tests.support.small_graphs import cluster_document

JOB = JobParameters(
    tasks=8,
    duration=3600.0,
    priority=50,
    project="flytesnacks",
    domain="development",
    workflow="train",
    launch_plan="",
    labels={"team": "ml"},
    parameters={"seconds_per_gb": 0.4, "huge": 10**5000},
)
DEMAND = {"cpu": 2000, "memory": 2**30, "gpu": 1, "nodes": 4, "executions": 1}
FREE = {"cpu": "8", "memory": "8Gi", "gpu": "2", "nodes": 6, "executions": 5}
CAPACITY = {"cpu": "16", "memory": "16Gi", "gpu": "4", "nodes": 8, "executions": 10}


def fleet_of(
    rules: list[dict[str, Any]], clusters: Mapping[str, Mapping[str, Any]], **states: Mapping[str, Any]
) -> Fleet:
    """A pool, 'p', of clusters that have reported, with rules."""
    reported = {name: reports(capacity=CAPACITY, free=FREE) for name in clusters}
    pools = {"p": group(list(clusters), strategy="constraint", rules=rules)}
    return small_fleet(clusters=clusters, pools=pools, states={**reported, **states})


def placed(fleet: Fleet, key: str = "p/d/e", waiting: Mapping[str, Amounts] | None = None, **more: Any) -> Decision:
    workload = Workload(**{"key": key, "demand": DEMAND, "job": JOB, **more})
    return decide(pool("p"), fleet, workload, waiting or {})


def reasons(decision: Decision, key: str = "p/d/e") -> dict[str, str]:
    """Why each loser lost, as explanations tell it."""
    evaluation = decision.evaluation
    candidates = render_candidates(evaluation.trail.body, evaluation.scores, key, decision.cluster, {}, NOW)
    return {candidate["cluster"]: candidate["why_not"] for candidate in candidates if not candidate["chosen"]}


def priced(**prices: Any) -> dict[str, dict[str, Any]]:
    return {name: {"properties": {"cost_per_node_hour": price}} for name, price in prices.items()}


def test_the_cheapest_of_those_that_pass_wins_and_each_loser_says_why() -> None:
    rules: list[dict[str, Any]] = [
        {"filter": "nodes_free > 0"},
        {"calculate": {"price": "cost_per_node_hour * job.nodes"}},
        {"sort": "price"},
    ]
    full = reports(capacity=CAPACITY, free={**FREE, "nodes": 0})
    decision = placed(fleet_of(rules, {**priced(a=3.125, b=2, c=1), "d": {}}, c=full))
    assert decision.cluster == "b"
    assert reasons(decision) == {
        "a": "able; rule 3: price 12.5 against 8, and the lowest is best",
        "c": "rule 1: nodes_free > 0 is false, where nodes_free is 0",
        "d": "rule 2: price: cost_per_node_hour is not known",
    }
    body = decision.evaluation.trail.body
    assert [candidate.get("values") for candidate in body["candidates"]] == [{"price": 12.5}, {"price": 8}, None, None]
    assert body["rules"] == rules


def test_descending_takes_the_largest_and_a_later_sort_decides_among_equals() -> None:
    rules = [{"sort": "cost_per_node_hour", "descending": True}, {"sort": "name", "descending": True}]
    decision = placed(fleet_of(rules, priced(a=2, b=2, c=1)))
    assert decision.cluster == "b"
    assert reasons(decision) == {
        "a": "able; rule 2: name 'a' against 'b', and the highest is best",
        "c": "able; rule 1: cost_per_node_hour 1 against 2, and the highest is best",
    }


def test_the_first_rank_by_whole_numbers_and_fractions_alike() -> None:
    assert placed(fleet_of([{"sort": "cost_per_node_hour"}], priced(a=2, b=1.5, c=3.5))).cluster == "b"


@pytest.mark.parametrize(
    ("pick", "shares"), [("first", {"a": 1.0}), ("weighted", {"a": 0.75, "b": 0.25}), ("random", {"a": 0.5, "b": 0.5})]
)
def test_picks_among_the_best(pick: str, shares: dict[str, float]) -> None:
    rules = [{"sort": "cost_per_node_hour"}, {"pick": pick}]
    fleet = small_fleet(
        clusters=priced(a=1, b=1, c=2),
        pools={"p": group({"a": 3, "b": 1, "c": 9}, strategy="constraint", rules=rules)},
        states={name: reports() for name in "abc"},
    )
    counts = Counter(placed(fleet, f"p/d/e{number}").cluster for number in range(2000))
    assert {name: pytest.approx(count / 2000, abs=0.05) for name, count in counts.items()} == shares
    why_not = reasons(placed(fleet, "p/d/e1"), "p/d/e1")
    if pick == "first":
        assert why_not["b"] == "able; rule 2: as good as 'a', which is listed first"
    else:
        assert "drew" in next(reason for name, reason in why_not.items() if name != "c")


def test_the_same_execution_always_gets_the_same_cluster() -> None:
    fleet = fleet_of([{"pick": "random"}], priced(a=1, b=1, c=1))
    assert len({placed(fleet).cluster for _ in range(50)}) == 1


@pytest.mark.parametrize(
    ("price", "reason"),
    [
        ("cost_per_node_hour / (nodes - 8)", "rule 1: price: division by zero"),
        ("cost_per_node_hour * 1e290 * 1e20", "rule 1: price: the number is too large"),
        ("zone * 2", "rule 1: price: text is used as a number"),
        ("limits + 1", "rule 1: price: limits is not known"),
        ("huge + 1", "rule 1: price: huge is not known"),
        ("job.labels.owner + 1", "rule 1: price: job.labels.owner is not known"),
        ("job.parameters.other + 1", "rule 1: price: job.parameters.other is not known"),
        ("job.parameters.huge + 1", "rule 1: price: job.parameters.huge is not known"),
    ],
)
def test_a_cluster_without_a_value_is_out_and_the_others_are_not(price: str, reason: str) -> None:
    clusters: dict[str, dict[str, Any]] = {
        "a": {"properties": {"cost_per_node_hour": 1, "zone": "eu", "limits": {"x": 1}, "huge": 10**5000}},
        "b": {"properties": {"cost_per_node_hour": 1, "zone": "eu"}, "capacity": {"nodes": 5}},
    }
    fleet = fleet_of([{"calculate": {"price": price}}, {"sort": "price"}], clusters)
    decision = placed(fleet)
    assert (decision.cluster, decision.code) == (None, "CLUSTERS_RULED_OUT")
    assert reasons(decision)["a"] == reason
    assert f"'a' {reason}" in decision.message
    assert decision.evaluation.is_feasible


def test_what_the_request_and_the_job_say_can_be_named() -> None:
    condition = (
        "job.nodes == 4 and job.tasks == 8 and job.cpu == 2 and job.memory == 1 * Gi and job.gpu == 1 and "
        "job.duration == 3600 and job.priority == 50 and not job.exclusive and job.project == 'flytesnacks' and "
        "job.domain == 'development' and job.workflow == 'train' and job.launch_plan == '' and job.labels.team == 'ml' "
        "and job.ephemeral_storage == 0 and job.labels.other != 'x' and job.parameters.seconds_per_gb == 0.4"
    )
    assert placed(fleet_of([{"filter": condition}], priced(a=1))).cluster == "a"


def test_what_a_cluster_has_can_be_named() -> None:
    state = reports(capacity=CAPACITY, free=FREE, eta="90s", properties={"zone": "us", "rack": "r1"})
    clusters = {"a": {"cost": 3, "properties": {"zone": "eu", "spot": True}}, "b": {}}
    condition = (
        "name == 'a' and weight == 1 and position == 0 and cost == 3 and nodes == 8 and cpu == 16 "
        "and memory == 16 * Gi and gpu == 4 and executions == 10 and cpu_free == 8 and memory_free == 8 * Gi "
        "and gpu_free == 2 and running == 5 and nodes_free == 6 and executions_free == 5 "
        "and waiting == 0 and eta == 90 and fits_now and not expected"
    )
    fleet = fleet_of([{"filter": condition}, {"filter": "zone == 'eu' and spot and rack == 'r1'"}], clusters, a=state)
    assert placed(fleet).cluster == "a"


def test_what_neither_report_nor_definition_tells_is_as_described() -> None:
    condition = "nodes == 3 and cpu == 36 and gpu == 0 and default(memory, -1) == -1"
    fleet = fleet_of([{"filter": condition}], {"a": {}}, a={"health": "ready"})
    machine = Machines(MemoryBackend()).add("d", read_description(cluster_document(3, 12)))
    described = replace(fleet, clusters={"a": replace(fleet.clusters["a"], machine=machine)})
    assert placed(fleet, demand={}).cluster is None
    assert placed(described, demand={}).cluster == "a"


def test_what_was_assigned_since_the_report_is_not_free() -> None:
    rules = [{"filter": "nodes_free >= job.nodes"}, {"sort": "position"}]
    fleet = fleet_of(rules, priced(a=1, b=1))
    waiting = {"a": Workload(key="", demand=DEMAND).takes_of(fleet.clusters["a"])}
    assert placed(fleet).cluster == "a"
    assert placed(fleet, waiting=waiting).cluster == "b"
    assert "nodes_free is 2" in reasons(placed(fleet, waiting=waiting))["a"]
    exclusive = {"a": Workload(key="", demand=DEMAND, exclusive=True).takes_of(fleet.clusters["a"])}
    assert placed(fleet, waiting=exclusive).cluster == "b"
    cpu = fleet_of([{"filter": "cpu_free > 7"}, {"sort": "position"}], priced(a=1, b=1))
    assert placed(cpu, waiting=waiting).cluster == "b"


def test_fits_now_asks_for_room_and_other_rules_let_work_wait() -> None:
    full = reports(capacity=CAPACITY, free={**FREE, "cpu": "1"})
    assert placed(fleet_of([{"sort": "position"}], priced(a=1, b=1), a=full)).cluster == "a"
    decision = placed(fleet_of([{"filter": "fits_now"}, {"sort": "position"}], priced(a=1, b=1), a=full))
    assert decision.cluster == "b"
    assert reasons(decision)["a"] == "rule 1: fits_now is false, where it is full (15 of 16 cpu taken, 2 wanted)"


def test_an_unseen_or_silent_cluster_never_counts_as_free() -> None:
    clusters = {"a": {"capacity": CAPACITY}}
    unseen = small_fleet(
        clusters=clusters, pools={"p": group(["a"], strategy="constraint", rules=[{"filter": "nodes_free > 0"}])}
    )
    assert (placed(unseen).cluster, placed(unseen).code) == (None, "CLUSTERS_RULED_OUT")
    assert reasons(placed(unseen))["a"] == "rule 1: nodes_free > 0 is false, where nodes_free is 0"
    silent = {**reports(capacity=CAPACITY, free=FREE), "health": "lost"}
    decision = placed(fleet_of([{"filter": "nodes_free > 0"}], clusters, a=silent))
    assert decision.code == "CLUSTERS_UNREACHABLE"


def test_rules_of_a_request_count_for_it_alone() -> None:
    fleet = fleet_of([{"sort": "cost_per_node_hour"}], priced(a=1, b=2))
    dearest = RequestedStrategy("constraint", '[{"sort":"cost_per_node_hour","descending":true}]')
    assert placed(fleet, requested=dearest).cluster == "b"
    assert placed(fleet).cluster == "a"
    assert placed(fleet, requested=RequestedStrategy("cheapest")).evaluation.strategy == "cheapest"
    body = placed(fleet, requested=dearest).evaluation.trail.body
    assert body["strategy_source"] == "request"
    assert "strategy_source" not in placed(fleet).evaluation.trail.body


def test_without_a_job_rules_drop_nothing() -> None:
    fleet = fleet_of([{"filter": "job.nodes > 100"}], priced(a=1))
    assert placed(fleet, job=None).cluster == "a"


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("weighted", "drew "),
        ("spill", "listed after 'a', which has room"),
        ("least-loaded", "9 of 16 cpu in use, against 8 of 16 cpu at 'a'"),
        ("cheapest", "costs 2, against 1 at 'a'; cheapest does not look at room, spill and least-loaded do"),
        ("soonest", "would start it in 1 min, against at once at 'a'"),
    ],
)
def test_every_other_strategy_says_why_each_loser_lost(strategy: str, words: str) -> None:
    states = {
        "a": reports(capacity=CAPACITY, free=FREE, eta="0s"),
        "b": reports(capacity=CAPACITY, free={**FREE, "cpu": "7"}, eta="60s"),
    }
    fleet = small_fleet(
        clusters={"a": {"cost": 1}, "b": {"cost": 2}}, pools={"p": group(["a", "b"], strategy=strategy)}, states=states
    )
    decision = placed(fleet)
    [(loser, reason)] = reasons(decision).items()
    assert loser != decision.cluster
    assert reason.startswith(f"able; {words}")
