"""Problems: what is wrong with an input, and how to correct it."""

from __future__ import annotations

import datetime as dt
import difflib
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

Path = tuple[str, ...]


class Setting(NamedTuple):
    """A field of a row of attributes."""

    kind: str
    scope: tuple[str, ...]  #: its keys
    version: int  #: of the row
    field: str  #: dotted path


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is wrong with one field."""

    field: str  #: dotted path, "" for the whole input
    reason: str  #: what is wrong and how to correct it, one sentence
    closest: tuple[str, ...] = ()  #: known words like the one in the input
    index: int | None = None  #: position of its change, in a request with many
    setting: Setting | None = None  #: that the input breaks, where a row has it
    definition: tuple[str, str] | None = None  #: kind and name of a cluster, pool or label that refuses or is missing
    provenance: Mapping[str, Any] | None = None  #: of that setting or definition, as answers show it

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class Invalid(Exception):
    """An input that breaks a rule; carries all problems, not only the first."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


def invalid(field: str, reason: str) -> Invalid:
    """An input with a single problem."""
    return Invalid(Problem(field=field, reason=reason))


def raise_problems(problems: Sequence[Problem]) -> None:
    """Raise Invalid with all problems, if there are any."""
    if problems:
        raise Invalid(*problems)


class Refused(Invalid):
    """An input that breaks a rule with an error name of its own."""

    def __init__(self, error: str, *problems: Problem) -> None:
        super().__init__(*problems)
        self.error = error  #: the error name, as answers show it


#: Longer words are cut before they are compared, which takes long.
_LONGEST_WORD = 128
#: Problems that come with similar words; to look them up for thousands would take long.
_MOST_LOOKED_UP = 50


def closest(word: str, names: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Known words similar to a word, best first; upper and lower case count as the same."""
    by_folded = {_fold(name): name for name in names}
    if not by_folded:
        return ()
    folded = _fold(word[:_LONGEST_WORD])
    longer = [name for name in by_folded if len(folded) > 1 and name.startswith(folded)]
    containing = [name for name in by_folded if len(folded) > 2 and folded in name]
    similar = difflib.get_close_matches(folded, by_folded, n=most, cutoff=0.6)
    short = [name for name in by_folded if len(folded) == 2 and _differs_once(folded, name)]
    near = dict.fromkeys([*similar, *sorted(longer), *sorted(containing), *sorted(short)])
    return tuple(by_folded[name] for name in near)[:most]


def _differs_once(word: str, name: str) -> bool:
    """Whether two words differ in one character; of two that have only two, less than the ratio asks for is alike."""
    return len(word) == len(name) and sum(map(operator.ne, word, name)) == 1


def _fold(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def did_you_mean(near: Iterable[str]) -> str:
    """A sentence for the end of a message with the words that may have been meant; "" without any."""
    words = " or ".join(f"'{word}'" for word in near)
    return f" Did you mean {words}?" if words else ""


def list_first(entries: Sequence[object], most: int, *, count: int | None = None, separator: str = ", ") -> str:
    """`a, b and 3 more`: so many entries at most, and how many others there are; `count` where not all are given."""
    others = (len(entries) if count is None else count) - min(most, len(entries))
    return separator.join(map(str, entries[:most])) + (f" and {others} more" if others > 0 else "")


def unknown_problem(
    field: str, noun: str, word: str, candidates: Iterable[str], *, most: int = 12, meant: str | None = None
) -> Problem:
    """The problem of a word that is not one of the candidates, of which so many are listed and the closest named.

    `meant` is what the word is known to mean: the closest if it is a candidate, however it is spelled.
    """
    names = sorted(candidates)
    near = (meant,) if meant in names else closest(word, names)
    listed = ", ".join(names[:most]) + (", …" if len(names) > most else "")
    reason = f"unknown {noun} '{shorten(word)}'.{did_you_mean(near)} Known: {listed or 'none'}."
    return Problem(field=field, reason=reason, closest=near)


def unknown_word(field: str, refusal: str, word: str, words: Iterable[str]) -> Problem:
    """The problem of a value that is none of a few words, which the refusal lists; with the closest."""
    near = closest(word, words)
    return Problem(field=field, reason=f"{refusal}{did_you_mean(near)}", closest=near)


def unknown_fields(unknown: Sequence[str], fields: Iterable[str], path: str) -> Iterator[Problem]:
    """A problem for each unknown field; the first ones with similar known fields."""
    names = list(fields)
    for number, name in enumerate(unknown):
        field = f"{path}.{shorten(name)}".lstrip(".")
        if number < _MOST_LOOKED_UP:
            yield unknown_problem(field, "field", name, names)
        else:
            yield Problem(field=field, reason=f"unknown field '{shorten(name)}'.")


def repeated(words: Iterable[str]) -> list[str]:
    """The words that occur more than once, in alphabetical order."""
    return sorted(word for word, count in Counter(words).items() if count > 1)


def shorten(text: object, most: int = 60) -> str:
    """A value for a message: printable, and cut to a length."""
    shown = "".join(char if char.isprintable() else "�" for char in str(text))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def quoted(value: Any) -> str:
    """A value as messages show it: text in quotes, so that '5' and 5 differ."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"'{shorten(value)}'"
        case int() | float():
            return shorten(value)
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case dt.date():
            return f"the time '{shorten(value.isoformat())}'"
    return f"a value of type {type(value).__name__}"


@lru_cache(maxsize=4096)
def dotted(path: Path) -> str:
    """A path as people write it."""
    return ".".join(path)


def add_problem(problems: list[Problem], path: Path, reason: str, near: tuple[str, ...] = ()) -> None:
    """Report what is wrong with the field at a path."""
    problems.append(Problem(field=dotted(path), reason=reason, closest=near))
