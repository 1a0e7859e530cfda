"""Long lists in a sync: what is taken as it is, is what their schemas would have read."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marshmallow import ValidationError

from admin.api.agents import EventBody, HeldBody, SyncBody, is_plain_event, is_plain_held

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


def read(schema: HeldBody | EventBody, value: Any) -> Any:
    try:
        return schema.load(copy.deepcopy(value))
    except ValidationError:
        return None


def test_what_agents_write_is_plain() -> None:
    assert is_plain_held({"id": ID, "attempt": 1})
    assert is_plain_event(EVENT)
    assert is_plain_event({name: EVENT[name] for name in ("id", "attempt", "event", "type")})


@settings(max_examples=1500, deadline=None)
@given(
    st.sets(st.sampled_from(list(EVENT))),
    st.dictionaries(st.sampled_from([*EVENT, "outputs", "nativeId", "colour"]), st.sampled_from(ODD), max_size=3),
)
def test_a_plain_event_is_read_as_it_stands_and_no_other_is_plain(without: set[str], odd: dict[str, Any]) -> None:
    value = {name: one for name, one in EVENT.items() if name not in without} | odd
    if is_plain_event(value):
        assert read(EventBody(), value) == value


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["id", "attempt", "colour"]), st.sampled_from(ODD), max_size=3))
def test_a_plain_lease_is_read_as_it_stands_and_no_other_is_plain(value: dict[str, Any]) -> None:
    if is_plain_held(value):
        assert read(HeldBody(), value) == value


@pytest.mark.parametrize("value", [None, 1, "x", [], [EVENT], {1: 2}])
def test_what_is_no_mapping_is_not_plain(value: Any) -> None:
    assert not is_plain_event(value)
    assert not is_plain_held(value)


def test_one_odd_event_among_many_is_named_by_its_place() -> None:
    body = {"agent": "a", "sequence": 1, "events": [EVENT, {**EVENT, "type": "DONE"}], "holding": [{"id": ID}]}
    with pytest.raises(ValidationError) as caught:
        SyncBody().load(body)
    assert caught.value.messages_dict["events"].keys() == {1}
    assert caught.value.messages_dict["holding"] == {0: {"attempt": ["is missing."]}}
    camel = {name: one for name, one in EVENT.items() if name != "native_id"} | {"nativeId": "5"}
    mixed = SyncBody().load({"agent": "a", "sequence": 1, "events": [EVENT, camel]})
    assert [one["native_id"] for one in mixed["events"]] == ["4711", "5"]
