"""Fixtures for the tests of the agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.transport import Token
from tests.support.agent_scripts import ScriptedAdmin, scripted_admin


@pytest.fixture
def script() -> Iterator[ScriptedAdmin]:
    with scripted_admin() as admin:
        yield admin


@pytest.fixture
def token(tmp_path: Path) -> Token:
    path = tmp_path / "token"
    path.write_text("rbc-12345678-abc\n")
    return Token(path)
