"""Configuration files; how documents are read is tested with the files of each noun."""

from __future__ import annotations

from typing import Any

import pytest

from ctl.client.errors import InvalidFile
from ctl.client.yaml_files import Source, load_mapping


@pytest.mark.parametrize(
    ("text", "typed", "as_text"),
    [
        ("", {}, {}),
        ("# nothing", {}, {}),
        ("a: 010\nb: yes\nc: [1]", {"a": 8, "b": True, "c": [1]}, {"a": "010", "b": "yes", "c": ["1"]}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, {"a": {"b": "1"}, "c": {"b": "1"}}),
    ],
)
def test_a_configuration_file_is_a_mapping(text: str, typed: dict[str, Any], as_text: dict[str, Any]) -> None:
    assert load_mapping(Source(name="a.yaml", text=text)) == typed
    assert load_mapping(Source(name="a.yaml", text=text), as_text=True) == as_text


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("- a", ["a.yaml:1:1: the file must hold keys and values"]),
        ("a: 1\na: 2", ["a.yaml:2:1: a: given twice: keep one of the two"]),
        ("a: [{b: 1, b: 2}]\nc: {d: 1, d: 2}", ["a.yaml:1:12: a.b: given twice", "a.yaml:2:11: c.d: given twice"]),
        ("a: [", ["a.yaml:2:1: not valid YAML"]),
        ("a:\n\tb: 1", ["a.yaml:2:1: a tab: YAML is indented with spaces"]),
        ("a: 1\n---\nb: 2", ["a.yaml:2:1: not valid YAML"]),
        ("a: !!python/object:os.system x", ["a.yaml:1:4: not valid YAML"]),
    ],
)
def test_problems_are_reported_with_their_place(text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidFile) as caught:
        load_mapping(Source(name="a.yaml", text=text))
    lines = [line.strip() for line in caught.value.lines()[1:]]
    assert len(lines) == len(problems)
    assert all(line.startswith(problem) for line, problem in zip(lines, problems, strict=True)), lines


def test_a_mapping_that_holds_itself_is_read_once() -> None:
    document = load_mapping(Source(name="a.yaml", text="a: &x {b: *x}"))
    assert document["a"]["b"] is document["a"]
