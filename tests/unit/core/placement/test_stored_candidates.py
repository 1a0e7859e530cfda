"""Candidates of stored decisions, and why each was not chosen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from admin.core.placement.stored_candidates import render_candidates

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("strategy", "ending"),
    [
        ("weighted", "largest wins; weighted does not look at room, spill and least-loaded do"),
        ("cheapest", "largest wins; cheapest does not look at room, spill and least-loaded do"),
        ("least-loaded", "and the largest wins"),
    ],
)
def test_a_strategy_that_does_not_look_at_room_says_so(strategy: str, ending: str) -> None:
    candidates: list[dict[str, Any]] = [{"cluster": name, "weight": 1, "verdicts": []} for name in ("full", "idle")]
    trail = {"strategy": strategy, "candidates": candidates}
    scores = dict.fromkeys(("full", "idle"), 0.0)
    full, idle = render_candidates(trail, scores, "p/d/e", "full", {}, NOW)
    assert full["chosen"]
    assert idle["why_not"].startswith("able; drew ")
    assert idle["why_not"].endswith(ending)
