"""Projects, domains, kinds and warnings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.admins import RunningAdmin, running_admin
from tests.support.shells import Shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("projects")
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


@pytest.fixture
def new_shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def test_a_project_is_created_shown_changed_archived_and_activated(new_shell: Shell) -> None:
    create = "rainbowctl create project --id games --name 'Games' --labels team=ml,tier=gold"
    done = new_shell.run(f"{create} --dryRun")
    assert (done.status, done.out) == (0, "Would create project games.\n")
    assert done.err == "Dry run: nothing was created.\n"
    done = new_shell.run(create)
    assert (done.status, done.out, done.err) == (0, "", "Created project games.\n")
    assert new_shell.refused(5, create).startswith("error: A project called 'games' exists already.")
    new_shell.refused(5, f"{create} --dryRun")

    # The labels stay when something else changes.
    done = new_shell.run("rainbowctl update project games --description 'To play with'")
    assert (done.status, done.err) == (0, "Updated project games.\n")
    assert done.out == (
        "project games\n--- stored\n+++ after this update\n@@ -1,6 +1,7 @@\n"
        " name: Games\n+description: To play with\n"
        " labels:\n   values:\n     team: ml\n     tier: gold\n state: ACTIVE\n"
    )
    assert new_shell.rest("GET", "projects/games")["labels"] == {"values": {"team": "ml", "tier": "gold"}}
    assert new_shell.ok("rainbowctl get projects").startswith(
        "ID             NAME           DESCRIPTION                     STATE   CHANGED BY\n"
        "flyteexamples  flyteexamples  The documentation's examples.   ACTIVE  configuration\n"
        "flytesnacks    flytesnacks    Small workflows to learn from.  ACTIVE  configuration\n"
        "games          Games          To play with                    ACTIVE  revision 2, anonymous (says "
    )
    shown = yaml.safe_load(new_shell.ok("rainbowctl get project games -o yaml"))
    assert shown == new_shell.rest("GET", "projects/games")

    new_shell.ok("rainbowctl update project games --archive")
    assert "games" not in new_shell.ok("rainbowctl get project")
    assert "ARCHIVED" in new_shell.ok("rainbowctl get project -A")
    message = new_shell.refused(2, "rainbowctl update execution-cluster-label -p games --value x")
    assert "is archived" in message
    new_shell.ok("rainbowctl update project games --activate")
    done = new_shell.run("rainbowctl update project games --activate")
    assert (done.out, done.err) == ("", "No changes: project games is already as requested.\n")
    new_shell.ok("rainbowctl update execution-cluster-label -p games --value mycluster")

    new_shell.ok("rainbowctl update project games --labels team=search --description ''")
    changed = new_shell.rest("GET", "projects/games")
    assert changed["labels"] == {"values": {"team": "search"}}
    assert not changed.get("description")


def test_a_project_comes_from_a_file_and_goes_back_into_it_unchanged(shell: Shell) -> None:
    text = "id: filed\nname: Filed\ndescription: from a file\nlabels:\n  values: {team: ml}\n"
    shell.ok("rainbowctl create project --file -", stdin=text)
    shell.ok("rainbowctl get project filed -o yaml > filed.yaml")
    done = shell.run("rainbowctl update project --file filed.yaml")
    assert (done.status, done.err) == (0, "No changes: project filed is already as requested.\n")
    message = shell.refused(2, "rainbowctl create project --file -", stdin="id: x\nlabelz: {}\n")
    assert "stdin:2:1: labelz: unknown key. Did you mean labels?" in message
    assert "leave out the other flags" in shell.refused(2, "rainbowctl update project --file filed.yaml --name x")


def test_a_person_is_asked_before_a_project_changes(shell: Shell) -> None:
    shell.project("calm")
    with shell.at_terminal("rainbowctl update project calm --archive") as terminal:
        terminal.wait_for("Write this? [y/N] ")
        terminal.type("n\n")
        assert terminal.finish().status == 1
    assert shell.rest("GET", "projects/calm")["state"] == "ACTIVE"
    done = shell.run("rainbowctl update project calm --archive --dryRun")
    idle = "Nothing waits or runs in the project. Nothing new could be created."
    assert (done.status, done.err) == (0, f"Dry run: nothing was written.\n{idle}\n")
    document = json.loads(shell.ok("rainbowctl update project calm --archive --dryRun -o json"))
    assert document["archiving"]["message"] == idle
    assert shell.rest("GET", "projects/calm")["state"] == "ACTIVE"
    with shell.at_terminal("rainbowctl update project calm --archive --force") as terminal:
        assert terminal.finish().status == 0
    assert shell.rest("GET", "projects/calm")["state"] == "ARCHIVED"


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("get project flytesnaks", 3, "There is no project 'flytesnaks'. Did you mean flytesnacks?"),
        ("update project flytesnaks --archive", 3, "There is no project 'flytesnaks'. Did you mean flytesnacks?"),
        ("get domain prodution", 3, "There is no domain 'prodution'. Did you mean production?"),
        ("get kind workflow-priorty", 3, "There is no kind 'workflow-priorty'. Did you mean workflow-priority?"),
        ("create project --id Not_An_Id", 2, "use lower-case letters, digits and '-'"),
        ("create project --name x", 2, "The project needs an id: give --id ID."),
        ("update project flytesnacks", 2, "Nothing to update: give --name, "),
        ("update project flytesnacks --archive --activate", 2, "contradict each other"),
        ("update project flytesnacks --labels team", 2, "--labels must be KEY=VALUE, got 'team'."),
    ],
)
def test_what_is_missing_or_wrong_is_named(shell: Shell, command: str, status: int, message: str) -> None:
    assert message in shell.refused(status, f"rainbowctl {command}")


def test_kinds_are_listed_as_the_admin_has_them(shell: Shell) -> None:
    kinds = shell.rest("GET", "kinds")["kinds"]
    assert json.loads(shell.ok("rainbowctl get kinds -o json")) == kinds
    header, *rows = shell.ok("rainbowctl get kind").splitlines()
    assert header.split() == ["NOUN", "NUMBER", "NAME", "MERGE", "DECLARED", "LEVELS"]
    assert [row.split()[:2] for row in rows] == [[kind["noun"], str(kind["number"])] for kind in kinds]


@pytest.mark.parametrize("word", ["workflow-priority", "10", "WORKFLOW_PRIORITY"])
def test_a_kind_is_described_with_a_file_that_can_be_used(shell: Shell, word: str) -> None:
    out = shell.ok(f"rainbowctl get kind {word}")
    assert out.startswith("workflow-priority (WORKFLOW_PRIORITY, number 10, declared)\n")
    assert "priority  integer  between 0 and 100  50       From 0 to 100.\n" in out
    file = out.partition("--attrFile`:\n\n")[2]
    shell.ok("rainbowctl update workflow-priority --attrFile - --dryRun", stdin=file.replace("\n  ", "\n").strip(" "))


def test_warnings_are_listed_for_as_long_as_they_are_true(new_shell: Shell) -> None:
    done = new_shell.run("rainbowctl get warnings --strict")
    assert (done.status, done.out) == (0, "")
    assert done.err == "No warnings.\n"
    new_shell.ok("rainbowctl update execution-cluster-label -p flytesnacks -d staging --value myclustre")
    new_shell.ok("rainbowctl update workflow-priority -d staging --priority 1")
    new_shell.ok("rainbowctl update workflow-priority -p flytesnacks --priority 2")
    header, *rows = new_shell.ok("rainbowctl get warnings").splitlines()
    assert header.split() == ["KIND", "LEVEL", "SCOPE", "FIELD", "WARNING", "SET", "BY"]
    warnings = new_shell.rest("GET", "warnings")["warnings"]
    for row, warning in zip(rows, warnings, strict=True):
        assert re.search(rf" revision {warning['set_by']['revision']}, anonymous \(says .*\), .* ago$", row)
    assert [row.split()[:2] for row in rows] == [
        ["execution-cluster-label", "project-domain"],
        ["workflow-priority", "project"],
    ]
    assert "No label is called 'myclustre' yet. Did you mean 'mycluster'?" in rows[0]
    assert json.loads(new_shell.ok("rainbowctl get warnings -o json")) == new_shell.rest("GET", "warnings")["warnings"]
    assert new_shell.ok("rainbowctl get warnings -o name") == (
        "execution-cluster-label/flytesnacks/staging\nworkflow-priority/flytesnacks\n"
    )
    done = new_shell.run("rainbowctl get warnings --strict")
    assert (done.status, done.err) == (7, "2 warnings about stored settings.\nerror: 2 warnings under --strict.\n")
    new_shell.ok("rainbowctl update execution-cluster-label -p flytesnacks -d staging --value mycluster")
    new_shell.ok("rainbowctl delete workflow-priority -d staging")
    new_shell.ok("rainbowctl get warnings --strict")


def test_a_project_says_who_archived_it_and_who_changed_it_last(new_shell: Shell) -> None:
    new_shell.ok("rainbowctl create project --id games -q")
    new_shell.ok("rainbowctl update project games --archive --force -q -m 'nobody plays'", LOGNAME="ana")
    new_shell.ok("rainbowctl update project games --description old --force -q", LOGNAME="bob")
    answer = new_shell.rest("GET", "projects/games?provenance=true")
    archived, defined = answer["provenance"]["archived"], answer["provenance"]["definition"]
    assert (archived["claimed_by"], archived["message"], defined["claimed_by"]) == ("ana", "nobody plays", "bob")
    assert defined["revision"] == answer["version"] == archived["revision"] + 1
    assert json.loads(new_shell.ok("rainbowctl get project games -o json")) == answer
    [listed] = new_shell.rest("GET", "projects?state=ARCHIVED&provenance=true")["projects"]
    assert listed == answer
    assert answer in json.loads(new_shell.ok("rainbowctl get project -A -o json"))
    assert "provenance" not in new_shell.rest("GET", "projects/games")
    by = rf"revision {archived['revision']}, anonymous \(says ana\), .*, 'nobody plays'"
    for command in ("get project games", "get project -A", "get project games -o wide"):
        shown = " ".join(new_shell.ok(f"rainbowctl {command}").split())
        assert "ARCHIVED BY" in shown
        assert re.search(by, shown)
        assert re.search(rf"revision {defined['revision']}, anonymous \(says bob\)", shown)
    assert "ARCHIVED BY" not in new_shell.ok("rainbowctl get project")
    for form in ("json", "yaml"):
        file = new_shell.ok(f"rainbowctl get project games -o {form}")
        done = new_shell.run("rainbowctl update project --file -", stdin=file)
        assert (done.status, done.err) == (0, "No changes: project games is already as requested.\n")
