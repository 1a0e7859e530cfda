"""Decisions: which clusters are able, which of them a strategy prefers, and what is said where none is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from admin.core.fleet.fleet import Fleet
from admin.core.placement.decisions import Decision, decide, may_stay, render_candidates
from admin.core.placement.routes import RouteKind
from admin.core.placement.workloads import Workload
from admin.core.resources import Amounts, parse_capacity
from tests.support.small_fleets import decided, group, pool, route, small_fleet

KEYS = [f"p/d/e{number}" for number in range(300)]


def fleet_of(strategy: str, clusters: Mapping[str, Mapping[str, Any]], **states: Mapping[str, Any]) -> Fleet:
    """One pool 'p' of clusters in the order given; what a cluster reports is its state's report."""
    return small_fleet(clusters=clusters, pools={"p": group(list(clusters), strategy=strategy)}, states=states)


def reports(**report: Any) -> dict[str, Any]:
    return {"report": report}


def spread(fleet: Fleet, waiting: Mapping[str, Amounts] | None = None) -> set[str | None]:
    """Where many executions of the pool would go, each by itself."""
    return {decided(fleet, pool("p"), key, waiting).cluster for key in KEYS}


def scores(decision: Decision) -> dict[str, float | None]:
    return {one.cluster: one.score for one in decision.evaluation.assessments if one.passed}


# Strategies


def test_weighted_looks_at_weights_alone() -> None:
    fleet = fleet_of("weighted", {"a": {"cost": 9}, "b": {"cost": 1}}, a=reports(free={"executions": 0}))
    assert spread(fleet) == {"a", "b"}
    assert scores(decided(fleet, pool("p"))) == {"a": 0.0, "b": 0.0}


def test_spill_fills_in_the_listed_order() -> None:
    fleet = fleet_of("spill", {name: {} for name in "cab"}, **{name: reports(free={"executions": 2}) for name in "cab"})
    waiting: dict[str, dict[str, int]] = {}
    went = []
    for number in range(7):
        cluster = decided(fleet, pool("p"), f"p/d/e{number}", waiting).cluster
        went.append(cluster)
        if cluster:
            waiting[cluster] = {"executions": waiting.get(cluster, {}).get("executions", 0) + 1}
    assert went == ["c", "c", "a", "a", "b", "b", None]


def test_spill_takes_a_cluster_of_unknown_room_for_one_with_room() -> None:
    fleet = fleet_of("spill", {"a": {}, "b": {}}, a=reports(free={"executions": 0}))
    assert spread(fleet) == {"b"}
    assert spread(fleet_of("spill", {"a": {}, "b": {}})) == {"a"}


def test_least_loaded_takes_the_emptiest_and_draws_among_equals() -> None:
    states = {
        "a": reports(capacity={"cpu": "10"}, free={"cpu": "5"}),
        "b": reports(capacity={"cpu": "100"}, free={"cpu": "80"}),
        "c": reports(capacity={"cpu": "1"}, free={"cpu": "800m"}),
        "d": reports(capacity={"cpu": "10"}, free={"cpu": "7"}),
    }
    fleet = fleet_of("least-loaded", {name: {} for name in "abcd"}, **states)
    assert scores(decided(fleet, pool("p"))) == {"a": 0.5, "b": 0.2, "c": 0.2, "d": 0.3}
    assert spread(fleet) == {"b", "c"}


def test_least_loaded_is_as_loaded_as_the_scarcest_resource() -> None:
    states = {
        "a": reports(capacity={"cpu": "10", "memory": "10Gi"}, free={"cpu": "10", "memory": "1Gi"}),
        "b": reports(capacity={"cpu": "10", "memory": "10Gi"}, free={"cpu": "5", "memory": "5Gi"}),
    }
    assert spread(fleet_of("least-loaded", {"a": {}, "b": {}}, **states)) == {"b"}


def test_least_loaded_takes_a_cluster_of_unknown_load_only_when_no_other_is_able() -> None:
    busy = reports(capacity={"executions": 10}, free={"executions": 1})
    fleet = fleet_of("least-loaded", {"silent": {}, "busy": {}}, busy=busy)
    assert spread(fleet) == {"busy"}
    assert scores(decided(fleet, pool("p"))) == {"silent": None, "busy": 0.9}
    assert spread(fleet, {"busy": {"executions": 1}}) == {"silent"}


def test_cheapest_takes_the_least_cost_draws_among_equals_and_unknown_comes_last() -> None:
    costs: dict[str, dict[str, Any]] = {"a": {"cost": 2}, "b": {"cost": 1.5}, "c": {"cost": 1.5}, "d": {}}
    fleet = fleet_of("cheapest", costs)
    assert spread(fleet) == {"b", "c"}
    assert scores(decided(fleet, pool("p"))) == {"a": 2, "b": 1.5, "c": 1.5, "d": None}
    off = {"cordoned": True}
    assert spread(fleet_of("cheapest", costs, b=off, c=off)) == {"a"}
    assert spread(fleet_of("cheapest", costs, a=off, b=off, c=off)) == {"d"}
    assert spread(fleet_of("cheapest", {"a": {}, "b": {}})) == {"a", "b"}
    free: dict[str, dict[str, Any]] = {"a": {"cost": 0}, "b": {"cost": 1e-9}}
    assert spread(fleet_of("cheapest", free)) == {"a"}


def test_cheapest_does_not_mind_a_full_cluster() -> None:
    fleet = fleet_of("cheapest", {"a": {"cost": 1}, "b": {"cost": 2}}, a=reports(free={"executions": 0}))
    assert spread(fleet) == {"a"}


def test_soonest_takes_the_earliest_start_draws_among_equals_and_unknown_comes_last() -> None:
    states = {"a": reports(eta="10m"), "b": reports(eta="90s"), "c": reports(eta="1m30s")}
    fleet = fleet_of("soonest", {name: {} for name in "abcd"}, **states)
    assert scores(decided(fleet, pool("p"))) == {"a": 600, "b": 90, "c": 90, "d": None}
    assert spread(fleet) == {"b", "c"}
    assert spread(fleet_of("soonest", {"a": {}, "b": {}})) == {"a", "b"}
    assert spread(fleet_of("soonest", {"a": {}, "b": {}}, a=reports(eta="1ms"), b=reports(eta="0s"))) == {"b"}


def test_soonest_takes_a_cluster_with_room_to_start_at_once_and_a_full_one_of_unknown_start_last() -> None:
    states = {
        "full": reports(free={"executions": 0}),
        "roomy": reports(free={"executions": 1}),
        "later": reports(eta="1s", free={"executions": 5}),
    }
    fleet = fleet_of("soonest", {name: {} for name in states}, **states)
    assert scores(decided(fleet, pool("p"))) == {"full": None, "roomy": 0.0, "later": 1.0}
    assert spread(fleet) == {"roomy"}
    assert spread(fleet, {"roomy": {"executions": 1}}) == {"later"}


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_strategies_that_need_room_wait_when_every_cluster_is_full(strategy: str) -> None:
    full = reports(capacity={"executions": 1}, free={"executions": 0})
    decision = decided(fleet_of(strategy, {"a": {}, "b": {}}, a=full, b=full), pool("p"))
    assert (decision.cluster, decision.code) == (None, "CLUSTERS_FULL")
    assert "'a' is full: 1 executions wanted, free are 0" in decision.message
    assert "'b' is full" in decision.message


@pytest.mark.parametrize("strategy", ["weighted", "cheapest", "soonest"])
def test_other_strategies_let_work_wait_at_a_full_cluster(strategy: str) -> None:
    full = reports(capacity={"executions": 1}, free={"executions": 0})
    decision = decided(fleet_of(strategy, {"a": {}, "b": {}}, a=full, b=full), pool("p"))
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
    fleet = fleet_of(strategy, {name: {} for name in rooms}, **states)
    waiting: dict[str, dict[str, int]] = {name: {"executions": 0} for name in rooms}
    counts: Counter[str | None] = Counter()
    for number in range(1000):
        cluster = decided(fleet, pool("p"), f"p/d/e{number}", waiting).cluster
        counts[cluster] += 1
        if cluster:
            waiting[cluster]["executions"] += 1
    assert dict(counts) == {"a": 300, "b": 500, "c": 150, None: 50}


# Filters and reasons


def wanted(**demand: int) -> Workload:
    return Workload(key="p/d/e", demand={"executions": 1, **demand})


OFF = {"enabled": False}
CORDONED = {"cordoned": True, "cordon_reason": "new disks"}


@pytest.mark.parametrize(
    ("states", "code", "words"),
    [
        ({"a": OFF, "b": OFF}, "CLUSTERS_DISABLED", ["'a' is disabled", "'b' is disabled"]),
        (
            {"a": CORDONED, "b": {"cordoned": True}},
            "CLUSTERS_CORDONED",
            ["'a' is cordoned (new disks)", "'b' is cordoned"],
        ),
        ({"a": CORDONED, "b": OFF}, "CLUSTERS_UNABLE", ["'a' is cordoned (new disks)", "'b' is disabled"]),
    ],
)
def test_where_no_cluster_is_able_the_reason_names_each_and_why(
    states: dict[str, Any], code: str, words: list[str]
) -> None:
    decision = decided(fleet_of("weighted", {"a": {}, "b": {}}, **states), pool("p"))
    assert (decision.cluster, decision.code) == (None, code)
    assert all(word in decision.message for word in words), decision.message
    assert "pool 'p'" in decision.message


def test_a_disabled_and_cordoned_cluster_is_called_disabled_and_both_are_in_the_trail() -> None:
    decision = decided(fleet_of("weighted", {"a": {}}, a={**OFF, **CORDONED}), pool("p"))
    assert decision.code == "CLUSTERS_DISABLED"
    verdicts = {one["filter"]: one["passed"] for one in decision.evaluation.trail.body["candidates"][0]["verdicts"]}
    failed = {name for name, passed in verdicts.items() if not passed}
    assert failed == {"enabled", "cordoned"}
    assert verdicts.keys() == {"weight", "reachable", "large-enough", "plugins", "declined", *failed}


def test_only_some_clusters_are_named_and_the_others_counted() -> None:
    names = [f"c{number}" for number in range(9)]
    fleet = fleet_of("weighted", {name: {} for name in names}, **dict.fromkeys(names, OFF))
    message = decided(fleet, pool("p")).message
    assert "'c4'" in message
    assert "'c5'" not in message
    assert message.endswith("and 4 more.")


def test_an_empty_fleet_is_waited_for() -> None:
    decision = decided(small_fleet(), route(RouteKind.ANY))
    assert (decision.cluster, decision.code) == (None, "NO_CLUSTERS")


@pytest.mark.parametrize(
    ("kind", "code"),
    [(RouteKind.POOL, "POOL_GONE"), (RouteKind.LABEL, "LABEL_GONE"), (RouteKind.CLUSTER, "CLUSTER_GONE")],
)
def test_what_is_gone_from_the_fleet_is_named(kind: RouteKind, code: str) -> None:
    decision = decided(small_fleet(clusters={"a": {}}), route(kind, "was-here"))
    assert (decision.cluster, decision.code) == (None, code)
    assert "'was-here'" in decision.message


def test_a_clusters_own_name_is_a_label_unless_somebody_defined_that_label() -> None:
    fleet = small_fleet(clusters={"a": {}, "b": {}})
    assert decided(fleet, route(RouteKind.LABEL, "a")).cluster == "a"
    fleet = small_fleet(clusters={"a": {}, "b": {}}, labels={"a": group(["b"])})
    assert decided(fleet, route(RouteKind.LABEL, "a")).cluster == "b"


def test_a_job_that_no_cluster_could_ever_run_is_told_from_one_that_may_wait() -> None:
    sizes = {"a": {"capacity": {"cpu": "4"}}, "b": {"capacity": {"cpu": "8"}}}
    small = decide(pool("p"), fleet_of("weighted", sizes), wanted(cpu=8000), {})
    assert (small.cluster, small.evaluation.is_feasible) == ("b", True)
    large = decide(pool("p"), fleet_of("weighted", sizes), wanted(cpu=8001), {})
    assert (large.cluster, large.code, large.evaluation.is_feasible) == (None, "CLUSTERS_TOO_SMALL", False)
    assert "'a' is too small: 8001m cpu wanted, it has 4" in large.message
    waiting = decide(pool("p"), fleet_of("weighted", sizes, b=CORDONED), wanted(cpu=8000), {})
    assert (waiting.code, waiting.evaluation.is_feasible) == ("CLUSTERS_UNABLE", True)


@pytest.mark.parametrize("state", [CORDONED, OFF], ids=["cordoned", "disabled"])
def test_a_job_too_large_for_every_cluster_is_so_whatever_else_stands_in_the_way(state: dict[str, Any]) -> None:
    sizes = {"a": {"capacity": {"cpu": "4"}}, "b": {"capacity": {"cpu": "8"}}}
    for states in ({"a": state}, {"a": state, "b": state}):
        decision = decide(pool("p"), fleet_of("weighted", sizes, **states), wanted(cpu=9000), {})
        assert not decision.evaluation.is_feasible, states
        assert "'a' is too small" in decision.message
        assert "'b' is too small" in decision.message


def test_a_cluster_that_has_not_said_how_large_it_is_may_be_large_enough() -> None:
    fleet = fleet_of("weighted", {"a": {"capacity": {"cpu": "4"}}, "b": {}})
    assert decide(pool("p"), fleet, wanted(cpu=10**9, gpu=5), {}).cluster == "b"
    fleet = fleet_of("weighted", {"a": {"capacity": {"cpu": "4"}}})
    assert decide(pool("p"), fleet, wanted(cpu=4000, gpu=5), {}).cluster == "a"


def test_what_an_agent_reports_counts_for_more_than_what_was_declared() -> None:
    declared = {"a": {"capacity": {"cpu": "4", "memory": "1Gi"}}}
    fleet = fleet_of("weighted", declared, a=reports(capacity={"cpu": "16"}))
    assert decide(pool("p"), fleet, wanted(cpu=16_000), {}).cluster == "a"
    assert decide(pool("p"), fleet, wanted(cpu=1, memory=2**31), {}).cluster is None


def test_a_wanted_plugin_must_be_offered_unless_the_agent_has_not_said() -> None:
    states = {"a": reports(plugins=["spark"]), "b": reports(plugins=["ray", "dask"]), "c": reports(plugins=[])}
    fleet = fleet_of("weighted", {name: {} for name in "abc"}, **states)
    want = Workload(key="p/d/e", plugins=("dask", "mpi"))
    assert decide(pool("p"), fleet, want, {}).cluster == "b"
    none = decide(pool("p"), fleet, Workload(key="p/d/e", plugins=("mpi",)), {})
    assert (none.code, none.evaluation.is_feasible) == ("PLUGIN_MISSING", True)
    assert "'a' offers none of the plugins mpi" in none.message
    silent = fleet_of("weighted", {"a": {}}, a=reports(engine="slurm"))
    assert decide(pool("p"), silent, want, {}).cluster == "a"


def test_room_is_what_was_reported_less_what_waits_and_never_below_nothing() -> None:
    fleet = fleet_of("spill", {"a": {}}, a=reports(free={"cpu": "2", "memory": "1Gi"}))
    want = wanted(cpu=1500, memory=2**20)
    assert decide(pool("p"), fleet, want, {"a": {"cpu": 500}}).cluster == "a"
    full = decide(pool("p"), fleet, want, {"a": {"cpu": 9000}})
    assert full.code == "CLUSTERS_FULL"
    assert "1500m cpu wanted, free are 0" in full.message


def test_declared_capacity_is_room_until_a_cluster_has_reported() -> None:
    fleet = fleet_of("spill", {"a": {"capacity": {"executions": 2}}, "b": {}})
    assert decided(fleet, pool("p"), waiting={"a": {"executions": 1}}).cluster == "a"
    assert decided(fleet, pool("p"), waiting={"a": {"executions": 2}}).cluster == "b"


# Staying, and showing


def test_what_waits_may_stay_for_as_long_as_its_cluster_is_able_and_belongs_to_its_route() -> None:
    clusters: dict[str, Any] = {"a": {"capacity": {"cpu": "4"}}, "b": {}}
    fleet = fleet_of("spill", clusters, a=reports(free={"cpu": "0"}))
    assert may_stay("a", pool("p"), fleet, wanted(cpu=4000))  # full, but it holds its room already
    assert not may_stay("a", pool("p"), fleet, wanted(cpu=5000))
    assert not may_stay("c", pool("p"), fleet, wanted())
    assert not may_stay("a", pool("gone"), fleet, wanted())
    for state in (OFF, CORDONED):
        assert not may_stay("a", pool("p"), fleet_of("spill", clusters, a=state), wanted())
    zero = small_fleet(pools={"p": group({"a": 0, "b": 1})})
    assert not may_stay("a", pool("p"), zero, wanted())


@pytest.mark.parametrize("strategy", ["weighted", "spill", "least-loaded", "cheapest", "soonest"])
def test_candidates_are_shown_from_the_trail_as_they_were_decided(strategy: str) -> None:
    clusters: dict[str, Any] = {"a": {"cost": 1}, "b": {"cost": 1}, "c": {"cost": 3}, "d": {}, "off": {}}
    states = {
        "a": reports(eta="5s", capacity={"executions": 4}, free={"executions": 2}),
        "b": reports(eta="5s", capacity={"executions": 4}, free={"executions": 2}),
        "c": reports(eta="7s", capacity={"executions": 4}, free={"executions": 1}),
        "off": OFF,
    }
    decision = decided(fleet_of(strategy, clusters, **states), pool("p"))
    shown = render_candidates(decision.evaluation.trail.body, decision.evaluation.scores, "p/d/e", decision.cluster)
    by_name = {one["cluster"]: one for one in shown}
    assert {name: one.get("score", "none") for name, one in by_name.items()} == {
        one.cluster: one.score if one.passed else "none" for one in decision.evaluation.assessments
    }
    assert {name for name, one in by_name.items() if "draw" in one} == {one.cluster for one in decision.evaluation.best}
    best = [one for one in shown if one.get("rank") == 1]
    assert [one["cluster"] for one in shown if one["chosen"]] == [decision.cluster]
    assert max(best, key=lambda one: one["draw"])["cluster"] == decision.cluster
    assert "rank" not in by_name["off"]
    assert all("draw" not in one for one in shown if one.get("rank") != 1)


def test_amounts_are_rounded_so_that_no_cluster_is_promised_more_than_it_has() -> None:
    assert parse_capacity({"cpu": "1.0009", "memory": "1.5", "gpu": None}) == {"cpu": 1000, "memory": 1}
