"""Expressions: what can be written, what is refused, and that nothing which they do ends in another error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.placement.constraints.expressions import (
    MOST_CHARACTERS,
    Evaluator,
    ExpressionError,
    NotKnown,
    Value,
    read_expression,
)

VALUES: dict[str, Value | None] = {
    "cost": 1.5,
    "job.nodes": 4,
    "zone": "eu",
    "fast": True,
    "job.labels.my-team": "ml",
    "missing": None,
    "zero": 0,
}
evaluate, truth_of = Evaluator().value, Evaluator().truth


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cost * job.nodes", 6.0),
        ("7 // 2 + 7 % 4 - -1", 7),
        ("cost * job.nodes / 4 <= 1.5", True),
        ("zone == 'eu' and not (cost > 2 or fast == false)", True),
        ("zone in ['us', 'eu']", True),
        ("zone not in ('us', 'asia')", True),
        ("'e' in zone", True),
        ("zone < 'us'", True),
        ("1 < cost < 2", True),
        ("'yes' if fast else 'no'", "yes"),
        ("min(3, cost, 2) + max(1, 2) + abs(-1)", 4.5),
        ("floor(cost) + ceil(cost)", 3),
        ("default(missing, 10) + default(cost, 10)", 11.5),
        ('job.labels["my-team"] == "ml"', True),
        ("missing == 'eu'", False),
        ("missing != 'eu'", True),
        ("1 == true", False),
    ],
)
def test_expressions_have_values(text: str, value: Value) -> None:
    result = evaluate(read_expression(text), VALUES)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cost *", "is not an expression"),
        ("", "is not an expression"),
        ("cost\0", "is not an expression"),
        ("cost > 1 && fast", "at character 11: write `and` instead of `&&`"),
        ("!fast", "write `not` instead of `!`"),
        ("cost = 1", "write `==` instead of `=`"),
        ("[node for node in zone]", "a loop cannot be used"),
        ("max(node for node in zone)", "a loop cannot be used"),
        ("9 ** 9 ** 9", "`**` cannot be used"),
        ("1 << 99999", "cannot be used"),
        ("cost & fast", "write `and`"),
        ("lambda: 1", "cannot be used"),
        ("(lambda: 1)()", "only functions with plain arguments"),
        ("f'{zone}'", "an f-string cannot be used"),
        ("{'a': 1}", "`{'a': 1}` cannot be used"),
        ("zone @ zone", "`@` cannot be used"),
        ("[*zone]", "cannot be used"),
        ("zone.upper()", "only job and properties have fields"),
        ("job.__class__.__mro__()", "there is no function"),
        ("zone[0]", "only a text may stand in brackets"),
        ("().__class__", "only job and properties have fields"),
        ("__import__('os').system('true')", "only job and properties have fields"),
        ("eval('1')", "there is no function 'eval'"),
        ("flor(cost)", "Did you mean 'floor'?"),
        ("min()", "min takes 1 to 10 arguments, not 0"),
        ("abs(1, 2)", "abs takes 1 arguments, not 2"),
        ("max(*zone)", "cannot be used"),
        ("min(a=1)", "only functions with plain arguments"),
        ("None", "neither a number, text, true nor false"),
        ("...", "neither a number, text, true nor false"),
        ("1j", "neither a number, text, true nor false"),
        ("b'a'", "neither a number, text, true nor false"),
        ("1e999", "too large"),
        ("9" * 400, "too large"),
        ("-" * 100 + "1", "nested too deeply"),
        ("(" * 240 + "1" + ")" * 240, "is not an expression"),
        ("1 + " * 100 + "1", "nested too deeply"),
        ("a" * (MOST_CHARACTERS + 1), f"has {MOST_CHARACTERS + 1} characters; the most is {MOST_CHARACTERS}"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as error:
        read_expression(text)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cost / zero", "division by zero"),
        ("1 // zero", "division by zero"),
        ("1 % zero", "division by zero"),
        ("cost * missing", "missing is not known"),
        ("missing", "missing is not known"),
        ("missing < zone", "missing is not known"),
        ("not missing", "missing is not known"),
        ("zone * 3", "text is used as a number"),
        ("fast + 1", "true or false is used as a number"),
        ("zone > 3", "text is compared with a number"),
        ("not cost", "a number is used as true or false"),
        ("cost in 5", "the right side of `in` is neither a list nor text"),
        ("[cost]", "gives a list"),
        ("1e200 * 1e200", "the number is too large"),
        ("1e300 * 9 // 1", "the number is too large"),
        ("floor(1e200 * 1e200)", "the number is too large"),
        ("floor(1e300 * 1e9 - 1e300 * 1e9)", "the number is too large"),
        ("* ".join(["9" * 90 + " "] * 5), "the number is too large"),
    ],
)
def test_what_has_no_value_says_why(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as error:
        evaluate(read_expression(text), VALUES)
    assert str(error.value) == reason


def test_a_condition_is_true_or_false() -> None:
    assert truth_of(read_expression("cost > 1"), VALUES)
    with pytest.raises(ExpressionError, match="gives a number, not true or false"):
        truth_of(read_expression("cost"), VALUES)


_NAMES = st.sampled_from([*VALUES, "unknown", "job.labels.x", "1", "0", "'a'", "true", "1e150"])
_SIGNS = [*"+-*/%<>", "//", "==", "!=", "in", "and", "or"]
_TEXTS = st.recursive(
    _NAMES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(_SIGNS), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("not {}".format),
        inner.map("floor({})".format),
        st.tuples(inner, inner).map("default({0[0]}, {0[1]})".format),
        st.tuples(inner, inner, inner).map("{0[0]} if {0[1]} else {0[2]}".format),
    ),
    max_leaves=12,
)


@given(_TEXTS | st.text(max_size=60))
def test_nothing_but_a_value_or_a_reason_comes_out(text: str) -> None:
    try:
        expression = read_expression(text)
        value = evaluate(expression, VALUES)
    except ExpressionError as error:
        value = str(error)
    assert isinstance(value, bool | int | float | str)


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(NotKnown, match=r"^other and missing are not known$"):
        evaluate(read_expression("other + missing + cost"), {**VALUES, "other": None})
