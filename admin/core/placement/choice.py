"""The choice: one of several options by weight, the same for the same key every time.

Weighted rendezvous hashing: every option draws a number of its own, so that removing an option moves only the keys
that had chosen it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable


class WeightedChoice:
    """Options with weights, prepared once for all keys that draw from them."""

    def __init__(self, weights: Iterable[tuple[str, float]]) -> None:
        by_weight: dict[float, list[tuple[str, bytes]]] = {}
        for option, weight in weights:
            by_weight.setdefault(weight, []).append((option, option.encode()))
        self._by_weight = list(by_weight.items())
        options = [option for same_weight in by_weight.values() for option, _ in same_weight]
        self._only = options[0] if len(options) == 1 else None

    def draw(self, key: str) -> str:
        """The option that draws the largest number for a key."""
        if self._only is not None:
            return self._only
        key_hash = _hash(key)
        best, largest = "", -1.0
        for weight, same_weight in self._by_weight:
            highest = b""
            for option, text in same_weight:  # among equal weights the highest hash gives the largest number
                option_hash = key_hash.copy()
                option_hash.update(text)
                digest = option_hash.digest()
                if digest > highest:
                    highest, candidate = digest, option
            number = _number(highest, weight)
            if number > largest:
                best, largest = candidate, number
        return best


def draw(key: str, option: str, weight: float) -> float:
    """The number that an option draws for a key; the largest wins, on average as often as its weight says."""
    option_hash = _hash(key)
    option_hash.update(option.encode())
    return _number(option_hash.digest(), weight)


def _hash(key: str) -> hashlib.blake2b:
    return hashlib.blake2b(f"{key}\0".encode(), digest_size=8)


def _number(digest: bytes, weight: float) -> float:
    if weight <= 0:
        return 0.0
    uniform = ((int.from_bytes(digest) >> 12) + 0.5) / 2**52  # strictly between 0 and 1
    return weight / -math.log(uniform)
