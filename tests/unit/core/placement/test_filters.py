"""Filters: which clusters are able, and the reason and code where none is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.machines import Machines
from admin.core.graph.memory import MemoryBackend
from admin.core.graph.request_texts import write_request
from admin.core.placement.candidates import Candidate, RequestedStrategy, Workload
from admin.core.placement.decisions import decide
from admin.core.placement.filters import ALL_FILTERS, BY_NAME, FILTERS, Chain, Filter, Verdict
from admin.core.placement.routes import RouteKind
from admin.core.placement.scores import STRATEGIES
from admin.core.use_grants import UsableClusters
from tests.support.descriptions import mixed, pooled
from tests.support.small_fleets import decided, group, pool, pool_fleet, reports, route, small_fleet

OFF = {"enabled": False}
CORDONED = {"cordoned": True, "cordon_reason": "new disks"}


def workload(**demand: int) -> Workload:
    return Workload(key="p/d/e", demand={"executions": 1, **demand})


def test_whatever_filters_may_look_at_distinguishes_the_evaluations_that_are_cached() -> None:
    plain = Workload(key="p/d/e")
    others: dict[str, Any] = {"demand": {"cpu": 1}, "exclusive": True, "plugins": ("mpi",), "declined": ("a",)}
    others |= {"asks": '{"needs":[]}', "usable": UsableClusters(frozenset({"a"}))}
    others["requested"] = RequestedStrategy("spill")
    # Evaluations by rules are told apart by what these name of the job: `criteria_of`.
    known = {"key", "job", *others}
    assert {field.name for field in fields(Workload)} == known, "a new field belongs to Workload.criteria"
    for name, value in others.items():
        assert replace(plain, **{name: value}).criteria != plain.criteria
    assert replace(plain, key="p/d/f").criteria == plain.criteria


# The list


def _odd(candidates: Sequence[Candidate], _: Workload) -> dict[int, str]:
    return {candidate.position: "is odd" for candidate in candidates if candidate.position % 2}


ODD = Filter(name="odd", code="CLUSTERS_ODD", drop=_odd)


def test_a_filter_added_to_the_list_gives_its_verdict_on_every_candidate() -> None:
    clusters = pool_fleet("weighted", {name: {} for name in "abc"}, b=OFF).clusters
    candidates = [Candidate(cluster, 1, position, None) for position, cluster in enumerate(clusters.values())]
    chain = Chain((*FILTERS, ODD))
    first, second, third = chain.verdicts(candidates, workload())
    assert first is third is chain.passed
    assert [verdict.filter for verdict in first] == [*(filter_.name for filter_ in FILTERS), "odd"]
    assert [verdict for verdict in second if not verdict.passed] == [
        Verdict("enabled", False, "is disabled"),
        Verdict("odd", False, "is odd"),
    ]


def test_filters_have_names_and_codes_of_their_own() -> None:
    assert len(BY_NAME) == len(ALL_FILTERS)
    assert len({filter_.code for filter_ in ALL_FILTERS}) == len(ALL_FILTERS)


def test_the_documentation_lists_every_filter_in_order_and_every_code_and_strategy() -> None:
    page = (Path(__file__).parents[4] / "docs" / "placement.md").read_text()
    section = page.split("## Filters")[1].split("## Strategies")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == [filter_.name for filter_ in ALL_FILTERS]
    names = {filter_.code for filter_ in ALL_FILTERS} | STRATEGIES.keys()
    assert {name for name in names if f"| `{name}`" not in page} == set()


@pytest.mark.parametrize(("strategy", "has_room"), [("weighted", False), ("spill", True)])
def test_a_trail_has_a_verdict_of_every_filter_in_their_order(strategy: str, has_room: bool) -> None:
    [candidate] = decided(pool_fleet(strategy, {"a": {}}), pool("p")).evaluation.trail.body["candidates"]
    names = [
        "use",
        "weight",
        "enabled",
        "cordoned",
        "reachable",
        "expected",
        "large-enough",
        "fits",
        "plugins",
        "declined",
    ]
    assert candidate["verdicts"] == [
        {"filter": name, "passed": True} for name in [*names, *(["room"] if has_room else [])]
    ]


# Reasons and codes


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
    decision = decided(pool_fleet("weighted", {"a": {}, "b": {}}, **states), pool("p"))
    assert (decision.cluster, decision.code) == (None, code)
    assert all(word in decision.message for word in words), decision.message
    assert "pool 'p'" in decision.message


def test_a_disabled_and_cordoned_cluster_is_called_disabled_and_both_are_in_the_trail() -> None:
    decision = decided(pool_fleet("weighted", {"a": {}}, a={**OFF, **CORDONED}), pool("p"))
    assert decision.code == "CLUSTERS_DISABLED"
    [candidate] = decision.evaluation.trail.body["candidates"]
    verdicts = {verdict["filter"]: verdict["passed"] for verdict in candidate["verdicts"]}
    failed = {name for name, passed in verdicts.items() if not passed}
    assert failed == {"enabled", "cordoned"}
    assert verdicts.keys() == {
        "use",
        "weight",
        "reachable",
        "expected",
        "large-enough",
        "fits",
        "plugins",
        "declined",
        *failed,
    }


@pytest.mark.parametrize(
    ("strategy", "seen", "code"),
    [
        ("weighted", {}, "ASSIGNED"),
        ("weighted", CORDONED, "CLUSTERS_CORDONED"),
        ("weighted", {"health": "unreachable"}, "CLUSTERS_UNREACHABLE"),
        ("weighted", {"admitted": False}, "CLUSTERS_UNREACHABLE"),
        ("spill", reports(free={"executions": 0}), "CLUSTERS_FULL"),
        ("spill", reports(capacity={"executions": 0}), "CLUSTER_EXPECTED"),
        ("weighted", OFF, "CLUSTER_EXPECTED"),
        ("weighted", {"health": "lost"}, "CLUSTER_EXPECTED"),
    ],
)
def test_an_expected_cluster_is_chosen_only_if_none_that_has_been_seen_could_ever_run_the_job(
    strategy: str, seen: dict[str, Any], code: str
) -> None:
    fleet = pool_fleet(strategy, {"never": {}, "seen": {}}, seen={"health": "ready", **seen})
    decision = decided(fleet, pool("p"))
    chosen = {"ASSIGNED": "seen", "CLUSTER_EXPECTED": "never"}.get(code)
    assert (decision.cluster, decision.code) == (chosen, code)
    assert ("no agent" in decision.message) is (chosen != "seen")
    [never, _] = decision.evaluation.trail.body["candidates"]
    assert never["expected"]
    failed = [verdict["reason"] for verdict in never["verdicts"] if not verdict["passed"]]
    assert failed == ([] if chosen == "never" else ["is expected: no agent of it has ever been seen"])


def test_what_only_an_expected_cluster_offers_or_has_not_declined_goes_there() -> None:
    members = group({"never": 1, "seen": 1, "weightless": 0})
    ready = {"health": "ready", **reports(plugins=["mpi"])}
    fleet = small_fleet(
        clusters={"never": {}, "seen": {}, "weightless": {}},
        pools={"p": members},
        states={"seen": ready, "weightless": {"health": "ready"}},
    )

    def cluster(**more: Any) -> str | None:
        return decide(pool("p"), fleet, Workload(key="p/d/e", **more), {}).cluster

    assert (cluster(), cluster(plugins=("mpi",))) == ("seen", "seen")
    assert (cluster(plugins=("spark",)), cluster(declined=("seen",))) == ("never", "never")


def test_only_some_clusters_are_named_and_the_others_counted() -> None:
    names = [f"c{number}" for number in range(9)]
    fleet = pool_fleet("weighted", {name: {} for name in names}, **dict.fromkeys(names, OFF))
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
def test_a_name_that_is_gone_from_the_fleet_is_named(kind: RouteKind, code: str) -> None:
    decision = decided(small_fleet(clusters={"a": {}}), route(kind, "was-here"))
    assert (decision.cluster, decision.code) == (None, code)
    assert "'was-here'" in decision.message


def test_a_clusters_own_name_is_a_label_unless_that_label_is_defined() -> None:
    fleet = small_fleet(clusters={"a": {}, "b": {}})
    assert decided(fleet, route(RouteKind.LABEL, "a")).cluster == "a"
    fleet = small_fleet(clusters={"a": {}, "b": {}}, labels={"a": group(["b"])})
    assert decided(fleet, route(RouteKind.LABEL, "a")).cluster == "b"


def test_a_job_too_large_for_every_cluster_is_infeasible_and_others_may_wait() -> None:
    sizes = {"a": {"capacity": {"cpu": "4"}}, "b": {"capacity": {"cpu": "8"}}}
    small = decide(pool("p"), pool_fleet("weighted", sizes), workload(cpu=8000), {})
    assert (small.cluster, small.evaluation.is_feasible) == ("b", True)
    large = decide(pool("p"), pool_fleet("weighted", sizes), workload(cpu=8001), {})
    assert (large.cluster, large.code, large.evaluation.is_feasible) == (None, "CLUSTERS_TOO_SMALL", False)
    assert "'a' is too small: 4 cpu in all, 8001m wanted" in large.message
    waiting = decide(pool("p"), pool_fleet("weighted", sizes, b=CORDONED), workload(cpu=8000), {})
    assert (waiting.code, waiting.evaluation.is_feasible) == ("CLUSTERS_UNABLE", True)


@pytest.mark.parametrize("state", [CORDONED, OFF], ids=["cordoned", "disabled"])
def test_a_job_too_large_for_every_cluster_is_infeasible_whatever_their_state(state: dict[str, Any]) -> None:
    sizes = {"a": {"capacity": {"cpu": "4"}}, "b": {"capacity": {"cpu": "8"}}}
    for states in ({"a": state}, {"a": state, "b": state}):
        decision = decide(pool("p"), pool_fleet("weighted", sizes, **states), workload(cpu=9000), {})
        assert not decision.evaluation.is_feasible, states
        assert "'a' is too small" in decision.message
        assert "'b' is too small" in decision.message


def test_a_cluster_of_unknown_capacity_may_be_large_enough() -> None:
    fleet = pool_fleet("weighted", {"a": {"capacity": {"cpu": "4"}}, "b": {}})
    assert decide(pool("p"), fleet, workload(cpu=10**9, gpu=5), {}).cluster == "b"
    fleet = pool_fleet("weighted", {"a": {"capacity": {"cpu": "4"}}})
    assert decide(pool("p"), fleet, workload(cpu=4000, gpu=5), {}).cluster == "a"


def test_reported_capacity_overrides_declared_capacity() -> None:
    declared = {"a": {"capacity": {"cpu": "4", "memory": "1Gi"}}}
    fleet = pool_fleet("weighted", declared, a=reports(capacity={"cpu": "16"}))
    assert decide(pool("p"), fleet, workload(cpu=16_000), {}).cluster == "a"
    assert decide(pool("p"), fleet, workload(cpu=1, memory=2**31), {}).cluster is None


def test_a_required_plugin_must_be_offered_unless_the_agent_reported_none() -> None:
    states = {"a": reports(plugins=["spark"]), "b": reports(plugins=["ray", "dask"]), "c": reports(plugins=[])}
    fleet = pool_fleet("weighted", {name: {} for name in "abc"}, **states)
    needed = Workload(key="p/d/e", plugins=("dask", "mpi"))
    assert decide(pool("p"), fleet, needed, {}).cluster == "b"
    none = decide(pool("p"), fleet, Workload(key="p/d/e", plugins=("mpi",)), {})
    assert (none.code, none.evaluation.is_feasible) == ("PLUGIN_MISSING", True)
    assert "'a' offers none of the plugins mpi" in none.message
    silent = pool_fleet("weighted", {"a": {}}, a=reports(engine="slurm"))
    assert decide(pool("p"), silent, needed, {}).cluster == "a"


def test_room_is_reported_free_less_what_waits_and_never_below_zero() -> None:
    fleet = pool_fleet("spill", {"a": {}}, a=reports(free={"cpu": "2", "memory": "1Gi"}))
    needed = workload(cpu=1500, memory=2**20)
    assert decide(pool("p"), fleet, needed, {"a": {"cpu": 500}}).cluster == "a"
    full = decide(pool("p"), fleet, needed, {"a": {"cpu": 9000}})
    assert full.code == "CLUSTERS_FULL"
    assert "is full (0 cpu free, 1500m wanted)" in full.message


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_nodes_are_shared_and_only_bound_how_many_a_job_may_ask_for(strategy: str) -> None:
    fleet = pool_fleet(
        strategy, {"a": {"capacity": {"cpu": "4", "nodes": 1}}}, a=reports(free={"cpu": "1", "nodes": 0})
    )
    assert decide(pool("p"), fleet, workload(cpu=1000, nodes=1), {}).cluster == "a"
    full = decide(pool("p"), fleet, workload(cpu=1000, nodes=1), {"a": {"cpu": 1000, "executions": 1}})
    assert (full.code, full.message) == (
        "CLUSTERS_FULL",
        "No cluster of pool 'p' is able: 'a' is full (4 of 4 cpu taken).",
    )
    too_small = decide(pool("p"), fleet, workload(cpu=1000, nodes=2), {})
    assert (too_small.code, too_small.evaluation.is_feasible) == ("CLUSTERS_TOO_SMALL", False)


def test_an_exclusive_job_takes_all_that_its_nodes_have_as_far_as_that_is_known() -> None:
    alone = Workload(key="p/d/e", demand={"cpu": 1000, "nodes": 1, "executions": 1}, exclusive=True)
    capacity = {"capacity": {"cpu": "7", "memory": "8Gi", "nodes": 2, "executions": 9}}
    fleet = pool_fleet("spill", {"a": capacity, "b": {"capacity": {"cpu": "7"}}})
    a, b = fleet.clusters["a"], fleet.clusters["b"]
    assert alone.takes_of(a) == {"cpu": 3500, "memory": 4 * 2**30, "nodes": 1, "executions": 1}
    assert alone.takes_of(b) == alone.demand
    half = decide(pool("p"), fleet, alone, {"a": {"cpu": 3500}})
    assert half.cluster == "a"
    spilled = decide(pool("p"), fleet, alone, {"a": {"cpu": 3501}})
    assert spilled.cluster == "b"
    assert spilled.evaluation.verdicts[0][-1].reason == "is full (3501m of 7 cpu taken, 3500m wanted)"
    busy = pool_fleet("spill", {"a": capacity}, a=reports(free={"cpu": "6", "memory": "8Gi", "nodes": 0}))
    assert "2 of 2 nodes taken" in decide(pool("p"), busy, alone, {}).message


def test_declared_capacity_is_room_until_a_cluster_has_reported() -> None:
    fleet = pool_fleet("spill", {"a": {"capacity": {"executions": 2}}, "b": {}})
    assert decided(fleet, pool("p"), waiting={"a": {"executions": 1}}).cluster == "a"
    assert decided(fleet, pool("p"), waiting={"a": {"executions": 2}}).cluster == "b"


# Use


def use_decided(clusters: str, fleet: Any, **demand: int) -> Any:
    """The decision for a creator who may use some clusters."""
    usable = UsableClusters(frozenset(clusters))
    return decide(route(RouteKind.POOL, "p"), fleet, replace(workload(**demand), usable=usable), {})


def test_only_clusters_that_the_creator_may_use_are_chosen() -> None:
    fleet = pool_fleet("weighted", {name: {} for name in "abc"})
    assert use_decided("b", fleet).cluster == "b"
    decision = use_decided("", fleet)
    assert (decision.cluster, decision.code) == (None, "CREATOR_MAY_NOT")
    assert decision.message == "No cluster of pool 'p' is able: 3 clusters may not be used by its creator."


def test_a_message_counts_what_the_creator_may_not_use_and_its_code_is_that_of_the_others() -> None:
    fleet = pool_fleet("weighted", {name: {} for name in "abc"}, a=CORDONED, b=CORDONED)
    decision = use_decided("a", fleet)
    assert decision.code == "CLUSTERS_CORDONED"
    assert decision.message == (
        "No cluster of pool 'p' is able: 'a' is cordoned (new disks), 2 clusters may not be used by its creator."
    )


def test_a_job_is_infeasible_if_all_that_the_creator_may_use_are_too_small() -> None:
    small = {"capacity": {"cpu": "1"}}
    fleet = pool_fleet("weighted", {"a": small, "b": {}, "c": small})
    decision = use_decided("a", fleet, cpu=8_000)
    assert (decision.evaluation.is_feasible, decision.code) == (False, "CLUSTERS_TOO_SMALL")
    assert "'b'" not in decision.message
    assert "'c'" not in decision.message
    assert use_decided("", fleet, cpu=8_000).evaluation.is_feasible


def test_an_exclusive_job_takes_of_nodes_that_are_told_singly_what_each_has_at_least() -> None:
    machine = Machines(MemoryBackend()).add("a", read_description(mixed({"core": 8, "gpu": 2}, {"core": 6})))
    alone = Workload(key="e", demand={"cpu": 1000, "nodes": 1, "executions": 1}, exclusive=True, asks="[]")
    capacity = {"capacity": {"cpu": "14", "gpu": "2", "memory": "8Gi", "nodes": 2}}
    for nodes, asks, cpu, gpu in (({}, "[]", 6_000, 0), (None, "[]", 7_000, 1), ({}, None, 7_000, 1)):
        told: dict[str, Any] = {} if nodes is None else {"nodes": nodes}
        cluster = pool_fleet("spill", {"a": {}}, a=reports(**capacity, **told)).clusters["a"]
        takes = replace(alone, asks=asks).takes_of(replace(cluster, machine=machine))
        assert (takes["cpu"], takes["gpu"], takes["memory"], takes["nodes"]) == (cpu, gpu, 4 * 2**30, 1)


def test_single_nodes_are_looked_at_only_where_the_sums_leave_room() -> None:
    """To find places on thousands of nodes for all that waits there takes seconds."""
    machine = Machines(MemoryBackend()).add("a", read_description(pooled(2, 4)))
    state = reports(capacity={"cpu": "8"}, free={"cpu": "4"}, nodes={"n1": {"cpu": "2"}, "n2": {"cpu": "2"}})
    cluster = replace(pool_fleet("spill", {"a": {}}, a=state).clusters["a"], machine=machine)
    candidate = Candidate(cluster, 1, 0, cluster.unused, {})
    for cpu, reason, is_looked_at in (
        (5, "4 of 8 cpu taken, 5 wanted", False),
        (3, "cores: needs 3 on one node, the most free on one node is 2", True),
    ):
        asks = write_request(request_of({"resources": {"tasks": 1, "requests": {"cpu": str(cpu)}}}))
        work = replace(workload(cpu=cpu * 1000), asks=asks)
        assert BY_NAME["room"].drop([candidate], work) == {0: f"is full ({reason})"}
        assert ("room" in vars(cluster)) is is_looked_at
