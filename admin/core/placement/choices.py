"""Choices: one of several by weight, the same for the same key every time.

Weighted rendezvous hashing: every option draws a number of its own, so that taking one away
moves only what was its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable


class Options:
    """What may be drawn, with weights; made once for all keys that draw from it."""

    def __init__(self, weights: Iterable[tuple[str, float]]) -> None:
        by_weight: dict[float, list[tuple[str, bytes]]] = {}
        for option, weight in weights:
            by_weight.setdefault(weight, []).append((option, option.encode()))
        self._by_weight = list(by_weight.items())
        alone = [option for alike in by_weight.values() for option, _ in alike]
        self._only = alone[0] if len(alone) == 1 else None

    def draw(self, key: str) -> str:
        """The option that draws the largest number for a key."""
        if self._only is not None:
            return self._only
        begun = _begun(key)
        best, largest = "", -1.0
        for weight, alike in self._by_weight:
            highest = b""
            for option, text in alike:  # of those with the same weight the highest hash makes the largest number
                one = begun.copy()
                one.update(text)
                digest = one.digest()
                if digest > highest:
                    highest, candidate = digest, option
            drawn = _number(highest, weight)
            if drawn > largest:
                best, largest = candidate, drawn
        return best


def draw(key: str, option: str, weight: float) -> float:
    """What an option draws for a key; the largest wins, and on average as often as its weight says."""
    begun = _begun(key)
    begun.update(option.encode())
    return _number(begun.digest(), weight)


def _begun(key: str) -> hashlib.blake2b:
    return hashlib.blake2b(f"{key}\0".encode(), digest_size=8)


def _number(digest: bytes, weight: float) -> float:
    if weight <= 0:
        return 0.0
    uniform = ((int.from_bytes(digest) >> 12) + 0.5) / 2**52  # strictly between 0 and 1
    return weight / -math.log(uniform)
