"""JSON texts are read as they were written, however long a number is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.json_text import json_text, json_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
)


@given(VALUES)
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    text = json_text(value)
    assert json_value(text) == json_value(text.decode()) == value


@pytest.mark.parametrize("number", [2**63 - 1, 2**64 - 1, 2**64, -(2**63) - 1, 10**40])
def test_a_long_number_keeps_its_digits(number: int) -> None:
    assert json_value(json.dumps({"n": [number]})) == {"n": [number]}
