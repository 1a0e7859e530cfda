from __future__ import annotations

import pytest

from admin.core.problems import Invalid
from admin.core.settings.scopes import PLATFORM, Level, Scope, check_scope

LAUNCH_PLAN = Scope(project="p", domain="d", workflow="w", launch_plan="lp")


def test_specificity_follows_the_table() -> None:
    assert {level.value: level.specificity for level in Level} == {
        "platform": 0,
        "domain": 1,
        "project": 5,
        "project-domain": 10,
        "workflow": 100,
        "launch-plan": 1000,
    }


def test_a_chain_goes_from_broad_to_narrow_and_ends_at_the_scope() -> None:
    assert list(LAUNCH_PLAN.chain()) == [
        Scope(domain="d"),
        Scope(project="p"),
        Scope(project="p", domain="d"),
        Scope(project="p", domain="d", workflow="w"),
        LAUNCH_PLAN,
    ]


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (PLATFORM, []),
        (Scope(domain="d"), [Scope(domain="d")]),
        (Scope(project="p"), [Scope(project="p")]),
        (Scope(project="p", domain="d"), [Scope(domain="d"), Scope(project="p"), Scope(project="p", domain="d")]),
    ],
)
def test_a_chain_holds_only_what_the_scope_names(scope: Scope, expected: list[Scope]) -> None:
    assert list(scope.chain()) == expected


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"workflow": "w"}, "project"),
        ({"project": "p", "workflow": "w"}, "domain"),
        ({"project": "p", "domain": "d", "launch_plan": "lp"}, "workflow"),
        ({"project": "Upper"}, "project"),
        ({"project": "a.b"}, "project"),
        ({"project": "a/b"}, "project"),
        ({"project": "a" * 64}, "project"),
        ({"project": "trailing-"}, "project"),
        ({"project": "a\n"}, "project"),
        ({"domain": "D"}, "domain"),
        ({"project": "p", "domain": "d", "workflow": "a/b"}, "workflow"),
        ({"project": "p", "domain": "d", "workflow": ".."}, "workflow"),
        ({"project": "p", "domain": "d", "workflow": "w" * 256}, "workflow"),
        ({"project": "p", "domain": "d", "workflow": "w\x00"}, "workflow"),
        ({"project": "p", "domain": "d", "workflow": "w", "launch_plan": "a b"}, "launch_plan"),
    ],
)
def test_an_incomplete_scope_names_the_missing_field(keys: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_scope(**keys)
    assert [problem.field for problem in caught.value.problems] == [field]


@pytest.mark.parametrize("name", ["core.control_flow.merge_sort", "A", ".flytegen.task", "_x-1", "w" * 255])
def test_workflow_names_may_be_module_paths(name: str) -> None:
    assert check_scope(project="p", domain="d", workflow=name).level is Level.WORKFLOW


@pytest.mark.parametrize("keys", [(), ("d",), ("", "p"), ("d", "p"), ("d", "p", "w"), ("d", "p", "w", "l")])
def test_the_paths_are_those_of_the_chain(keys: tuple[str, ...]) -> None:
    scope = Scope(*keys)
    assert scope.paths() == tuple(place.path for place in scope.chain())
