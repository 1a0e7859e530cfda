"""Definitions of token pools, and claims, as they are read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from admin.core.problems import Invalid
from admin.core.settings.scopes import Scope
from admin.core.token_pools.definitions import Caps, loose_caps, read_token_pool, token_pool_of
from admin.core.token_pools.documents import read_claim, read_release, read_renewal


def test_a_pool_has_a_capacity_and_caps() -> None:
    payload = read_token_pool("hive", {"capacity": 100, "caps": {"project": 20, "execution": 2}, "description": "x"})
    pool = token_pool_of("hive", payload)
    assert (pool.name, pool.capacity, pool.caps) == ("hive", 100, Caps(project=20, execution=2))


@pytest.mark.parametrize(
    ("name", "payload", "field", "reason"),
    [
        ("x" * 300, {"capacity": 1}, "name", "is not a token pool's name: use letters"),
        ("a/b", {"capacity": 1}, "name", "is not a token pool's name"),
        ("hive", {}, "capacity", "is missing: give the number of tokens."),
        ("hive", {"capacity": -1}, "capacity", "-1 is out of range: give a whole number from 0"),
        ("hive", {"capacity": 1.5}, "capacity", "1.5 is not a whole number"),
        ("hive", {"capacity": "5"}, "capacity", "'5' is not a whole number"),
        ("hive", {"capacity": None}, "capacity", "is null"),
        ("hive", {"capacity": 1, "caps": {"project": -1}}, "caps.project", "-1 is out of range"),
        ("hive", {"capacity": 1, "caps": {"projekt": 1}}, "caps.projekt", "Did you mean 'project'?"),
        ("hive", {"capacity": 1, "colour": "red"}, "colour", "unknown field"),
    ],
)
def test_a_bad_definition_is_refused_with_field_and_reason(
    name: str, payload: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(Invalid) as refused:
        read_token_pool(name, payload)
    [problem] = refused.value.problems
    assert problem.field == field
    assert reason in problem.reason


@pytest.mark.parametrize(
    ("caps", "loose"),
    [
        ({"project": 20, "namespace": 10, "execution": 2}, []),
        ({"project": 100, "namespace": 100}, []),
        ({"project": 101}, [("project", 101, "capacity", 100)]),
        ({"project": 5, "namespace": 6}, [("namespace", 6, "caps.project", 5)]),
        (
            {"project": 900, "namespace": 3, "execution": 4},
            [("project", 900, "capacity", 100), ("execution", 4, "caps.namespace", 3)],
        ),
    ],
)
def test_caps_above_what_is_broader_never_bind(caps: dict[str, int], loose: list[tuple[object, ...]]) -> None:
    pool = token_pool_of("hive", read_token_pool("hive", {"capacity": 100, "caps": caps}))
    assert [tuple(cap) for cap in loose_caps(pool)] == loose


def test_a_claim_says_who_needs_what() -> None:
    claim = read_claim(
        {
            "token": "t1",
            "pools": {"hive": 2, "spark": 1},
            "project": "ads",
            "domain": "prod",
            "execution": "run1",
            "constraints": {"namespace": 5},
            "priority": 3,
            "leaseSeconds": 30,
        }
    )
    assert (claim.token, claim.amounts, claim.place) == ("t1", {"hive": 2, "spark": 1}, Scope("prod", "ads"))
    assert (claim.execution, claim.constraints) == ("run1", Caps(namespace=5))
    assert (claim.priority, claim.lease_seconds, claim.wait_seconds) == (3, 30, 0)


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        ({"pools": {"hive": 1}}, "token", "is missing"),
        ({"token": "t"}, "pools", "is missing: give at least one pool."),
        ({"token": "t", "pools": {}}, "pools", "is missing: give at least one pool."),
        ({"token": "t", "pools": {"hive": 0}}, "pools.hive", "0 is out of range: give a whole number from 1"),
        ({"token": "t", "pools": {"hive": -2}}, "pools.hive", "-2 is out of range"),
        ({"token": "t", "pools": {"hive": 0.5}}, "pools.hive", "0.5 is not a whole number"),
        ({"token": "t", "pools": {"x" * 300: 1}}, f"pools.{'x' * 59}…", "is not allowed as a name"),
        ({"token": "t" * 300, "pools": {"hive": 1}}, "token", "has 300 characters; the most is 255"),
        ({"token": "t", "pools": {"hive": 1}, "domain": "prod"}, "project", "is missing: give it together with domain"),
        ({"token": "t", "pools": {"hive": 1}, "lease_seconds": 0}, "lease_seconds", "is out of range"),
        ({"token": "t", "pools": {"hive": 1}, "wait_seconds": float("nan")}, "wait_seconds", "not a finite number"),
    ],
)
def test_a_bad_claim_is_refused_with_field_and_reason(document: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_claim(document)
    [problem] = refused.value.problems
    assert problem.field == field
    assert reason in problem.reason


def test_an_execution_needs_its_project_and_domain() -> None:
    with pytest.raises(Invalid) as refused:
        read_claim({"token": "t", "pools": {"hive": 1}, "execution": "run1"})
    assert [problem.field for problem in refused.value.problems] == ["project", "domain"]


def test_a_renewal_and_a_release_name_what_is_held() -> None:
    document = {"token": "t", "pools": {"hive": 2}, "project": "ads", "domain": "prod", "number": 7}
    renewal = read_renewal({**document, "expiresAt": "2026-03-01T12:00:00Z"})
    assert (renewal.number, renewal.amounts, renewal.place) == (7, {"hive": 2}, Scope("prod", "ads"))
    assert renewal.expires_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    release = read_release(document)
    assert (release.pools, release.number, release.place) == (("hive",), 7, Scope("prod", "ads"))
    with pytest.raises(Invalid, match="number: is missing: give the number of the grant"):
        read_renewal({"token": "t", "pools": {"hive": 1}})
