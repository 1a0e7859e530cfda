"""Comparisons: every leaf of two effective values, and which of them differ."""

from __future__ import annotations

from typing import Any

from admin.core.settings.builtin_kinds import CLUSTER_RESOURCE, TASK_RESOURCE
from admin.core.settings.comparisons import Leaf, pair_leaves

HERE, ABOVE = {"level": "project", "project": "p"}, {"level": "domain", "domain": "d"}


def effective(value: dict[str, Any], unset: dict[str, Any] | None = None, **origins: Any) -> dict[str, Any]:
    paths = {path.replace("__", "."): origin for path, origin in origins.items()}
    return {"value": value, "origins": paths, "unset": unset or {}}


def test_leaves_that_differ_have_their_origin_on_both_sides() -> None:
    first = effective({"limits": {"cpu": "1", "memory": "1Gi"}}, limits__cpu=HERE, limits__memory=HERE)
    second = effective({"limits": {"cpu": "2", "memory": "1Gi"}}, limits__cpu=ABOVE, limits__memory=ABOVE)
    cpu, memory = pair_leaves(TASK_RESOURCE, first, second)
    assert (cpu.kind, cpu.path, cpu.is_equal) == ("TASK_RESOURCE", "limits.cpu", False)
    assert (cpu.first, cpu.second) == (Leaf("set", "1", HERE, worth=1), Leaf("set", "2", ABOVE, worth=2))
    assert memory.is_equal  # wherever it is set


def test_an_amount_is_equal_however_it_is_written() -> None:
    first = effective({"limits": {"cpu": "1500m", "memory": "1Gi"}}, limits__cpu=HERE, limits__memory=HERE)
    second = effective({"limits": {"cpu": "1.5", "memory": "1024Mi"}}, limits__cpu=ABOVE, limits__memory=ABOVE)
    assert [pair.is_equal for pair in pair_leaves(TASK_RESOURCE, first, second)] == [True, True]


def test_what_one_side_lacks_differs_and_what_neither_has_does_not() -> None:
    first = effective({"defaults": {"cpu": "1"}}, {"limits.cpu": HERE}, defaults__cpu=HERE)
    pairs = {pair.path: pair for pair in pair_leaves(TASK_RESOURCE, first, effective({}))}
    assert pairs["defaults.cpu"].second == Leaf("absent")
    assert not pairs["defaults.cpu"].is_equal
    assert pairs["limits.cpu"].first == Leaf("unset", None, HERE)
    assert pairs["limits.cpu"].is_equal  # to unset a leaf is to have none
    assert list(pair_leaves(TASK_RESOURCE, effective({}), effective({}))) == []


def test_maps_are_compared_key_by_key() -> None:
    first = effective({"attributes": {"a": "1", "b": "2"}}, attributes__a=HERE, attributes__b=HERE)
    second = effective({"attributes": {"b": "2", "c": "3"}}, attributes__b=HERE, attributes__c=HERE)
    pairs = list(pair_leaves(CLUSTER_RESOURCE, first, second))
    assert [(pair.path, pair.is_equal) for pair in pairs] == [
        ("attributes.a", False),
        ("attributes.b", True),
        ("attributes.c", False),
    ]
