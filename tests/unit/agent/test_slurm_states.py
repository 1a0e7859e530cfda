"""Slurm's states from what a job's own files record."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.engines.base import NativePhase
from agent.engines.batch.endings import recorded_state
from agent.engines.batch.job_files import CANCELLED, ENDED, MARK


@pytest.mark.parametrize(
    ("ending", "is_cancelled", "phase"),
    [
        ("0 -", True, NativePhase.SUCCEEDED),
        ("143 TERMINATED", True, NativePhase.ABORTED),
        ("143 -", True, NativePhase.ABORTED),  # the command died of the signal before the script got it
        ("137 -", True, NativePhase.ABORTED),
        ("143 -", False, NativePhase.FAILED),
        ("5 -", True, NativePhase.FAILED),
    ],
)
def test_a_cancelled_job_that_a_signal_ended_is_aborted(
    tmp_path: Path, ending: str, is_cancelled: bool, phase: NativePhase
) -> None:
    (tmp_path / MARK).write_text("7\n")
    (tmp_path / ENDED).write_text(f"{ending}\n")
    if is_cancelled:
        (tmp_path / CANCELLED).touch()
    state = recorded_state(tmp_path)
    assert state is not None
    assert state.phase is phase
