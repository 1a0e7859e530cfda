"""Versions in the order that people expect of semantic versioning, Python's packages and those of distributions.

A version is an epoch (`1:`), numbers, what follows them, and a distribution's release (`-60.el9`). Numbers come first:
missing ones are 0. A word of pre-releases (`rc1`, `-beta.2`, `.dev3`), and what follows `~`, comes before the version
without it; anything else that follows (`p1`, `w`, `.post1`) comes after it. As RPM does for dependencies, releases are
compared only where both versions have one. How it was built (`+cu118`) does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_LONGEST = 256
_VERSION = re.compile(
    r"(?!.*\.\.|.*\.[xX]$)[vV]?(?:(?P<epoch>[0-9]{1,9})[:!])?(?P<numbers>[0-9]{1,18}(?:\.[0-9]{1,18}){0,15})"
    r"(?P<suffix>[0-9A-Za-z.~_-]*?)(?:-(?P<release>[0-9][0-9A-Za-z.~_-]*))?(?:\+[0-9A-Za-z.+~_:-]*)?"
)
_PART = re.compile(r"[0-9]+|[A-Za-z]+|~")
#: Words of pre-releases, and the word of the same meaning that they are compared by.
_PRE_RELEASES = {"alpha": "alpha", "beta": "beta", "pre": "rc", "preview": "rc", "rc": "rc", "m": "m", "milestone": "m"}
#: Letters that are such words only with a number: `1.0b2` is a beta, while `1.1.1b` is the second patch of 1.1.1.
_LETTERS = {"a": "alpha", "b": "beta", "c": "rc"}
_DEVELOPMENT = ("dev", "snapshot", "nightly")
#: Words that follow a version also where they follow a hyphen.
_LATER = ("post", "p", "pl", "patch", "r", "rev", "sp")
_TILDE, _DEV, _PRE, _END, _WORD, _NUMBER, _LATER_WORD = range(-3, 4)

_Part = tuple[int, str, int]


class Version(NamedTuple):
    """A version; `is_at_least` has its order."""

    epoch: int
    numbers: tuple[int, ...]  #: without zeros at the end
    suffix: tuple[_Part, ...]
    release: tuple[_Part, ...]  #: of a distribution; empty without one


@lru_cache(maxsize=4096)
def parse_version(text: str) -> Version | None:
    """The version that a text is, None where it is none."""
    match = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    numbers = [int(number) for number in match["numbers"].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    release = tuple(_release_parts(match["release"])) if match["release"] else ()
    return Version(int(match["epoch"] or 0), tuple(numbers), tuple(_suffix_parts(match["suffix"])), release)


def _suffix_parts(suffix: str) -> Iterator[_Part]:
    """What follows the numbers; in a pre-release, numbers come before words, as semantic versioning has it."""
    parts = _PART.findall(suffix)
    is_pre_release = False
    for place, part in enumerate(parts):
        word = part.lower()
        has_number = place + 1 < len(parts) and parts[place + 1].isdigit()
        if part == "~":
            is_pre_release = True
            yield _TILDE, "", 0
        elif part.isdigit():
            yield _NUMBER, "", int(part[:18])
        elif word in _DEVELOPMENT:
            is_pre_release = True
            yield _DEV, "", 0
        elif is_pre_release:
            yield _LATER_WORD, word, 0
        elif word in _PRE_RELEASES or (word in _LETTERS and has_number):
            is_pre_release = True
            yield _PRE, _PRE_RELEASES.get(word) or _LETTERS[word], 0
        elif not place and suffix.startswith("-") and word not in _LATER:
            is_pre_release = True
            yield _PRE, word, 0
        else:
            yield _WORD, word, 0
    yield _END, "", 0


def _release_parts(release: str) -> Iterator[_Part]:
    for part in _PART.findall(release):
        if part == "~":
            yield _TILDE, "", 0
        else:
            yield (_NUMBER, "", int(part[:18])) if part.isdigit() else (_WORD, part, 0)
    yield _END, "", 0


def is_at_least(version: Version, bound: Version) -> bool:
    """Whether a version is a bound or comes after it."""
    if version[:3] != bound[:3]:
        return version[:3] > bound[:3]
    return not version.release or not bound.release or version.release >= bound.release


def is_within(version: Version, lowest: Version | None, highest: Version | None) -> bool:
    """Whether a version lies between two bounds, both included."""
    return (lowest is None or is_at_least(version, lowest)) and (highest is None or is_at_least(highest, version))
