"""Kubernetes quantities (`500m`, `1.5Gi`, `2e3`), durations (`600s`, `1h30m`) and ages (`90d`), without rounding."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
#: Twenty digits and two of exponent hold every quantity that Kubernetes can, and keep hostile input cheap.
QUANTITY = r"\+?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})(n|u|m|k|Ki|[MGTPE]i?|[eE][+-]?[0-9]{1,2})?"
LARGEST = 2**63 - 1

QUANTITY_RULE = "a quantity of zero or more, such as 500m, 2, 1.5Gi or 2e3"

_DAY = 86400
_UNITS = {
    "y": Fraction(365 * _DAY),
    "w": Fraction(7 * _DAY),
    "d": Fraction(_DAY),
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 1000),
}
DURATION = r"([0-9]{1,12}(\.[0-9]{1,9})?(h|ms|m|s))+"
DURATION_RULE = "a duration above zero, such as 600s, 10m or 1h30m"
#: Ages may be given in days, weeks and years of 365 days as well.
AGE = DURATION.replace("(h|", "(y|w|d|h|")
AGE_RULE = "an age above zero, such as 90d, 12h, 2w or 1y"


def is_whole_number(text: str) -> bool:
    """Whether a text is a whole number of zero or more in plain digits, few enough for a database's integer."""
    return len(text) < 19 and text.isascii() and text.isdecimal()


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Fraction:
    """The exact number of a quantity; ValueError with the rule where the text is none."""
    match = re.fullmatch(QUANTITY, text)
    if match is None:
        raise ValueError(f"is not {QUANTITY_RULE}")
    number, suffix = match.group(1), match.group(3) or ""
    factor = _SUFFIXES[suffix] if suffix in _SUFFIXES else Fraction(10) ** int(suffix[1:])
    value = Fraction(number if not number.startswith(".") else "0" + number) * factor
    if value > LARGEST:
        raise ValueError("is larger than any machine; the most is 2^63-1")
    return value


def parse_duration(text: str, *, zero: bool = False) -> Fraction:
    """The exact seconds of a duration; ValueError where the text is none, or is zero and may not be."""
    rule = DURATION_RULE.replace("above zero", "of zero or more") if zero else DURATION_RULE
    return _seconds(text, DURATION, rule, zero=zero)


def parse_age(text: str) -> Fraction:
    """The exact seconds of an age; ValueError where the text is none."""
    return _seconds(text, AGE, AGE_RULE)


def _seconds(text: str, pattern: str, rule: str, *, zero: bool = False) -> Fraction:
    if len(text) > 64 or re.fullmatch(pattern, text) is None:
        raise ValueError(f"is not {rule}")
    seconds = sum(
        (
            Fraction(number) * _UNITS[unit]
            for number, _, unit in re.findall(r"([0-9]+(\.[0-9]+)?)(y|w|d|h|ms|m|s)", text)
        ),
        Fraction(0),
    )
    if seconds <= 0 and not zero:
        raise ValueError(f"is not {rule}")
    return seconds
