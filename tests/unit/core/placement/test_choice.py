"""Choices by weight: in proportion, the same every time, and moved only where they must be."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from admin.configuration import load_settings
from admin.core.fleet.clusters import ClusterState
from admin.core.fleet.definitions import Source
from admin.core.fleet.fleet import Fleet, build_fleet, fleet_warnings
from admin.core.placement.choice import WeightedChoice, draw
from admin.core.placement.routes import RouteKind
from tests.support.small_fleets import POOLS_SAMPLE, decided, group, pool, route, small_fleet

EXECUTIONS = 10_000


@pytest.fixture
def sample(tmp_path: Path) -> Fleet:
    file = tmp_path / "rainbow.yaml"
    file.write_text(POOLS_SAMPLE)
    return build_fleet(0, list(load_settings(str(file)).fleet), {})


def chosen(fleet: Fleet, name: str, count: int = EXECUTIONS) -> list[str | None]:
    """Where the executions e0, e1, e2… of a pool go."""
    return [decided(fleet, pool(name), f"flytesnacks/development/e{number}").cluster for number in range(count)]


def is_likely(count: int, share: float, total: int) -> bool:
    """Whether a count is within three standard deviations of what a share of a total should give."""
    return abs(count - total * share) <= 3 * math.sqrt(total * share * (1 - share))


def test_the_sample_of_the_pools_proposal_makes_a_fleet_with_two_expected_clusters(sample: Fleet) -> None:
    assert {name: [tuple(member) for member in group.members] for name, group in sample.pools.items()} == {
        "pool_1": [("flyte-1-k8s", 1), ("flyte-2-k8s", 2)],
        "pool_2": [("flyte-3-k8s", 6), ("flyte-4-k8s", 99)],
    }
    assert [member.cluster for member in sample.labels["production"].members] == ["flyte-1-k8s"]
    sources = {name: cluster.definition.source for name, cluster in sample.clusters.items()}
    assert sources == {
        "flyte-1-k8s": Source.CONFIGURATION,
        "flyte-2-k8s": Source.CONFIGURATION,
        "flyte-3-k8s": Source.NAMED,
        "flyte-4-k8s": Source.NAMED,
    }
    assert sample.clusters["flyte-1-k8s"].definition.payload["auth"] == {
        "type": "file_path",
        "token_path": "/etc/token",
        "cert_path": "/etc/cert",
    }
    warnings = fleet_warnings(sample)
    assert [(warning.code, warning.kind, warning.name) for warning in warnings] == [
        ("expected_cluster", "POOL", "pool_2")
    ] * 2
    for name, warning in zip(("flyte-3-k8s", "flyte-4-k8s"), warnings, strict=True):
        assert name in warning.message


@pytest.mark.slow
def test_ten_thousand_executions_are_split_as_the_weights_say_and_again_the_same(sample: Fleet) -> None:
    first = chosen(sample, "pool_2")
    counts = Counter(first)
    assert set(counts) == {"flyte-3-k8s", "flyte-4-k8s"}
    assert is_likely(counts["flyte-3-k8s"], 6 / 105, EXECUTIONS), counts
    assert chosen(sample, "pool_2") == first
    thirds = Counter(chosen(sample, "pool_1"))
    assert is_likely(thirds["flyte-1-k8s"], 1 / 3, EXECUTIONS), thirds


def test_disabling_a_cluster_moves_only_its_own_and_in_proportion() -> None:
    weights: dict[str | None, float] = {"a": 1, "b": 2, "c": 3.5, "d": 0.5, "none": 0}
    fleet = small_fleet(pools={"p": group({str(name): weight for name, weight in weights.items()})})
    before = chosen(fleet, "p", 4000)
    assert "none" not in before
    without = replace(fleet.clusters["c"], state=ClusterState(name="c", enabled=False))
    after = chosen(replace(fleet, clusters={**fleet.clusters, "c": without}), "p", 4000)
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert len(moved) == before.count("c")
    counts = Counter(moved)
    assert set(counts) == {"a", "b", "d"}
    for name in counts:
        assert is_likely(counts[name], weights[name] / 3.5, len(moved)), counts


def test_the_order_in_which_clusters_are_listed_makes_no_difference_to_weights() -> None:
    fleet = small_fleet(pools={"p": group({"a": 1, "b": 2, "c": 3})})
    reordered = small_fleet(pools={"p": group({"c": 3, "a": 1, "b": 2})})
    assert chosen(fleet, "p", 500) == chosen(reordered, "p", 500)


def test_a_heavier_weight_only_draws_to_its_cluster() -> None:
    before = chosen(small_fleet(pools={"p": group({"a": 1, "b": 1, "c": 1})}), "p", 2000)
    after = chosen(small_fleet(pools={"p": group({"a": 1, "b": 1, "c": 2})}), "p", 2000)
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {"c"}


@pytest.mark.parametrize("weight", [1e-300, 1e-12, 0.7, 99, 1e12])
def test_every_weight_above_zero_can_be_drawn(weight: float) -> None:
    assert draw("p/d/e", "a", weight) > 0
    fleet = small_fleet(pools={"p": group({"a": weight, "none": 0})})
    assert decided(fleet, pool("p")).cluster == "a"


@pytest.mark.parametrize("weights", [{"a": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 2, "d": 0.7, "none": 0}])
def test_the_option_with_the_largest_number_is_drawn(weights: dict[str, float]) -> None:
    options = WeightedChoice(weights.items())
    for number in range(500):
        key = f"p/d/e{number}"
        assert options.draw(key) == max(weights, key=lambda option: draw(key, option, weights[option]))


def test_drawn_numbers_never_change_so_that_old_decisions_can_be_explained() -> None:
    drawn = [draw("flytesnacks/development/e1", option, weight) for option, weight in (("a", 1), ("b", 1), ("c", 0.7))]
    assert drawn == pytest.approx([0.5732187560764571, 0.916474906873072, 0.40939979334796633], rel=1e-12)


def test_the_same_name_draws_differently_by_project_and_domain() -> None:
    fleet = small_fleet(pools={"p": group(["a", "b"])})
    keys = [f"{project}/{domain}/same" for project in "pqrstuvw" for domain in ("d", "e")]
    assert {decided(fleet, pool("p"), key).cluster for key in keys} == {"a", "b"}


def test_without_a_pool_or_label_every_enabled_cluster_takes_part_with_the_same_weight() -> None:
    fleet = small_fleet(
        clusters={name: {} for name in ("a", "b", "off")},
        pools={"p": group({"c": 99})},
        states={"off": {"enabled": False}},
    )
    everywhere = route(RouteKind.ANY)
    counts = Counter(decided(fleet, everywhere, f"p/d/e{number}").cluster for number in range(3000))
    assert set(counts) == {"a", "b", "c"}
    assert all(is_likely(count, 1 / 3, 3000) for count in counts.values()), counts
