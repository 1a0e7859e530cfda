"""Phases: which may follow which."""

from __future__ import annotations

from itertools import product

import pytest

from admin.core.executions.lifecycle import UNFINISHED, Phase

LEGAL = {
    ("QUEUED", "RUNNING"),
    ("QUEUED", "SUCCEEDED"),
    ("QUEUED", "FAILED"),
    ("QUEUED", "TIMED_OUT"),
    ("QUEUED", "ABORTING"),
    ("QUEUED", "ABORTED"),
    ("RUNNING", "SUCCEEDED"),
    ("RUNNING", "FAILED"),
    ("RUNNING", "TIMED_OUT"),
    ("RUNNING", "ABORTING"),
    ("RUNNING", "ABORTED"),
    ("ABORTING", "SUCCEEDED"),
    ("ABORTING", "ABORTED"),
}


@pytest.mark.parametrize(("phase", "following"), list(product(Phase, Phase)), ids=lambda phase: phase.value)
def test_a_phase_follows_another_only_as_the_table_says(phase: Phase, following: Phase) -> None:
    assert phase.may_become(following) is ((phase.value, following.value) in LEGAL)


def test_four_phases_are_finished() -> None:
    assert {phase.value for phase in Phase if phase.is_finished} == {"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"}
    assert {phase.value for phase in UNFINISHED} == {"QUEUED", "RUNNING", "ABORTING"}
