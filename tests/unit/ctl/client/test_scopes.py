from __future__ import annotations

import pytest

from ctl.client.errors import InvalidInput
from ctl.client.scopes import Scope, check_level, describe_origin


@pytest.mark.parametrize(
    ("scope", "level", "path", "name"),
    [
        (Scope(domain="d"), "domain", "domain_attributes/d", "noun/-/d"),
        (Scope(project="p"), "project", "project_attributes/p", "noun/p"),
        (Scope(project="p", domain="d"), "project-domain", "project_domain_attributes/p/d", "noun/p/d"),
        (
            Scope(project="p", domain="d", workflow="a.b"),
            "workflow",
            "workflow_attributes/p/d/a.b",
            "noun/p/d/a.b",
        ),
        (
            Scope(project="p", domain="d", workflow="w", launch_plan="l"),
            "launch-plan",
            "launch_plan_attributes/p/d/w/l",
            "noun/p/d/w/l",
        ),
    ],
)
def test_a_scope_has_a_level_a_path_and_a_name(scope: Scope, level: str, path: str, name: str) -> None:
    assert (scope.level, scope.path, scope.name("noun")) == (level, path, name)


def test_names_are_encoded_with_nothing_left_as_it_is() -> None:
    assert Scope(project="a/b", domain="ü?#").path == "project_domain_attributes/a%2Fb/%C3%BC%3F%23"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"workflow": "w"}, "workflow w needs a project and a domain"),
        ({"workflow": "w", "project": "p"}, "workflow w needs a project and a domain"),
        ({"launch_plan": "l", "project": "p", "domain": "d"}, "launch plan l needs its workflow"),
        ({"project": ""}, "The project is empty"),
        ({"project": ".."}, "'..' cannot be the name of a project"),
        ({"project": "p", "domain": "."}, "'.' cannot be the name of a domain"),
    ],
)
def test_impossible_scopes_are_refused(keys: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Scope(**keys)
    assert message in caught.value.message


def test_the_platform_cannot_be_written() -> None:
    with pytest.raises(InvalidInput, match="admin's configuration"):
        _ = Scope().path


def test_a_level_the_kind_does_not_have_is_refused_with_those_it_has() -> None:
    scope = Scope(project="p", domain="d", workflow="w")
    with pytest.raises(InvalidInput) as caught:
        check_level(scope, "cluster-resource-attribute", ["domain", "project", "project-domain"])
    assert caught.value.message == (
        "cluster-resource-attribute cannot be set at workflow level: its levels are domain, project and project-domain."
    )


def test_no_scope_at_all_is_refused_with_the_flags_that_name_one() -> None:
    with pytest.raises(InvalidInput, match="needs a scope: -d DOMAIN or -p PROJECT"):
        check_level(Scope(), "x", ["domain", "project"])


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ({"level": "platform", "key": "task_resources.defaults.cpu"}, "configuration (task_resources.defaults.cpu)"),
        ({"level": "platform"}, "configuration"),
        ({"level": "domain", "domain": "d", "version": 3}, "inherited from domain d"),
        ({"level": "project-domain", "project": "p", "domain": "d", "version": 7}, "here (version 7)"),
    ],
)
def test_origins_are_told_as_seen_from_a_scope(origin: dict[str, str | int], message: str) -> None:
    assert describe_origin(origin, Scope(project="p", domain="d")) == message
