"""The fleet that definitions and states make."""

from __future__ import annotations

from typing import Any

from admin.core.fleet.clusters import ClusterState
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.fleet import build_fleet, fleet_warnings
from tests.support.small_fleets import definition, group, small_fleet


def test_a_cluster_may_be_in_several_pools_and_labels() -> None:
    fleet = small_fleet(pools={"p": group(["a"]), "q": group(["a", "b"])}, labels={"l": group(["a"])})
    assert fleet.groups_of("a", fleet.pools) == ["p", "q"]
    assert fleet.groups_of("a", fleet.labels) == ["l"]
    assert fleet.groups_of("b", fleet.pools) == ["q"]


def test_configuration_overrides_managed_definitions_with_a_warning() -> None:
    managed = definition(FleetKind.POOL, "p", group(["managed"]))
    configured = Definition(
        kind=FleetKind.POOL, name="p", payload=group(["configured"]), source=Source.CONFIGURATION, version=None
    )
    for order in ([managed, configured], [configured, managed]):
        fleet = build_fleet(1, order, {})
        assert [member.cluster for member in fleet.pools["p"].members] == ["configured"]
        assert list(fleet.clusters) == ["configured"]
        warnings = [(warning.code, warning.kind, warning.name) for warning in fleet_warnings(fleet)]
        assert warnings == [("expected_cluster", "POOL", "p"), ("shadowed_definition", "POOL", "p")]


def test_a_pool_and_a_label_may_have_the_same_name() -> None:
    fleet = small_fleet(pools={"x": group(["a"])}, labels={"x": group(["b"])})
    assert fleet.pools["x"].members[0].cluster == "a"
    assert fleet.label("x") == fleet.labels["x"]
    assert fleet.label("a") is not None
    assert fleet.label("y") is None
    assert fleet.label_names() == {"x", "a", "b"}


def test_a_cluster_is_enabled_unless_its_definition_or_state_says_otherwise() -> None:
    clusters: dict[str, dict[str, Any]] = {"a": {}, "b": {"enabled": False}, "c": {"enabled": False}, "d": {}}
    fleet = small_fleet(clusters=clusters, states={"c": {"enabled": True}, "d": {"enabled": False}})
    enabled = {name: cluster.enabled for name, cluster in fleet.clusters.items()}
    assert enabled == {"a": True, "b": False, "c": True, "d": False}


def test_the_state_of_an_undefined_cluster_is_ignored() -> None:
    assert build_fleet(1, [], {"ghost": ClusterState(name="ghost", cordoned=True)}).clusters == {}
