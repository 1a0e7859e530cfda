"""The nearest row, and the command that sets the same elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.settings.builtin_kinds import (
    EXECUTION_CLUSTER_LABEL,
    EXECUTION_QUEUE,
    TASK_RESOURCE,
    WORKFLOW_EXECUTION_CONFIG,
)
from admin.core.settings.kinds import Kind
from admin.core.settings.nearest import nearest_row, update_command
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope

PLAN = Scope(project="p", domain="d", workflow="w", launch_plan="l")
#: Rows from the nearest to the farthest.
BESIDE = [
    PLAN._replace(launch_plan="l2"),
    PLAN._replace(launch_plan="other"),
    PLAN._replace(domain="e"),
    PLAN._replace(project="p2"),
    Scope("d", "p", "w2"),
    Scope("d", "p", "zzz"),
    Scope("e", "p", "w"),
    Scope("d", "p2", "w"),
    Scope("e", "p"),
    Scope("d", "p2"),
    Scope(project="p2"),
    Scope(domain="e"),
]
#: Rows that apply at the launch plan, or differ from it in more than one name.
ELSEWHERE = [*PLAN.chain(), Scope("e", "p2"), Scope("e", "p2", "w"), Scope("d", "p", "w2", "l"), Scope("e", "p", "w2")]


def row(scope: Scope, kind: Kind = EXECUTION_CLUSTER_LABEL, payload: Any = None) -> Row:
    return Row(kind=kind.name, scope=scope, payload=kind.read(payload or {"value": "a"}), version=1)


@pytest.mark.parametrize("first", range(len(BESIDE)))
def test_the_nearest_level_and_then_the_nearest_name_counts(first: int) -> None:
    rows = [row(scope) for scope in [*reversed(BESIDE[first:]), *ELSEWHERE]]
    nearest = nearest_row(EXECUTION_CLUSTER_LABEL, PLAN, rows)
    assert nearest is not None
    assert nearest.scope == BESIDE[first]


def test_rows_that_apply_here_or_lie_elsewhere_are_not_beside() -> None:
    assert nearest_row(EXECUTION_CLUSTER_LABEL, PLAN, map(row, ELSEWHERE)) is None
    assert nearest_row(EXECUTION_CLUSTER_LABEL, Scope(domain="d"), map(row, BESIDE[:-1])) is None


def test_a_row_that_only_unsets_serves_nobody() -> None:
    rows = [row(BESIDE[0], payload={"value": None}), row(BESIDE[1])]
    nearest = nearest_row(EXECUTION_CLUSTER_LABEL, PLAN, rows)
    assert nearest is not None
    assert nearest.scope == BESIDE[1]


@pytest.mark.parametrize(
    ("kind", "payload", "flags"),
    [
        (EXECUTION_CLUSTER_LABEL, {"value": "gpu"}, "--set value=gpu"),
        (EXECUTION_QUEUE, {"tags": ["a", "b"]}, """--set 'tags=["a", "b"]'"""),
        (TASK_RESOURCE, {"limits": {"cpu": "2", "gpu": None}}, "--set limits.cpu=2 --unset limits.gpu"),
        (WORKFLOW_EXECUTION_CONFIG, {"max_parallelism": 5}, "--set max_parallelism=5"),
        (
            WORKFLOW_EXECUTION_CONFIG,
            {"envs": {"values": [{"key": "A", "value": "b c"}]}},
            "--set 'envs.values.A=b c'",
        ),
    ],
)
def test_the_command_sets_each_field(kind: Kind, payload: Any, flags: str) -> None:
    command = update_command(kind, PLAN, row(BESIDE[0], kind, payload))
    assert command == f"rainbowctl update {kind.noun} -p p -d d -w w --launchplan l {flags}"
    assert update_command(kind, Scope(domain="d"), row(BESIDE[0], kind, payload)).split(" --")[0].endswith(" -d d")
