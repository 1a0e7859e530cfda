"""Documents that were made from another version of their row: commands that write nothing say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from admin.testing import running_admin
from ctl.main import run

HERE = "-p flytesnacks -d development"


def test_commands_that_only_assume_documents_warn_of_stale_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(line.split())
        printed = capsys.readouterr()
        return status, printed.out, " ".join(printed.err.split())

    file = tmp_path / "limits.yaml"
    file.write_text("kind: task-resource-attribute\ndomain: development\nversion: 1\nlimits:\n  cpu: '4'\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "eve")
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for cpu in "12":
            assert rainbowctl(f"update task-resource-attribute -d development --limits.cpu {cpu} -q")[0] == 0
        for line, status in {
            f"diff -f {file}": 1,
            f"explain task-resource-attribute {HERE} --with {file}": 0,
            f"place {HERE} --with {file} -- true": 0,
            f"simulate --with {file} --since 1h": 0,
        }.items():
            command, tab, rest = line.partition(" -- ")
            answer = rainbowctl(f"{command} -o json{tab}{rest}")
            assert answer[0] == status
            [warning] = [entry for entry in json.loads(answer[1])["warnings"] if entry["code"] == "stale_version"]
            assert (warning["expected_version"], warning["current_version"]) == (1, 2)
            shown = rainbowctl(line)[2]
            assert shown.count("expected at version 1, now at version 2 (revision 2, anonymous (says eve), ") == 1
        file.write_text(file.read_text().replace("version: 1", "version: 2"))
        assert "expected at version" not in rainbowctl(f"explain task-resource-attribute {HERE} --with {file}")[2]
