"""Texts of templates: `{{ name }}` is filled in, and nothing else is an expression."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from admin.core.problems import shorten

#: What template engines read as an expression, a statement or a comment; one that does not end is found as well.
_EXPRESSION = re.compile(r"\{\{(?:(?!\{\{|\}\}).)*\}\}|\{\{|\{%(?:(?!%\}).)*%\}|\{%|\{#(?:(?!#\}).)*#\}", re.DOTALL)
#: A variable between its braces; Flyte wants exactly one blank on either side.
_VARIABLE = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_.-]{0,254})[ \t]*\}\}")


class Expression(NamedTuple):
    """Something between braces in a template."""

    text: str
    line: int  #: the first is 1
    start: int  #: where it begins in the template
    variable: str | None  #: None for what is not a variable

    @property
    def problem(self) -> str:
        """What is wrong with one that is not a variable."""
        return (
            f"'{shorten(' '.join(self.text.split()))}' is not a variable: only {{{{ name }}}} is filled in; loops, "
            "conditions, filters and comments of template engines are not known."
        )


def find_expressions(text: str) -> Iterator[Expression]:
    """Everything in a template that looks like an expression, in its order."""
    line, counted = 1, 0
    for match in _EXPRESSION.finditer(text):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        variable = _VARIABLE.fullmatch(match.group())
        yield Expression(match.group(), line, match.start(), variable.group(1) if variable else None)


class Variable(NamedTuple):
    """A variable in a text."""

    name: str


class FilledText(NamedTuple):
    """A text with variables."""

    pieces: tuple[str | Variable, ...]
    line: int = 0  #: of the template's file

    @property
    def variables(self) -> list[str]:
        """The names of its variables, in their order."""
        return [piece.name for piece in self.pieces if isinstance(piece, Variable)]

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with its variables' values; KeyError where one has none. What a value holds is never expanded."""
        return "".join([values[piece.name] if isinstance(piece, Variable) else piece for piece in self.pieces])


def read_text(text: str) -> FilledText:
    """A text of one line, such as the name of namespaces; ValueError with what is wrong in it."""
    pieces: list[str | Variable] = []
    end = 0
    for expression in find_expressions(text):
        if expression.variable is None:
            raise ValueError(expression.problem)
        pieces += [text[end : expression.start], Variable(expression.variable)]
        end = expression.start + len(expression.text)
    return FilledText(tuple(piece for piece in (*pieces, text[end:]) if piece != ""), 1)
