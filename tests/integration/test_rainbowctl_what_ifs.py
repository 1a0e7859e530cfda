"""What `simulate`, `redecide` and `get placement-counts` make of answers that the admin gives in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admin.store.execution_lists import LIST_LIMITS
from admin.testing import running_admin
from ctl.commands.placement import redecide
from ctl.main import run

HERE = "-p flytesnacks -d development"


class Shell:
    """Runs commands against an admin of this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, line: str) -> tuple[str, str]:
        self._capsys.readouterr()
        assert run(line.split()) == 0, self._capsys.readouterr().err
        printed = self._capsys.readouterr()
        return printed.out, printed.err

    def json(self, line: str) -> Any:
        return json.loads(self(f"{line} -o json")[0])


@pytest.fixture
def rainbowctl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """Five executions wait in one pool; a file moves them to another."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "eve")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "move.yaml").write_text(
        "kind: cluster-pool-attribute\nproject: flytesnacks\ndomain: development\nclusterPoolName: base\n"
    )
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        shell = Shell(capsys)
        shell("create pool gpu --member a --member c -q")
        shell("create pool base --member b --member c -q")
        shell(f"update cluster-pool-attribute {HERE} --clusterPoolName gpu -q")
        for number in range(5):
            shell(f"create execution e{number} {HERE} -- true")
        yield shell


def test_what_comes_in_pieces_is_added_up(rainbowctl: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate, counts = "simulate --with move.yaml --since 24h", "get placement-counts --by cluster"
    whole = [rainbowctl.json(simulate), rainbowctl.json(counts)]
    assert (whole[0]["compared"], whole[0]["moved"] > 0, whole[1]["total"]) == (5, True, 5)
    monkeypatch.setitem(vars(LIST_LIMITS), "simulated", 2)
    monkeypatch.setitem(vars(LIST_LIMITS), "counted", 2)
    for before in whole:
        before.pop("since")
        before.get("fleet", {}).pop("at", None)
    for line, before in zip((simulate, counts), whole, strict=True):
        added_up = rainbowctl.json(line)
        added_up.pop("since")
        added_up.get("fleet", {}).pop("at", None)
        assert added_up == before
    assert "Compared 5 executions since " in rainbowctl(simulate)[0]
    assert "5 executions since " in rainbowctl(counts)[1]


def test_redecide_decides_in_steps_and_says_what_its_dry_run_did_not_look_at(
    rainbowctl: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    rainbowctl("apply -f move.yaml -q")
    monkeypatch.setitem(vars(LIST_LIMITS), "decided", 2)
    command = f"redecide --selector pool=gpu {HERE}"
    dry = rainbowctl(f"{command} --dryRun")[1]
    assert dry.startswith("5 waiting executions match, of which the oldest 2 were looked at, ")
    assert rainbowctl.json(f"{command} --dryRun")["not_examined"] == 3
    monkeypatch.setattr(redecide, "_STEP", 2)
    answer = rainbowctl.json(f"{command} --force")
    assert (answer["matched"], answer["changed"], len(answer["executions"])) == (5, 5, 5)
    [round_] = rainbowctl.json("history --source redecision")
    assert round_["message"].startswith("5 decided again: ")
    assert {execution["pool"] for execution in rainbowctl.json(f"get execution {HERE}")} == {"base"}
    assert rainbowctl(f"{command} --dryRun")[1].startswith("0 waiting executions match, none would move.")
