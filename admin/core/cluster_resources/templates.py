"""Templates: the documents of a template file, in which the values of variables are filled into texts alone.

A file is read as YAML before anything is filled in, so that a value is always part of one text: it can neither end it
nor begin another key, line or document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from admin.core.cluster_resources.texts import FilledText
from admin.core.problems import shorten

#: Variables that the platform fills in, and nobody else.
SYSTEM_VARIABLES = ("namespace", "project", "domain")
#: Values of these variables are lists of names, separated by commas; an entry of a list is repeated for each.
LISTS = frozenset({"imagePullSecrets"})


@dataclass(frozen=True)
class TypedText:
    """A text with the tag !!int, !!float or !!bool, which is read as a number or boolean after it is filled."""

    text: FilledText
    tag: str

    def read(self, filled: str) -> Any:
        """Its value; ValueError where the text is of another type, without the text, which may be hidden."""
        if self.tag == "int" and re.fullmatch(r"-?[0-9]{1,18}", filled):
            return int(filled)
        if self.tag == "float" and re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", filled):
            return float(filled)
        if self.tag == "bool" and filled in ("true", "false"):
            return filled == "true"
        raise ValueError(f"is not of the type !!{self.tag}.")


#: A document with its texts in place: mappings, lists, constants, texts to fill.
Tree = Any


@dataclass(frozen=True, kw_only=True)
class TemplateDocument:
    """One Kubernetes object of a template file."""

    tree: Mapping[str, Tree]
    line: int

    @cached_property
    def variables(self) -> frozenset[str]:
        return frozenset(name for text in texts_in(self.tree) for name in text.variables)


@dataclass(frozen=True, kw_only=True)
class Template:
    """A template file."""

    file: str  #: its name
    documents: tuple[TemplateDocument, ...]
    #: Of a built-in one: a field whose variable has no value is left out, and so is a document without any value.
    is_optional: bool = False

    @cached_property
    def variables(self) -> frozenset[str]:
        return frozenset().union(*(document.variables for document in self.documents))


@dataclass(frozen=True, kw_only=True)
class TemplateSet:
    """All templates, and what is wrong with the files that cannot be used."""

    templates: tuple[Template, ...] = ()
    problems: tuple[str, ...] = ()  #: each with its file and line
    source: str = "built in"  #: the directory, or that they are built in
    digest: str = field(default="", kw_only=True)  #: changes with any of them

    @cached_property
    def variables(self) -> frozenset[str]:
        """The variables that any template uses."""
        return frozenset().union(*(template.variables for template in self.templates))


def texts_in(tree: Tree) -> Iterator[FilledText]:
    """The texts to fill of a document."""
    match tree:
        case TypedText():
            yield tree.text
        case FilledText():
            yield tree
        case Mapping():
            for value in tree.values():
                yield from texts_in(value)
        case list() | tuple():
            for value in tree:
                yield from texts_in(value)


class _LeftOut:
    """Stands for a field that is left out."""


_LEFT_OUT = _LeftOut()


@dataclass
class Filling:
    """Fills one template with the values of one namespace."""

    template: Template
    values: Mapping[str, str]
    shown: Mapping[str, str]  #: the values as problems may show them
    missing: list[tuple[int, str]] = field(default_factory=list)  #: variables without a value, each with its line
    problems: list[str] = field(default_factory=list)  #: each with file and line
    filled: int = 0  #: how many texts have a value that the platform does not fill in itself

    def documents(self) -> Iterator[tuple[TemplateDocument, dict[str, Any]]]:
        """The objects of the template; what is wrong is noted."""
        for document in self.template.documents:
            self.filled = 0
            tree = self._fill(document.tree, self.values)
            is_empty = self.template.is_optional and not self.filled and document.variables - set(SYSTEM_VARIABLES)
            if isinstance(tree, dict) and not is_empty:
                yield document, tree

    def _fill(self, tree: Tree, values: Mapping[str, str]) -> Any:
        match tree:
            case FilledText():
                return self._text(tree, values)
            case TypedText():
                text = self._text(tree.text, values)
                try:
                    return tree.read(text) if isinstance(text, str) else text
                except ValueError as error:
                    shown = shorten(tree.text.fill({**values, **self.shown}))
                    self.problems.append(f"{self.template.file}:{tree.text.line}: '{shown}' {error}")
                    return _LEFT_OUT
            case dict():
                mapping = {key: self._fill(value, values) for key, value in tree.items()}
                return _kept(tree, {key: value for key, value in mapping.items() if value is not _LEFT_OUT})
            case list():
                filled = [self._fill(entry, each) for entry in tree for each in self._each(entry, values)]
                return _kept(tree, [item for item in filled if item is not _LEFT_OUT])
        return tree

    def _each(self, entry: Tree, values: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """The values for an entry of a list: once for each name where a variable of it is a list of names."""
        if not self.template.is_optional:
            return [values]
        listed = [name for text in texts_in(entry) for name in text.variables if name in LISTS and name in values]
        if not listed:
            return [values]
        names = [name.strip() for name in values[listed[0]].split(",")]
        return [{**values, listed[0]: name} for name in names if name]

    def _text(self, text: FilledText, values: Mapping[str, str]) -> str | _LeftOut:
        absent = [name for name in text.variables if name not in values]
        if absent:
            if not self.template.is_optional:
                self.missing += [(text.line, name) for name in absent]
            return _LEFT_OUT
        if any(name not in SYSTEM_VARIABLES for name in text.variables):
            self.filled += 1
        return text.fill(values)


def _kept(tree: Tree, filled: Any) -> Any:
    """A mapping or list, left out where nothing is left of what it had."""
    return filled if filled or not tree else _LEFT_OUT
