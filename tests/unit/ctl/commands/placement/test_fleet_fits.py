"""How many clusters could run something, in a sentence."""

from __future__ import annotations

from ctl.commands.placement.fleet_fits import _summary


def test_clusters_of_which_it_is_not_known_are_counted_in_plain_words() -> None:
    every = {"clusters": 3, "now": 2, "later": 0, "never": 0, "unknown": 1}
    candidates = {"clusters": 1, "now": 0, "later": 0, "never": 0, "unknown": 1}
    summary = _summary({"all": every, "candidates": candidates})
    assert summary == (
        "Of 3 clusters 2 could run it now and 1 might (not known); of its 1 candidate 1 might (not known)."
    )
