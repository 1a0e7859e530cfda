"""Which payloads say a value, and where scopes have it from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.settings.builtin_kinds import (
    CLUSTER_RESOURCE,
    EXECUTION_CLUSTER_LABEL,
    EXECUTION_QUEUE,
    PLUGIN_OVERRIDE,
    QUALITY_OF_SERVICE,
    TASK_RESOURCE,
    WORKFLOW_EXECUTION_CONFIG,
)
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformDefaults
from admin.core.settings.resolution import Row, resolve
from admin.core.settings.scopes import Scope
from admin.core.settings.uses import Sought, amount_of

PLAN = Scope(project="p", domain="d", workflow="w", launch_plan="l")
CHAIN = PLAN.chain()
MODE, RUN_AS, PLUGINS = ("envs", "values", "MODE"), ("security_context", "run_as"), ("overrides", "t")


@pytest.mark.parametrize(
    ("kind", "path", "values", "payload", "expected"),
    [
        (EXECUTION_CLUSTER_LABEL, ("value",), {"a", "b"}, {"value": "a"}, [("value",)]),
        (EXECUTION_CLUSTER_LABEL, ("value",), {"b"}, {"value": "a"}, []),
        (EXECUTION_CLUSTER_LABEL, ("value",), set(), {"value": "a"}, []),
        (EXECUTION_CLUSTER_LABEL, None, None, {"value": "a"}, [("value",)]),
        (EXECUTION_QUEUE, ("tags",), {"b"}, {"tags": ["a", "b"]}, [("tags",)]),
        (EXECUTION_QUEUE, ("tags",), {"c"}, {"tags": ["a", "b"]}, []),
        (TASK_RESOURCE, ("limits", "cpu"), {"2"}, {"limits": {"cpu": "2", "gpu": "2"}}, [("limits", "cpu")]),
        (WORKFLOW_EXECUTION_CONFIG, ("max_parallelism",), {"5"}, {"max_parallelism": 5}, [("max_parallelism",)]),
        (WORKFLOW_EXECUTION_CONFIG, ("interruptible",), {"true"}, {"interruptible": True}, [("interruptible",)]),
        (WORKFLOW_EXECUTION_CONFIG, MODE, {"a"}, {"envs": {"values": {"MODE": "a"}}}, [MODE]),
        (WORKFLOW_EXECUTION_CONFIG, MODE, {"b"}, {"envs": {"values": {"MODE": "a"}}}, []),
        (WORKFLOW_EXECUTION_CONFIG, RUN_AS, {"b"}, {"security_context": {"run_as": {"iam_role": "b"}}}, [RUN_AS]),
        (PLUGIN_OVERRIDE, None, {"b"}, {"overrides": [{"task_type": "t", "plugin_id": ["a", "b"]}]}, [PLUGINS]),
    ],
)
def test_values_are_found_by_their_text(kind: Kind, path: Any, values: Any, payload: Any, expected: Any) -> None:
    sought = Sought(kind=kind, path=path, values=None if values is None else frozenset(values))
    assert list(sought.find(kind.read(payload))) == expected


@pytest.mark.parametrize(
    ("path", "comparison", "value", "payload", "is_found"),
    [
        (("limits", "memory"), "gt", "4Gi", {"limits": {"memory": "4097Mi"}}, True),
        (("limits", "memory"), "gt", "4Gi", {"limits": {"memory": "4096Mi"}}, False),
        (("limits", "cpu"), "lte", "0.5", {"limits": {"cpu": "500m"}}, True),
        (("limits", "cpu"), "lt", "inf", {"limits": {"cpu": "500m"}}, False),
        (("limits", "cpu"), "lt", "nan", {"limits": {"cpu": "500m"}}, False),
        (("limits", "cpu"), "gte", "0", {"limits": {"cpu": None}}, False),
        (("limits", "cpu"), "gt", "many", {"limits": {"cpu": "2"}}, False),
    ],
)
def test_amounts_are_found_that_compare_with_a_value(
    path: Any, comparison: str, value: str, payload: Any, is_found: bool
) -> None:
    sought = Sought(kind=TASK_RESOURCE, path=path, values=frozenset({value}), comparison=comparison)
    assert bool(sought.find(TASK_RESOURCE.read(payload))) == is_found


@pytest.mark.parametrize(
    ("sought", "value", "is_found"),
    [
        ("1", "1500m", True),
        ("1", "1k", True),
        ("1", "900m", False),
        ("1500m", "2", True),
        ("4Ti", "5Ti", True),
        ("4Ti", "4096Gi", False),
        ("-1", "0", True),
        ("1", "unlimited", False),
        ("1", "inf", False),
        ("nan", "2", False),
    ],
)
def test_variables_of_templates_compare_as_quantities(sought: str, value: str, is_found: bool) -> None:
    path = ("attributes", "projectQuota")
    amounts = Sought(kind=CLUSTER_RESOURCE, path=path, values=frozenset({sought}), comparison="gt")
    assert bool(amounts.find(CLUSTER_RESOURCE.read({"attributes": {"projectQuota": value}}))) == is_found


@pytest.mark.parametrize(("text", "amount"), [("10m", 600), ("10", 10), ("10M", None), ("4Gi", None)])
def test_a_length_of_time_is_no_quantity(text: str, amount: int | None) -> None:
    assert amount_of(QUALITY_OF_SERVICE, ("spec", "queueing_budget"), text) == amount


@given(
    payloads=st.dictionaries(st.sampled_from(CHAIN), st.sampled_from(["a", "b", None])), place=st.sampled_from(CHAIN)
)
def test_a_scope_has_a_value_from_where_resolution_says(payloads: dict[Scope, Any], place: Scope) -> None:
    kind = EXECUTION_CLUSTER_LABEL
    rows = {
        scope: Row(kind=kind.name, scope=scope, payload={"value": value}, version=1)
        for scope, value in payloads.items()
    }
    platform = PlatformDefaults(kind, {})
    origins = Sought(kind=kind, values=frozenset({"a"})).origins_at(place, rows, platform)
    resolved = resolve(kind, place, rows, platform)
    assert origins == (set(resolved.origins.values()) if resolved.value == {"value": "a"} else set())
