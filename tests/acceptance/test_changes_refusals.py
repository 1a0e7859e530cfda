"""What cannot be meant is refused with its reason and an exit status, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_changes_apply import head
from tests.support.admins import running_admin
from tests.support.shells import Shell

LABEL = "kind: execution-cluster-label\ndomain: staging\nvalue: mycluster\n"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("refusals")
    with running_admin(directory) as admin:
        shell = Shell(admin, directory)
        shell.ok("rainbowctl update workflow-priority -d staging --priority 1")
        yield shell


@pytest.fixture(autouse=True)
def _nothing_is_written(shell: Shell) -> Iterator[None]:
    before = shell.ok("rainbowctl export")
    yield
    assert (shell.ok("rainbowctl export"), head(shell)) == (before, 1)


@pytest.mark.parametrize(
    ("status", "command", "stdin", "expected"),
    [
        (2, "apply", "", "Which documents? Give -f FILE"),
        (2, "apply -f -", "", "stdin:1:1: the file holds no document"),
        (2, "apply -f missing.yaml", "", "missing.yaml cannot be read: No such file"),
        (2, "apply -f - -f -", LABEL, "stdin can be read once"),
        (
            2,
            "apply -f -",
            f"{LABEL}---\n{LABEL}",
            "stdin:5:1: execution-cluster-label at domain staging is given twice",
        ),
        (2, "apply -f -", f"{LABEL}---\n{LABEL}", "first at stdin:1:1"),
        (2, "apply -f -", LABEL.replace("label", "labl"), "there is no kind 'execution-cluster-labl'. Did you mean"),
        (2, "apply -f -", "kind: workflow-prioritie\ndomain: staging\npriority: 1", "Did you mean workflow-priority?"),
        (2, "apply -f - --prune", LABEL, "--prune needs a scope"),
        (2, "apply -f - --prune -A -p flytesnacks", LABEL, "keep one or the other"),
        (2, "apply -f - -p flytesnacks", LABEL, "add --prune, or leave them out"),
        (2, "apply -f - x.plan", LABEL, "x.plan is a complete plan"),
        (2, "apply x.plan", LABEL, "x.plan cannot be read"),
        (2, "apply -f -", LABEL.replace("staging", "stagin"), "stdin:2:9: domain: No domain is called 'stagin'"),
        (2, "diff", "", "Which documents?"),
        (2, "diff -f -", "a: [", "not valid YAML"),
        (2, "diff -f - --endpoint 127.0.0.1:1", LABEL, "connection refused"),
        (6, "apply -f - --endpoint 127.0.0.1:1", LABEL, "connection refused"),
        (3, "rollback 99", "", "There is no revision 99"),
        (3, "rollback --to 99 -d staging", "", "There is no revision 99"),
        (2, "rollback", "", "Which revision?"),
        (2, "rollback x", "", "x is neither a revision nor a range of them"),
        (2, "rollback 1 -d staging", "", "undoes all of that revision"),
        (2, "rollback 1 --to 0", "", "keep one of the two"),
        (2, "rollback --to 0", "", "--to needs a scope"),
        (2, "rollback --to 0 --everything -d staging", "", "leave out the scope and the kind"),
        (2, "rollback --to 0 workflow-prioriti -d staging", "", "Did you mean workflow-priority?"),
        (3, "history 99", "", "There is no revision 99"),
        (2, "history 1 -p x", "", "1 is one revision"),
        (2, "history --since yesterday", "", "--since must be a span such as 30m"),
        (2, "history workflow-prioriti", "", "Did you mean workflow-priority?"),
        (2, "export workflow-prioriti", "", "Did you mean workflow-priority?"),
        (2, "export -o name", "", "export writes YAML"),
        (2, "export --dir a -f b", "", "keep one of the two"),
        (3, "export --at 99", "", "There is no revision 99"),
        (3, "explain -d staging --at 99", "", "There is no revision 99"),
        (2, "explain -d staging --at 1 --with -", LABEL, "keep one of the two"),
        (2, "get workflow-priority -d staging --watch --at 1", "", "leave out --attrFile and --at"),
        (2, "edit workflow-priority", "", "needs a scope"),
        (2, "edit workflow-priority -d staging", "", "There is no terminal to edit at: set EDITOR"),
        (2, "edit workflow-prioriti -d staging", "", "Did you mean workflow-priority?"),
    ],
)
def test_a_refusal_says_why(shell: Shell, status: int, command: str, stdin: str, expected: str) -> None:
    message = shell.refused(status, f"rainbowctl {command}", stdin=stdin)
    assert expected in message


def test_a_stray_file_is_refused_by_name(shell: Shell) -> None:
    (shell.cwd / "stray").mkdir()
    (shell.cwd / "stray/a.yaml").write_text(LABEL)
    (shell.cwd / "stray/notes.txt").write_text("hello")
    message = shell.refused(2, "rainbowctl apply -f stray")
    assert "stray/notes.txt: a document's name ends in .yaml, .yml or .json" in message
    assert "put a dot before their names" in message


def test_a_file_of_50_megabytes_is_refused_by_its_size(shell: Shell) -> None:
    with (shell.cwd / "large.yaml").open("wb") as file:
        file.truncate(50 * 1000 * 1000)
    assert "large.yaml is larger than 32 MiB: it has 47 MiB." in shell.refused(2, "rainbowctl apply -f large.yaml")
    assert "stdin is larger than 32 MiB." in shell.refused(2, "rainbowctl apply -f - < large.yaml")


def test_more_documents_than_one_change_can_hold_are_refused(shell: Shell) -> None:
    (shell.cwd / "many.yaml").write_text("".join(f"---\nkind: project\nid: p{number}\n" for number in range(20_001)))
    assert "More than 20000 documents" in shell.refused(2, "rainbowctl apply -f many.yaml")


def test_a_plan_edited_by_hand_is_refused(shell: Shell) -> None:
    shell.ok("rainbowctl plan -f - --out some.plan", stdin=LABEL)
    path: Path = shell.cwd / "some.plan"
    path.write_text(path.read_text().replace("mycluster", "other"))
    assert "was changed after it was written" in shell.refused(2, "rainbowctl apply some.plan")
