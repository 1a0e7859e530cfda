"""What the commands about executions refuse before they ever talk to an admin, and their small helpers."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctl.cli.session import Session
from ctl.client.errors import InvalidInput
from ctl.client.executions import Execution
from ctl.commands.executions.tables import show_executions
from ctl.commands.executions.wait import parse_goal
from ctl.commands.placement.counts import bar
from ctl.main import run


@pytest.fixture(autouse=True)
def _no_admin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TOKEN", "TOKEN_FILE", "CA_FILE", "PROJECT", "DOMAIN", "CONTEXT", "CONFIG", "OUTPUT"):
        monkeypatch.delenv(f"RAINBOW_{name}", raising=False)
    monkeypatch.setenv("RAINBOW_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("create execution a b", "write a command after --"),
        ("create execution --", "There is no command after --"),
        ("create execution -p a -d b", "Nothing to run"),
        ("create execution -p a -d b --launchplan x -- cmd", "--launchplan and a command after -- cannot be combined"),
        ("create execution -p a --launchplan x", "needs a domain"),
        ("create execution -p a -d b --launchplan= ", "is empty"),
        ("create execution -p a -d b --input x -- c", "must be KEY=VALUE"),
        ("create execution -p a -d b --input x=1 --input x=2 -- c", "x is given twice"),
        ("create execution -p a -d b --input x=[1 -- c", "text is quoted once more"),
        (
            "create execution -p a -d b --relaunch r --execFile y",
            "--relaunch runs again what r ran: leave out --execFile",
        ),
        ("create execution -p a -d b --relaunch r --recover r", "keep one"),
        ("create execution -p a -d b --targetExecutionCluster x --execution-cluster-label y -- c", "x and y are given"),
        ("create execution -p a -d b --targetProject q -- c", "keep one of the two"),
        ("create execution -p a -d b --nodes 0 -- c", "0 is not in the range"),
        ("place -p a -d b", "Nothing to run"),
        ("place -p a -d b --relaunch x", "No such option"),
        ("get execution x -p a -d b --phase queued", "x is one execution: leave out --phase"),
        ("get execution x", "needs a project and a domain"),
        ("get execution p/d/x -p q", "is in project p, the command line says q"),
        ("get execution --nodeID n0", "--nodeID: an execution is one job, without nodes"),
        ("get execution --details", "give its NAME"),
        ("get execution p/d/x --details --watch", "keep one of the two"),
        ("get execution -A -p x", "keep one or the other"),
        ("get execution --filter.fieldSelector phase", "has no operator"),
        ("get execution --filter.sortBy size", "there is no field 'size'"),
        ("get execution --filter.limit 0", "0 is not in the range"),
        ("get execution --since yesterday", "--since must be a span"),
        ("update execution p/d/x", "give one of the two"),
        ("update execution p/d/x --archive --activate", "keep one of the two"),
        ("delete execution", "give one of the two"),
        ("delete execution p/d/x --selector phase=QUEUED", "keep one of the two"),
        ("delete execution --selector phase=QUEUED", "In which project?"),
        ("delete execution --filter.fieldSelector phase=QUEUED", "In which project?"),
        (
            "get execution --by colour",
            "origin-scope, limit-scope, queue, on-lost, image, day, day-started, day-finished or labels.KEY",
        ),
        ("get execution --by limits-scope", "Did you mean limit-scope"),
        ("delete execution p/d/x -A", "--allProjects goes with --filter.fieldSelector"),
        ("wait execution p/d/x --for=done", "--for must be phase=PHASE"),
        ("wait execution p/d/x --for=phase=done", "there is no phase 'done'"),
        ("wait execution p/d/x --timeout soon", "--timeout must be a duration"),
        ("explain execution", "Which execution?"),
        ("explain execution x --at 3", "shown as it was made"),
        ("explain all --decision 3", "--decision goes with"),
        ("compare execution", "Which execution?"),
        ("compare execution p/d/x --at 3", "--at: an execution is compared with what applies to it now."),
        ("compare execution p/d/x --otherDomain d", "--otherDomain: an execution"),
        ("compare execution p/d/x --otherExecution y --otherAt 3", "--otherAt: an execution is compared with another"),
        ("compare execution p/d/x --otherExecution a/b/y --otherDomain c", "keep one of the two"),
        ("compare all -p a -d b --otherExecution y", "--otherExecution goes with `rainbowctl compare execution NAME`"),
        ("compare all -p a -d b", "Compare with what?"),
        ("compare all -p a -d b --otherDomain b", "Compare with what?"),
        ("compare 6..8", "`rainbowctl history 6..8`"),
        ("compare all -d b --otherWorkflow w", "needs a project"),
        ("compare all -d b --at soon", "--at"),
        ("simulate --since 24h", "Which documents?"),
        ("redecide -A", "Which executions?"),
        ("redecide --selector pool=a", "In which project?"),
        ("redecide --filter.fieldSelector pool=a", "In which project?"),
        ("get placement-counts --by size", "'size' is not one of"),
        ("create execution -p a -d b --retries 100 -- c", "100 is not in the range"),
        ("create execution -p a -d b --backoff 1s -- c", "give --retries N too"),
        ("create execution -p a -d b --onLost hope -- c", "'hope' is not one of"),
        ("create execution -p a -d b --relaunch r --retries 0", "leave out --retries"),
        ("create execution -p a -d b --logs --watch -- c", "keep one of the two"),
        ("create execution -p a -d b --logs -o name -- c", "leave out -o"),
        ("logs x", "needs a project and a domain"),
        ("logs p/d/x -o yaml", "leave out -o"),
        ("logs p/d/x --attempt 0", "0 is not in the range"),
        ("logs p/d/x --stream out", "'out' is not one of"),
        ("logs p/d/x --tail -1", "-1 is not in the range"),
        ("logs p/d/x --since= ", "is empty"),
        ("logs", "Missing argument"),
        ("get output p/d/x --directory= ", "is empty"),
        ("drain cluster", "Which cluster?"),
        ("drain a --deadline= ", "is empty"),
        ("undrain a --deadline 1m", "No such option '--deadline'"),
        ("rotate token", "Missing argument"),
        ("rotate token a -o name", "would lose the token"),
        ("rotate token a --newTokenFile /no/such/place", "No token was created"),
        ("delete token a", "Missing argument"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


@pytest.mark.parametrize("name", ["", " "])
@pytest.mark.parametrize("command", ["create execution", "place"])
def test_an_empty_name_is_refused_rather_than_made_up(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), name, "-p", "a", "-d", "b", "--", "cmd"]) == 2
    assert "is empty: give a value, or leave it out." in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "create execution -p a -d b -- cmd --flag -p x",
        "place -p a -d b --cpu 1 -- cmd",
        "get execution -A",
        "wait execution a/b/c --timeout 1m",
        "explain execution a/b/c",
        "compare execution a/b/c",
        "compare execution a/b/c --other-execution d --other-domain e",
        "compare all -p a -d b --other-domain c",
        "logs a/b/c -f",
        "get outputs execution/a/b/c",
        "drain cluster a --deadline 10m",
        "get token a",
        "rotate token a --overlap 1h",
        "delete tokens a 12345678",
    ],
)
def test_right_usage_reaches_for_the_admin(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command.split()) == 6
    assert "connection refused" in capsys.readouterr().err


def execution(phase: str, cluster: str = "") -> Execution:
    id = {"project": "p", "domain": "d", "name": "n"}
    return Execution.from_document({"id": id, "closure": {"phase": phase}, "cluster": cluster})


@pytest.mark.parametrize(
    ("goal", "reached", "not_reached"),
    [
        ("phase=succeeded,FAILED", execution("FAILED"), execution("RUNNING")),
        ("cluster=a", execution("QUEUED", "a"), execution("QUEUED", "b")),
        ("placed", execution("QUEUED", "a"), execution("QUEUED")),
        ("finished", execution("ABORTED"), execution("ABORTING")),
    ],
)
def test_what_is_waited_for(goal: str, reached: Execution, not_reached: Execution) -> None:
    assert parse_goal(goal).is_reached(reached)
    assert not parse_goal(goal).is_reached(not_reached)


@pytest.mark.parametrize("goal", ["", "phase", "phase=", "phase=,", "cluster=", "placed=yes", "condition=x"])
def test_any_other_goal_is_refused(goal: str) -> None:
    with pytest.raises(InvalidInput, match="--for must be phase=PHASE"):
        parse_goal(goal)


def test_bars_are_in_proportion_and_never_wider_than_told() -> None:
    assert bar(8, 8, 10) == "█" * 10
    assert bar(4, 8, 10) == "█" * 5
    assert bar(1, 16, 1) == "▏"
    assert bar(1, 1_000_000, 10) == "▏"
    assert bar(0, 8, 10) == bar(0, 0, 10) == ""
    assert bar(4, 8, 10, "#", "") == "#####"
    assert max(len(bar(number, 97, 13)) for number in range(98)) == 13


def test_a_table_has_no_reason_that_says_no_more_than_the_phase(capsys: pytest.CaptureFixture[str]) -> None:
    id = {"project": "p", "domain": "d", "name": "a"}
    closures = [{"phase": "SUCCEEDED", "reason": {"code": code}} for code in ("SUCCEEDED", "OTHER")]
    listed = [Execution.from_document({"id": id, "closure": closure}) for closure in closures]
    show_executions(Session(), listed, with_place=False)
    header, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert header[4:6] == ["PHASE", "REASON"], "LAUNCH PLAN are two words"
    assert [row[3:5] for row in rows] == [["SUCCEEDED", "-"], ["SUCCEEDED", "OTHER"]]
