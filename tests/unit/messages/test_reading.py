"""Bodies are read by their definition alone: at once where they are plain, with every problem where they are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import fields

from admin.core import names
from admin.core.executions.reports import REPORTS
from admin.core.problems import Invalid
from admin.messages.agents import EventBody, SyncBody
from admin.messages.reading import Body, Name, read

ROOT = Path(__file__).parents[3]
ID = {"project": "p", "domain": "d", "name": "n"}
EVENT: dict[str, Any] = {
    "id": ID,
    "attempt": 1,
    "event": "e-1",
    "type": "FAILED",
    "at": "2026-01-01T00:00:00Z",
    "native_id": "4711",
    "nodes": ["n1", "n2"],
    "exit_code": -9,
    "signal": 9,
    "reason": "CRASHED",
    "message": "what it said,\nin two lines",
    "started_at": "2026-01-01T00:00:00Z",
    "finished_at": "2026-01-01T00:00:01Z",
    "duration": 1.0,
}
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 256, 257, 2**31, -(2**31) - 1, 2**62, 2**62 + 1, 0.5, -0.5, 1.0),
    *("", "x", "1", "RUNNING", "running", "a\0b", "\x7f", "\n", "é" * 64, "x" * 65, "x" * 255, "x" * 256, "x" * 4001),
    *([], ["n"], [""], ["n\0"], ["n", 1], [None], {}, {"project": "p"}, ID, {**ID, "org": ""}, {**ID, "name": "\t"}),
]


class Inner(Body):
    name: Name
    number_of_nodes: Annotated[int, Meta(ge=1, le=9)]


class Sample(Body):
    inner: Inner
    items: Annotated[list[Inner], Meta(max_length=2)] | UnsetType = UNSET
    word: Annotated[str, Meta(max_length=0, extra={"error": "say nothing."})] | UnsetType = UNSET


INNER = {"name": "a", "number_of_nodes": 3}


def problems(body: type[Body], data: Any, path: str = "") -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        read(body, data, path)
    return [(problem.field, problem.reason) for problem in caught.value.problems]


def outcome(body: type[Body], data: Any) -> Body | None:
    try:
        return read(body, data)
    except Invalid:
        return None


def test_both_spellings_are_read() -> None:
    sample = Sample(inner=Inner(name="a", number_of_nodes=3))
    assert read(Sample, {"inner": INNER}) == sample
    assert read(Sample, {"inner": {"name": "a", "numberOfNodes": 3}}) == sample
    assert problems(Sample, {"inner": {**INNER, "numberOfNodes": 3}}) == [
        ("inner.number_of_nodes", "is given twice, in two spellings.")
    ]


def test_every_problem_is_listed_with_its_place() -> None:
    inner = {"name": "a\n", "number_of_nodes": 10}
    data = {"inner": inner, "items": [INNER, {"name": 3}], "word": "x", "wrod": 1}
    assert problems(Sample, data) == [
        ("inner.name", "control characters are not allowed."),
        ("inner.number_of_nodes", "Must be greater than or equal to 1 and less than or equal to 9."),
        ("items.1.name", "is not text: put it in quotes."),
        ("items.1.number_of_nodes", "is missing."),
        ("word", "say nothing."),
        ("wrod", "unknown field 'wrod'. Did you mean 'word'? Known: inner, items, word."),
    ]
    assert problems(Sample, {"inner": INNER, "items": [3, 4, 5]}, "body") == [
        ("body.items", "Longer than maximum length 2.")
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (3, ("", "is not a mapping: give one with named fields.")),
        ({"inner": None}, ("inner", "is null; leave it out instead.")),
        ({"inner": []}, ("inner", "is not a mapping: give one with named fields.")),
        ({"inner": INNER, "items": {}}, ("items", "is not a list: write [ … ], around a single one, too.")),
        ({"inner": INNER, "items": [None]}, ("items.0", "is null; leave it out instead.")),
        ({"inner": INNER, "word": 3}, ("word", "is not text: put it in quotes.")),
        ({"inner": INNER, "word": None}, ("word", "is null; leave it out instead.")),
        ({"inner": {**INNER, "number_of_nodes": 1.0}}, ("inner.number_of_nodes", "is not a whole number.")),
        ({"inner": {**INNER, "number_of_nodes": True}}, ("inner.number_of_nodes", "is not a whole number.")),
        ({"inner": {**INNER, "name": "x" * 256}}, ("inner.name", "Longer than maximum length 255.")),
    ],
)
def test_a_problem_says_what_is_wrong(data: Any, problem: tuple[str, str]) -> None:
    assert problems(Sample, data) == [problem]


@settings(max_examples=300)
@given(
    st.sets(st.sampled_from(list(EVENT))),
    st.dictionaries(st.sampled_from([*EVENT, "outputs", "colour"]), st.sampled_from(ODD), max_size=3),
)
def test_a_body_comes_to_the_same_at_once_and_field_by_field(without: set[str], odd: dict[str, Any]) -> None:
    """A name in camelCase is enough for a body to be read field by field."""
    event = {name: value for name, value in EVENT.items() if name not in without} | odd
    if "native_id" not in event:
        event["native_id"] = "7"
    other = {names.camel(name) if name == "native_id" else name: value for name, value in event.items()}
    assert outcome(EventBody, other) == outcome(EventBody, event)


def test_agents_may_report_what_the_core_knows() -> None:
    types = {info.name: info.type for info in fields(EventBody)}
    assert get_args(types["type"]) == tuple(REPORTS)


def test_one_odd_event_among_many_is_named_by_its_place() -> None:
    body = {"agent": "a", "sequence": 1, "events": [EVENT, {**EVENT, "type": "DONE"}], "holding": [{"id": ID}]}
    assert [field for field, _ in problems(SyncBody, body)] == ["holding.0.attempt", "events.1.type"]
    camel = {name: value for name, value in EVENT.items() if name != "native_id"} | {"nativeId": "5"}
    sync = read(SyncBody, {"agent": "a", "sequence": 1, "events": [EVENT, camel]}).sync("c")
    assert [event.native_id for event in sync.events] == ["4711", "5"]


def test_a_character_that_cannot_be_stored_does_not_keep_a_report_from_arriving() -> None:
    event = {**EVENT, "message": "a\0b", "nodes": ["n\0"], "native_id": "\0"}
    report = read(EventBody, event).report()
    assert (report.message, report.nodes, report.native_id) == ("a\ufffdb", ["n\ufffd"], "\ufffd")


_READ_LATER = """
import sys

import msgspec
from admin.app import create_app
from admin.configuration import load_settings
from admin.messages import reading

looked_at = set()
look = msgspec.json.Decoder


def note(body, **options):
    looked_at.add(body)
    return look(body, **options)


msgspec.json.Decoder = note
create_app(load_settings(None, {}, {"database": {"url": f"sqlite:///{sys.argv[1]}"}}))


def below(body):
    return {subclass for child in body.__subclasses__() for subclass in (child, *below(child))}


bodies = below(reading.Body)
print(len(bodies) > 5, bodies - looked_at)
"""


def test_the_fields_of_all_bodies_are_looked_at_before_threads_read_them(tmp_path: Path) -> None:
    """Two threads that have msgspec look at the same fields first, at the same moment, crash the process."""
    command = [sys.executable, "-c", _READ_LATER, str(tmp_path / "rainbow.db")]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (finished.stdout, finished.returncode) == ("True set()\n", 0), finished.stderr
