"""Quantities as Kubernetes writes them: `500m` of cpu, `1.5Gi` of memory."""

from __future__ import annotations

import re
from fractions import Fraction

_FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
_QUANTITY = re.compile(
    r"\+?([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2}|[numk]?|[KMGTPE]i|[MGTPE])"
)


def show_bytes(number: int) -> str:
    """A number of bytes in the largest unit that has it exactly with one decimal: `1.5Gi`, `2000Mi`."""
    for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if number >= size and number * 10 % size == 0:
            return f"{number * 10 // size / 10}".removesuffix(".0") + suffix
    return str(number)


def parse_quantity(quantity: str | int | float) -> Fraction:
    """The number that a quantity stands for; ValueError if it is not one."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        raise ValueError(f"'{quantity}' is not a quantity such as 500m, 2 or 1.5Gi")
    number, suffix = match.groups()
    factor = _FACTORS[suffix] if suffix in _FACTORS else Fraction(10) ** int(suffix[1:])
    return Fraction(f"0{number}" if number.startswith(".") else number) * factor
