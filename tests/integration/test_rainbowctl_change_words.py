"""What `rollback` and `history` print of several revisions and ends of executions, and `get access` of a selection."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from admin.testing import running_admin
from ctl.main import run

Command = Callable[..., str]
PRIORITY = "update workflow-priority -d staging --priority"


@pytest.fixture
def rainbowctl(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Runs a command, with the exit status that is expected; answers all that it prints, as one line."""

    def command(line: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run(line.split()) == status, capsys.readouterr().err
        printed = capsys.readouterr()
        return " ".join((printed.out + printed.err).split())

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "ana")
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        yield command


def test_a_revision_that_was_rolled_back_with_others_says_so(rainbowctl: Command) -> None:
    for priority in (1, 2, 3):
        rainbowctl(f"{PRIORITY} {priority}")
    rainbowctl("update workflow-priority -d production --priority 9")
    rainbowctl("rollback 2..3 4 --force --message together")
    assert "rollback of revisions 2..4: " in rainbowctl("history --filter.limit 1")
    by = r"revision 5 \(rollback of 2\.\.4\), anonymous \(says ana\), [^:]* ago, 'together'"
    for word, numbers in (("was", "3"), ("was", "4"), ("were", "2 3")):
        shown = rainbowctl(f"rollback {numbers}", 5)
        assert re.search(rf"^error: Revisions? [2-4.]+ {word} rolled back already, by {by}: nothing was written", shown)
        assert "To make all that it undid again, `rainbowctl rollback 5`." in shown
    shown = rainbowctl("rollback 2..4", 5)
    assert "To make their changes again, `rainbowctl rollback 5`." in shown
    rainbowctl("rollback 5 --force")
    assert "priority 3 here (revision 6 (rollback of 5)" in rainbowctl("get workflow-priority -d staging")
    assert "priority 9 here" in rainbowctl("get workflow-priority -d production")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("3..1", "3..1 ends before it begins: write 1..3."),
        ("0..3", "0..3: revisions are counted from 1"),
        ("1..", "1.. is neither a revision nor a range of them"),
        ("1 x", "x is neither a revision nor a range of them"),
        ("5..9999", "go back to revision 4 with --to 4, at one scope or with --everything."),
    ],
)
def test_a_range_that_is_none_is_refused(rainbowctl: Command, words: str, reason: str) -> None:
    assert reason in rainbowctl(f"rollback {words}", 2)


def test_an_end_of_an_execution_says_its_reason(rainbowctl: Command) -> None:
    here = "-p flytesnacks -d development"
    rainbowctl(f"create execution stopped {here} -- sleep 60")
    rainbowctl(f"delete execution stopped {here}")
    shown = rainbowctl("history --source execution")
    assert "execution flytesnacks/development/stopped: ABORTED" in shown
    [entry] = json.loads(rainbowctl("history --source execution -o json"))
    assert f"({entry['cause']}, {entry['reason']})" in shown
    message = rainbowctl(f"history --source execution {here} fit", 2)
    assert "There is no kind 'fit'." in message
    assert message.endswith("If it is a workflow, write -w fit.")


def test_grants_are_selected_by_their_users_and_a_selection_of_none_says_so(rainbowctl: Command) -> None:
    where = "-p flytesnacks"
    assert "nobody may do anything there by a grant" in rainbowctl(f"get access {where}")
    rainbowctl("create group ml --user ada --user otto")
    rainbowctl("create grant admin --user ada")
    rainbowctl(f"create grant editor --group ml {where}")
    for name, roles in (("ada", ["admin", "editor"]), ("otto", ["editor"])):
        selected = json.loads(rainbowctl(f"get access {where} --selector users={name} -o json"))
        assert [grant["role"] for grant in selected["grants"]] == roles
    assert "1 grant reaching project flytesnacks: 1 editor." in rainbowctl(f"get access {where} --selector users=otto")
    shown = rainbowctl(f"get access {where} --selector users=mia")
    assert shown == "None of 2 grants reaching project flytesnacks matches."


def test_a_queue_that_is_unknown_may_have_been_meant_as_a_tag(rainbowctl: Command) -> None:
    assert "A tag is asked for by `rainbowctl where-used queue-tag gpu`." in rainbowctl("where-used queue gpu", 3)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("cause=limt", "there is no cause 'limt': choose"),
        ("cause!=oops", "there is no cause 'oops': choose"),
        ("source=revison", "there is no source 'revison': choose revision, cluster-event,"),
        ("type=CORDONNED", "there is no type 'CORDONNED': choose"),
        ("phase=FAILD", "there is no phase 'FAILD': choose"),
        ("phase in (FAILED;RUNNING)", "no phase 'RUNNING': choose SUCCEEDED, FAILED, TIMED_OUT or ABORTED."),
    ],
)
def test_a_word_that_no_entry_of_the_history_can_have_is_refused(
    rainbowctl: Command, capsys: pytest.CaptureFixture[str], selector: str, message: str
) -> None:
    assert run(["history", "--selector", selector]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    for word, near in (("limt", "LIMIT"), ("revison", "revision"), ("CORDONNED", "CORDONED"), ("FAILD", "FAILED")):
        if word in selector:
            assert f"Did you mean {near}" in printed


def test_the_words_of_the_history_are_understood_in_any_spelling(rainbowctl: Command) -> None:
    rainbowctl("create cluster east")
    rainbowctl("cordon east")
    rainbowctl("create execution one -p flytesnacks -d development -- true")
    rainbowctl("delete execution one -p flytesnacks -d development")
    assert "ABORTED" in rainbowctl("history --executions --selector phase=aborted,cause=cancelled,source=execution")
    assert "cordoned" in rainbowctl("history --selector type=Cordoned,source=clusterEvent")
    assert "Nothing matches." in rainbowctl("history --executions --selector phase=SUCCEEDED")


@pytest.mark.parametrize("selector", ["phase=QUEUD", "cause=limt", "mode=MANUL", "on_lost=wat", "silent=tru"])
def test_a_word_that_no_execution_can_have_is_refused(rainbowctl: Command, selector: str) -> None:
    printed = rainbowctl(f"get execution -A --selector {selector}", 2)
    field = selector.partition("=")[0]
    known = {"phase": "TIMED_OUT", "cause": "CLUSTER_LOST", "mode": "RECOVERED", "on_lost": "retry", "silent": "false"}
    near = {"phase": "QUEUED", "cause": "LIMIT", "mode": "MANUAL", "on_lost": "wait", "silent": "true"}
    assert known[field] in printed
    assert re.search(f"Did you mean '?{near[field]}'?", printed), printed
