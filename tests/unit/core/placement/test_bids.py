"""Bids: which cluster gets an execution by what all of them answered."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from admin.core.fleet.asking import CHEAPEST, MIX, Asking, read_asking
from admin.core.fleet.clusters import ClusterState, build_cluster
from admin.core.fleet.definitions import FleetKind
from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.machines import Machines
from admin.core.graph.memory import MemoryBackend
from admin.core.graph.request_texts import write_request
from admin.core.placement.bid_reports import read_bid
from admin.core.placement.bids import (
    NO_CLUSTER_CAN,
    Bid,
    BidAnswer,
    Load,
    Weighed,
    describe_worse,
    find_better,
    is_kept,
    pause_before,
    start_of,
    weigh,
)
from admin.core.placement.candidates import Candidate, Workload, free_amounts
from admin.core.placement.decisions import ASKING, choose, evaluate
from admin.core.placement.scores import reported_start
from admin.core.problems import Invalid
from admin.core.resources import add
from tests.support.descriptions import pooled
from tests.support.small_fleets import NOW, definition, group, pool, pool_fleet, reports


def bid(cluster: str, answer: str = "yes", start: float | None = 0.0, **more: Any) -> Bid:
    seconds = start if answer == "yes" else None
    return Bid(cluster=cluster, answer=BidAnswer(answer), start_seconds=seconds, answered_at=NOW, **more)


def workload(name: str = "e", **demand: int) -> Workload:
    return Workload(key=f"p/d/{name}", demand={"executions": 1, **demand})


def weighed(
    *bids: Bid,
    asking: Asking | None = None,
    states: dict[str, Any] | None = None,
    clusters: dict[str, Any] | None = None,
    load: Load | None = None,
    work: Workload | None = None,
) -> Weighed:
    """The bids of clusters that have synced, compared."""
    defined = clusters or {name.cluster: {} for name in bids}
    fleet = pool_fleet("ask", defined, **{name: reports() for name in defined} | (states or {}))
    load, work = load or Load(now=NOW), work or workload()
    evaluation = evaluate(pool("p"), fleet, work, load.assigned)
    assert evaluation.code == ASKING
    return weigh(pool("p"), evaluation, {given.cluster: given for given in bids}, asking or Asking(), work, load)


def chosen(result: Weighed, key: str = "p/d/e") -> str | None:
    return choose(result.evaluation, key).cluster


def reason(result: Weighed, cluster: str) -> str:
    evaluation = result.evaluation
    [position] = [candidate.position for candidate in evaluation.candidates if candidate.cluster.name == cluster]
    return evaluation.verdicts[position][-1].reason


# The choice


def test_the_soonest_is_chosen_and_equal_ones_share_by_weight() -> None:
    assert chosen(weighed(bid("a", start=30), bid("b", start=5), bid("c", start=600))) == "b"
    result = weighed(bid("a", start=5), bid("b", start=5.3))
    drawn = Counter(chosen(result, f"p/d/{number}") for number in range(200))
    assert set(drawn) == {"a", "b"}


@pytest.mark.parametrize(
    ("fields", "cluster"),
    [
        ({"choose_by": "soonest"}, "quick"),
        ({"choose_by": "cheapest"}, "cheap"),
        ({"choose_by": "mix", "seconds_weight": 1, "cost_weight": 1000}, "cheap"),
        ({"choose_by": "mix", "seconds_weight": 1, "cost_weight": 1}, "quick"),
        ({"choose_by": "mix", "seconds_weight": 0.5, "cost_weight": 20}, "both"),
    ],
)
def test_a_pool_says_which_bid_is_the_best(fields: dict[str, Any], cluster: str) -> None:
    bids = [bid("quick", start=10, cost=20.0), bid("cheap", start=600, cost=1.0), bid("both", start=60, cost=5.0)]
    assert chosen(weighed(*bids, asking=read_asking({"strategy": "ask", **fields}))) == cluster


def test_without_a_cost_in_the_bid_that_of_the_definition_counts_and_unknown_ones_come_last() -> None:
    asking = Asking(choose_by="cheapest")
    clusters: dict[str, Any] = {"a": {"cost": 3}, "b": {"cost": 2}, "c": {}}
    assert chosen(weighed(bid("a"), bid("b"), bid("c"), clusters=clusters, asking=asking)) == "b"
    assert chosen(weighed(bid("a", cost=1.0), bid("b"), bid("c"), clusters=clusters, asking=asking)) == "a"


def test_of_clusters_that_cost_the_same_the_one_that_starts_it_first_is_the_cheapest() -> None:
    asking = Asking(choose_by="cheapest")
    bids = (bid("a", start=600, cost=1.0), bid("b", start=5, cost=1.0), bid("c", start=0, cost=2.0))
    assert {chosen(weighed(*bids, asking=asking), f"p/d/{number}") for number in range(50)} == {"b"}
    unknown = (bid("old", "reported", cost=1.0), bid("b", start=5, cost=1.0))
    assert chosen(weighed(*unknown, asking=asking)) == "b"


def test_an_agent_that_cannot_bid_is_scored_by_what_it_reports() -> None:
    old = bid("old", "reported")
    assert chosen(weighed(old, bid("new", start=60), states={"old": reports(eta="20s")})) == "old"
    assert chosen(weighed(old, bid("new", start=5), states={"old": reports(eta="20s")})) == "new"
    assert chosen(weighed(old, bid("new", start=5), states={"old": reports()})) == "new"  # nothing is known of it
    assert chosen(weighed(old, bid("new", "never"))) == "old"


def test_what_an_agent_reports_that_cannot_bid_is_discounted_as_a_bid_is() -> None:
    old, state = bid("old", "reported"), reports(capacity={"cpu": "2"}, free={"cpu": "2"}, eta="1ms")
    for waiting, start in ((0, 0), (1000, 0), (2000, 60), (4000, 120)):
        load = Load(now=NOW, assigned={"old": {"cpu": waiting}}, run_seconds=60)
        assert weighed(old, states={"old": state}, load=load, work=workload(cpu=1000)).starts == {"old": start}


# Those that are out


def test_who_says_no_or_nothing_is_out_with_the_reason() -> None:
    load = Load(now=NOW, round_seconds=3)
    result = weighed(
        bid("a", "not-now", reason="no room"),
        bid("b", "never", reason="no gpu"),
        bid("c", "silent"),
        bid("d"),
        load=load,
    )
    assert chosen(result) == "d"
    assert [reason(result, name) for name in "abcd"] == [
        "said not now (no room)",
        "said never (no gpu)",
        "did not answer within 3 s",
        "",
    ]


def test_a_cluster_that_became_able_after_the_question_is_not_chosen() -> None:
    result = weighed(bid("a", start=600), clusters={"a": {}, "late": {}})
    assert chosen(result) == "a"
    assert reason(result, "late") == "was not asked: it was not able then"


def test_with_nobody_that_says_yes_they_are_asked_again_and_with_never_alone_it_fails() -> None:
    again = weighed(bid("a", "not-now", reason="full"), bid("b", "never"))
    assert (again.evaluation.code, chosen(again)) == (ASKING, None)
    assert again.evaluation.message == "No cluster of pool 'p' is able: 'a' said not now (full), 'b' said never."
    never = weighed(bid("a", "never", reason="no gpu"), bid("b", "never", reason="no image"))
    assert (never.evaluation.code, never.evaluation.is_feasible) == (NO_CLUSTER_CAN, False)
    assert "'a' said never (no gpu)" in never.evaluation.message
    assert "'b' said never (no image)" in never.evaluation.message
    silent = weighed(bid("a", "never"), bid("b", "silent"))
    assert silent.evaluation.code == ASKING


def test_a_cluster_that_may_become_able_keeps_it_from_failing_and_one_that_never_will_does_not() -> None:
    clusters: dict[str, Any] = {"a": {}, "other": {}}
    cordoned = weighed(bid("a", "never"), clusters=clusters, states={"other": {"cordoned": True}})
    assert cordoned.evaluation.code == ASKING
    small: dict[str, Any] = {"a": {}, "other": {"capacity": {"cpu": "1"}}}
    too_small = weighed(bid("a", "never"), clusters=small, work=workload(cpu=8000))
    assert too_small.evaluation.code == NO_CLUSTER_CAN
    assert "'other' is too small" in too_small.evaluation.message


# What was assigned since


def test_a_bid_counts_from_when_it_was_made() -> None:
    later = Load(now=NOW + timedelta(seconds=20))
    assert weighed(bid("a", start=60), load=later).starts == {"a": 40}
    assert weighed(bid("a", start=10), load=later).starts == {"a": 0}


def test_what_was_assigned_since_delays_a_start_only_where_it_leaves_no_room() -> None:
    four = reports(capacity={"cpu": "4"}, free={"cpu": "4"})
    for cpu, start in ((0, 0), (3000, 0), (4000, 60), (8000, 120)):
        load = Load(now=NOW, assigned={"a": {"cpu": cpu, "executions": cpu // 1000}}, run_seconds=60)
        assert weighed(bid("a"), states={"a": four}, load=load, work=workload(cpu=1000)).starts == {"a": start}
    busy = Load(now=NOW, assigned={"a": {"cpu": 4000}}, run_seconds=60)
    assert weighed(bid("a", start=100), states={"a": four}, load=busy, work=workload(cpu=1000)).starts == {"a": 160}


@pytest.mark.parametrize(
    ("cores", "cpu", "starts"),
    [(2, 2, (0, 60, 120, 180)), (20, 10, (0, 0, 60, 60, 120)), (3, 2, (0, 60, 120)), (4, 1, (0, 0, 0, 0, 60))],
)
def test_equal_jobs_are_promised_the_starts_that_they_will_have(cores: int, cpu: int, starts: tuple[int, ...]) -> None:
    state = reports(capacity={"cpu": str(cores)}, free={"cpu": str(cores)})
    for before, start in enumerate(starts):
        load = Load(now=NOW, assigned={"a": {"cpu": before * cpu * 1000}}, run_seconds=60)
        result = weighed(bid("a"), states={"a": state}, load=load, work=workload(cpu=cpu * 1000))
        assert result.starts == {"a": start}


def test_equal_clusters_are_promised_the_same_starts_however_they_tell_what_is_free() -> None:
    machine = Machines(MemoryBackend()).add("a", read_description(pooled(1, 8)))
    work = replace(workload(cpu=1000), asks=write_request(request_of({"resources": {"requests": {"cpu": "1"}}})))
    free, nodes = {"free": {"cpu": "2"}}, {"nodes": {"n1": {"cpu": "2"}}}
    for report, described in ((free, None), (free, machine), (nodes, machine), ({**free, **nodes}, machine)):
        state = ClusterState(name="a", reported_at=NOW, report=report)
        cluster = build_cluster(definition(FleetKind.CLUSTER, "a", {"capacity": {"cpu": "8"}}), state, described)
        starts = []
        for before in (0, 1, 2, 9, 10, 18):
            taken = {name: amount * before for name, amount in work.takes_of(cluster).items()}
            candidate = Candidate(cluster, 1, 0, free_amounts(cluster, {"a": taken}), taken)
            load = Load(now=NOW, assigned={"a": taken}, run_seconds=30)
            starts.append(start_of(bid("a"), candidate, work, load))
        assert starts == [0, 0, 30, 30, 60, 90], report


def test_a_start_is_later_where_there_is_enough_in_all_and_no_node_has_a_place_left() -> None:
    machines = Machines(MemoryBackend())
    machine = machines.add("a", read_description(pooled(2, 4)))
    nodes = {"n1": {"cpu": "2"}, "n2": {"cpu": "2"}}
    state = reports(capacity={"cpu": "8"}, free={"cpu": "4"}, nodes=nodes)
    fleet = pool_fleet("ask", {"a": {}}, a=state)
    [candidate] = evaluate(pool("p"), fleet, workload(cpu=2000), {}).candidates
    described = candidate._replace(cluster=replace(candidate.cluster, machine=machine), waiting={})
    for cpu, is_later in (("2", False), ("3", True)):
        asks = write_request(request_of({"resources": {"tasks": 1, "requests": {"cpu": cpu}}}))
        work = replace(workload(cpu=int(cpu) * 1000), asks=asks)
        assert (start_of(bid("a"), described, work, Load(now=NOW, run_seconds=60)) != 0) is is_later
        assert (reported_start(described, work) is None) is is_later


def test_five_hundred_that_are_asked_at_once_do_not_follow_one_idle_cluster() -> None:
    """Each is decided after the one before, by bids that were all made at the same time."""
    sizes = {"small": 4, "large": 16, "busy": 16}
    states = {name: reports(capacity={"cpu": str(cpu)}, free={"cpu": str(cpu)}) for name, cpu in sizes.items()}
    states["busy"] = reports(capacity={"cpu": "16"}, free={"cpu": "0"})
    fleet = pool_fleet("ask", {name: {} for name in sizes}, **states)
    bids = {"small": bid("small"), "large": bid("large"), "busy": bid("busy", start=120)}
    assigned: dict[str, dict[str, int]] = {}
    counts = Counter[str]()
    for number in range(500):
        work = workload(f"e{number}", cpu=1000)
        evaluation = evaluate(pool("p"), fleet, work, assigned)
        load = Load(now=NOW, assigned=assigned, run_seconds=60)
        result = weigh(pool("p"), evaluation, bids, Asking(), work, load)
        cluster = chosen(result, work.key)
        assert cluster is not None
        counts[cluster] += 1
        assigned[cluster] = add(assigned.get(cluster, {}), work.takes_of(fleet.clusters[cluster]))
        if number == 19:
            assert counts == {"small": 4, "large": 16}  # as many as there is room for, and nothing elsewhere
    per_core = {name: counts[name] / size for name, size in sizes.items()}
    assert max(per_core.values()) < 1.4 * min(per_core.values())


# Moving what waits


def test_what_waits_moves_only_if_another_cluster_starts_it_so_much_sooner_in_the_same_round() -> None:
    def better(*bids: Bid, by: float = 300) -> str | None:
        result = weighed(*bids)
        moved = find_better(result, "here", {given.cluster: given for given in bids}, by)
        return None if moved is None else choose(moved.evaluation, "p/d/e").cluster

    assert better(bid("here", start=600), bid("there", start=300)) == "there"
    assert better(bid("here", start=600), bid("there", start=301)) is None
    assert better(bid("here", start=600), bid("there", start=200), bid("best", start=100)) == "best"
    assert better(bid("here", "not-now"), bid("there", start=200)) == "there"
    assert better(bid("here", "silent"), bid("there")) is None
    assert better(bid("here", "never"), bid("there", start=200)) == "there"
    assert better(bid("here", start=600), bid("there", "silent")) is None


# What agents send


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"start_seconds": -1}, "start_seconds"),
        ({"start_seconds": math.nan}, "start_seconds"),
        ({"start_seconds": math.inf}, "start_seconds"),
        ({"start_seconds": "soon"}, "start_seconds"),
        ({"start_seconds": True}, "start_seconds"),
        ({"start_seconds": 1e12}, "start_seconds"),
        ({"start_seconds": None}, "start_seconds: is missing"),
        ({"cost": -0.5}, "cost"),
        ({"cost": [1]}, "cost"),
        ({"answer": "maybe"}, "answer"),
        ({"answer": None}, "answer: is missing"),
        ({"question": "first"}, "question"),
        ({"question": 2**70}, "question"),
        ({"uid": 5}, "uid"),
        ({"colour": "red"}, "colour"),
        ({"reason": "x" * 5000}, "reason"),
    ],
)
def test_a_bid_that_is_wrong_has_a_problem_that_names_the_field(fields: dict[str, Any], problem: str) -> None:
    report = read_bid({"question": 7, "uid": "ab", "answer": "yes", "start_seconds": 0, **fields})
    assert problem in report.problem


@pytest.mark.parametrize("document", [None, 5, "yes", [], {}])
def test_what_is_no_bid_at_all_has_a_problem_too(document: object) -> None:
    assert read_bid(document).problem


def test_a_bid_is_read_as_it_is() -> None:
    report = read_bid({"question": 7, "uid": "ab", "answer": "not-now", "start_seconds": 5, "reason": "a\0b"})
    assert (report.question, report.uid, report.answer, report.problem) == (7, "ab", BidAnswer.NOT_NOW, "")
    assert (report.start_seconds, report.reason) == (None, "a�b")


# Pauses and promises


def test_pauses_between_rounds_double_up_to_a_minute() -> None:
    assert [pause_before(number) for number in (1, 2, 3, 7, 1000)] == [1, 2, 4, 60, 60]


def test_a_start_is_kept_if_it_is_a_little_late_at_most() -> None:
    promises = [(0, 5.0), (0, 5.1), (600, 60.0), (600, 61.0), (600, -300.0)]
    assert [is_kept(promised, late) for promised, late in promises] == [True, False, True, False, True]


# Pools


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"choose_by": "cheapest"}, "choose_by", "for the strategy ask alone"),
        ({"strategy": "ask", "choose_by": "best"}, "choose_by", "best"),
        ({"strategy": "ask", "ask_deadline": "11m"}, "ask_deadline", "longer than 600 s"),
        ({"strategy": "ask", "ask_deadline": "0s"}, "ask_deadline", "above zero"),
        ({"strategy": "ask", "cost_weight": 2}, "cost_weight", "in a mix alone"),
        ({"strategy": "ask", "choose_by": "mix", "cost_weight": -1}, "cost_weight", "out of range"),
        ({"strategy": "ask", "choose_by": "mix", "cost_weight": 0, "seconds_weight": 0}, "seconds_weight", "both 0"),
        ({"strategy": "ask", "rebalance": "always"}, "rebalance", "better-by 5m"),
        ({"strategy": "ask", "rebalance": "better-by 0s"}, "rebalance", "zero"),
        ({"strategy": "ask", "rebalance": {"better-by": 5}}, "rebalance", "better-by 5m"),
    ],
)
def test_a_pool_that_asks_wrongly_is_refused(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        definition(FleetKind.POOL, "p", group(["a"], **fields))
    [problem] = caught.value.problems
    assert (problem.field, words in problem.reason) == (field, True), problem


def test_a_null_says_nothing() -> None:
    nothing = dict.fromkeys(("ask_deadline", "choose_by", "cost_weight", "rebalance"))
    assert definition(FleetKind.POOL, "p", group(["a"], **nothing)).payload == group(["a"])


def test_a_pool_says_how_it_asks() -> None:
    fields = {"ask_deadline": "500ms", "choose_by": "mix", "cost_weight": 2, "rebalance": "better-by 5m"}
    payload = definition(FleetKind.POOL, "p", group(["a"], strategy="ask", **fields)).payload
    assert read_asking(payload) == Asking("mix", 1, 2, 0.5, 300)
    assert read_asking({**payload, "rebalance": "never"}).better_by_seconds is None
    never = definition(FleetKind.POOL, "p", group(["a"], strategy="weighted", rebalance="never")).payload
    assert read_asking(never).better_by_seconds is None
    for same in ("better-by: 5m", {"better-by": "5m"}):
        written = definition(FleetKind.POOL, "p", group(["a"], strategy="ask", rebalance=same)).payload
        assert read_asking(written).better_by_seconds == 300
    assert pool_fleet("ask", {"a": {}}).pools["p"].asking == Asking()


def test_what_is_not_known_of_costs_is_said_so() -> None:
    assert describe_worse(CHEAPEST, None, 2) == "its cost is not known, and that of the chosen one is 2"
    assert describe_worse(CHEAPEST, 3, 2) == "costs 3, and the chosen one 2"
    assert describe_worse(MIX, None, None) == "its start or cost is not known"
    assert describe_worse(MIX, 3.5, 2) == "counts 3.5 by start and cost, and the chosen one 2"
