from __future__ import annotations

from pathlib import Path

import pytest

from ctl.cli.editors import editor_command, is_empty, is_kept, new_file, text_to_edit, with_problems, without_problems
from ctl.client.answers import Attribute, Effective
from ctl.client.errors import InvalidFile, InvalidInput
from ctl.client.scopes import Scope
from ctl.client.yaml_files import Source
from ctl.files.attributes import parse_attribute_file
from tests.unit.ctl.kinds import kind

RESOURCES = kind("task-resource-attribute")
SCOPE = Scope(project="p", domain="d")
EFFECTIVE = Effective(
    resource_type="TASK_RESOURCE",
    value={"limits": {"cpu": "2", "memory": "1Gi"}},
    origins={
        "limits.cpu": {"level": "project-domain", "project": "p", "domain": "d", "version": 3},
        "limits.memory": {"level": "domain", "domain": "d", "version": 2},
    },
    unset={"limits.gpu": {"level": "project", "project": "p", "version": 1}},
    trail=[],
)


def test_own_leaves_are_yaml_and_inherited_ones_comments() -> None:
    row = Attribute(scope=SCOPE, payload={"limits": {"cpu": "2"}}, version=3)
    text = text_to_edit(RESOURCES, SCOPE, row, EFFECTIVE)
    assert "# task-resource-attribute at project p, domain d (level project-domain, version 3)\n" in text
    assert "#   limits.memory: 1Gi    inherited from domain d\n" in text
    assert "#   limits.gpu: (unset)    inherited from project p\n" in text
    assert "limits.cpu" not in text
    assert parse_attribute_file(Source(name="f", text=text), RESOURCES).payload == row.payload


def test_without_a_row_it_starts_from_a_sample_that_says_nothing_yet() -> None:
    text = text_to_edit(RESOURCES, SCOPE, None, None)
    assert is_empty(text)
    sample = text.split("# Sample:\n")[1].replace("# ", "")
    assert parse_attribute_file(Source(name="f", text=sample), RESOURCES).payload == RESOURCES.example


def test_problems_stand_on_top_with_positions_in_the_text_as_it_then_is() -> None:
    path = Path("/x/f.yaml")
    bare = "# remark\nlimitz: {}\nlimits: {cpus: 1}\n"
    with pytest.raises(InvalidFile) as caught:
        parse_attribute_file(Source(name=str(path), text=bare), RESOURCES)
    text = with_problems(bare, caught.value, path)
    lines = text.splitlines()
    assert lines[1] == "#! line 5:1: limitz: unknown key. Did you mean limits?"
    assert lines[2].startswith("#! line 6:10: limits.cpus: unknown key")
    assert lines[4] == "limitz: {}"
    assert caught.value.details[0]["position"] == "/x/f.yaml:5:1"
    assert without_problems(text) == bare


def test_an_error_without_details_stands_on_top_as_well() -> None:
    text = with_problems("a: b\n", InvalidFile("No."), Path("/x"))
    assert text.splitlines()[1:] == ["#! No.", "a: b"]


@pytest.mark.parametrize(("text", "expected"), [("", True), ("# a\n\n  # b\n", True), ("# a\nvalue: x\n", False)])
def test_nothing_but_comments_is_empty(text: str, expected: bool) -> None:
    assert is_empty(text) is expected


def test_the_file_is_private_and_kept_only_when_something_was_written() -> None:
    path = new_file("text")
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("more text")
    assert is_kept(path, "text")
    path.write_text("text")
    assert not is_kept(path, "text")
    assert not path.exists()


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({"VISUAL": "code --wait", "EDITOR": "nano"}, ["code", "--wait"]),
        ({"EDITOR": "'/a b/vi' -n"}, ["/a b/vi", "-n"]),
    ],
)
def test_the_editor_is_the_users_own(environ: dict[str, str], command: list[str]) -> None:
    assert editor_command(environ) == command


@pytest.mark.parametrize("environ", [{}, {"EDITOR": "'"}, {"EDITOR": " "}])
def test_no_editor_without_a_terminal_is_refused(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InvalidInput, match="EDITOR"):
        editor_command(environ)
