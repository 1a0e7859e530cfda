"""Decisions: when an execution may stay where it waits, and how a stored decision is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from admin.core.placement.candidates import Workload
from admin.core.placement.obstacles import may_stay
from admin.core.placement.scores import STRATEGIES
from admin.core.placement.stored_candidates import render_candidates, switched_candidates
from admin.core.provenance import Provenance
from tests.support.small_fleets import decided, group, pool, pool_fleet, reports, small_fleet

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OFF = {"enabled": False}
CORDONED = {"cordoned": True, "cordon_reason": "new disks"}


def workload(**demand: int) -> Workload:
    return Workload(key="p/d/e", demand={"executions": 1, **demand})


def test_an_execution_may_stay_while_its_cluster_is_able_and_on_its_route() -> None:
    clusters: dict[str, Any] = {"a": {"capacity": {"cpu": "4"}}, "b": {}}
    fleet = pool_fleet("spill", clusters, a=reports(free={"cpu": "0"}))
    assert may_stay("a", pool("p"), fleet, workload(cpu=4000))  # full, but it holds its room already
    assert not may_stay("a", pool("p"), fleet, workload(cpu=5000))
    assert not may_stay("c", pool("p"), fleet, workload())
    assert not may_stay("a", pool("gone"), fleet, workload())
    for state in (OFF, CORDONED):
        assert not may_stay("a", pool("p"), pool_fleet("spill", clusters, a=state), workload())
    zero = small_fleet(pools={"p": group({"a": 0, "b": 1})})
    assert not may_stay("a", pool("p"), zero, workload())


@pytest.mark.parametrize("strategy", [name for name, strategy in STRATEGIES.items() if not strategy.asks])
def test_candidates_are_shown_from_the_trail_as_they_were_decided(strategy: str) -> None:
    clusters: dict[str, Any] = {"a": {"cost": 1}, "b": {"cost": 1}, "c": {"cost": 3}, "d": {}, "off": {}}
    states = {
        "a": reports(eta="5s", capacity={"executions": 4}, free={"executions": 2}),
        "b": reports(eta="5s", capacity={"executions": 4}, free={"executions": 2}),
        "c": reports(eta="7s", capacity={"executions": 4}, free={"executions": 1}),
        "off": OFF,
    }
    decision = decided(pool_fleet(strategy, clusters, **states), pool("p"))
    evaluation = decision.evaluation
    body = evaluation.trail.body
    rendered = render_candidates(body, evaluation.scores, "p/d/e", decision.cluster, {}, NOW)
    by_name = {candidate["cluster"]: candidate for candidate in rendered}
    assert {name: candidate.get("score", "none") for name, candidate in by_name.items()} == {
        candidate.cluster.name: evaluation.able.get(candidate.position, "none") for candidate in evaluation.candidates
    }
    drawn = {name for name, candidate in by_name.items() if "draw" in candidate}
    assert drawn == {candidate.cluster.name for candidate in evaluation.best}
    best = [candidate for candidate in rendered if candidate.get("rank") == 1]
    assert [candidate["cluster"] for candidate in rendered if candidate["chosen"]] == [decision.cluster]
    assert max(best, key=lambda candidate: float(candidate["draw"]))["cluster"] == decision.cluster
    assert "rank" not in by_name["off"]
    assert all("draw" not in candidate for candidate in rendered if candidate.get("rank") != 1)


def test_who_switched_a_candidate_off_stands_beside_the_verdict() -> None:
    states = {"a": {**reports(), **OFF}, "b": {**reports(), **CORDONED}, "c": reports()}
    fleet = pool_fleet("weighted", {"a": {}, "b": {}, "c": {}}, **states)
    body = decided(fleet, pool("p")).evaluation.trail.body
    assert switched_candidates(body) == {"disabled": ["a"], "cordoned": ["b"]}

    def event(number: int, message: str) -> Provenance:
        at = NOW - timedelta(days=3)
        return Provenance(event=number, author="anonymous", claimed_by="otto", at=at, message=message)

    switched_by = {("a", "disabled"): event(6, "broken"), ("b", "cordoned"): event(7, "new disks")}
    disabled, cordoned, able = render_candidates(body, None, "p/d/e", "c", switched_by, NOW)
    assert disabled["why_not"] == "is disabled, event 6, anonymous (says otto), 3 d ago, 'broken'"
    assert cordoned["why_not"] == "is cordoned, event 7, anonymous (says otto), 3 d ago, 'new disks'"
    [verdict] = [verdict for verdict in cordoned["verdicts"] if not verdict["passed"]]
    assert (verdict["reason"], verdict["provenance"]["event"]) == ("is cordoned (new disks)", 7)
    assert all("provenance" not in verdict for verdict in able["verdicts"])
    assert all("provenance" not in verdict for verdict in body["candidates"][1]["verdicts"])
