"""Users: the normal form of a definition, and which names they may have."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.problems import Invalid
from admin.core.users import read_user


@pytest.mark.parametrize(
    ("payload", "normal"),
    [
        ({}, {}),
        ({"service_account": False}, {}),
        ({"service_account": True}, {"service_account": True}),
        ({"serviceAccount": True, "description": "Builds."}, {"service_account": True, "description": "Builds."}),
    ],
)
def test_a_definition_has_a_normal_form(payload: Any, normal: Any) -> None:
    assert read_user("ada", payload) == normal
    assert read_user("ada", normal) == normal


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"service_account": "yes"}, "service_account"),
        ({"service_account": None}, "service_account"),
        ({"description": ""}, "description"),
        ({"description": "x" * 1001}, "description"),
        ({"description": "a\nb"}, "description"),
        ({"groups": ["a"]}, "groups"),
        ([], ""),
        (None, ""),
    ],
)
def test_a_wrong_definition_is_refused_by_field(payload: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_user("ada", payload)
    assert [problem.field for problem in caught.value.problems] == [field]


@pytest.mark.parametrize("name", ["ada", "Ada.Lovelace@example.org", "ci-bot", "_", "0", "a" * 128])
def test_a_user_may_be_called_like_a_mail_address(name: str) -> None:
    assert read_user(name, {}) == {}


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "a" * 129, "a b", "a/b", "cluster/a", "ä", "a\n", "a\0", "\u202ea", "a:b", "a,b", "a'b"),
        *("anonymous", "shared-token", "registration", "unknown"),
    ],
)
def test_odd_and_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_user(name, {"groups": []})
    assert {problem.field for problem in caught.value.problems} == {"name", "groups"}  # with every other problem
