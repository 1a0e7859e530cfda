"""JSON of others: large bodies are read in a quicker way, which must not be noticed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core import strict_json
from admin.core.problems import Invalid

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=5),
)
#: What one of the two ways might take for something else.
ODD = (
    '{"a": 1, "b": {"c": [], "c": []}}',
    '{"a": 1, "b": ":", "a": "\\""}',
    '{"": "", "": ""}',
    '{"a" : "x", "b":":\\u0022"}',
    '{"a": NaN}',
    '{"a": 1e999}',
    '{"a": -0.0, "b": 1e5, "c": -0}',
    '{"a": 18446744073709551615}',
    '{"a": 18446744073709551616}',
    '{"a": -9223372036854775809}',
    '{"a": "12345678901234567890"}',
    '{"a": "\\ud800"}',
    '{"a": "\\u0000"}',
    '{"a": "\x01"}',
    '\ufeff{"a": 1}',
    '{"a": 1} x',
    '{"a": ' + "[" * 63 + "]" * 63 + "}",
    '{"a": ' + "[" * 64 + "]" * 64 + "}",
    '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
    '["a"]',
    "null",
    "",
)


def read(text: str, monkeypatch: pytest.MonkeyPatch, *, is_large: bool) -> str:
    """What is read, or why nothing is."""
    with monkeypatch.context() as patch:
        patch.setattr(strict_json, "_LARGE", 0 if is_large else 10**9)
        try:
            return repr(strict_json.parse_body(text.encode()))
        except Invalid as wrong:
            return str(wrong)


@pytest.mark.parametrize("text", ODD)
def test_a_large_body_is_read_or_refused_as_a_small_one(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(text, monkeypatch, is_large=True) == read(text, monkeypatch, is_large=False)


@given(VALUES, st.booleans(), st.booleans())
def test_any_value_is_read_alike(value: Any, is_ascii: bool, is_spaced: bool) -> None:
    text = json.dumps({"a": value}, ensure_ascii=is_ascii, separators=None if is_spaced else (",", ":"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert read(text, monkeypatch, is_large=True) == read(text, monkeypatch, is_large=False)


@given(st.lists(st.tuples(st.text("a:,{}", max_size=2), st.text(':"{', max_size=2)), max_size=6))
def test_a_key_that_stands_twice_is_found_in_either_way(pairs: list[tuple[str, str]]) -> None:
    text = "{" + ",".join(f"{json.dumps(key)}: [{json.dumps(value)}]" for key, value in pairs) + "}"
    with pytest.MonkeyPatch.context() as monkeypatch:
        as_large = read(text, monkeypatch, is_large=True)
        assert as_large == read(text, monkeypatch, is_large=False)
    assert ("stands twice" in as_large) == (len(dict(pairs)) < len(pairs))


def test_a_plain_body_is_read_in_the_quick_way() -> None:
    assert strict_json._parsed_quickly(b'{"a": {"b": [1, "c:"]}, "d": 1.5}') == {"a": {"b": [1, "c:"]}, "d": 1.5}
