"""Which rows have no effect, by example and against brute force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.executions.no_effect import Circumstances, no_effect, overridden_leaves
from admin.core.settings.builtin_kinds import (
    CLUSTER_ASSIGNMENT,
    CLUSTER_RESOURCE,
    EXECUTION_CLUSTER_LABEL,
    EXECUTION_QUEUE,
    PLUGIN_OVERRIDE,
    QUALITY_OF_SERVICE,
    TASK_RESOURCE,
    TOKEN_POOL_QUOTA,
    WORKFLOW_EXECUTION_CONFIG,
)
from admin.core.settings.kinds import Kind, Merge, NameList
from admin.core.settings.platform import PlatformDefaults
from admin.core.settings.resolution import Row, effective_leaves
from admin.core.settings.scopes import Scope

KNOWN = {
    NameList.LABEL: frozenset({"a", "hollow"}),
    NameList.POOL: frozenset({"p", "hollow"}),
    NameList.QUEUE_TAG: frozenset({"t"}),
    NameList.WORKFLOW: frozenset({"w"}),
    NameList.LAUNCH_PLAN: frozenset({"l"}),
}
EMPTY = {NameList.LABEL: frozenset({"hollow"}), NameList.POOL: frozenset({"hollow"})}
PLACE = Scope("d", "p")
PLAN = Scope("d", "p", "w", "l")
AROUND = Circumstances(known=KNOWN, empty=EMPTY)


def row_of(kind: Kind, payload: Any, scope: Scope = PLACE) -> Row:
    return Row(kind=kind.name, scope=scope, payload=kind.read(payload), version=1)


def codes(kind: Kind, payload: Any, scope: Scope = PLACE, around: Circumstances = AROUND) -> list[tuple[str, str]]:
    return [(warning.code.value, warning.field) for warning in no_effect(kind, row_of(kind, payload, scope), around)]


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [
        (EXECUTION_CLUSTER_LABEL, {"value": "a"}, []),
        (EXECUTION_CLUSTER_LABEL, {"value": "nowhere"}, [("unknown_label", "value")]),
        (EXECUTION_CLUSTER_LABEL, {"value": "hollow"}, [("empty_label", "value")]),
        (EXECUTION_CLUSTER_LABEL, {"value": None}, []),
        (CLUSTER_ASSIGNMENT, {"cluster_pool_name": "p"}, []),
        (CLUSTER_ASSIGNMENT, {"cluster_pool_name": "nowhere"}, [("unknown_pool", "cluster_pool_name")]),
        (CLUSTER_ASSIGNMENT, {"cluster_pool_name": "hollow"}, [("empty_pool", "cluster_pool_name")]),
        (EXECUTION_QUEUE, {"tags": ["t", "u"]}, [("unknown_queue_tag", "tags")]),
        (TASK_RESOURCE, {"defaults": {"storage": "1Gi", "cpu": "1"}}, [("unread_field", "defaults.storage")]),
        (WORKFLOW_EXECUTION_CONFIG, {"overwrite_cache": True}, [("unread_field", "overwrite_cache")]),
        (WORKFLOW_EXECUTION_CONFIG, {"labels": {"values": {"a": "b"}}}, []),
        (CLUSTER_RESOURCE, {"attributes": {"quota": "5"}}, []),
    ],
)
def test_names_that_lead_nowhere(kind: Kind, payload: Any, expected: list[tuple[str, str]]) -> None:
    assert codes(kind, payload) == expected


def test_nothing_runs_under_the_name_of_the_scope() -> None:
    unknown = Scope("d", "p", "w2", "l2")
    warnings = codes(QUALITY_OF_SERVICE, {"tier": "LOW"}, unknown)
    assert warnings == [("unknown_workflow", "workflow"), ("unknown_launch_plan", "launch_plan")]
    assert codes(QUALITY_OF_SERVICE, {"tier": "LOW"}, PLAN) == []
    assert codes(TOKEN_POOL_QUOTA, {"weight": 2.0}, unknown) == []  # claims may name it
    archived = replace(AROUND, is_archived=True)
    assert codes(QUALITY_OF_SERVICE, {"tier": "LOW"}, PLAN, archived) == [("archived_project", "project")]


def test_a_pool_of_the_same_scope_wins_over_a_label() -> None:
    pool = replace(AROUND, pool="p")
    assert codes(EXECUTION_CLUSTER_LABEL, {"value": "a"}, around=pool) == [("pool_wins", "value")]
    assert codes(EXECUTION_CLUSTER_LABEL, {"value": None}, around=pool) == []
    assert codes(CLUSTER_ASSIGNMENT, {"cluster_pool_name": "p"}, around=pool) == []


@pytest.mark.parametrize(
    ("kind", "payload", "definition", "expected"),
    [
        (QUALITY_OF_SERVICE, {"tier": "LOW"}, {"quality_of_service": {"tier": "HIGH"}}, ["tier"]),
        (QUALITY_OF_SERVICE, {"tier": "LOW"}, {"max_parallelism": 3}, []),
        (WORKFLOW_EXECUTION_CONFIG, {"max_parallelism": 5}, {"max_parallelism": 3}, ["max_parallelism"]),
        (WORKFLOW_EXECUTION_CONFIG, {"envs": {"values": [{"key": "A", "value": "2"}]}}, {"max_parallelism": 3}, []),
        (EXECUTION_CLUSTER_LABEL, {"value": "a"}, {"cluster_assignment": {"cluster_pool_name": "p"}}, ["value"]),
        (
            CLUSTER_ASSIGNMENT,
            {"cluster_pool_name": "p"},
            {"execution_cluster_label": {"value": "a"}},
            ["cluster_pool_name"],
        ),
        (TASK_RESOURCE, {"limits": {"cpu": "1"}}, {"cluster_assignment": {"cluster_pool_name": "p"}}, []),
    ],
)
def test_what_the_definition_of_a_launch_plan_says(kind: Kind, payload: Any, definition: Any, expected: Any) -> None:
    around = replace(AROUND, definition=definition)
    assert codes(kind, payload, PLAN, around) == [("launch_plan_says", field) for field in expected]


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [
        (TASK_RESOURCE, {"defaults": {"cpu": "1"}}, ["defaults.cpu"]),
        (TASK_RESOURCE, {"defaults": {"memory": "1Gi"}, "limits": {"cpu": "4"}}, []),
        (PLUGIN_OVERRIDE, {"overrides": [{"task_type": "spark", "plugin_id": ["x"]}]}, ["overrides.spark"]),
        (PLUGIN_OVERRIDE, {"overrides": [{"task_type": "process", "plugin_id": ["x"]}]}, []),
        (WORKFLOW_EXECUTION_CONFIG, {"envs": {"values": [{"key": "A", "value": "2"}]}}, ["envs.values.A"]),
        (WORKFLOW_EXECUTION_CONFIG, {"labels": {"values": {"team": "x"}}}, []),
    ],
)
def test_what_a_job_says_itself(kind: Kind, payload: Any, expected: list[str]) -> None:
    job = {"command": ["true"], "environment": {"A": "1"}, "resources": {"requests": {"cpu": "2"}}}
    around = replace(AROUND, jobs=[job])
    assert codes(kind, payload, PLAN, around) == [("ignored_by_job", field) for field in expected]


def test_what_one_of_the_jobs_that_run_does_not_say_itself_has_an_effect() -> None:
    jobs = [{"resources": {"requests": {"cpu": "2"}}}, {"resources": {"requests": {"memory": "1Gi"}}}]
    both = {"defaults": {"cpu": "1", "memory": "1Gi"}}
    assert codes(TASK_RESOURCE, both, PLAN, replace(AROUND, jobs=jobs)) == []
    assert codes(TASK_RESOURCE, both, PLAN, replace(AROUND, jobs=jobs[:1])) == [("ignored_by_job", "defaults.cpu")]
    assert codes(TASK_RESOURCE, both, PLAN, AROUND) == []


@pytest.mark.parametrize("value", ["nowhere", "hollow", "a"])
def test_each_field_has_one_reason_and_it_is_the_one_that_decides(value: str) -> None:
    label = {"value": value}
    outranked = replace(AROUND, pool="p")
    assert codes(EXECUTION_CLUSTER_LABEL, label, PLAN, outranked) == [("pool_wins", "value")]
    overridden = replace(outranked, overridden=[("value",)])
    assert codes(EXECUTION_CLUSTER_LABEL, label, PLAN, overridden) == [("overridden", "value")]
    defined = replace(overridden, definition={"execution_cluster_label": {"value": "a"}})
    assert codes(EXECUTION_CLUSTER_LABEL, label, PLAN, defined) == [("launch_plan_says", "value")]
    archived = replace(defined, is_archived=True)
    assert codes(EXECUTION_CLUSTER_LABEL, label, PLAN, archived) == [("archived_project", "project")]


def test_fields_of_one_row_may_have_different_reasons() -> None:
    payload = {"defaults": {"cpu": "1", "storage": "1Gi"}, "limits": {"cpu": "4"}}
    around = replace(AROUND, overridden=[("limits", "cpu")], jobs=[{"resources": {"requests": {"cpu": "2"}}}])
    assert codes(TASK_RESOURCE, payload, PLAN, around) == [
        ("overridden", "limits.cpu"),
        ("ignored_by_job", "defaults.cpu"),
        ("unread_field", "defaults.storage"),
    ]


DOMAINS = ("d", "e")
LIMITS = st.fixed_dictionaries(
    {"limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2"]), min_size=1)}
)


@given(own=LIMITS, below=st.dictionaries(st.sampled_from(DOMAINS), LIMITS), replaces=st.booleans())
def test_a_leaf_is_overridden_where_no_change_of_it_changes_anything(own: Any, below: Any, replaces: bool) -> None:
    kind = replace(TASK_RESOURCE, merge=Merge.REPLACE) if replaces else TASK_RESOURCE
    row = row_of(kind, own, Scope(project="p"))
    others = {Scope(domain, "p"): row_of(kind, payload, Scope(domain, "p")) for domain, payload in below.items()}
    places = [Scope(domain, "p") for domain in DOMAINS]
    platform = PlatformDefaults(kind, {})

    def leaves(payload: Any) -> list[Any]:
        rows = {row.scope: replace(row, payload=payload), **others}
        return [effective_leaves(kind, place, rows, platform) for place in places]

    overridden = [
        path
        for path in kind.leaves(row.payload)
        if leaves({"limits": {**row.payload["limits"], path[-1]: "7"}}) == leaves(row.payload)
    ]
    assert overridden_leaves(kind, row, ([others.get(place)] for place in places)) == overridden
    warnings = no_effect(kind, row, replace(AROUND, overridden=overridden))
    assert [warning.code.value for warning in warnings] == (["overridden"] if overridden else [])


def test_without_places_nothing_is_said() -> None:
    assert overridden_leaves(TASK_RESOURCE, row_of(TASK_RESOURCE, {"limits": {"cpu": "1"}}), []) == []
