from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.jobs.inputs import bind, read_declarations
from admin.core.jobs.literals import plain_values
from admin.core.problems import Invalid, Problem

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["5s", "2026-01-02", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def primitive(**value: Any) -> dict[str, Any]:
    return {"scalar": {"primitive": value}}


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (primitive(integer="5"), 5),
        (primitive(integer=5), 5),
        (primitive(integer="-9223372036854775808"), -(2**63)),
        (primitive(floatValue=0.5), 0.5),
        (primitive(float_value="0.5"), 0.5),
        (primitive(floatValue="1e3"), 1000.0),
        (primitive(stringValue="5"), "5"),
        (primitive(string_value=""), ""),
        (primitive(boolean=False), False),
        (primitive(datetime="2026-01-02T03:04:05Z"), "2026-01-02T03:04:05Z"),
        (primitive(duration="5s"), "5s"),
        ({"collection": {"literals": [primitive(integer="1"), primitive(integer="2")]}}, [1, 2]),
        ({"collection": {}}, []),
        ({"map": {"literals": {"a": primitive(boolean=True)}}}, {"a": True}),
        ({"map": {}}, {}),
        ({"map": {"literals": {"a": {"collection": {"literals": [primitive(stringValue="x")]}}}}}, {"a": ["x"]}),
    ],
)
def test_flyte_literals_become_plain_values(literal: Any, value: Any) -> None:
    problems: list[Problem] = []
    assert plain_values({"literals": {"x": literal}}, ("inputs",), problems) == {"x": value}
    assert problems == []


@pytest.mark.parametrize(
    ("literal", "field", "reason"),
    [
        (primitive(integer="5.5"), ".scalar.primitive.integer", "'5.5' is not a whole number"),
        (primitive(integer=True), ".scalar.primitive.integer", "true is not a whole number"),
        (primitive(floatValue="NaN"), ".scalar.primitive.floatValue", "is not a number"),
        (primitive(boolean="true"), ".scalar.primitive.boolean", "is not a boolean"),
        (primitive(stringValue=5), ".scalar.primitive.stringValue", "is not text"),
        (primitive(datetime="yesterday"), ".scalar.primitive.datetime", "is not a datetime"),
        (primitive(duration="5"), ".scalar.primitive.duration", "is not a duration"),
        (primitive(), ".scalar.primitive", "give exactly one of integer, floatValue"),
        (primitive(integer=5, boolean=True), ".scalar.primitive", "give exactly one of"),
        (primitive(int=5), ".scalar.primitive", "give exactly one of"),
        ({"scalar": {"noneType": {}}}, ".scalar.noneType", "none inputs are not supported"),
        ({"scalar": {"blob": {"uri": "s3://x"}}}, ".scalar.blob", "blob inputs are not supported"),
        ({"scalar": {"structuredDataset": {}}}, ".scalar.structuredDataset", "structured dataset inputs are not"),
        ({"scalar": {"union": {}}}, ".scalar.union", "union inputs are not supported"),
        ({"scalar": {"generic": {}}}, ".scalar.generic", "generic inputs are not supported"),
        ({"scalar": {"primitve": {}}}, ".scalar.primitve", "is not part of a scalar here: give {primitive: …}"),
        ({"scalar": 5}, ".scalar", "5 is not a mapping"),
        ({"scaler": {}}, ".scaler", "is not part of a literal here"),
        ({}, "", "a mapping is not a literal: give {scalar: …} or {collection: …} or {map: …}"),
        ({"scalar": {}, "hash": "x"}, "", "is not a literal"),
        (5, "", "5 is not a literal"),
        ({"collection": {"literals": {}}}, ".collection", "is not a collection"),
        ({"collection": {"items": []}}, ".collection", "is not a collection"),
        ({"collection": {"literals": [5]}}, ".collection.literals.0", "5 is not a literal"),
        ({"map": {"literals": []}}, ".map", "is not a map of literals"),
    ],
)
def test_a_literal_that_has_no_plain_value_is_refused(literal: Any, field: str, reason: str) -> None:
    problems: list[Problem] = []
    assert plain_values({"literals": {"x": literal}}, ("inputs",), problems) in ({}, {"x": None})
    assert [problem.field for problem in problems] == ["inputs.literals.x" + field]
    assert reason in problems[0].reason


def test_literals_nest_no_deeper_than_types() -> None:
    literal: Any = primitive(integer=1)
    for _ in range(200):
        literal = {"collection": {"literals": [literal]}}
    problems: list[Problem] = []
    plain_values({"literals": {"x": literal}}, ("inputs",), problems)
    assert "flatten" in problems[0].reason


def test_inputs_that_are_not_literals_are_left_as_they_are() -> None:
    problems: list[Problem] = []
    assert plain_values({"epochs": 5}, ("inputs",), problems) == {"epochs": 5}
    assert plain_values({}, ("inputs",), problems) == {}
    assert plain_values({"literals": {}}, ("inputs",), problems) == {}
    assert problems == []
    assert plain_values([1], ("inputs",), problems) == {}
    assert plain_values({"literals": [1]}, ("inputs",), problems) == {}
    assert [problem.field for problem in problems] == ["inputs", "inputs.literals"]


def test_a_literal_has_to_fit_the_declared_type() -> None:
    problems: list[Problem] = []
    declared = read_declarations({"n": "integer", "f": "float"}, ("spec", "inputs"), problems)
    inputs = {"literals": {"n": primitive(stringValue="5"), "f": primitive(integer="5")}}
    with pytest.raises(Invalid) as caught:
        bind(declared, plain_values(inputs, ("inputs",), problems))
    assert problems == []
    assert [str(problem) for problem in caught.value.problems] == [
        "inputs.n: '5' is not a whole number: give one without quotes, such as 5."
    ]


@given(JSON)
def test_any_request_is_plain_or_refused(document: Any) -> None:
    plain_values({"literals": document}, ("inputs",), [])
    plain_values({"literals": {"x": document}}, ("inputs",), [])
