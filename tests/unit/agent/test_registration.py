"""Registration by the agent's command: what it sends, to an admin of now and to an older one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.main import main
from tests.support.agent_scripts import ScriptedAdmin, error


def register(admin: ScriptedAdmin, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAINBOW_REGISTRATION_SECRET", "open sesame")
    options = ["--cluster", "alpha", "--endpoint", admin.url, "--state-directory", str(state)]
    result = CliRunner().invoke(main, ["register", *options])
    assert result.exit_code == 0, result.output
    assert (state / "token").read_text() == "rbc-token\n"


def test_the_description_goes_with_the_registration(
    script: ScriptedAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.answers = [{"token": "rbc-token"}]
    register(script, tmp_path, monkeypatch)
    [body] = script.bodies
    assert body.keys() == {"secret", "report", "description"}
    assert (body["secret"], body["report"]["engine"]) == ("open sesame", "local")
    assert body["description"].keys() == {"graph"}


def test_an_older_admin_gets_the_report_as_it_knows_it_and_the_description_after_that(
    script: ScriptedAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown: dict[str, Any] = {
        **error("invalid_request", "report is unknown."),
        "details": [{"field": "report", "reason": "is unknown."}],
    }
    script.answers = [(400, unknown), {"token": "rbc-token"}, {"changed": True}]
    register(script, tmp_path, monkeypatch)
    _, body, graph = script.bodies
    assert body.keys() == {"secret", "description"}
    assert body["description"]["engine"] == "local"
    assert graph.keys() == {"graph"}
    assert script.tokens == ["", "", "Bearer rbc-token"]
