from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.quantities import parse_age, parse_duration, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("010", Fraction(10)),
        ("900m", Fraction(9, 10)),
        ("150Mi", Fraction(150 * 1024**2)),
        ("1.5Gi", Fraction(3 * 1024**3, 2)),
        ("5Ti", Fraction(5 * 1024**4)),
        ("2k", Fraction(2000)),
        ("2e3", Fraction(2000)),
        ("2E3", Fraction(2000)),
        ("2E", Fraction(2 * 10**18)),
        ("1e-3", Fraction(1, 1000)),
        ("100n", Fraction(1, 10**7)),
        (".5", Fraction(1, 2)),
        ("1.", Fraction(1)),
        ("0", Fraction(0)),
        ("+1", Fraction(1)),
    ],
)
def test_quantities_are_exact(text: str, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1x", "-1", "1KB", "Mi", "1mi", "e3", "1e", "NaN", "inf", "1e999", "9" * 30, "10E", "1\n", "٣"],
)
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|larger"):
        parse_quantity(text)


@given(st.integers(0, 10**9), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]), st.integers(0, 10**9))
def test_the_order_of_quantities_is_that_of_their_numbers(first: int, suffix: str, second: int) -> None:
    assert (parse_quantity(f"{first}{suffix}") < parse_quantity(f"{second}{suffix}")) == (first < second)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("600s", 600), ("10m", 600), ("1h30m", 5400), ("1.5s", Fraction(3, 2)), ("250ms", Fraction(1, 4))],
)
def test_durations_are_exact(text: str, seconds: Fraction) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "600", "0s", "-1s", "1d", "s", "1 s", "1h" * 40])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90d", 7776000),
        ("1d12h", 129600),
        ("0.5d", 43200),
        ("12h", 43200),
        ("5ms", Fraction(1, 200)),
        ("2w", 1209600),
        ("1y", 31536000),
    ],
)
def test_ages_may_be_in_days(text: str, seconds: Fraction) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "0d", "-1d", "d", "1 d", "1x", "1y1", "1d" * 40])
def test_an_invalid_age_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an age above zero, such as 90d"):
        parse_age(text)
