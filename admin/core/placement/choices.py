"""Choices: one of several by weight, the same for the same key every time.

Weighted rendezvous hashing: every option draws a number of its own, so that taking one away
moves only what was its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable


def draw(key: str, option: str, weight: float) -> float:
    """What an option draws for a key; the largest wins, and on average as often as its weight says."""
    return _draw(f"{key}\0{option}".encode(), weight)


def draw_best(key: str, options: Iterable[tuple[str, float]]) -> str:
    """The option that draws the largest number for a key, of some options with their weights."""
    begun = f"{key}\0".encode()
    best, largest = "", -1.0
    for option, weight in options:
        drawn = _draw(begun + option.encode(), weight)
        if drawn > largest:
            best, largest = option, drawn
    return best


def _draw(what: bytes, weight: float) -> float:
    if weight <= 0:
        return 0.0
    digest = hashlib.blake2b(what, digest_size=8).digest()
    uniform = ((int.from_bytes(digest) >> 12) + 0.5) / 2**52  # strictly between 0 and 1
    return weight / -math.log(uniform)
