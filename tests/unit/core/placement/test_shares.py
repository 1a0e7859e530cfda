"""Which cluster was passed over for the one that an execution went to."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.placement.candidates import Workload
from admin.core.placement.decisions import decide
from admin.core.placement.filters import FILTERS_WITH_ROOM, WEIGHT
from admin.core.placement.shares import REASONS, PassedOver, Placing, promised_shares
from tests.support.small_fleets import pool, pool_fleet, reports

CLUSTERS: dict[str, dict[str, Any]] = {"a": {}, "b": {}, "c": {}}
KEYS = [f"p/d/e{number}" for number in range(200)]


def test_every_filter_has_a_reason() -> None:
    assert REASONS.keys() == {filter_.name for filter_ in FILTERS_WITH_ROOM if filter_ is not WEIGHT}


def test_a_weighted_draw_passes_over_exactly_the_cluster_that_it_would_have_drawn() -> None:
    ready = {name: {"health": "ready"} for name in CLUSTERS}
    whole = pool_fleet("weighted", CLUSTERS, **ready)
    part = pool_fleet("weighted", CLUSTERS, **{**ready, "a": {"health": "lost"}, "b": {"health": "ready"}})
    seen = set()
    for key in KEYS:
        workload = Workload(key=key, demand={"executions": 1})
        wanted = decide(pool("p"), whole, workload, {}).cluster
        decision = decide(pool("p"), part, workload, {})
        assert decision.cluster is not None
        passed_over = Placing(decision.evaluation.trail.body).passed_over(key, decision.cluster)
        assert passed_over == (PassedOver("a", "silent") if wanted == "a" else None)
        seen.add(wanted)
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
