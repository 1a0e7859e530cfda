"""Compile routes, SQL statements and templates once in a process, not once for each app that a test makes.

For speed alone: this is most of what making an app takes, and no test depends on it.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from flask import Flask
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from sqlalchemy import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache
from werkzeug.routing import Rule

#: Statements of a dialect; there are about as many in the whole admin.
_MOST_STATEMENTS = 4000

_compile_rule = Rule.compile
_make_engine = Engine.__init__
_rules: dict[tuple[Any, ...], Rule] = {}
_statements: dict[type[DefaultDialect], LRUCache[Any, Any]] = {}


class CompiledTemplates(BytecodeCache):
    """The code of templates, by their name and source."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


def compile_once() -> None:
    """Let all apps of this process share what they compile."""
    Flask.jinja_options = {**Flask.jinja_options, "bytecode_cache": CompiledTemplates()}
    Rule.compile = _compiled_rule  # type: ignore[method-assign]
    Engine.__init__ = _engine_with_shared_statements  # type: ignore[method-assign]
    # Statements are kept by the dialect that they were compiled for, and each engine has a dialect of its own.
    DefaultDialect.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign]
    DefaultDialect.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign]


def _compiled_rule(self: Rule) -> None:
    key = (self.rule, self.subdomain, self.merge_slashes, *(self.defaults or {}).items())
    if key not in _rules:
        _compile_rule(self)
        _rules[key] = self
        return
    compiled = _rules[key]
    self._parts, self._trace, self._converters = compiled._parts, compiled._trace, compiled._converters
    self.arguments |= compiled.arguments
    self._build = compiled._build.__func__.__get__(self, None)  # type: ignore[attr-defined]
    self._build_unknown = compiled._build_unknown.__func__.__get__(self, None)  # type: ignore[attr-defined]


def _engine_with_shared_statements(
    self: Engine,
    pool: Any,
    dialect: Any,
    url: Any,
    logging_name: Any = None,
    echo: Any = None,
    query_cache_size: int = 500,
    execution_options: Any = None,
    hide_parameters: bool = False,
) -> None:
    """An engine's own constructor, whose parameters `create_engine` looks up, and then the shared statements."""
    _make_engine(self, pool, dialect, url, logging_name, echo, query_cache_size, execution_options, hide_parameters)
    self._compiled_cache = _statements.setdefault(type(dialect), LRUCache(_MOST_STATEMENTS))
