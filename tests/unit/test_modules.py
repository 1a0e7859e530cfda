"""The programs as modules."""

from __future__ import annotations

import runpy
import sys
from contextlib import suppress

import pytest


@pytest.mark.parametrize("module", ["admin.main", "agent.main", "ctl.main"])
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_a_program_runs_as_a_module(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with suppress(SystemExit):
        runpy.run_module(module, run_name="__main__")
    assert "Usage:" in capsys.readouterr().out
