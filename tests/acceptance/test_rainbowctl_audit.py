"""Audit events, through the shell."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.test_rainbowctl_users import token_of
from tests.acceptance.test_server import rainbow_admin
from tests.support.admins import RunningAdmin
from tests.support.shells import Shell
from tests.support.waiting import wait_until


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def test_denied_requests_and_tokens_are_listed_from_all_workers(shell: Shell, tmp_path: Path) -> None:
    assert "Nothing was noted yet." in shell.run("rainbowctl get audit").err
    ada = token_of(tmp_path, "ada", "--create")
    wait_until(lambda: shell.run("rainbowctl get project").status == 4, 30)
    for _ in range(3):
        shell.refused(4, "rainbowctl get project", RAINBOW_TOKEN="rbu-00000000-wrong")
    made = json.loads(shell.ok("rainbowctl create user-token ada laptop -o json", RAINBOW_TOKEN=ada))

    def listed(flags: str = "") -> list[dict[str, object]]:
        events: list[dict[str, object]]
        events = json.loads(shell.ok(f"rainbowctl get audit -o json {flags}", RAINBOW_TOKEN=ada))
        return events

    wrong = "--event wrong-token"
    wait_until(lambda: sum(int(str(event.get("count", 1))) for event in listed(wrong)) == 3, 30)
    wait_until(lambda: len(listed("--event TOKEN_CREATED")) == 2, 30)
    by_ada, on_host = listed("--event TOKEN_CREATED")
    assert (by_ada["user"], by_ada["target"]) == ("ada", f"user-token/ada/{made['prefix']}")
    assert ("user" in on_host, "on the admin's host" in str(on_host["reason"])) == (False, True)
    table = shell.ok("rainbowctl get audit --since 1h --user ada", RAINBOW_TOKEN=ada)
    assert re.search(rf"TOKEN_CREATED +ada +127\.0\.0\.1 +user-token/ada/{made['prefix']}", table)
    assert all(len(line) <= 100 for line in table.splitlines())
    assert made["token"] not in json.dumps(listed())
    assert listed("--address 192.0.2.1") == listed("--until 2020-01-01") == []
    assert "--event" in shell.refused(2, "rainbowctl get audit --event nothing", RAINBOW_TOKEN=ada)


@pytest.mark.slow
def test_a_file_of_events_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    config = tmp_path / "rainbow.yaml"
    config.write_text("audit: {file: none/audit.jsonl}\n")
    refused = rainbow_admin("serve", "--port", "0", "--config", str(config), cwd=tmp_path)
    assert refused.returncode == 1
    assert "audit.file none/audit.jsonl cannot be written" in refused.stderr
