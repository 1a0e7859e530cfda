"""Tokens that are good for less than their user may do."""

from __future__ import annotations

import pytest

from admin.core.narrowing import Narrowing, read_use, use_text
from admin.core.permissions import ROLES
from admin.core.settings.scopes import PLATFORM, Scope

SNACKS = Scope(project="flytesnacks", domain="development")


@pytest.mark.parametrize(
    ("narrowing", "permission", "scope", "is_allowed"),
    [
        (Narrowing(), "executions.create", SNACKS, True),
        (Narrowing(role="viewer"), "executions.read", SNACKS, True),
        (Narrowing(role="viewer"), "executions.create", SNACKS, False),
        (Narrowing(role="gone"), "executions.read", SNACKS, False),
        (Narrowing(scope=SNACKS), "executions.create", SNACKS, True),
        (Narrowing(scope=SNACKS), "executions.create", SNACKS._replace(workflow="w"), True),
        (Narrowing(scope=SNACKS), "executions.create", Scope(project="flytesnacks"), False),
        (Narrowing(scope=SNACKS), "executions.create", SNACKS._replace(project="other"), False),
        (Narrowing(scope=SNACKS), "users.write", PLATFORM, False),
        (Narrowing(scope=SNACKS), "fleet.read", PLATFORM, True),
        (Narrowing(scope=SNACKS, role="viewer"), "fleet.read", PLATFORM, True),
        (Narrowing(permissions=("executions.read",)), "fleet.read", PLATFORM, False),
        (Narrowing(permissions=("executions.read", "executions.create")), "executions.create", SNACKS, True),
        (Narrowing(role="viewer", permissions=("executions.create",)), "executions.create", SNACKS, False),
        (Narrowing(role="admin"), "users.write", SNACKS, True),
    ],
)
def test_a_token_is_good_for_its_permissions_at_its_scope_and_below(
    narrowing: Narrowing, permission: str, scope: Scope, is_allowed: bool
) -> None:
    assert narrowing.allows(permission, scope, ROLES) is is_allowed


def test_tokens_that_are_else_alike_add_up() -> None:
    east, west = Narrowing(clusters=("east",)), Narrowing(clusters=("west",), cluster_groups=("racks",))
    both = east.with_use_of(west)
    assert both == Narrowing(clusters=("east", "west"), cluster_groups=("racks",))
    assert both.use == (("cluster", "east"), ("cluster", "west"), ("cluster_group", "racks"))
    assert read_use(use_text(both.use)) == both.use
    assert (use_text(None), read_use(None)) == (None, None)
    assert east.with_use_of(Narrowing()) == Narrowing()
    assert east.with_use_of(Narrowing(role="viewer", clusters=("west",))) is None


@pytest.mark.parametrize(
    ("scope", "reached"),
    [
        (PLATFORM, SNACKS),
        (Scope(domain="development"), SNACKS),
        (SNACKS._replace(workflow="w"), SNACKS._replace(workflow="w")),
        (Scope(project="other"), None),
    ],
)
def test_of_a_scope_it_reaches_the_part_that_both_have(scope: Scope, reached: Scope | None) -> None:
    assert Narrowing(scope=SNACKS).within(scope) == reached


def test_what_is_stored_is_read_back() -> None:
    narrowing = Narrowing(role="viewer", permissions=("logs.read",), scope=SNACKS, clusters=("east", "west"))
    assert narrowing.payload == {
        "role": "viewer",
        "permissions": ["logs.read"],
        "project": "flytesnacks",
        "domain": "development",
        "clusters": ["east", "west"],
    }
    assert Narrowing.of_payload(narrowing.payload) == narrowing
    assert Narrowing.of_payload({}) is Narrowing.of_payload(None) is None
    assert str(narrowing).startswith("role viewer, permission logs.read, ")
    assert str(narrowing).endswith(", cluster east, cluster west")
