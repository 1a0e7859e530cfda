"""Whether a row may be stored, and the warnings it carries."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.changes import Expectation
from admin.core.problems import Invalid
from admin.core.settings.builtin_kinds import (
    CLUSTER_ASSIGNMENT,
    EXECUTION_CLUSTER_LABEL,
    EXECUTION_QUEUE,
    EXECUTION_QUOTA,
    TASK_RESOURCE,
    TOKEN_POOL_QUOTA,
)
from admin.core.settings.kinds import Kind, NameList, Payload
from admin.core.settings.platform import PlatformLeaf, PlatformValues
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import Surroundings, Warning, check_row, only_relieves, unknown_scopes

KNOWN = {
    NameList.LABEL: frozenset({"mycluster", "gpu-east"}),
    NameList.POOL: frozenset({"gpu"}),
    NameList.QUEUE_TAG: frozenset({"critical"}),
}
PLATFORM = PlatformValues(
    everywhere={
        "TASK_RESOURCE": {
            ("defaults", "memory"): PlatformLeaf(value="200Mi", key="task_resources.defaults.memory"),
            ("limits", "memory"): PlatformLeaf(value="1Gi", key="task_resources.limits.memory"),
        }
    }
)


def check_rowd(
    kind: Kind, scope: Scope, payload: Any, stored: dict[Scope, Any] | None = None, *, refuse: bool = False
) -> list[Warning]:
    state = {**(stored or {}), scope: payload}
    rows = [Row(kind=kind.name, scope=place, payload=payload, version=1) for place, payload in state.items()]
    around = Surroundings.of(rows, PLATFORM, KNOWN)
    return check_row(kind, around.rows[scope], around, refuse_unknown_names=refuse)


@pytest.mark.parametrize(
    ("kind", "payload", "code", "closest"),
    [
        (EXECUTION_CLUSTER_LABEL, {"value": "myclsuter"}, "unknown_label", ("mycluster",)),
        (CLUSTER_ASSIGNMENT, {"cluster_pool_name": "gpus"}, "unknown_pool", ("gpu",)),
        (EXECUTION_QUEUE, {"tags": ["critical", "xyz"]}, "unknown_queue_tag", ()),
    ],
)
def test_an_undefined_name_gives_a_warning_or_is_refused(
    kind: Kind, payload: Any, code: str, closest: tuple[str, ...]
) -> None:
    [warning] = check_rowd(kind, Scope(domain="d"), payload)
    assert (warning.code, warning.closest) == (code, closest)
    with pytest.raises(Invalid):
        check_rowd(kind, Scope(domain="d"), payload, refuse=True)


@pytest.mark.parametrize("payload", [{"value": "mycluster"}, {"value": None}])
def test_a_known_name_and_an_unset_one_need_no_warning(payload: Any) -> None:
    assert check_rowd(EXECUTION_CLUSTER_LABEL, Scope(domain="d"), payload, refuse=True) == []


def test_a_quota_of_tokens_holds_for_a_workflow_that_nobody_has_registered() -> None:
    scope, known = Scope(project="p", domain="d", workflow="w"), {NameList.WORKFLOW: frozenset({"wf"})}
    for kind, effect in (
        (TOKEN_POOL_QUOTA, "It bounds claims that name it."),
        (EXECUTION_QUOTA, "It takes effect once one is."),
    ):
        [warning] = unknown_scopes(kind, Row(kind=kind.name, scope=scope, payload={}, version=1), known)
        assert warning.message.endswith(effect)


def test_a_projects_row_warns_of_each_domains_row_it_overrides() -> None:
    stored = {Scope(domain="a"): {"value": "mycluster"}, Scope(domain="b"): {"value": "mycluster"}}
    warnings = check_rowd(EXECUTION_CLUSTER_LABEL, Scope(project="p"), {"value": "gpu-east"}, stored)
    assert [warning.code for warning in warnings] == ["overrides_domain", "overrides_domain"]
    assert check_rowd(EXECUTION_CLUSTER_LABEL, Scope(project="p", domain="a"), {"value": "gpu-east"}, stored) == []


def test_leaf_by_leaf_only_the_leaves_in_common_are_overridden() -> None:
    stored = {Scope(domain="a"): {"limits": {"memory": "2Gi"}}}
    assert check_rowd(TASK_RESOURCE, Scope(project="p"), {"limits": {"cpu": "1"}}, stored) == []
    [warning] = check_rowd(TASK_RESOURCE, Scope(project="p"), {"limits": {"memory": "3Gi"}}, stored)
    assert warning.field == "limits.memory"


@pytest.mark.parametrize(
    ("payload", "stored"),
    [
        ({"defaults": {"memory": "2Gi"}}, {}),
        ({"defaults": {"cpu": "900m"}, "limits": {"cpu": "200m"}}, {}),
        ({"defaults": {"memory": "600Mi"}}, {Scope(domain="d"): {"limits": {"memory": "512Mi"}}}),
    ],
)
def test_a_default_above_the_limit_in_force_cannot_be_stored(payload: Any, stored: dict[Scope, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        check_rowd(TASK_RESOURCE, Scope(project="p", domain="d"), payload, stored)
    assert caught.value.problems[0].field.startswith("defaults.")


def test_a_limit_below_an_inherited_default_is_stored_with_a_warning() -> None:
    [warning] = check_rowd(TASK_RESOURCE, Scope(domain="d"), {"limits": {"memory": "100Mi"}})
    assert (warning.code, warning.field) == ("default_capped", "defaults.memory")
    assert ", set in configuration (" in warning.message
    assert "the limit of 100Mi, set at domain d; executions get 100Mi." in warning.message


def test_any_default_is_stored_where_the_limit_is_unset() -> None:
    payload = {"defaults": {"memory": "64Gi"}, "limits": {"memory": None}}
    assert check_rowd(TASK_RESOURCE, Scope(project="p", domain="d"), payload) == []


@pytest.mark.parametrize(
    ("expectation", "holds_without_row", "holds_at_7"),
    [
        (Expectation(), True, True),
        (Expectation(version=7), False, True),
        (Expectation(version=6), False, False),
        (Expectation(absent=True), True, False),
        (Expectation(present=True), False, True),
    ],
)
def test_an_expectation_holds_for_its_row(expectation: Expectation, holds_without_row: bool, holds_at_7: bool) -> None:
    assert (expectation.holds(None), expectation.holds(7)) == (holds_without_row, holds_at_7)


@pytest.mark.parametrize(
    ("before", "after", "relieves"),
    [
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1500m"}}, True),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1000m"}}, True),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}, False),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": None}}, False),
        ({}, {"limits": {"cpu": "2"}}, False),
        ({"limits": {"cpu": "2"}}, {}, False),  # a broader limit may be lower
        ({"defaults": {"cpu": "2"}}, {"defaults": {"cpu": "1"}}, True),
        ({"defaults": {"cpu": "1"}}, {"defaults": {"cpu": "2"}}, False),
    ],
)
def test_a_change_that_only_relieves_caps_nothing(before: Payload, after: Payload, relieves: bool) -> None:
    assert only_relieves(before, after) is relieves
