"""Definitions of clusters, pools and labels: their normal form, what is refused, and the fleet they make."""

from __future__ import annotations

import math
from typing import Any

import pytest

from admin.core.fleet.clusters import ClusterState
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.fleet import build_fleet
from admin.core.fleet.warnings import fleet_warnings
from admin.core.fleet_documents import read_definition
from admin.core.placement.scores import STRATEGIES
from admin.core.problems import Invalid
from tests.support.small_fleets import definition, group, small_fleet


def problems(kind: FleetKind, payload: Any, name: str = "x") -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        read_definition(kind, name, payload)
    return [(problem.field, problem.reason) for problem in caught.value.problems]


@pytest.mark.parametrize("kind", [FleetKind.POOL, FleetKind.LABEL])
@pytest.mark.parametrize(
    ("members", "field", "reason"),
    [
        ([{"id": "a", "weight": -1}], "members.0.weight", "out of range"),
        ([{"id": "a", "weight": math.inf}], "members.0.weight", "not a finite number"),
        ([{"id": "a", "weight": math.nan}], "members.0.weight", "not a finite number"),
        ([{"id": "a", "weight": 1e13}], "members.0.weight", "out of range"),
        ([{"id": "a", "weight": "2"}], "members.0.weight", "not a number"),
        ([{"id": "a", "weight": True}], "members.0.weight", "not a number"),
        ([{"id": "a", "weight": 0}, {"id": "b", "weight": 0}], "members", "every weight is 0"),
        ([{"id": "a"}, {"id": "b"}, {"id": "a", "weight": 3}], "members", "'a' is listed twice"),
        ([{"weight": 1}], "members.0.id", "missing"),
        ([{"id": "a b"}], "members.0.id", "not allowed"),
        ([{"id": "a", "wieght": 1}], "members.0.wieght", "weight"),
        ([None], "members.0", "null"),
        ([], "members", "0 entries"),
        ({"a": 1}, "members", "not a list"),
        (None, "members", "missing"),
    ],
)
def test_members_that_nothing_could_be_drawn_from_are_refused_by_field(
    kind: FleetKind, members: Any, field: str, reason: str
) -> None:
    found = problems(kind, {"members": members})
    assert field in [name for name, _ in found], found
    assert any(reason in why for name, why in found if name == field), found


def test_every_problem_is_named_at_once() -> None:
    payload = {"members": [{"id": "a", "weight": -1}, {"id": ""}], "strategy": "fastest", "membres": []}
    assert [field for field, _ in problems(FleetKind.POOL, payload)] == [
        "membres",
        "members.0.weight",
        "members.1.id",
        "strategy",
    ]


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"capacity": {"cpu": "4 cores"}}, "capacity.cpu"),
        ({"capacity": {"memory": "1GiB"}}, "capacity.memory"),
        ({"capacity": {"gpu": "0.5"}}, "capacity.gpu"),
        ({"capacity": {"nodes": -1}}, "capacity.nodes"),
        ({"capacity": {"executions": "2"}}, "capacity.executions"),
        ({"capacity": {"disk": "1"}}, "capacity.disk"),
        ({"capacity": None}, "capacity"),
        ({"cost": -1}, "cost"),
        ({"cost": math.inf}, "cost"),
        ({"enabled": "yes"}, "enabled"),
        ({"auth": {"password": "x"}}, "auth.password"),
        ({"properties": [1]}, "properties"),
        ({"strategy": "spill"}, "strategy"),
        ([], ""),
    ],
)
def test_a_cluster_that_is_defined_wrongly_is_refused_by_field(payload: Any, field: str) -> None:
    assert field in [name for name, _ in problems(FleetKind.CLUSTER, payload)]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "a" * 256, "ä"])
def test_a_name_that_no_url_could_hold_is_refused(name: str) -> None:
    assert [field for field, _ in problems(FleetKind.CLUSTER, {}, name)] == ["name"]


def test_a_label_has_no_strategy_and_a_pool_any_of_five() -> None:
    assert problems(FleetKind.LABEL, {"members": [{"id": "a"}], "strategy": "spill"})[0][0] == "strategy"
    for strategy in STRATEGIES:
        assert read_definition(FleetKind.POOL, "p", group(["a"], strategy=strategy))["strategy"] == strategy


def test_a_normal_form_is_its_own() -> None:
    payload = {"members": [{"id": "a"}, {"id": "b", "weight": 0.7}], "description": None, "strategy": "spill"}
    normal = read_definition(FleetKind.POOL, "p", payload)
    assert normal == {"members": [{"id": "a", "weight": 1}, {"id": "b", "weight": 0.7}], "strategy": "spill"}
    assert read_definition(FleetKind.POOL, "p", normal) == normal


def test_a_cluster_may_be_in_several_pools_and_labels() -> None:
    fleet = small_fleet(pools={"p": group(["a"]), "q": group(["a", "b"])}, labels={"l": group(["a"])})
    assert fleet.groups_of("a", fleet.pools) == ["p", "q"]
    assert fleet.groups_of("a", fleet.labels) == ["l"]
    assert fleet.groups_of("b", fleet.pools) == ["q"]


def test_what_configuration_declares_goes_before_what_is_managed_and_that_is_warned_of() -> None:
    managed = definition(FleetKind.POOL, "p", group(["managed"]))
    configured = Definition(
        kind=FleetKind.POOL, name="p", payload=group(["configured"]), source=Source.CONFIGURATION, version=None
    )
    for order in ([managed, configured], [configured, managed]):
        fleet = build_fleet(1, order, {})
        assert [one.cluster for one in fleet.pools["p"].members] == ["configured"]
        assert list(fleet.clusters) == ["configured"]
        warnings = [(one.code, one.kind, one.name) for one in fleet_warnings(fleet)]
        assert warnings == [("expected_cluster", "POOL", "p"), ("shadowed_definition", "POOL", "p")]


def test_a_pool_and_a_label_of_one_name_are_two_things() -> None:
    fleet = small_fleet(pools={"x": group(["a"])}, labels={"x": group(["b"])})
    assert fleet.pools["x"].members[0].cluster == "a"
    assert fleet.label("x") == fleet.labels["x"]
    assert fleet.label("a") is not None
    assert fleet.label("y") is None
    assert fleet.label_names() == {"x", "a", "b"}


def test_a_cluster_is_enabled_unless_its_definition_or_what_happened_to_it_says_otherwise() -> None:
    clusters: dict[str, dict[str, Any]] = {"a": {}, "b": {"enabled": False}, "c": {"enabled": False}, "d": {}}
    fleet = small_fleet(clusters=clusters, states={"c": {"enabled": True}, "d": {"enabled": False}})
    assert {name: one.enabled for name, one in fleet.clusters.items()} == {"a": True, "b": False, "c": True, "d": False}


def test_the_state_of_a_cluster_that_is_gone_makes_no_cluster() -> None:
    assert build_fleet(1, [], {"ghost": ClusterState(name="ghost", cordoned=True)}).clusters == {}
