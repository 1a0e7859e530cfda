"""Template files of cluster resources: a directory of YAML files, or the built-in ones, read again when they change."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from admin.configuration.small_files import FileTooLarge, read_small
from admin.core.cluster_resources.templates import Template, TemplateDocument, TemplateSet, Tree, TypedText
from admin.core.cluster_resources.texts import Expression, FilledText, Variable, find_expressions
from admin.core.problems import shorten

_BUILT_IN = Path(__file__).parent / "cluster_resource_templates"
#: How long files are taken to be unchanged after they were looked at.
_FRESH_SECONDS = 1.0

_TAG = "tag:yaml.org,2002:"
_TYPES = ("int", "float", "bool")
_TAGS = frozenset({*_TYPES, "str", "null", "timestamp", "value"})
#: Constants of a plain style, in the types that Kubernetes' own YAML gives them.
_PLAIN = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?")

#: Kinds without a namespace: two namespaces may not make the same one.
_CLUSTER_KINDS = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "PersistentVolume",
        "PriorityClass",
        "StorageClass",
        "CustomResourceDefinition",
    }
)


class TemplateError(Exception):
    """What is wrong with a template, and in which line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class TemplateFiles:
    """The templates of a directory; without one, the built-in ones."""

    def __init__(self, directory: str | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._directory = Path(directory) if directory else _BUILT_IN
        self._is_built_in = directory is None
        self._monotonic = monotonic
        self._reading = threading.Lock()
        self._looked_at = float("-inf")
        self._state: object = None
        self._current = TemplateSet()

    def current(self) -> TemplateSet:
        """The templates as the files are now, or were a second ago."""
        now = self._monotonic()
        if now - self._looked_at >= _FRESH_SECONDS:
            with self._reading:
                self._read()
                self._looked_at = now
        return self._current

    def variables(self) -> frozenset[str] | None:
        """The variables that any template fills in; None while some file cannot be used, for it may have others."""
        templates = self.current()
        return None if templates.problems else templates.variables

    def _read(self) -> None:
        try:
            paths = sorted(path for path in self._directory.iterdir() if path.suffix in (".yaml", ".yml"))
            state: object = [(path, *_stamp(path)) for path in paths]
        except OSError as error:
            paths, state = [], str(error)
            self._current = TemplateSet(problems=(f"{self._directory}: cannot be read: {error.strerror}.",))
        if state == self._state:
            return
        self._state = state
        if paths:
            self._current = read_templates(paths, is_optional=self._is_built_in, source=str(self._directory))
        elif not isinstance(state, str):
            problem = f"{self._directory}: has no template: put files *.yaml there."
            self._current = TemplateSet(problems=(problem,), source=str(self._directory))


def _stamp(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def read_templates(paths: Sequence[Path], *, is_optional: bool = False, source: str = "") -> TemplateSet:
    """The templates of some files; what is wrong with others is told by file and line."""
    templates, problems = [], []
    digest = hashlib.sha256()
    for path in paths:
        try:
            content = read_small(path)
            digest.update(repr((path.name, content)).encode())
            documents = tuple(read_documents(content))
            templates.append(Template(file=path.name, documents=documents, is_optional=is_optional))
        except TemplateError as error:
            problems.append(f"{path.name}:{error.line}: {error}")
        except FileTooLarge as error:
            problems.append(f"{path.name}:1: {error}")
        except OSError as error:
            problems.append(f"{path.name}: cannot be read: {error.strerror}.")
    return TemplateSet(
        templates=tuple(templates),
        problems=tuple(problems),
        source="built in" if is_optional else source,
        digest=digest.hexdigest(),
    )


def read_documents(content: bytes) -> Iterator[TemplateDocument]:
    """The documents of a template file; TemplateError with the line of what is wrong."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise TemplateError(1, "is not text in UTF-8.") from error
    reader = _Reader(text)
    try:
        nodes = [node for node in yaml.compose_all(reader.marked, Loader=yaml.SafeLoader) if node is not None]
    except yaml.MarkedYAMLError as error:
        reader.refuse_expressions(None)
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise TemplateError(line, f"is not YAML: {error.problem}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise TemplateError(1, "is not YAML that can be read.") from error
    for node in nodes:
        tree = reader.tree(node)
        if tree is not None:
            yield _document(tree, node.start_mark.line + 1)


class _Reader:
    """Reads one file: each expression stands as a plain word while YAML is read, and as a variable afterwards."""

    def __init__(self, text: str) -> None:
        self._expressions = list(find_expressions(text))
        prefix = "rainbowVariable"
        while prefix in text:
            prefix += "X"
        self._marker = re.compile(f"{prefix}([0-9]+)_")
        pieces, end = [], 0
        for number, expression in enumerate(self._expressions):
            lines = "\n" * expression.text.count("\n")  # so that the lines after it keep their numbers
            pieces += [text[end : expression.start], f"{prefix}{number}_{lines}"]
            end = expression.start + len(expression.text)
        self.marked = "".join([*pieces, text[end:]])
        self._lines = text.split("\n")
        self._seen: set[int] = set()

    def refuse_expressions(self, numbers: Sequence[int] | None) -> None:
        """Refuse the first of some expressions that is not a variable; of all, None leaves out lines of comments."""
        for number, expression in enumerate(self._expressions):
            is_meant = not self._is_comment(expression) if numbers is None else number in numbers
            if is_meant and expression.variable is None:
                raise TemplateError(expression.line, expression.problem)

    def _is_comment(self, expression: Expression) -> bool:
        return self._lines[expression.line - 1].lstrip().startswith("#")

    def tree(self, node: yaml.Node) -> Tree:
        line = node.start_mark.line + 1
        if id(node) in self._seen:
            raise TemplateError(line, "aliases are not allowed: write the value out.")
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.tree(item) for item in node.value]
        return self._scalar(node, line)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Tree]:
        mapping: dict[str, Tree] = {}
        for key_node, value_node in node.value:
            line, key = key_node.start_mark.line + 1, key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or key == "<<":
                raise TemplateError(line, "this key is not plain text.")
            if self._marker.search(key):
                self.refuse_expressions([int(number) for number in self._marker.findall(key)])
                raise TemplateError(line, "a variable may stand in values, not in keys.")
            if key in mapping:
                raise TemplateError(line, f"the key '{shorten(key)}' stands twice.")
            mapping[key] = self.tree(value_node)
        return mapping

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        text, tag = str(node.value), node.tag.removeprefix(_TAG)
        if tag not in _TAGS:
            raise TemplateError(line, f"the tag {shorten(node.tag)} is not allowed.")
        filled = self._filled(text)
        if isinstance(filled, FilledText):
            # A text with a variable is a text in any style, whatever its value looks like, unless it has a tag.
            return TypedText(filled, tag) if tag in _TYPES else filled
        if tag != "str" and text in _PLAIN:
            return _PLAIN[text]
        if tag in _TYPES and _NUMBER.fullmatch(text):
            return float(text) if "." in text else int(text)
        return text

    def _filled(self, text: str) -> str | FilledText:
        """A text with its variables in place of the words that stood for them."""
        parts = self._marker.split(text)
        if len(parts) == 1:
            return text
        numbers = [int(number) for number in parts[1::2]]
        self.refuse_expressions(numbers)
        pieces: list[str | Variable] = []
        for index, part in enumerate(parts):
            if index % 2:
                pieces.append(Variable(str(self._expressions[int(part)].variable)))
            elif part:
                pieces.append(part)
        return FilledText(tuple(pieces), self._expressions[numbers[0]].line)


def _document(tree: Tree, line: int) -> TemplateDocument:
    """A document that is one Kubernetes object, of a kind and in a namespace that no value can change."""
    if not isinstance(tree, dict):
        raise TemplateError(line, "is not a Kubernetes object: a mapping with apiVersion, kind and metadata.")
    for key in ("apiVersion", "kind"):
        if not isinstance(tree.get(key), str) or not re.fullmatch(r"[A-Za-z0-9./-]+", tree[key]):
            raise TemplateError(line, f"{key} is missing, or is not a text without variables.")
    if tree["kind"] == "List" or "items" in tree:
        raise TemplateError(line, "is a list: write its objects one after the other, with --- between them.")
    metadata = tree.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str | FilledText) or name == "":
        raise TemplateError(line, "metadata.name is missing.")
    namespace = metadata.get("namespace")
    own = (Variable("namespace"),)
    if namespace is not None and (not isinstance(namespace, FilledText) or namespace.pieces != own):
        raise TemplateError(line, "metadata.namespace must be {{ namespace }}, or be left out.")
    is_own_name = isinstance(name, FilledText) and "namespace" in name.variables
    if tree["kind"] in (*_CLUSTER_KINDS, "Namespace") and not is_own_name:
        raise TemplateError(line, f"the name of a {tree['kind']} must have {{{{ namespace }}}} in it.")
    for key in ("status", "generateName"):
        if key in tree or key in metadata:
            raise TemplateError(line, f"{key} is not for templates.")
    return TemplateDocument(tree=tree, line=line)
