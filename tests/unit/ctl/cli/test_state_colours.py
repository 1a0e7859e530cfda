"""Phases and states have colours on a terminal, and nowhere else."""

from __future__ import annotations

import pytest

from ctl.cli.output import Printer
from ctl.cli.state_colours import colour_of
from ctl.client.facts import CLUSTER_STATES

ROWS = [["e-1", "SUCCEEDED", "FAILED"], ["e-2", "FAILED", "-"], ["e-3", "QUEUED", "x"], ["e-4", "RUNNING", "x"]]


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have standard output be a terminal."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    Printer().table(["NAME", "PHASE", "NOTE"], ROWS)
    return capsys.readouterr().out


def test_phases_are_coloured_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    lines = shown(capsys).splitlines()
    assert "\x1b[32mSUCCEEDED\x1b[0m  FAILED" in lines[1], "a note has no colour"
    assert "\x1b[31mFAILED\x1b[0m     -" in lines[2]
    assert "\x1b[33mQUEUED\x1b[0m" in lines[3]
    assert "\x1b[36mRUNNING\x1b[0m" in lines[4]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(capsys)


def test_there_are_no_colours_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in shown(capsys)


def test_states_of_clusters_have_the_colour_of_the_worst(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_terminal(monkeypatch)
    Printer().table(["STATE", "LAST STATE"], [["cordoned,lost", "ready"], ["ready", "lost"]])
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first == "\x1b[31mcordoned,lost\x1b[0m  ready"
    assert second.startswith("\x1b[32mready\x1b[0m  ")
    assert second.endswith("  lost")
    assert all(colour_of(state) for state in CLUSTER_STATES)
