"""rainbowctl as a program among others: exit statuses, streams, pipes, terminals, completion."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctl.client.errors import EXIT_CODES
from tests.support.admins import running_admin
from tests.support.ports import free_port
from tests.support.shells import Shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("shell")
    with running_admin(directory) as admin:
        yield Shell(admin, directory, is_cold=True)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("gett project", "There is no command 'gett'. Did you mean get?"),
        ("get execution-cluster-lable -d staging", "There is no noun 'execution-cluster-lable'. Did you mean"),
        ("get workflow-prioritie -d staging", "Did you mean workflow-priority?"),
        ("delete project flytesnacks", "There is no noun 'project': `rainbowctl update project ID --archive`"),
        ("get bogus", "There is no noun 'bogus'. `rainbowctl get kind` lists the kinds."),
        ("update execution-cluster-label -d staging --vale x", "No such option '--vale'. Did you mean '--value'?"),
        ("get project -o jason", "There is no output format 'jason'"),
        ("explain execution-cluster-labl -d staging", "Did you mean execution-cluster-label?"),
    ],
)
def test_a_wrong_word_exits_with_2_and_names_the_nearest(shell: Shell, command: str, message: str) -> None:
    assert message in shell.refused(2, f"rainbowctl {command}")


def test_an_error_is_told_once_on_stderr(shell: Shell) -> None:
    message = shell.refused(3, "rainbowctl get project flytesnaks")
    assert message == "error: There is no project 'flytesnaks'. Did you mean flytesnacks?\n"


@pytest.mark.parametrize(
    ("command", "status", "name"),
    [
        ("rainbowctl get project flytesnaks -o json", 3, "project_not_found"),
        ("rainbowctl -o json get bogus", 2, "invalid_input"),
        ("rainbowctl get execution-queue-attribute -d staging --output=json", 3, "nothing_set"),
        ("rainbowctl update execution-cluster-label -p flytesnaks --value x -ojson", 2, "unknown_project"),
        ("RAINBOW_OUTPUT=json rainbowctl update execution-cluster-label --attrFile none.yaml", 2, "invalid_file"),
        ("rainbowctl --endpoint http://127.0.0.1:9 get domain -o json", 6, "unreachable"),
    ],
)
def test_an_error_is_json_where_json_is_asked_for(shell: Shell, command: str, status: int, name: str) -> None:
    done = shell.run(command)
    assert (done.status, done.out) == (status, "")
    error = json.loads(done.err)["error"]
    assert (error["exit_code"], error["name"]) == (status, name)
    assert error["message"]


def test_an_admin_that_cannot_be_reached_exits_with_6(shell: Shell) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    message = shell.refused(6, "rainbowctl get project", RAINBOW_ENDPOINT=nowhere)
    assert message == (
        f"error: The admin at {nowhere} cannot be reached: connection refused. "
        "Check that it runs, and the endpoint that `rainbowctl config view` shows.\n"
    )
    for command in ("update execution-cluster-label -d staging --value x", "get workflow-priority -d staging"):
        assert "connection refused" in shell.refused(6, f"rainbowctl {command}", RAINBOW_ENDPOINT=nowhere)


def test_a_missing_or_wrong_token_exits_with_4_and_the_right_one_opens(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-the-admin-and-its-users\n")
    (tmp_path / "wrong").write_text("another-token-that-is-not-the-one\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "wrong").chmod(0o600)
    token = {"RAINBOW_SERVER_API_TOKEN_FILE": str(tmp_path / "token")}
    with running_admin(tmp_path, environment=token) as admin:
        shell = Shell(admin, tmp_path, is_cold=True)
        shell.refused(4, "rainbowctl get project")
        shell.refused(4, "rainbowctl get workflow-priority -d staging")
        shell.refused(4, f"rainbowctl get project --token-file {tmp_path}/wrong")
        shell.refused(4, "rainbowctl get project", RAINBOW_TOKEN="wrong")
        assert "flytesnacks" in shell.ok(f"rainbowctl get project --token-file {tmp_path}/token")
        assert "flytesnacks" in shell.ok("rainbowctl get project", RAINBOW_TOKEN_FILE=f"{tmp_path}/token")
        assert "flytesnacks" in shell.ok("rainbowctl get project", RAINBOW_TOKEN="a-token-of-the-admin-and-its-users")


def test_names_go_through_a_pipe_and_a_reader_that_leaves_is_no_error(shell: Shell) -> None:
    assert shell.ok("rainbowctl get projects -o name") == "project/flyteexamples\nproject/flytesnacks\n"
    count = "rainbowctl get domain -o name | sed 's|domain/||' | while read d; do echo \"<$d>\"; done"
    assert shell.ok(count) == "<development>\n<staging>\n<production>\n"
    done = shell.run("set -o pipefail; rainbowctl get kind -o json | true")
    assert (done.status, done.err) == (141, "")


def test_output_that_cannot_be_written_is_an_error(shell: Shell) -> None:
    assert "The output cannot be written: No space left on device." in shell.refused(
        1, "rainbowctl get kind > /dev/full"
    )


def test_remarks_go_to_stderr_and_quiet_leaves_them_out(shell: Shell) -> None:
    shell.project("quiet")
    command = "rainbowctl update execution-cluster-label -p quiet --value mycluster"
    done = shell.run(f"{command} --dryRun")
    assert "Dry run" not in done.out
    assert done.err == "Dry run: nothing was written.\n"
    done = shell.run(f"{command} -q")
    assert (done.status, done.out, done.err) == (0, "", "")
    done = shell.run("rainbowctl update execution-cluster-label -p quiet --value unheard-of -q")
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith("warning: No label is called 'unheard-of' yet.")


def test_tables_are_plain_in_a_pipe_and_may_go_without_headers(shell: Shell) -> None:
    table = "ID           NAME\ndevelopment  development\nstaging      staging\nproduction   production\n"
    assert shell.ok("rainbowctl get domain") == table
    assert shell.ok("rainbowctl get domain --no-headers") == table.partition("\n")[2]
    assert shell.ok("rainbowctl get domain staging -o json") == '{\n  "id": "staging",\n  "name": "staging"\n}\n'


def test_a_terminal_shows_tables_and_errors_in_colour_unless_told_not_to(shell: Shell) -> None:
    status, seen = shell.on_screen("rainbowctl get domain")
    assert status == 0
    assert [line.split() for line in seen.splitlines()][2] == ["development", "development"]
    assert shell.on_screen("rainbowctl get domain x")[1].startswith("\x1b[31merror:\x1b[0m There is no domain 'x'.")
    assert shell.on_screen("rainbowctl get domain x", NO_COLOR="1")[1].startswith("error: There is no domain 'x'.")


def test_ctrl_c_at_the_question_exits_with_130_and_writes_nothing(shell: Shell) -> None:
    shell.project("interrupted")
    with shell.at_terminal("rainbowctl update execution-cluster-label -p interrupted --value mycluster") as terminal:
        terminal.wait_for("Write this? [y/N] ")
        terminal.process.send_signal(signal.SIGINT)
        done = terminal.finish()
    assert (done.status, done.err) == (130, "Write this? [y/N] \nerror: Interrupted.\n")
    assert shell.values("3", "project=interrupted") == []


def test_the_versions_of_both_sides_are_shown(shell: Shell) -> None:
    version = shell.rest("GET", "version")["version"]
    assert shell.ok("rainbowctl --version") == f"rainbowctl {version}\n"
    shown = json.loads(shell.ok("rainbowctl version -o json"))
    assert shown["client"] == {"version": version}
    assert (shown["admin"]["version"], shown["admin"]["endpoint"]) == (version, shell.admin.url)
    done = shell.run("rainbowctl versions", RAINBOW_ENDPOINT="http://127.0.0.1:9")
    assert (done.status, done.out.split()) == (0, ["PROGRAM", "VERSION", "ENDPOINT", "rainbowctl", version, "-"])
    assert "cannot be reached" in done.err


def test_help_is_data_and_names_every_exit_status(shell: Shell) -> None:
    done = shell.run("rainbowctl --help")
    assert (done.status, done.err) == (0, "")
    for status, meaning in EXIT_CODES.items():
        assert re.search(rf"^ +{status}  {re.escape(meaning)}$", done.out, flags=re.MULTILINE)
    assert "--priority INTEGER" in shell.ok("rainbowctl update workflow-priority --help")


@pytest.mark.parametrize(
    ("name", "mark"),
    [("bash", "complete -o nosort -F"), ("zsh", "#compdef rainbowctl"), ("fish", "complete --no-files")],
)
def test_a_completion_script_is_printed_for_each_shell(shell: Shell, name: str, mark: str) -> None:
    script = shell.ok(f"rainbowctl completion {name}")
    assert mark in script
    assert "_RAINBOWCTL_COMPLETE" in script
    if name == "bash":
        shell.ok('eval "$(rainbowctl completion bash)" && complete -p rainbowctl')
        shell.ok("bash -n", stdin=script)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("rainbowctl get execution-cluster-label -p flyte", ["flyteexamples", "flytesnacks"]),
        ("rainbowctl get execution-cluster-label -d st", ["staging"]),
        ("rainbowctl get project flytes", ["flytesnacks"]),
        ("rainbowctl get workflow-", ["workflow-execution-config", "workflow-priority"]),
        ("rainbowctl explain workflow-p", ["workflow-priority"]),
        ("rainbowctl update workflow-priority --pri", ["--priority"]),
        ("rainbowctl up", ["update"]),
        ("rainbowctl get project -o j", ["json"]),
    ],
)
def test_words_are_completed_also_those_only_the_admin_knows(shell: Shell, words: str, offered: list[str]) -> None:
    done = shell.run(
        "rainbowctl",
        _RAINBOWCTL_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )
    assert done.status in {0, 1}  # click's own; the completion scripts do not look at it
    assert [line.partition(",")[2] for line in done.out.splitlines()] == offered
    assert done.err == ""


def test_completion_without_an_admin_is_silent(shell: Shell) -> None:
    done = shell.run(
        "rainbowctl",
        _RAINBOWCTL_COMPLETE="bash_complete",
        COMP_WORDS="rainbowctl get execution-cluster-label -p f",
        COMP_CWORD="4",
        RAINBOW_ENDPOINT="http://127.0.0.1:9",
    )
    assert (done.out.strip(), done.err) == ("", "")
