"""The rows of namespaces, one for each object on each cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ctl.commands.cluster_resources.get import _object_rows


@pytest.mark.parametrize(
    ("problems", "waits"),
    [([], "its agent has not applied this yet"), (["the variable 'x' has no value"], "it cannot be rendered")],
)
def test_what_is_pending_says_what_it_waits_for(problems: list[str], waits: str) -> None:
    clusters = [{"cluster": "east", "state": "pending", "objects": []}]
    entry: dict[str, Any] = {"namespace": "a-b", "problems": problems, "clusters": clusters}
    *_, last = _object_rows(entry)
    assert last == ["a-b", "east", "", "pending", waits]
