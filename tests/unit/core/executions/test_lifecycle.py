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
    ("ABORTING", "ABORTED"),
}


@pytest.mark.parametrize(("one", "other"), list(product(Phase, Phase)), ids=lambda phase: phase.value)
def test_a_phase_follows_another_only_as_the_table_says(one: Phase, other: Phase) -> None:
    assert one.may_become(other) is ((one.value, other.value) in LEGAL)


def test_four_phases_are_the_end() -> None:
    assert {phase.value for phase in Phase if phase.is_finished} == {"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"}
    assert {phase.value for phase in UNFINISHED} == {"QUEUED", "RUNNING", "ABORTING"}
