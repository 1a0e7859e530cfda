"""What operators wrote is cut from sentences about clusters, whatever it was."""

from __future__ import annotations

import pytest

from admin.core.placement.switch_notes import bracketed, without_notes


@pytest.mark.parametrize("note", ["new disks", "disks (nvme), 'a' and (b)", "((x)", ") is able: (", "", "a, and b."])
def test_what_was_written_is_cut_whatever_it_is(note: str) -> None:
    verdicts = f"No cluster is able: 'a' is cordoned ({bracketed(note)}); 'b' is full (8 of 8 cpu taken)."
    assert without_notes(verdicts) == "No cluster is able: 'a' is cordoned; 'b' is full (8 of 8 cpu taken)."


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("after event 7, cluster 'a' was cordoned by ana, 'new. disks'", "after event 7, cluster 'a' was cordoned"),
        (
            "Waits. Decided again, from a: after event 7, cluster 'a' is never seen by x, and event 8, cluster 'b'.",
            "Waits. Decided again, from a: after event 7, cluster 'a' is never seen.",
        ),
        ("2 decided again. After revision 12 by ana, 'why'.", "2 decided again. After revision 12."),
        ("after event 9, cluster 'a' is ready", "after event 9, cluster 'a' is ready"),
        ("asked to decide again by ana, 'mine'", "asked to decide again by ana, 'mine'"),
    ],
)
def test_who_switched_a_cluster_is_cut_from_the_cause_of_a_decision(sentence: str, told: str) -> None:
    assert without_notes(sentence) == told
