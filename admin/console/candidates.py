"""The candidates of a decision in the order in which a page shows them, worked out once: there may be thousands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def ranking_of(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The candidates as answers have them, the chosen one first, then by rank; and how long their bars may be."""
    draws = [draw for candidate in candidates if isinstance(draw := candidate.get("draw"), int | float)]
    scores = [score for candidate in candidates if isinstance(score := candidate.get("score"), int | float)]
    return {
        "ranked": sorted(candidates, key=_order),
        "has_draws": len(draws) > 1,
        "most_score": max(scores, default=0),
        "most_draw": max(draws, default=0),
    }


def _order(candidate: Mapping[str, Any]) -> tuple[bool, bool, Any, str]:
    is_ranked = "rank" in candidate
    return not candidate.get("chosen"), not is_ranked, candidate["rank"] if is_ranked else 0, candidate["cluster"]
