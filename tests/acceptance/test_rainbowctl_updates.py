"""Updates: the difference is shown, a person is asked, and what was shown is what is written."""

from __future__ import annotations

import getpass
import json
import sqlite3
from collections.abc import Iterator

import pytest

from tests.support.admins import running_admin
from tests.support.shells import Shell

UPDATE = "rainbowctl update execution-cluster-label"
QUESTION = "Write this? [y/N] "


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("updates")
    with running_admin(directory, database=f"sqlite:///{directory / 'rainbow.db'}") as admin:
        yield Shell(admin, directory)


def revision(shell: Shell) -> int:
    revision: int = shell.rest("GET", "effective_attributes")["revision"]
    return revision


def test_the_difference_is_shown_and_nothing_is_asked_without_a_terminal(shell: Shell) -> None:
    path = f"project_attributes/{shell.project('shown')}"
    before = shell.put(path, task_resource_attributes={"limits": {"cpu": "4", "memory": "2Gi"}})
    done = shell.run("rainbowctl update task-resource-attribute -p shown --limits.cpu 8 --defaults.memory 1Gi")
    assert done.status == 0
    assert done.out == (
        "task-resource-attribute at project shown (level project)\n"
        f"--- version {before}\n+++ after this update\n@@ -1,3 +1,5 @@\n"
        "+defaults:\n+  memory: 1Gi\n limits:\n-  cpu: '4'\n+  cpu: '8'\n   memory: 2Gi\n"
    )
    after = shell.rest("GET", f"{path}?resource_type=0")["version"]
    assert done.err == f"Updated task-resource-attribute at project shown: version {after}.\n"
    assert shell.values("0", "project=shown") == [
        {"defaults": {"memory": "1Gi"}, "limits": {"cpu": "8", "memory": "2Gi"}}
    ]


def test_with_json_the_answer_is_on_stdout_and_the_difference_on_stderr(shell: Shell) -> None:
    shell.project("answered")
    done = shell.run(f"{UPDATE} -p answered --value mycluster -o json")
    answer = json.loads(done.out)
    assert (answer["changed"], answer["dry_run"], answer["warnings"]) == (True, False, [])
    assert answer["version"] == answer["revision"]
    assert answer["attributes"]["matching_attributes"] == {"execution_cluster_label": {"value": "mycluster"}}
    assert "+value: mycluster\n" in done.err
    assert shell.ok(f"{UPDATE} -p answered --value mycluster -o name") == "execution-cluster-label/answered\n"


def test_at_a_terminal_the_question_is_on_stderr_and_only_yes_writes(shell: Shell) -> None:
    shell.project("questioned")
    command = f"{UPDATE} -p questioned --value mycluster"
    for keys in ("n\n", "\n", "\x04"):
        with shell.at_terminal(command) as terminal:
            terminal.wait_for(QUESTION)
            terminal.type(keys)
            done = terminal.finish()
        end = "\n" if keys == "\x04" else ""
        assert (done.status, done.err) == (1, f"{QUESTION}{end}error: Not confirmed: nothing was written.\n")
        assert QUESTION not in done.out
    assert shell.rows("3", "project=questioned") == []
    with shell.at_terminal(command) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("y\n")
        done = terminal.finish()
    assert done.status == 0
    assert done.out.endswith("+value: mycluster\n")
    assert done.err.startswith(f"{QUESTION}Updated execution-cluster-label at project questioned: version ")
    assert shell.values("3", "project=questioned") == [{"value": "mycluster"}]


def test_a_person_sees_the_difference_in_colour_before_the_question(shell: Shell) -> None:
    shell.project("seen")
    status, seen = shell.on_screen(f"{UPDATE} -p seen --value mycluster", keys="n\n")
    assert status == 1
    assert seen.index("\x1b[32m+value: mycluster\x1b[0m") < seen.index(QUESTION)
    status, seen = shell.on_screen(f"{UPDATE} -p seen --value mycluster -q", keys="n\n", NO_COLOR="1")
    assert seen.index("\n+value: mycluster\n") < seen.index(QUESTION)
    assert shell.rows("3", "project=seen") == []


@pytest.mark.parametrize("was_there", [True, False])
def test_a_change_while_the_question_waits_is_not_overwritten(shell: Shell, was_there: bool) -> None:
    name = shell.project(f"raced-{was_there}".lower())
    path = f"project_attributes/{name}"
    if was_there:
        shell.put(path, execution_cluster_label={"value": "first"})
    with shell.at_terminal(f"{UPDATE} -p {name} --value mine") as terminal:
        terminal.wait_for(QUESTION)
        theirs = shell.put(path, execution_cluster_label={"value": "theirs"})
        terminal.type("y\n")
        done = terminal.finish()
    assert done.status == 5
    assert f"at version {theirs} (revision {theirs}, anonymous" in done.err
    assert shell.values("3", f"project={name}") == [{"value": "theirs"}]


def test_what_was_typed_before_the_question_is_no_answer(shell: Shell) -> None:
    """The lines of a pasted block arrive while its first command still starts."""
    shell.project("pasted")
    with shell.at_terminal(f"{UPDATE} -p pasted --value mycluster") as terminal:
        terminal.type("y\nrainbowctl get warnings\nrainbowctl get")
        terminal.wait_for(QUESTION)
        terminal.type("n\n")
        done = terminal.finish()
    assert done.err.startswith("Discarded what was typed before this question. With --force nothing is asked.\n")
    assert done.err.endswith(f"{QUESTION}error: Not confirmed: nothing was written.\n")
    assert shell.rows("3", "project=pasted") == []


def test_force_does_not_ask(shell: Shell) -> None:
    shell.project("forced")
    with shell.at_terminal(f"{UPDATE} -p forced --value mycluster --force") as terminal:
        done = terminal.finish()
    assert done.status == 0
    assert QUESTION not in done.err
    assert shell.values("3", "project=forced") == [{"value": "mycluster"}]


def test_a_dry_run_shows_the_same_asks_nothing_and_writes_nothing(shell: Shell) -> None:
    shell.project("tried")
    before = revision(shell)
    for more in ("--dryRun", "--dry-run --force"):
        with shell.at_terminal(f"{UPDATE} -p tried --value mycluster {more}") as terminal:
            done = terminal.finish()
        assert (done.status, done.err) == (0, "Dry run: nothing was written.\n")
        assert done.out.endswith(
            "--- not set\n+++ after this update\n@@ -0,0 +1 @@\n+value: mycluster\n"
            "Effective values change at 3 scopes below: project tried, domain development; project tried, domain\n"
            "production; project tried, domain staging.\nExecutions: no execution would move or be ended.\n"
        )
    answer = json.loads(shell.ok(f"{UPDATE} -p tried --value mycluster --dryRun -o json"))
    assert (answer["changed"], answer["dry_run"], "version" in answer) == (True, True, False)
    assert "is not a quantity" in shell.refused(
        2, "rainbowctl update task-resource-attribute -p tried --limits.cpu many --dryRun"
    )
    assert shell.rows("all", "project=tried") == []
    assert revision(shell) == before


def test_an_update_that_changes_nothing_makes_no_revision(shell: Shell) -> None:
    path = f"project_attributes/{shell.project('same')}"
    version = shell.put(path, execution_cluster_label={"value": "mycluster"})
    before = revision(shell)
    for more in ("", " --force", " --dryRun"):
        done = shell.run(f"{UPDATE} -p same --value mycluster{more}")
        assert (done.status, done.out) == (0, "")
        assert done.err == "No changes: execution-cluster-label at project same is already as requested.\n"
    assert revision(shell) == before
    assert shell.rest("GET", f"{path}?resource_type=3")["version"] == version


def test_strict_exits_with_7_and_says_whether_it_was_written(shell: Shell) -> None:
    shell.project("strict")
    command = f"{UPDATE} -p strict --value myclustre --strict"
    done = shell.run(f"{command} --dryRun")
    assert done.status == 7
    warning = "warning: No label is called 'myclustre' yet. Did you mean 'mycluster'?"
    assert done.err.startswith(f"Dry run: nothing was written.\n{warning}")
    assert done.err.endswith("error: 1 warning under --strict; nothing was written.\n")
    assert shell.rows("3", "project=strict") == []
    done = shell.run(command)
    assert done.status == 7
    assert done.err.count("warning: ") == 1
    assert done.err.endswith("error: 1 warning under --strict; the change was written.\n")
    assert shell.values("3", "project=strict") == [{"value": "myclustre"}]
    assert shell.run(command).err.endswith("error: 1 warning under --strict; nothing needed to be written.\n")
    shell.ok(f"{UPDATE} -p strict --value mycluster --strict")


def test_the_reason_and_who_claims_the_change_are_kept_with_the_revision(shell: Shell) -> None:
    shell.project("reasoned")
    shell.ok(f"{UPDATE} -p reasoned --value mycluster -m 'moved to the new fleet'")
    number = revision(shell)
    shell.ok("rainbowctl delete execution-cluster-label -p reasoned --message 'and back'")
    database = sqlite3.connect(shell.cwd.parent / "rainbow.db")
    kept = database.execute(
        "SELECT number, message, claimed_by FROM revisions WHERE number >= ? ORDER BY number", (number,)
    ).fetchall()
    database.close()
    user = getpass.getuser()
    assert kept == [(number, "moved to the new fleet", user), (number + 1, "and back", user)]


def test_single_leaves_are_set_unset_and_inherited_again(shell: Shell) -> None:
    shell.project("leaves")
    update = "rainbowctl update task-resource-attribute -p leaves -q"

    def stored() -> object:
        return shell.values("0", "project=leaves")

    shell.ok(f"{update} --limits.cpu 4 --limits.ephemeralStorage 3Gi --set defaults.cpu=3")
    assert stored() == [{"defaults": {"cpu": "3"}, "limits": {"cpu": "4", "ephemeral_storage": "3Gi"}}]
    shell.ok(f"{update} --unset limits.cpu --inherit defaults.cpu --set limits.memory=2Gi")
    assert stored() == [{"limits": {"cpu": None, "memory": "2Gi", "ephemeral_storage": "3Gi"}}]
    shown = shell.ok("rainbowctl get task-resource-attribute -p leaves")
    assert "limits.cpu                (unset)  here (revision " in shown
    assert "defaults.cpu              2        configuration (task_resources.defaults.cpu)" in shown
    done = shell.run(
        "rainbowctl update task-resource-attribute -p leaves "
        "--inherit limits.cpu --inherit limits.memory --inherit limits.ephemeral-storage"
    )
    assert done.err == "Updated: nothing is left of task-resource-attribute at project leaves; it inherits again.\n"
    assert stored() == []


def test_entries_of_maps_and_keyed_lists_are_leaves_too(shell: Shell) -> None:
    shell.project("entries")
    update = "rainbowctl update workflow-execution-config -p entries -q"
    shell.ok(f"{update} --labels.values team=ml --labels.values tier=gold --envs.values A=1 --set envs.values.B=2")
    shell.ok(f"{update} --labels.values team=search --unset envs.values.A --inherit labels.values.tier")
    [stored] = shell.values("6", "project=entries")
    assert stored["labels"] == {"values": {"team": "search"}}
    shown = json.loads(shell.ok("rainbowctl explain 6 -p entries -o json"))["values"][0]
    assert shown["value"]["envs"] == {"values": [{"key": "B", "value": "2"}]}
    assert list(shown["unset"]) == ["envs.values.A"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("", "Nothing to update: give --attrFile FILE, or fields such as --defaults.cpu, "),
        ("--attrFile file.yaml --limits.cpu 1", "--attrFile sets the whole payload, flags for fields change single"),
        ("--unset limits", "--unset: limits is no leaf: name one of limits.cpu, "),
        ("--inherit limits.cpus", "--inherit: there is no field 'limits.cpus'. Did you mean limits.cpu?"),
        ("--set limitz.cpu=1", "--set: there is no field 'limitz.cpu'. Did you mean limits?"),
        ("--unset limits.cpu --inherit limits.cpu", "limits.cpu cannot be unset and inherited at once."),
    ],
)
def test_flags_that_cannot_be_meant_are_refused_before_anything_is_sent(shell: Shell, flags: str, message: str) -> None:
    command = f"rainbowctl update task-resource-attribute -d staging {flags}"
    assert message in shell.refused(2, command, RAINBOW_ENDPOINT="http://127.0.0.1:9")


def test_a_refusal_of_the_admin_names_the_leaf_and_stores_nothing(shell: Shell) -> None:
    shell.project("refused")
    message = shell.refused(2, "rainbowctl update task-resource-attribute -p refused --defaults.memory 9Gi")
    assert "defaults.memory" in message
    assert "1Gi" in message
    message = shell.refused(2, "rainbowctl update workflow-priority -p refused --priority 101")
    assert message == "error: --priority must be between 0 and 100, got 101.\n"
    assert shell.rows("all", "project=refused") == []


def test_a_file_comes_from_a_pipe_and_is_then_not_asked_about(shell: Shell) -> None:
    shell.project("piped")
    done = shell.run(f"{UPDATE} --attrFile -", stdin="project: piped\ndomain: staging\nvalue: mycluster\n")
    assert done.status == 0
    assert QUESTION not in done.err
    assert shell.values("3", "project=piped") == [{"value": "mycluster"}]
