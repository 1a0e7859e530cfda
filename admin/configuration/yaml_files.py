"""Strict YAML, for configuration and forms: no aliases, no repeated keys, no `no` read as false, no 010 read as 8."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from admin.core.problems import invalid

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")
)


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping that a configuration file holds; Invalid with the line and column of what is wrong."""
    try:
        document = read_text(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise invalid(str(path), f"cannot be read: {error.strerror}.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise invalid(where, f"{error.problem}.") from error
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise invalid(str(path), "is not YAML in UTF-8 that can be read.") from error
    if not isinstance(document, dict | None):
        raise invalid(str(path), "is not a mapping of configuration keys.")
    return document or {}


def read_text(text: str) -> Any:
    """The value that a text holds; YAMLError or RecursionError where it is no YAML, or could mean two things."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    return None if node is None else _value(node, set())


def read_documents(text: str) -> list[Any]:
    """The values of the documents in a text, without empty ones.

    YAMLError or RecursionError where it is no YAML, or could mean two things.
    """
    values = [_value(node, set()) for node in yaml.compose_all(text, Loader=yaml.SafeLoader)]
    return [value for value in values if value is not None]


def _value(node: yaml.Node, seen: set[int]) -> Any:
    if id(node) in seen:
        raise yaml.MarkedYAMLError(problem="aliases are not allowed: write the value out", problem_mark=node.start_mark)
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, seen)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, seen) for item in node.value]
    if node.tag not in _PLAIN_TAGS:
        raise yaml.MarkedYAMLError(problem=f"the tag {node.tag} is not allowed", problem_mark=node.start_mark)
    return _scalar(str(node.value)) if getattr(node, "style", None) is None else str(node.value)


def _mapping(node: yaml.MappingNode, seen: set[int]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if not isinstance(key_node, yaml.ScalarNode) or key in mapping or key == "<<":
            problem = f"the key '{key}' stands twice" if key in mapping else "this key is not plain text"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        mapping[key] = _value(value_node, seen)
    return mapping


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    return json.loads(text) if _NUMBER.fullmatch(text) and len(text) < 40 else text
