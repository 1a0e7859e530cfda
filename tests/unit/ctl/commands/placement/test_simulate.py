"""Simulations as they are shown."""

from __future__ import annotations

import pytest

from ctl.cli.output import Printer
from ctl.commands.placement.simulate import show_simulation


@pytest.mark.parametrize("output", ["table", "wide"])
def test_a_simulation_says_that_nobody_was_asked(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"executions": [], "compared": 3, "moved": 0, "by_last_bids": 2}
    show_simulation(Printer(format=output), answer, "2026-01-01T00:00:00Z", {})
    words = "Asking was simulated for 2 executions: nobody was asked, the last bids of the clusters count."
    assert words in " ".join(capsys.readouterr().out.split())
    del answer["by_last_bids"]
    show_simulation(Printer(format=output), answer, "2026-01-01T00:00:00Z", {})
    assert "Asking" not in capsys.readouterr().out
