"""What is wrong with an input, said so that its writer can mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fault of one field."""

    field: str  #: dotted path of what is wrong, "" for the whole
    reason: str  #: what is wrong and how to mend it, one sentence
    closest: tuple[str, ...] = ()  #: known words near the one that was given
    index: int | None = None  #: position of the change it belongs to, where there are many

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class Invalid(Exception):
    """An input that breaks a rule of the core; carries every problem found, not only the first."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class Refused(Invalid):
    """An input that breaks a rule which has a name of its own."""

    def __init__(self, error: str, *problems: Problem) -> None:
        super().__init__(*problems)
        self.error = error  #: the name, as it stands in answers


#: Nobody means a known word by a longer one, and comparing it would take long.
_LONGEST_WORD = 128
#: Nobody is told of more, and looking for what each may have meant would take long.
_MOST_LOOKED_UP = 50


def closest(word: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Known words that look like the given one, best first; upper and lower case count as the same."""
    by_folded = {_fold(name): name for name in known}
    folded = _fold(word[:_LONGEST_WORD])
    begun = [name for name in by_folded if len(folded) > 1 and name.startswith(folded)]
    similar = difflib.get_close_matches(folded, by_folded, n=most, cutoff=0.6)
    return tuple(by_folded[hit] for hit in dict.fromkeys([*similar, *sorted(begun)]))[:most]


def _fold(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def did_you_mean(near: Iterable[str]) -> str:
    """A sentence to append to a refusal: names the words that were probably meant, or nothing."""
    words = " or ".join(f"'{word}'" for word in near)
    return f" Did you mean {words}?" if words else ""


def unknown_word(what: str, word: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not one of a short list."""
    names = sorted(known)
    near = closest(word, names)
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"unknown {what} '{shorten(word)}'.{did_you_mean(near)} Known: {listed or 'none'}."


def unknown_fields(given: Sequence[str], known: Iterable[str], path: str) -> Iterator[Problem]:
    """A problem for each field that is not known; the first of them with what they may have been meant as."""
    names = list(known)
    for number, name in enumerate(given):
        where = f"{path}.{shorten(name)}".lstrip(".")
        if number < _MOST_LOOKED_UP:
            yield Problem(field=where, reason=unknown_word("field", name, names), closest=closest(name, names))
        else:
            yield Problem(field=where, reason=f"unknown field '{shorten(name)}'.")


def shorten(text: object, most: int = 60) -> str:
    """A value as it may stand in a message: printable, and not longer than a message should be."""
    shown = "".join(char if char.isprintable() else "�" for char in str(text))
    return shown if len(shown) <= most else shown[: most - 1] + "…"
