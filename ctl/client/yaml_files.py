"""
YAML and JSON files: documents as nodes that know their line and column, and configuration files as mappings.

In documents, what YAML offers beyond plain data is refused rather than interpreted: anchors, aliases, tags. Several
documents are read only where a set of them is asked for. Configuration files may use anchors. A key that is given
twice is refused everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ctl.client.errors import InvalidFile
from ctl.client.words import count

MIB = 1024 * 1024
MAX_BYTES = MIB
MAX_DEPTH = 20

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong with a file."""

    line: int  #: from 1
    column: int  #: from 1
    reason: str
    field: str = ""  #: dotted path, empty for the file as a whole

    @classmethod
    def at(cls, mark: Any, reason: str, field: str = "") -> Problem:
        return cls(line=mark.line + 1, column=mark.column + 1, reason=reason, field=field)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file's name and text."""

    name: str  #: as the user knows it
    text: str

    def refuse(self, problems: list[Problem]) -> InvalidFile:
        """The error that reports every problem, in the order of the file."""
        ordered = sorted(set(problems), key=lambda problem: (problem.line, problem.column))
        return InvalidFile(
            f"{self.name} cannot be used: {count(len(ordered), 'problem')}.",
            details=[
                {
                    "position": f"{self.name}:{problem.line}:{problem.column}",
                    **({"field": problem.field} if problem.field else {}),
                    "reason": problem.reason,
                }
                for problem in ordered
            ],
        )


def read_source(path: str, max_bytes: int = MAX_BYTES) -> Source:
    """The text of a file, or of stdin for `-`; what is too large is not read to its end."""
    name = "stdin" if path == "-" else path
    try:
        if path == "-" and sys.stdin is None:
            raise InvalidFile("stdin is closed: there is nothing to read.")
        if path == "-":
            content = sys.stdin.buffer.read(max_bytes + 1)
        elif (size := Path(path).stat().st_size) > max_bytes:
            raise InvalidFile(f"{name} is larger than {max_bytes // MIB} MiB: it has {size // MIB} MiB.")
        else:
            with Path(path).open("rb") as file:
                content = file.read(max_bytes + 1)
    except OSError as error:
        raise InvalidFile(f"{name} cannot be read: {error.strerror}.") from None
    if len(content) > max_bytes:
        raise InvalidFile(f"{name} is larger than {max_bytes // MIB} MiB.")
    try:
        return Source(name=name, text=content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        problem = Problem(line=line, column=column, reason="not UTF-8 text: save the file as UTF-8")
        raise Source(name=name, text="").refuse([problem]) from None


def load_mapping(source: Source, *, as_text: bool = False) -> dict[Any, Any]:
    """
    The keys and values of a configuration file; an empty file has none.

    With `as_text`, values are text as written: `timeout: 010` is "010".
    """
    loader = (_TEXT_LOADER if as_text else _LOADER)(source.text)
    try:
        node = loader.get_single_node()
        if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise source.refuse([Problem.at(node.start_mark, "the file must hold keys and values")])
        if problems := list(_repeated_keys(node, set())):
            raise source.refuse(problems)
        return dict(loader.construct_document(node))
    except yaml.YAMLError as error:
        raise source.refuse([_syntax_problem(source, error)]) from None
    finally:
        loader.dispose()


def _repeated_keys(node: yaml.Node, seen: set[yaml.Node], path: str = "") -> Iterator[Problem]:
    if node in seen or isinstance(node, yaml.ScalarNode):
        return
    seen.add(node)  # an alias leads to a node for the second time
    keys: set[str] = set()
    for key, part in node.value if isinstance(node, yaml.MappingNode) else ((None, part) for part in node.value):
        here = path
        if isinstance(key, yaml.ScalarNode):
            here = f"{path}.{key.value}" if path else key.value
            if key.value in keys:
                yield Problem.at(key.start_mark, "given twice: keep one of the two", here)
            keys.add(key.value)
        yield from _repeated_keys(part, seen, here)


def compose_mapping(source: Source) -> tuple[yaml.Node, list[Problem]]:
    """As `compose`, for files, which hold keys and values."""
    node, problems = compose(source)
    if not isinstance(node, yaml.MappingNode):
        reason = "the file must hold keys and values, such as `project: flyteexamples`"
        if isinstance(node, yaml.ScalarNode) and not node.value:
            reason = "the file is empty"
        raise source.refuse([*problems, Problem.at(node.start_mark, reason)])
    return node, problems


def compose(source: Source) -> tuple[yaml.Node, list[Problem]]:
    """
    The first document as nodes, and the problems with which it can still be read.

    Raises InvalidFile for problems with which it cannot.
    """
    nodes, problems = _nodes(source)
    if not nodes:
        problems.append(Problem(line=1, column=1, reason="the file is empty"))
        raise source.refuse(problems)
    return nodes[0], problems


def compose_all(source: Source) -> tuple[list[yaml.MappingNode], list[Problem]]:
    """
    Every document as nodes, and the problems with which they can still be read.

    A list at the top counts as that many documents, so that a JSON file can hold several; empty documents are
    skipped. Raises InvalidFile for problems that leave nothing to read.
    """
    nodes, problems = _nodes(source, may_be_many=True)
    documents: list[yaml.MappingNode] = []
    for node in nodes:
        for part in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(part, yaml.MappingNode):
                documents.append(part)
            elif not isinstance(part, yaml.ScalarNode) or part.value or part.style:
                problems.append(Problem.at(part.start_mark, "a document must hold keys and values"))
    return documents, problems


def _nodes(source: Source, *, may_be_many: bool = False) -> tuple[list[yaml.Node], list[Problem]]:
    """The documents of a file, or the first one, and the problems with which they can still be read."""
    problems, is_readable = _structure(source, may_be_many=may_be_many)
    if not is_readable:
        raise source.refuse(problems)
    nodes: list[yaml.Node] = []
    loader = _LOADER(source.text)
    try:
        while (may_be_many or not nodes) and loader.check_node():
            nodes.append(loader.get_node())
    finally:
        loader.dispose()
    return nodes, problems


def _structure(source: Source, *, may_be_many: bool) -> tuple[list[Problem], bool]:
    problems: list[Problem] = []
    depth = documents = 0
    is_readable = True
    try:
        for event in yaml.parse(source.text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1 and not may_be_many:
                    reason = (
                        "a second document starts here: one file sets one attribute; `rainbowctl apply -f` takes many"
                    )
                    problems.append(Problem.at(event.start_mark, reason))
                    break
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                problems.append(Problem.at(event.start_mark, f"nested deeper than {MAX_DEPTH} levels"))
                return problems, False
            reason = _beyond_data(event)
            if reason:
                problems.append(Problem.at(event.start_mark, reason))
                is_readable = False
    except yaml.YAMLError as error:
        return [*problems, _syntax_problem(source, error)], False
    return problems, is_readable


def _beyond_data(event: yaml.Event) -> str:
    if isinstance(event, yaml.AliasEvent):
        return f"aliases are not read: write the value of *{event.anchor} here"
    if getattr(event, "anchor", None):
        return f"anchors are not read: remove &{event.anchor}"  # type: ignore[attr-defined]
    if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)) and event.tag:
        return f"tags are not read: remove {event.tag.replace('tag:yaml.org,2002:', '!!')}"
    return ""


def _syntax_problem(source: Source, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        # For characters that YAML does not allow, the parser gives an offset instead of a line and column.
        position = getattr(error, "position", 0) or 0
        before = source.text[: position if isinstance(position, int) else 0]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return Problem(line=line, column=column, reason="a control character that YAML does not allow")
    written = [*source.text.split("\n"), ""][min(mark.line, source.text.count("\n"))]
    indent = written[: len(written) - len(written.lstrip())]
    if "\t" in indent or written[mark.column : mark.column + 1] == "\t":
        return Problem.at(mark, "a tab: YAML is indented with spaces")
    problem = str(getattr(error, "problem", None) or "not valid YAML")
    context = getattr(error, "context", None)
    return Problem.at(mark, f"not valid YAML: {problem}{f' {context}' if context else ''}")
