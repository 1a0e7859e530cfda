"""Choices: one of several by weight, the same for the same key every time.

Weighted rendezvous hashing: every option draws a number of its own, so that taking one away
moves only what was its own.
"""

from __future__ import annotations

import hashlib
import math


def draw(key: str, option: str, weight: float) -> float:
    """What an option draws for a key; the largest wins, and on average as often as its weight says."""
    if weight <= 0:
        return 0.0
    digest = hashlib.blake2b(f"{key}\0{option}".encode(), digest_size=8).digest()
    uniform = ((int.from_bytes(digest) >> 12) + 0.5) / 2**52  # strictly between 0 and 1
    return weight / -math.log(uniform)
