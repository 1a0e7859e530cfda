"""Types of inputs: what a workflow may declare an input to be, and the leaf that reads its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from admin.core.fields.compounds import DictOf, ListOf
from admin.core.fields.leaves import Boolean, Choice, Datetime, Duration, Integer, Leaf, Number, known_keys
from admin.core.problems import Path, Problem, add_problem, dotted, quoted, shorten, unknown_problem

#: How deep lists and maps may nest.
DEEPEST = 8
#: One wrong list should not fill the whole answer.
MOST_PROBLEMS = 10

_MOST_ENTRIES = 10_000
_MOST_WORDS = 1024
_MOST_WORDS_SHOWN = 12
_LONGEST_TEXT = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class InputText(Leaf):
    """Text that a program can be given as an argument; it may be empty and have many lines."""

    phrase = "text"
    remedy = "put it in quotes"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise self.wrong_type()
        if "\x00" in value:
            raise ValueError("contains the character NUL, which no program can be given: remove it")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError("contains half a character (a lone surrogate): remove it") from None
        if size > _LONGEST_TEXT:
            raise ValueError(f"has {size} bytes; the most is {_LONGEST_TEXT}")
        return value


@dataclass(frozen=True, kw_only=True)
class InputChoice(Choice):
    """One of the words that a workflow lists, of which there may be many."""

    remedy = "give one of them"

    @property
    def phrase(self) -> str:
        listed = ", ".join(f"'{shorten(word)}'" for word in self.words[:_MOST_WORDS_SHOWN])
        return f"one of {listed}{', …' if len(self.words) > _MOST_WORDS_SHOWN else ''}"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise self.wrong_type()
        return value


@dataclass(frozen=True, kw_only=True)
class InputType:
    """A type as a workflow declares it."""

    word: str
    leaf: Leaf  #: reads and checks the values
    of: InputType | None = None  #: the type of what a list or map holds

    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The value in its normal form; whatever is wrong with it is added to the problems."""
        if value is None:
            add_problem(problems, path, f"null is no value: give {self.leaf.phrase}, or leave it out.")
            return None
        return self.leaf.read(value, path, problems)

    def payload(self) -> dict[str, Any]:
        """The type as it is stored."""
        payload: dict[str, Any] = {"type": self.word}
        if isinstance(self.leaf, Choice):
            payload["values"] = list(self.leaf.words)
        if self.of is not None:
            payload["of"] = self.of.payload()
        return payload


SCALARS = {
    "integer": InputType(word="integer", leaf=Integer(minimum=-(2**63), maximum=2**63 - 1)),
    "float": InputType(word="float", leaf=Number()),
    "boolean": InputType(word="boolean", leaf=Boolean()),
    "string": InputType(word="string", leaf=InputText()),
    "duration": InputType(word="duration", leaf=Duration()),
    "datetime": InputType(word="datetime", leaf=Datetime()),
}
_ENUM, _LIST, _MAP = "enum", "list", "map"
TYPES = (*SCALARS, _ENUM, _LIST, _MAP)  #: every word that may stand as a type


def read_type(
    document: Any, path: Path, problems: list[Problem], *, beside: Sequence[str] = (), depth: int = 1
) -> InputType | None:
    """A type from its word or its mapping; `beside` are the keys of the mapping that the caller reads."""
    if depth > DEEPEST:
        add_problem(problems, path, f"lists and maps are nested deeper than {DEEPEST}: flatten them.")
        return None
    entries, where = {"type": document}, path
    if isinstance(document, Mapping):
        before = len(problems)
        spelled = {str(key): value for key, value in document.items()}
        entries = known_keys(spelled, dict.fromkeys(("type", "values", "of", *beside)), path, problems)
        if len(problems) > before and "type" not in entries:
            return None
        where = (*path, "type")
    word = entries.get("type")
    if "type" not in entries:
        add_problem(problems, where, f"is missing: give one of {', '.join(TYPES)}.")
    elif not isinstance(word, str):
        add_problem(problems, where, f"{quoted(word)} is not a type: give one of {', '.join(TYPES)}.")
    elif word not in TYPES:
        problems.append(unknown_problem(dotted(where), "type", word, TYPES))
    else:
        return _build_type(word, entries, path, problems, depth)
    return None


def _build_type(
    word: str, entries: Mapping[str, Any], path: Path, problems: list[Problem], depth: int
) -> InputType | None:
    if "values" in entries and word != _ENUM:
        add_problem(problems, (*path, "values"), f"belongs to the type enum, and this is {word}: remove it.")
    if "of" in entries and word not in (_LIST, _MAP):
        add_problem(problems, (*path, "of"), f"belongs to the types list and map, and this is {word}: remove it.")
    if word in SCALARS:
        return SCALARS[word]
    if word == _ENUM:
        words = _read_words(entries.get("values"), (*path, "values"), problems)
        return InputType(word=word, leaf=InputChoice(words=words)) if words else None
    if entries.get("of") is None:
        add_problem(problems, (*path, "of"), f"is missing: say what the {word} holds, such as 'of: string'.")
        return None
    of = read_type(entries["of"], (*path, "of"), problems, depth=depth + 1)
    return InputType(word=word, leaf=_container(word, of.leaf), of=of) if of is not None else None


def _container(word: str, leaf: Leaf) -> Leaf:
    if word == _LIST:
        return ListOf(item=leaf, min_items=0, max_items=_MOST_ENTRIES, unique=False, max_problems=MOST_PROBLEMS)
    return DictOf(key=InputText(), value=leaf, max_entries=_MOST_ENTRIES, max_problems=MOST_PROBLEMS)


_WORDS = ListOf(item=InputText(), max_items=_MOST_WORDS, max_problems=MOST_PROBLEMS)


def _read_words(values: Any, path: Path, problems: list[Problem]) -> tuple[str, ...]:
    if not isinstance(values, list) or not 1 <= len(values) <= _MOST_WORDS:
        add_problem(problems, path, f"give a list of 1 to {_MOST_WORDS} words, such as [small, large].")
        return ()
    before = len(problems)
    words = _WORDS.read(values, path, problems)
    return tuple(words) if len(problems) == before else ()
