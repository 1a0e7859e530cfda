from __future__ import annotations

import pytest

from admin.core.cluster_resources.namespaces import NamespacePattern, collisions
from admin.core.settings.scopes import Scope


def test_namespaces_are_named_by_project_and_domain() -> None:
    scope = Scope("development", "flyteexamples")
    assert NamespacePattern().name(scope) == "flyteexamples-development"
    assert NamespacePattern("ml-{{domain}}-{{ project }}").name(scope) == "ml-development-flyteexamples"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("{{ project | upper }}-{{ domain }}", "is not a variable"),
        ("{{ project }}-{{ team }}", "'{{ team }}' is not known here"),
        ("{{ domain }}", "leaves out {{ project }}"),
        ("{{ project }}_{{ domain }}", "lower-case letters"),
        ("{% for x in y %}{{ project }}", "is not a variable"),
        ("{{ project", "is not a variable"),
    ],
)
def test_a_pattern_that_names_no_namespace_is_refused(pattern: str, reason: str) -> None:
    assert reason in (NamespacePattern(pattern).problem() or "")
    assert NamespacePattern().problem() is None


def test_two_scopes_with_one_namespace_are_refused() -> None:
    scopes = [Scope("c", "a-b"), Scope("b-c", "a"), Scope("c", "a")]
    refused = collisions(NamespacePattern(), scopes)
    assert set(refused) == {Scope("c", "a-b"), Scope("b-c", "a")}
    assert "'a-b-c' is also that of a/b-c" in refused[Scope("c", "a-b")]


def test_a_name_that_kubernetes_does_not_take_is_refused_with_its_length() -> None:
    problem = NamespacePattern().name_problem(Scope("development", "p" * 52))
    assert problem is not None
    assert "has 64 characters, and Kubernetes takes 63" in problem
    assert NamespacePattern().name_problem(Scope("development", "p" * 51)) is None
