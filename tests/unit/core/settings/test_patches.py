from __future__ import annotations

from typing import Any

import pytest

from admin.core.problems import Invalid
from admin.core.settings.builtin_kinds import TASK_RESOURCE, WORKFLOW_EXECUTION_CONFIG
from admin.core.settings.patches import apply_patch

BEFORE = {"defaults": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}


def patch(before: dict[str, Any], **parts: Any) -> dict[str, Any]:
    patch = {"set_": {}, "unset": [], "inherit": [], **parts}
    return apply_patch(TASK_RESOURCE, before, **patch)


def test_a_patch_changes_single_leaves_and_leaves_the_others() -> None:
    after = patch(BEFORE, set_={"limits": {"memory": "4Gi"}}, unset=["limits.cpu"], inherit=["defaults.memory"])
    assert after == {"defaults": {"cpu": "1"}, "limits": {"cpu": None, "memory": "4Gi"}}


@pytest.mark.parametrize(
    "set_", [{"limits": {"cpu": "4"}}, {"limits.cpu": "4"}, {"task_resource_attributes": {"limits": {"cpu": "4"}}}]
)
def test_leaves_are_set_nested_or_by_path(set_: dict[str, Any]) -> None:
    assert patch(BEFORE, set_=set_)["limits"] == {"cpu": "4"}


def test_a_row_with_nothing_left_is_empty() -> None:
    assert patch({"limits": {"cpu": "2"}}, inherit=["limits.cpu"]) == {}


def test_keys_with_dots_are_reached_by_path() -> None:
    before = {"labels": {"values": {"app.kubernetes.io/name": "x", "team": "y"}}}
    after = apply_patch(
        WORKFLOW_EXECUTION_CONFIG,
        before,
        set_={"envs.values.A.B": {"value": "1"}},
        unset=["labels.values.app.kubernetes.io/name"],
        inherit=["labels.values.team"],
    )
    assert after == {
        "labels": {"values": {"app.kubernetes.io/name": None}},
        "envs": {"values": [{"key": "A.B", "value": "1"}]},
    }


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"set_": {"limits": {"cpu": "1"}}, "unset": ["limits.cpu"]},
        {"unset": ["limits.cpu"], "inherit": ["limits.cpu"]},
        {"set_": {"limits": {"cpu": "1"}, "limits.cpu": "2"}},
        {"unset": ["limits"]},
        {"unset": ["limits.cpu.cores"]},
        {"inherit": ["limit.cpu"]},
        {"inherit": [""]},
        {"set_": {"limits.cpu": "x"}},
        {"set_": {"limits": None}},
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        patch(BEFORE, **parts)
