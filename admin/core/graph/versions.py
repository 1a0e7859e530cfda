"""Versions: `0.5`, `v1.2.3` and `2.0.0-rc.1` in the order of semantic versioning."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_MOST_NUMBERS = 6
_VERSION = re.compile(
    rf"v?([0-9]{{1,18}}(?:\.[0-9]{{1,18}}){{0,{_MOST_NUMBERS - 1}}})"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)

_Part = tuple[int, int, str]


class Version(NamedTuple):
    """A version that compares as a tuple does."""

    numbers: tuple[int, ...]  #: always as many, missing ones are 0
    is_release: bool  #: a pre-release comes before its release
    pre_release: tuple[_Part, ...]


@lru_cache(maxsize=4096)
def parse_version(text: str) -> Version | None:
    """The version that a text is, None where it is none."""
    match = _VERSION.fullmatch(text) if len(text) <= 256 else None
    if match is None:
        return None
    numbers = [int(number) for number in match.group(1).split(".")]
    parts = match.group(2).split(".") if match.group(2) else []
    # Numbers come before words, and the shorter of two that begin alike first.
    pre_release = tuple((0, int(part[:18]), "") if part.isdecimal() else (1, 0, part) for part in parts)
    return Version((*numbers, *[0] * (_MOST_NUMBERS - len(numbers))), not parts, pre_release)


def is_within(version: Version, lowest: Version | None, highest: Version | None) -> bool:
    """Whether a version lies between two bounds, both included; a pre-release only between bounds that are such too."""
    bounds = [bound for bound in (lowest, highest) if bound is not None]
    if not version.is_release and any(bound.is_release for bound in bounds):
        return False
    return (lowest is None or lowest <= version) and (highest is None or version <= highest)
