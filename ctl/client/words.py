"""Spellings of one word, and the known words that come closest to a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CLOSE = 0.62
_MARGIN = 0.1


def fold(word: str) -> str:
    """The form that `launch_plan`, `launchPlan`, `launch-plan` and `LaunchPlan` share, for comparisons."""
    return word.replace("_", "").replace("-", "").lower()


def spellings(path: str) -> list[str]:
    """A dotted snake_case path as it is, in kebab-case and in camelCase, without repetitions."""
    kebab = path.replace("_", "-")
    camel = re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), path)
    return list(dict.fromkeys([path, kebab, camel]))


def snake_case(word: str) -> str:
    """A word in camelCase as it is written in snake_case: `iamRoleARN` is `iam_role_arn`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z]+)", lambda match: "_" + match[1].lower(), word)


def flags(*words: str) -> list[str]:
    """Declarations of one flag: each camelCase word also in kebab-case (`--attrFile`, `--attr-file`)."""
    declared = [f"--{form}" for word in words for form in (word, snake_case(word).replace("_", "-"))]
    return list(dict.fromkeys(declared))


def nearest(word: str, words: Iterable[str], limit: int = 3) -> list[str]:
    """The known words closest to `word`, best first; none that is much farther off than the best."""
    from difflib import SequenceMatcher

    typed = fold(word)
    scored = sorted(((SequenceMatcher(None, typed, fold(name)).ratio(), name) for name in set(words)), reverse=True)
    if not scored or scored[0][0] < _CLOSE:
        return sorted(name for _score, name in scored if len(typed) >= 3 and typed in fold(name))[:limit]
    return [name for score, name in scored if score >= max(_CLOSE, scored[0][0] - _MARGIN)][:limit]


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """` Did you mean a or b?`, or nothing when no known word is close."""
    close = nearest(word, words)
    return f" Did you mean {listed(close, 'or')}?" if close else ""


def listed(words: Iterable[str], last: str = "and") -> str:
    """`a, b and c`."""
    items = list(words)
    return f" {last} ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def count(number: int, noun: str) -> str:
    """`1 problem`, `3 problems`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def sentence(text: str) -> str:
    """Text with a full stop, unless it ends a sentence already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def parse_pair(text: str) -> tuple[str, str]:
    """`key=value` as a pair; ValueError with the reason for anything else."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"must be KEY=VALUE, got {text!r}")
    return key, value


def show_ranges(numbers: Iterable[int]) -> str:
    """Whole numbers, those that follow each other as a range: `5, 7..9`."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in ranges)
