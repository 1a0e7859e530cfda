"""The order of candidates on a page."""

from __future__ import annotations

from typing import Any

from admin.console.candidates import ranking_of


def test_the_chosen_candidate_comes_first_and_those_without_a_rank_last() -> None:
    candidates: list[dict[str, Any]] = [
        {"cluster": "lost", "why_not": "is cordoned"},
        {"cluster": "third", "rank": 2, "score": 5, "draw": 0.1},
        {"cluster": "second", "rank": 1, "score": None, "draw": 0.7},
        {"cluster": "first", "rank": 1, "score": 4.5, "draw": 0.9, "chosen": True},
    ]
    ranking = ranking_of(candidates)
    assert [candidate["cluster"] for candidate in ranking["ranked"]] == ["first", "second", "third", "lost"]
    assert (ranking["has_draws"], ranking["most_score"], ranking["most_draw"]) == (True, 5, 0.9)
    assert ranking_of(candidates[:1]) == {
        "ranked": candidates[:1],
        "has_draws": False,
        "most_score": 0,
        "most_draw": 0,
    }
