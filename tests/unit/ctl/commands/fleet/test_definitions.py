"""Definitions of the past."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ctl.cli.output import Printer
from ctl.commands.fleet.definitions import _show_past


def test_definitions_of_the_past_say_that_those_of_the_configuration_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    definitions = [{"name": "oak", "version": 3, "definition": {}}]
    client = SimpleNamespace(definitions_at=lambda *_, **__: definitions)
    session: Any = SimpleNamespace(client=client, printer=Printer())
    noun: Any = SimpleNamespace(name="cluster", view_parameters=(), list_filters=())
    flags = {"at": 10, **dict.fromkeys(("selector", "sort_by", "is_ascending", "limit", "page"))}
    _show_past(session, noun, None, flags)
    note = "No clusters of the configuration are among them: those have no revisions.\n"
    assert capsys.readouterr().err.endswith(note)
    _show_past(session, noun, "oak", flags)
    assert "configuration" not in capsys.readouterr().err
