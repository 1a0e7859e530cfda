"""What the command line says and returns before it ever talks to an admin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ctl.cli.groups import Group
from ctl.cli.session import Session
from ctl.client.errors import EXIT_CODES
from ctl.client.kinds import built_in
from ctl.main import root, run


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the variables or the contexts of whoever runs it."""
    for name in ("ENDPOINT", "TOKEN", "TOKEN_FILE", "CA_FILE", "PROJECT", "DOMAIN", "CONTEXT", "CONFIG", "OUTPUT"):
        monkeypatch.delenv(f"RAINBOW_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    if isinstance(group, Group):
        ctx = click.Context(group, obj=Session())
        names = [name for _title, rows in group.summaries() for name, _summary in rows]
        for name in names:
            _name, command, _args = group.resolve_command(ctx, [name])
            assert command is not None
            yield from commands(command, (*path, name))


COMMANDS = list(commands(root()))


def test_every_verb_has_every_built_in_kind() -> None:
    paths = {path for path, _command in COMMANDS}
    expected = {(verb, kind.noun) for verb in ("get", "update", "delete") for kind in built_in()}
    assert expected <= paths


@pytest.mark.parametrize("path", [path for path, _command in COMMANDS], ids=" ".join)
def test_every_command_has_help_with_examples(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path, "--help"]) == 0
    assert "rainbowctl" in capsys.readouterr().out.split("Examples:")[1]


@pytest.mark.parametrize(
    ("path", "command"), COMMANDS, ids=lambda part: " ".join(part) if isinstance(part, tuple) else ""
)
def test_every_flag_of_several_words_is_read_in_camel_and_in_kebab_case(
    path: tuple[str, ...], command: click.Command
) -> None:
    for param in command.params:
        names = {name for name in param.opts if name.startswith("--")}
        kebab = {name for name in names if "-" in name[2:]}
        camel = {name for name in names if not name.islower()}
        assert bool(kebab) == bool(camel), names


def test_help_lists_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    message = capsys.readouterr().out
    assert all(f"{code}  {meaning}" in message for code, meaning in EXIT_CODES.items())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["gte"], "There is no command 'gte'. Did you mean get?"),
        (["create", "projectt"], "There is no noun 'projectt'. Did you mean project?"),
        (["config", "use-contxt"], "There is no command 'use-contxt'. Did you mean use-context?"),
        (["get", "project", "--al"], "--all"),
        (["get", "execution-cluster-label"], "needs a scope"),
        (["get", "execution-cluster-label", "-p", "p", "-d", "d", "w", "x"], "unexpected extra argument (x)"),
        (["get", "execution-cluster-label", "-p", "p", "w"], "workflow w needs a project and a domain"),
        (["get", "execution-cluster-label", "-p", "p", "-d", "d", "--launchplan", "l"], "needs its workflow"),
        (["get", "execution-cluster-label", "-p", "p", "-d", "d", "w", "-w", "v"], "Two workflows are named"),
        (["get", "execution-cluster-label", "-p", ".."], "cannot be the name of a project"),
        (["get", "cluster", "../etc"], "'../etc' cannot be the name of a cluster"),
        (["get", "execution-cluster-label", "-p", ""], "The project is empty"),
        (["get", "execution-cluster-label", "-A", "--exact"], "are for one"),
        (["get", "cluster-resource-attribute", "-p", "p", "-d", "d", "w"], "its levels are domain, project and"),
        (["update", "execution-cluster-label", "-p", "p"], "give --attrFile FILE, or fields such as --value"),
        (["update", "execution-cluster-label", "--attrFile", "f", "--value", "x"], "use one or the other"),
        (["update", "task-resource-attribute", "-p", "p", "--unset", "limits"], "limits is no leaf"),
        (["-o", "jsn", "version"], "There is no output format 'jsn'"),
        (["-p", "x", "get", "domain"], "get domain takes no project"),
        (["get", "domain", "--endpoint", "ftp://x"], "'ftp' is not a supported protocol"),
        (["get", "domain", "-c", "/nonexistent/config.yaml"], "does not exist"),
        (["get", "domain", "--context", "nope"], "There is no context 'nope'"),
        (["get", "domain", "--ca-file", "/nonexistent/ca.pem"], "cannot be read"),
        (["update", "project", "--id", "a", "-p", "b", "--name", "x"], "Two projects are named"),
        (["update", "project", "a", "--activate", "--archive"], "contradict each other"),
        (["create", "project", "--name", "x"], "needs an id"),
        (["create", "project", "a", "--labels", "x"], "--labels must be KEY=VALUE"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("error: ")


@pytest.mark.parametrize("args", [[], ["get"], ["config"]])
def test_a_missing_verb_or_noun_shows_help_on_stderr(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: rainbowctl")


@pytest.mark.parametrize("args", [["-o", "json", "gte"], ["gte", "--output=JSON"], ["gte", "-ojson"]])
def test_errors_are_json_where_json_is_asked_for(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 2
    assert json.loads(capsys.readouterr().err) == {
        "error": {
            "code": 3,
            "name": "invalid_input",
            "message": "There is no command 'gte'. Did you mean get?",
            "details": [],
            "exit_code": 2,
        }
    }


@pytest.mark.parametrize(
    "args", [["-o", "json", "config", "view"], ["config", "-o", "json", "view"], ["config", "view", "-o", "json"]]
)
def test_global_flags_work_before_the_verb_and_after_the_noun(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == 0
    assert json.loads(capsys.readouterr().out)["output"] == {"value": "json", "origin": "--output"}


def test_contexts_are_made_used_listed_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "set-context", "a", "--endpoint", "http://a", "-p", "x"]) == 0
    assert run(["config", "set-context", "b", "--endpoint", "http://b"]) == 0
    assert run(["config", "use-context", "b"]) == 0
    assert run(["config", "set-context", "a", "--project", "", "--timeout", "5"]) == 0
    capsys.readouterr()
    assert run(["config", "get-contexts", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "current_context": "b",
        "contexts": {"a": {"endpoint": "http://a", "timeout": "5"}, "b": {"endpoint": "http://b"}},
    }
    assert run(["config", "delete-context", "b"]) == 0
    assert run(["config", "current-context"]) == 3


def test_tokens_are_never_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RAINBOW_TOKEN", "hunter2hunter2")
    assert run(["config", "view"]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert "********" in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_RAINBOWCTL_COMPLETE" in capsys.readouterr().out
