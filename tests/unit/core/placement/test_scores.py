"""Scores: which of the able clusters each strategy prefers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from admin.core.fleet.fleet import DEFAULT_STRATEGY, Fleet
from admin.core.placement.decisions import Decision
from admin.core.placement.scores import STRATEGIES
from admin.core.resources import Amounts
from tests.support.small_fleets import decided, group, pool, pool_fleet, reports, small_fleet

KEYS = [f"p/d/e{number}" for number in range(300)]


def spread(fleet: Fleet, waiting: Mapping[str, Amounts] | None = None) -> set[str | None]:
    """Where many executions of the pool would go, each by itself."""
    return {decided(fleet, pool("p"), key, waiting).cluster for key in KEYS}


def scores(decision: Decision) -> dict[str, float | None]:
    evaluation = decision.evaluation
    return {evaluation.candidates[position].cluster.name: score for position, score in evaluation.able.items()}


def test_the_default_is_a_strategy_and_four_look_at_load() -> None:
    assert DEFAULT_STRATEGY in STRATEGIES
    assert {name for name, strategy in STRATEGIES.items() if strategy.looks_at_load} == {
        "spill",
        "least-loaded",
        "soonest",
        "ask",
    }


def test_weighted_looks_at_weights_alone() -> None:
    fleet = pool_fleet("weighted", {"a": {"cost": 9}, "b": {"cost": 1}}, a=reports(free={"executions": 0}), b=reports())
    assert spread(fleet) == {"a", "b"}
    assert scores(decided(fleet, pool("p"))) == {"a": 0.0, "b": 0.0}


def test_spill_fills_in_the_listed_order() -> None:
    fleet = pool_fleet(
        "spill", {name: {} for name in "cab"}, **{name: reports(free={"executions": 2}) for name in "cab"}
    )
    waiting: dict[str, dict[str, int]] = {}
    placed = []
    for number in range(7):
        cluster = decided(fleet, pool("p"), f"p/d/e{number}", waiting).cluster
        placed.append(cluster)
        if cluster:
            waiting[cluster] = {"executions": waiting.get(cluster, {}).get("executions", 0) + 1}
    assert placed == ["c", "c", "a", "a", "b", "b", None]


def test_spill_treats_unknown_room_as_enough_room() -> None:
    fleet = pool_fleet("spill", {"a": {}, "b": {}}, a=reports(free={"executions": 0}), b=reports())
    assert spread(fleet) == {"b"}
    assert spread(pool_fleet("spill", {"a": {}, "b": {}})) == {"a"}


def test_least_loaded_takes_the_emptiest_and_draws_among_equals() -> None:
    states = {
        "a": reports(capacity={"cpu": "10"}, free={"cpu": "5"}),
        "b": reports(capacity={"cpu": "100"}, free={"cpu": "80"}),
        "c": reports(capacity={"cpu": "1"}, free={"cpu": "800m"}),
        "d": reports(capacity={"cpu": "10"}, free={"cpu": "7"}),
    }
    fleet = pool_fleet("least-loaded", {name: {} for name in "abcd"}, **states)
    assert scores(decided(fleet, pool("p"))) == {"a": 0.5, "b": 0.2, "c": 0.2, "d": 0.3}
    assert spread(fleet) == {"b", "c"}


def test_least_loaded_is_as_loaded_as_the_scarcest_resource() -> None:
    states = {
        "a": reports(capacity={"cpu": "10", "memory": "10Gi"}, free={"cpu": "10", "memory": "1Gi"}),
        "b": reports(capacity={"cpu": "10", "memory": "10Gi"}, free={"cpu": "5", "memory": "5Gi"}),
    }
    assert spread(pool_fleet("least-loaded", {"a": {}, "b": {}}, **states)) == {"b"}


def test_least_loaded_takes_a_cluster_of_unknown_load_only_when_no_other_is_able() -> None:
    busy = reports(capacity={"executions": 10}, free={"executions": 1})
    fleet = pool_fleet("least-loaded", {"silent": {}, "busy": {}}, silent=reports(), busy=busy)
    assert spread(fleet) == {"busy"}
    assert scores(decided(fleet, pool("p"))) == {"silent": None, "busy": 0.9}
    assert spread(fleet, {"busy": {"executions": 1}}) == {"silent"}


def test_cheapest_takes_the_least_cost_draws_among_equals_and_unknown_comes_last() -> None:
    costs: dict[str, dict[str, Any]] = {"a": {"cost": 2}, "b": {"cost": 1.5}, "c": {"cost": 1.5}, "d": {}}
    fleet = pool_fleet("cheapest", costs)
    assert spread(fleet) == {"b", "c"}
    assert scores(decided(fleet, pool("p"))) == {"a": 2, "b": 1.5, "c": 1.5, "d": None}
    off = {"cordoned": True}
    assert spread(pool_fleet("cheapest", costs, b=off, c=off)) == {"a"}
    assert spread(pool_fleet("cheapest", costs, a=off, b=off, c=off)) == {"d"}
    assert spread(pool_fleet("cheapest", {"a": {}, "b": {}})) == {"a", "b"}
    free: dict[str, dict[str, Any]] = {"a": {"cost": 0}, "b": {"cost": 1e-9}}
    assert spread(pool_fleet("cheapest", free)) == {"a"}


def test_cheapest_chooses_a_full_cluster_too() -> None:
    fleet = pool_fleet("cheapest", {"a": {"cost": 1}, "b": {"cost": 2}}, a=reports(free={"executions": 0}))
    assert spread(fleet) == {"a"}


def test_soonest_takes_the_earliest_start_draws_among_equals_and_unknown_comes_last() -> None:
    states = {"a": reports(eta="10m"), "b": reports(eta="90s"), "c": reports(eta="1m30s"), "d": reports()}
    fleet = pool_fleet("soonest", {name: {} for name in "abcd"}, **states)
    assert scores(decided(fleet, pool("p"))) == {"a": 600, "b": 90, "c": 90, "d": None}
    assert spread(fleet) == {"b", "c"}
    assert spread(pool_fleet("soonest", {"a": {}, "b": {}})) == {"a", "b"}
    assert spread(pool_fleet("soonest", {"a": {}, "b": {}}, a=reports(eta="1ms"), b=reports(eta="0s"))) == {"b"}


def test_soonest_takes_a_cluster_with_room_to_start_at_once_and_a_full_one_of_unknown_start_last() -> None:
    states = {
        "full": reports(free={"executions": 0}),
        "roomy": reports(free={"executions": 1}),
        "later": reports(eta="1s", free={"executions": 5}),
    }
    fleet = pool_fleet("soonest", {name: {} for name in states}, **states)
    assert scores(decided(fleet, pool("p"))) == {"full": None, "roomy": 0.0, "later": 1.0}
    assert spread(fleet) == {"roomy"}
    assert spread(fleet, {"roomy": {"executions": 1}}) == {"later"}


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_strategies_that_need_room_wait_when_every_cluster_is_full(strategy: str) -> None:
    full = reports(capacity={"executions": 1}, free={"executions": 0})
    decision = decided(pool_fleet(strategy, {"a": {}, "b": {}}, a=full, b=full), pool("p"))
    assert (decision.cluster, decision.code) == (None, "CLUSTERS_FULL")
    assert "'a' is full (1 of 1 executions taken)" in decision.message
    assert "'b' is full" in decision.message


@pytest.mark.parametrize("strategy", ["weighted", "cheapest", "soonest"])
def test_other_strategies_let_work_wait_at_a_full_cluster(strategy: str) -> None:
    full = reports(capacity={"executions": 1}, free={"executions": 0})
    decision = decided(pool_fleet(strategy, {"a": {}, "b": {}}, a=full, b=full), pool("p"))
    assert (decision.cluster in ("a", "b"), decision.code) == (True, "ASSIGNED")


@pytest.mark.parametrize("strategy", ["weighted", "spill", "least-loaded", "cheapest", "soonest"])
def test_a_weight_of_zero_is_never_chosen_by_any_strategy(strategy: str) -> None:
    members = group({"never": 0, "b": 1}, strategy=strategy)
    clusters = {"never": {"cost": 0}, "b": {"cost": 9}}
    states = {"never": reports(eta="0s", capacity={"cpu": "9"}, free={"cpu": "9"}), "b": reports(eta="9h")}
    fleet = small_fleet(clusters=clusters, pools={"p": members}, states=states)
    assert spread(fleet) == {"b"}


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_a_thousand_creations_between_two_reports_never_overfill_a_cluster(strategy: str) -> None:
    rooms = {"a": 300, "b": 500, "c": 150}
    states = {name: reports(capacity={"executions": 600}, free={"executions": room}) for name, room in rooms.items()}
    fleet = pool_fleet(strategy, {name: {} for name in rooms}, **states)
    waiting: dict[str, dict[str, int]] = {name: {"executions": 0} for name in rooms}
    counts: Counter[str | None] = Counter()
    for number in range(1000):
        cluster = decided(fleet, pool("p"), f"p/d/e{number}", waiting).cluster
        counts[cluster] += 1
        if cluster:
            waiting[cluster]["executions"] += 1
    assert counts.pop(None) == 50
    assert counts == rooms
