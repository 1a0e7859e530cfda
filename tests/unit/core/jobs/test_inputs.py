from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.jobs.input_types import SCALARS
from admin.core.jobs.inputs import MISSING, Input, bind, check_values, read_declarations
from admin.core.problems import Invalid, Problem

PATH = ("spec", "inputs")


def declare(document: Any) -> dict[str, Input]:
    problems: list[Problem] = []
    declared = read_declarations(document, PATH, problems)
    assert problems == []
    return declared


def declaration_problems(document: Any) -> dict[str, str]:
    problems: list[Problem] = []
    read_declarations(document, PATH, problems)
    return {problem.field: problem.reason for problem in problems}


def refusals(declared: dict[str, Input], values: Any, **more: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        bind(declared, values, **more)
    return {problem.field: problem.reason for problem in caught.value.problems}


TRAINING = declare(
    {
        "epochs": {"type": "integer", "default": 3, "description": "passes over the data"},
        "rate": "float",
        "tags": {"type": "list", "of": "string", "default": []},
        "mode": {"type": "enum", "values": ["fast", "exact"], "default": "fast"},
    }
)


def test_the_short_form_is_an_input_without_a_default() -> None:
    assert TRAINING["rate"] == Input(name="rate", type=SCALARS["float"])
    assert TRAINING["rate"].default is MISSING
    assert TRAINING["rate"].required
    assert not TRAINING["tags"].required


def test_declarations_are_stored_in_one_form_that_reads_the_same() -> None:
    stored = {name: input_.payload() for name, input_ in TRAINING.items()}
    assert stored == {
        "epochs": {"type": "integer", "default": 3, "description": "passes over the data"},
        "rate": {"type": "float"},
        "tags": {"type": "list", "of": {"type": "string"}, "default": []},
        "mode": {"type": "enum", "values": ["fast", "exact"], "default": "fast"},
    }
    assert declare(json.loads(json.dumps(stored))) == TRAINING


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        ([], "", "a list is not a mapping of input names"),
        (None, "", "null is not a mapping"),
        ({"1st": "integer"}, ".1st", "not allowed as the name of an input"),
        ({"a-b": "integer"}, ".a-b", "letters, digits and '_'"),
        ({"a" * 64: "integer"}, "." + "a" * 59 + "…", "at most 63"),
        ({"": "integer"}, ".", "not allowed as the name"),
        ({1: "integer"}, ".1", "not allowed as the name"),
        ({"literals": "integer"}, ".literals", "choose another"),
        ({"n": "int"}, ".n", "unknown type 'int'. Did you mean 'integer'"),
        ({"n": None}, ".n", "null is not a type"),
        ({"n": {"type": "Integer"}}, ".n.type", "unknown type 'Integer'"),
        ({"n": {"type": 5}}, ".n.type", "5 is not a type"),
        ({"n": {}}, ".n.type", "is missing: give one of integer, float"),
        ({"n": {"typ": "integer"}}, ".n.typ", "unknown field 'typ'. Did you mean 'type'"),
        ({"n": {"type": "integer", "defalt": 1}}, ".n.defalt", "Did you mean 'default'"),
        ({"n": {"type": "integer", "default": "3"}}, ".n.default", "'3' is not a whole number"),
        ({"n": {"type": "integer", "default": None}}, ".n.default", "leave out 'default'"),
        ({"n": {"type": "integer", "description": 5}}, ".n.description", "5 is not text"),
        ({"n": {"type": "integer", "description": "x" * 5000}}, ".n.description", "the most is 4096"),
        ({"n": {"type": "integer", "values": ["a"]}}, ".n.values", "belongs to the type enum"),
        ({"n": {"type": "integer", "of": "string"}}, ".n.of", "belongs to the types list and map"),
        ({"n": "enum"}, ".n.values", "give a list of 1 to"),
        ({"n": {"type": "enum", "values": []}}, ".n.values", "give a list of 1 to"),
        ({"n": {"type": "enum", "values": [1]}}, ".n.values.0", "1 is not text: put it in quotes"),
        ({"n": {"type": "enum", "values": ["a", "a"]}}, ".n.values", "listed twice"),
        ({"n": {"type": "enum", "values": ["a"], "default": "b"}}, ".n.default", "'b' is not one of 'a'"),
        ({"n": "list"}, ".n.of", "is missing: say what the list holds"),
        ({"n": {"type": "map"}}, ".n.of", "is missing: say what the map holds"),
        ({"n": {"type": "list", "of": "strin"}}, ".n.of", "Did you mean 'string'"),
        ({"n": {"type": "list", "of": {"type": "integer", "default": 1}}}, ".n.of.default", "unknown field"),
        ({"n": {"type": "list", "of": "integer", "default": [1, "x"]}}, ".n.default.1", "'x' is not a whole number"),
    ],
)
def test_a_declaration_that_is_wrong_is_refused(document: Any, field: str, reason: str) -> None:
    reasons = declaration_problems(document)
    assert list(reasons) == ["spec.inputs" + field]
    assert reason in reasons["spec.inputs" + field]


def test_every_problem_of_a_declaration_is_reported() -> None:
    assert list(declaration_problems({"1": "integer", "a": "int", "b": "float"})) == ["spec.inputs.1", "spec.inputs.a"]


def nested(levels: int) -> Any:
    return "integer" if levels == 1 else {"type": "list", "of": nested(levels - 1)}


def test_lists_and_maps_nest_eight_deep_and_no_deeper() -> None:
    deepest = declare({"n": nested(8)})
    assert bind(deepest, {"n": [[[[[[[5]]]]]]]}) == {"n": [[[[[[[5]]]]]]]}
    assert "flatten" in next(iter(declaration_problems({"n": nested(9)}).values()))


@pytest.mark.parametrize(
    ("kind", "value", "normal"),
    [
        ("integer", 5, 5),
        ("integer", 5.0, 5),
        ("integer", -(2**63), -(2**63)),
        ("integer", 2**63 - 1, 2**63 - 1),
        ("float", 5, 5),
        ("float", 0.1, 0.1),
        ("boolean", False, False),
        ("string", "", ""),
        ("string", "a\nb {{ inputs.x }}", "a\nb {{ inputs.x }}"),
        ("string", "ä" * 32768, "ä" * 32768),
        ("duration", "1h30m", "1h30m"),
        ("datetime", "2026-01-02", "2026-01-02T00:00:00Z"),
        ("datetime", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("datetime", "2026-01-02t03:04:05z", "2026-01-02T03:04:05Z"),
        ("datetime", "2026-01-02 03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("datetime", "2026-01-01T23:30:00-01:00", "2026-01-02T00:30:00Z"),
        ("datetime", "2026-01-02T03:04:05.120Z", "2026-01-02T03:04:05.12Z"),
        ("datetime", "2026-01-02T03:04:05.000Z", "2026-01-02T03:04:05Z"),
        ("datetime", "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456789Z"),
        ("datetime", "0999-01-02T03:04:05Z", "0999-01-02T03:04:05Z"),
        ("datetime", dt.date(2026, 1, 2), "2026-01-02T00:00:00Z"),
        ("datetime", dt.datetime(2026, 1, 2, 3, 4, 5, 500_000, dt.UTC), "2026-01-02T03:04:05.5Z"),
        ({"type": "enum", "values": ["a", "b"]}, "b", "b"),
        ({"type": "list", "of": "integer"}, [], []),
        ({"type": "list", "of": "integer"}, [1, 2.0], [1, 2]),
        ({"type": "map", "of": "boolean"}, {"a b": True}, {"a b": True}),
        (
            {"type": "map", "of": {"type": "list", "of": "datetime"}},
            {"a": ["2026-01-02"]},
            {"a": ["2026-01-02T00:00:00Z"]},
        ),
    ],
)
def test_values_get_their_normal_form(kind: Any, value: Any, normal: Any) -> None:
    read = bind(declare({"x": kind}), {"x": value})["x"]
    assert read == normal
    assert type(read) is type(normal)
    assert bind(declare({"x": kind}), {"x": read})["x"] == normal


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("integer", "5", "'5' is not a whole number: give one without quotes"),
        ("integer", 5.5, "5.5 is not a whole number"),
        ("integer", True, "true is not a whole number"),
        ("integer", None, "null is no value: give a whole number"),
        ("integer", 2**63, "out of range"),
        ("integer", 1e300, "out of range"),
        ("integer", float("nan"), "nan is not a whole number"),
        ("float", "0.5", "'0.5' is not a number"),
        ("float", True, "true is not a number"),
        ("float", float("inf"), "not a finite number"),
        ("float", 10**400, "out of range"),
        ("boolean", 1, "1 is not a boolean"),
        ("boolean", "true", "'true' is not a boolean"),
        ("string", 5, "5 is not text: put it in quotes"),
        ("string", "a\x00b", "NUL"),
        ("string", "\ud800", "lone surrogate"),
        ("string", "ä" * 32769, "65538 bytes; the most is 65536"),
        ("string", dt.date(2026, 1, 2), "the time '2026-01-02' is not text"),
        ("string", {1}, "a value of type set is not text"),
        ("duration", 600, "600 is not a duration"),
        ("duration", "0s", "a duration above zero"),
        ("duration", "1 day", "'1 day' is not a duration"),
        ("datetime", "2026-01-02T03:04:05", "give a time with its zone"),
        ("datetime", dt.datetime(2026, 1, 2, 3, 4, 5), "give a time with its zone"),
        ("datetime", "2026-02-30", "not in the calendar"),
        ("datetime", "2026-02-03T25:00:00Z", "not in the calendar"),
        ("datetime", "0001-01-01T00:00:00+01:00", "not in the calendar"),
        ("datetime", "20260102", "give a time with its zone"),
        ("datetime", "2026-01-02\n", "is not a datetime"),
        ("datetime", 5, "5 is not a datetime"),
        ({"type": "enum", "values": ["fast", "exact"]}, "fats", "'fats' is not one of 'fast', 'exact'"),
        ({"type": "enum", "values": ["fast", "exact"]}, 1, "1 is not one of"),
        ({"type": "list", "of": "integer"}, "a,b", "'a,b' is not a list, each entry a whole number"),
        ({"type": "list", "of": "integer"}, {"a": 1}, "a mapping is not a list"),
        ({"type": "list", "of": "integer"}, [1] * 10_001, "has 10001 entries; the most is 10000"),
        ({"type": "map", "of": "integer"}, [1], "a list is not a map, each value a whole number"),
        ({"type": "map", "of": "integer"}, {1: 1}, "not text: put it in quotes"),
        ({"type": "map", "of": "integer"}, {"a\x00": 1}, "has a name that contains the character NUL"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Any, value: Any, reason: str) -> None:
    reasons = refusals(declare({"x": kind}), {"x": value})
    assert list(reasons) == ["inputs.x"]
    assert reason in reasons["inputs.x"]


def test_a_problem_inside_a_list_or_map_names_its_entry() -> None:
    declared = declare({"x": {"type": "map", "of": {"type": "list", "of": "integer"}}})
    assert list(refusals(declared, {"x": {"a": [1], "b": [1, "2", None]}})) == ["inputs.x.b.1", "inputs.x.b.2"]
    assert len(refusals(declared, {"x": {"a": ["?"] * 5000}})) == 10


def test_a_wrong_enum_value_is_reported_with_the_closest_words() -> None:
    with pytest.raises(Invalid) as caught:
        bind(TRAINING, {"rate": 1, "mode": "fats"})
    assert caught.value.problems[0].closest == ("fast",)


def test_the_request_overrides_the_launch_plan_and_that_the_workflow() -> None:
    assert bind(TRAINING, {"rate": 1}) == {"epochs": 3, "rate": 1, "tags": [], "mode": "fast"}
    plan = {"epochs": 4, "tags": ["a"], "rate": 0.5}
    assert bind(TRAINING, {}, defaults=plan) == {"epochs": 4, "rate": 0.5, "tags": ["a"], "mode": "fast"}
    assert bind(TRAINING, {"epochs": 5}, defaults=plan)["epochs"] == 5


def test_a_fixed_input_cannot_be_overridden_but_repeated() -> None:
    assert bind(TRAINING, {"rate": 2.0}, fixed={"rate": 2})["rate"] == 2
    reasons = refusals(TRAINING, {"rate": 1}, fixed={"rate": 2}, defaults={"rate": 3})
    assert reasons == {
        "inputs.rate": "the launch plan fixes it to 2: leave it out, or use another launch plan.",
    }


def test_every_problem_of_a_request_is_reported() -> None:
    reasons = refusals(TRAINING, {"epoch": 5, "epochs": "5"})
    assert reasons["inputs.epoch"].startswith("unknown input 'epoch'. Did you mean 'epochs'?")
    assert "is not a whole number" in reasons["inputs.epochs"]
    assert reasons["inputs.rate"] == "is missing: give 'rate', a number."


def test_a_wrong_value_is_not_reported_as_missing_too() -> None:
    assert list(refusals(TRAINING, {"rate": "x"})) == ["inputs.rate"]


def test_inputs_of_a_workflow_without_any() -> None:
    assert bind({}, {}) == {}
    assert "Known: none" in refusals({}, {"x": 1})["inputs.x"]
    assert "not a mapping of input names" in refusals({}, [])["inputs"]


def test_some_values_may_be_checked_before_the_others_are_known() -> None:
    problems: list[Problem] = []
    assert check_values(TRAINING, {"epochs": 5.0}, ("spec", "fixed_inputs"), problems) == {"epochs": 5}
    assert problems == []
    assert check_values(TRAINING, {"epochs": "x", "mod": 1, "rate": 2}, ("fixed_inputs",), problems) == {"rate": 2}
    assert [problem.field for problem in problems] == ["fixed_inputs.epochs", "fixed_inputs.mod"]
    assert problems[1].closest == ("mode",)


TYPES = st.recursive(
    st.sampled_from(["integer", "float", "boolean", "string", "duration", "datetime"]).map(lambda word: {"type": word})
    | st.lists(st.text("abc", min_size=1), min_size=1, max_size=3, unique=True).map(
        lambda values: {"type": "enum", "values": values}
    ),
    lambda inner: st.builds(lambda word, of: {"type": word, "of": of}, st.sampled_from(["list", "map"]), inner),
    max_leaves=4,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["5s", "2026-01-02", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(TYPES, JSON)
def test_any_value_is_bound_to_a_stable_form_or_refused(kind: Any, value: Any) -> None:
    declared = declare({"x": kind})
    assert declared["x"].payload() == kind
    problems: list[Problem] = []
    read = check_values(declared, {"x": value}, ("inputs",), problems)
    assert bool(read) != bool(problems)
    if read:
        assert bind(declared, json.loads(json.dumps(read, allow_nan=False))) == read


@given(JSON)
def test_any_declaration_is_read_or_refused(document: Any) -> None:
    problems: list[Problem] = []
    declared = read_declarations({"x": document}, PATH, problems)
    assert bool(declared) or bool(problems)
