"""Fleet documents: the normal form of a definition, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.documents import in_terms_of, read_definition
from admin.core.placement.scores import STRATEGIES
from admin.core.problems import Invalid
from tests.support.small_fleets import by_strategy, group


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
def test_invalid_members_are_refused_by_field(kind: FleetKind, members: Any, field: str, reason: str) -> None:
    listed = problems(kind, {"members": members})
    assert field in [name for name, _ in listed], listed
    assert any(reason in text for name, text in listed if name == field), listed


def test_every_problem_is_named_at_once() -> None:
    payload = {"members": [{"id": "a", "weight": -1}, {"id": ""}], "strategy": "fastest", "membres": []}
    assert [field for field, _ in problems(FleetKind.POOL, payload)] == [
        "membres",
        "members.0.weight",
        "members.1.id",
        "strategy",
    ]


def test_problems_of_fields_of_members_and_of_the_name_are_named_together() -> None:
    members = [{"id": "a", "weight": 0}, {"id": "a", "weight": 0}]
    listed = problems(FleetKind.POOL, {"members": members, "colour": "red"}, name="a b")
    assert [field for field, _ in listed] == ["colour", "name", "members", "members"]
    assert [reason.partition(":")[0] for _, reason in listed[2:]] == [
        "the cluster 'a' is listed twice.",
        "every weight is 0",
    ]
    assert [field for field, _ in problems(FleetKind.POOL, {"colour": "red"})] == ["colour", "members"]
    assert [field for field, _ in problems(FleetKind.POOL, {"members": "a"})] == ["members"]


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
def test_an_invalid_cluster_definition_is_refused_by_field(payload: Any, field: str) -> None:
    assert field in [name for name, _ in problems(FleetKind.CLUSTER, payload)]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "a" * 256, "ä"])
def test_a_name_that_does_not_fit_a_url_is_refused(name: str) -> None:
    assert [field for field, _ in problems(FleetKind.CLUSTER, {}, name)] == ["name"]


def test_a_pool_takes_every_strategy_and_a_label_none() -> None:
    assert problems(FleetKind.LABEL, {"members": [{"id": "a"}], "strategy": "spill"})[0][0] == "strategy"
    for strategy in STRATEGIES:
        assert read_definition(FleetKind.POOL, "p", group(["a"], **by_strategy(strategy)))["strategy"] == strategy


def test_a_normal_form_is_read_as_itself() -> None:
    payload = {"members": [{"id": "a"}, {"id": "b", "weight": 0.7}], "description": None, "strategy": "spill"}
    normal = read_definition(FleetKind.POOL, "p", payload)
    assert normal == {"members": [{"id": "a", "weight": 1}, {"id": "b", "weight": 0.7}], "strategy": "spill"}
    assert read_definition(FleetKind.POOL, "p", normal) == normal


@pytest.mark.parametrize(
    ("stored", "written", "expected"),
    [
        ({"strategy": "weighted"}, {}, {"strategy": "weighted"}),
        ({}, {"strategy": "weighted"}, {}),
        ({"strategy": "spill"}, {}, {}),
        ({"strategy": "spill"}, {"strategy": "weighted"}, {"strategy": "weighted"}),
        ({"strategy": "weighted"}, {"strategy": "spill"}, {"strategy": "spill"}),
        ({}, {}, {}),
    ],
)
def test_a_pool_names_the_default_strategy_as_the_stored_one_does(stored: Any, written: Any, expected: Any) -> None:
    members = {"members": [{"id": "a", "weight": 1}]}
    assert in_terms_of(FleetKind.POOL, {**members, **stored}, {**members, **written}) == {**members, **expected}
    assert in_terms_of(FleetKind.LABEL, {**members, **stored}, dict(members)) == members
