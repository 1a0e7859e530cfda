"""Permissions and the roles that hold them."""

from __future__ import annotations

import re

import pytest

from admin.core.permissions import (
    OPEN,
    PERMISSIONS,
    REQUIREMENTS,
    ROLES,
    Place,
    check_requirement,
    describe_requirement,
    reading,
)


def test_permissions_are_a_noun_and_a_verb() -> None:
    for name, permission in PERMISSIONS.items():
        assert name == permission.name
        assert re.fullmatch(r"[a-z_]+\.[a-z]+", name)
        assert permission.description
        assert not permission.description.endswith(".")
    assert not PERMISSIONS.keys() & REQUIREMENTS.keys()


def test_the_roles_hold_permissions_that_exist() -> None:
    assert list(ROLES) == ["viewer", "submitter", "editor", "operator", "admin"]
    for role in ROLES.values():
        assert role.permissions <= PERMISSIONS.keys()
        assert role.description


def test_each_role_may_do_what_its_description_says() -> None:
    permissions = {name: role.permissions for name, role in ROLES.items()}
    assert permissions["viewer"] < permissions["submitter"] < permissions["editor"] < permissions["admin"]
    assert permissions["viewer"] < permissions["operator"] < permissions["admin"]
    assert permissions["admin"] == PERMISSIONS.keys()
    assert "attributes.write" not in permissions["operator"]
    assert "fleet.write" not in permissions["editor"]


def test_only_administrators_decide_who_may_do_what() -> None:
    """A role that could make tokens of other users, or change groups, would be an administrator in disguise."""
    powers = {"grants.write", "groups.write", "users.write", "tokens.write", "audit.read"}
    for name, role in ROLES.items():
        assert role.permissions & powers == (powers if name == "admin" else set())


def test_viewers_only_read() -> None:
    assert {name.partition(".")[2] for name in ROLES["viewer"].permissions} == {"read"}


def test_an_unknown_permission_is_refused() -> None:
    assert check_requirement("fleet.write") == "fleet.write"
    assert check_requirement(OPEN) == OPEN
    with pytest.raises(ValueError, match=r"no permission 'fleet.writes'"):
        check_requirement("fleet.writes")
    with pytest.raises(ValueError, match="no permission ''"):
        check_requirement("")


@pytest.mark.parametrize(
    ("requirement", "sentence"),
    [
        ("attributes.write", "Needs the permission `attributes.write`: set and delete attributes other than quotas."),
        ("fleet.read", "Needs the permission `fleet.read` at any scope: read clusters, pools and labels."),
        ("audit.read", "Needs the permission `audit.read` on the platform: read the audit events."),
        ("open", "Needs no token."),
    ],
)
def test_requirements_in_words(requirement: str, sentence: str) -> None:
    assert describe_requirement(requirement) == sentence


def test_what_belongs_to_no_scope_is_not_granted_by_scope() -> None:
    unscoped = {name for name, permission in PERMISSIONS.items() if permission.place is not Place.SCOPE}
    assert {"fleet.write", "clusters.switch", "users.write", "tokens.write", "configuration.read"} <= unscoped
    assert {"attributes.write", "executions.create", "grants.write"}.isdisjoint(unscoped)


def test_everything_that_can_be_done_to_something_has_a_permission_to_read_it() -> None:
    for permission in PERMISSIONS:
        assert reading(permission) in PERMISSIONS
        for role in ROLES.values():
            assert permission not in role.permissions or reading(permission) in role.permissions, role.name
    assert reading("clusters.switch") == "fleet.read"
    assert reading("logs.read") == "executions.read"
