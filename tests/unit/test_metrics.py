"""Metrics: many equal observations at once count as that many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from admin.metrics import count_created


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def execution(**more: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"cluster": "a", "pool": "p", "label": None, "domain": "counted", "reason": "R"} | more)


def test_many_executions_are_counted_as_if_they_came_one_by_one() -> None:
    place = {"cluster": "a", "pool": "p", "label": "", "domain": "counted"}
    count_created([execution(), execution(), execution(cluster=None)], 0.02)
    count_created([], 0.02)
    assert counted("rainbow_executions_created_total", **place) == 2
    assert counted("rainbow_executions_created_total", **place | {"cluster": ""}) == 1
    assert counted("rainbow_placements_total", **place, reason="R", because="created") == 2
    timed = "rainbow_execution_creation_seconds"
    assert counted(f"{timed}_count", domain="counted") == 3
    assert counted(f"{timed}_sum", domain="counted") == pytest.approx(0.06)
    assert counted(f"{timed}_bucket", domain="counted", le="0.01") == 0
    assert counted(f"{timed}_bucket", domain="counted", le="0.025") == 3
