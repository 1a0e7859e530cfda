"""Which cluster was passed over for the one that an execution went to."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from admin.core.placement.candidates import Workload
from admin.core.placement.decisions import decide
from admin.core.placement.filters import ALL_FILTERS, WEIGHT
from admin.core.placement.shares import (
    REASONS,
    PassedOver,
    Placing,
    Range,
    expected_range,
    explain_share,
    promised_shares,
    shares_promised_by,
    weightings_of,
)
from admin.core.provenance import Provenance
from tests.support.small_fleets import pool, pool_fleet, reports

CLUSTERS: dict[str, dict[str, Any]] = {"a": {}, "b": {}, "c": {}}
KEYS = [f"p/d/e{number}" for number in range(200)]


def test_every_filter_has_a_reason() -> None:
    assert REASONS.keys() == {filter_.name for filter_ in ALL_FILTERS if filter_ is not WEIGHT}


def test_a_weighted_draw_passes_over_exactly_the_cluster_that_it_would_have_drawn() -> None:
    ready = {name: {"health": "ready"} for name in CLUSTERS}
    complete = pool_fleet("weighted", CLUSTERS, **ready)
    part = pool_fleet("weighted", CLUSTERS, **{**ready, "a": {"health": "lost"}, "b": {"health": "ready"}})
    seen = set()
    for key in KEYS:
        workload = Workload(key=key, demand={"executions": 1})
        drawn = decide(pool("p"), complete, workload, {}).cluster
        decision = decide(pool("p"), part, workload, {})
        assert decision.cluster is not None
        passed_over = Placing(decision.evaluation.trail.body).passed_over(key, decision.cluster)
        assert passed_over == (PassedOver("a", "silent") if drawn == "a" else None)
        seen.add(drawn)
    assert seen == set(CLUSTERS)


@pytest.mark.parametrize(
    ("strategy", "full", "expected"),
    [
        ("spill", ("a",), PassedOver("a", "full")),
        ("spill", ("c",), None),
        ("least-loaded", ("c",), PassedOver("c", "full")),
        ("least-loaded", (), None),
    ],
)
def test_other_strategies_name_the_first_that_was_dropped(
    strategy: str, full: tuple[str, ...], expected: PassedOver | None
) -> None:
    states = {
        name: reports(capacity={"executions": 2}, free={"executions": 0 if name in full else 2}) for name in CLUSTERS
    }
    fleet = pool_fleet(strategy, CLUSTERS, **states)
    decision = decide(pool("p"), fleet, Workload(key="p/d/e", demand={"executions": 1}), {})
    assert decision.cluster is not None
    assert Placing(decision.evaluation.trail.body).passed_over("p/d/e", decision.cluster) == expected


def test_only_weights_promise_a_share() -> None:
    fleet = pool_fleet("weighted", CLUSTERS)
    assert promised_shares(fleet.pools["p"]) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert promised_shares(pool_fleet("spill", CLUSTERS).pools["p"]) == {}


def test_a_share_is_promised_by_the_weights_of_each_decision() -> None:
    decided = {
        strategy: Placing(
            {"strategy": strategy, "candidates": [{"cluster": "a", "weight": 3, "verdicts": []}, *others]}
        )
        for strategy, others in {
            "weighted": [{"cluster": "b", "weight": 1, "verdicts": []}],
            "spill": [],
        }.items()
    }
    alone = Placing({"strategy": "weighted", "candidates": [{"cluster": "b", "weight": 1, "verdicts": []}]})

    def promised(*decisions: tuple[Placing, int]) -> dict[str, float]:
        return shares_promised_by(weightings_of(decisions))

    assert promised((decided["weighted"], 4)) == {"a": 0.75, "b": 0.25}
    assert promised((decided["weighted"], 4), (alone, 3), (alone, 1)) == {"a": 0.375, "b": 0.625}
    assert [weighting.executions for weighting in weightings_of([(alone, 3), (alone, 1)])] == [4]
    assert promised((decided["weighted"], 4), (decided["spill"], 1)) == {}
    assert shares_promised_by([]) == {}


@pytest.mark.parametrize(
    ("share", "draws", "expected"),
    [
        (0.5, 0, (0, 0)),
        (0.5, 1, (0, 1)),
        (0.5, 4, (0, 4)),
        (0.5, 6, (1, 5)),
        (0.5, 20, (6, 14)),
        (0.5, 1000, (469, 531)),
        (0.5, 10_000, (4902, 5098)),
        (0.75, 40, (24, 35)),
        (0.01, 100, (0, 3)),
        (1.0, 7, (7, 7)),
        (0.0, 7, (0, 0)),
    ],
)
def test_few_draws_may_differ_much_from_what_is_promised(share: float, draws: int, expected: tuple[int, int]) -> None:
    assert expected_range(share, draws) == Range(*expected)


@pytest.mark.parametrize(("share", "draws"), [(0.5, 20), (0.75, 40), (0.1, 60), (0.02, 200)])
def test_the_range_holds_95_of_100_draws_and_not_many_more(share: float, draws: int) -> None:
    """By the binomial distribution itself."""
    low, high = expected_range(share, draws)
    inside = sum(math.comb(draws, n) * share**n * (1 - share) ** (draws - n) for n in range(low, high + 1))
    assert 0.95 <= inside < 0.99


def test_the_ranges_of_more_clusters_are_wider_so_that_all_hold_together() -> None:
    assert expected_range(0.1, 60, 10).low <= expected_range(0.1, 60).low
    assert expected_range(0.1, 60, 10).high > expected_range(0.1, 60).high
    of_one, of_ten = (expected_range(0.5, 10_000, clusters) for clusters in (1, 10))
    assert (of_one, of_ten) == (Range(4902, 5098), Range(4859, 5141))


def test_a_share_is_explained_by_chance_by_what_went_past_and_by_what_came_instead() -> None:
    def explained(**values: Any) -> str:
        facts: dict[str, Any] = {"placed": 9, "lost": {}, "gained": {}, "switched_by": {}}
        return explain_share(**{**facts, "drawn": None, "expected": None, **values})

    assert explained(drawn=9, expected=Range(5, 15)) == "drew 9, as chance allows (5 to 15)"
    assert explained(drawn=4, expected=Range(5, 15)).endswith("5 to 15 were expected: more than chance explains")
    cordon = PassedOver("a", "cordoned")
    lost = explained(drawn=9, expected=Range(5, 15), lost={cordon: 3})
    assert lost.endswith("; 3 of them went elsewhere since it was cordoned")
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    events = [
        Provenance(event=number, author="anonymous", claimed_by="ana", at=at, message=None) for number in (9, 7, 5, 3)
    ]
    by = "event 9, anonymous (says ana), at 2026-03-01T12:00:00Z; event 7, "
    assert f"3 came since a was cordoned ({by}" in explained(gained={cordon: 3}, switched_by={cordon: events})
    drained = explained(gained={cordon: 3}, switched_by={cordon: events}, drained=[cordon])
    assert f"3 came since a was drained ({by}" in drained
    lost = explained(drawn=9, expected=Range(5, 15), lost={cordon: 3}, switched_by={cordon: events})
    assert f"since it was cordoned ({by}" in lost
    assert lost.endswith("; 1 more before)")
    gained = {PassedOver(name, "full"): number for number, name in enumerate("abcde", 1)}
    assert (
        explained(gained=gained)
        == "5 came since e was full; 4 came since d was full; 3 came since c was full; 3 came for others"
    )
    assert explained() == "9 by the strategy alone"
    assert explained(placed=0) == "the pool placed nothing there"
