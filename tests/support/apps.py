"""The admin's app within a test's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask
from werkzeug.routing import Rule

from admin.services.context import Context
from admin.testing import admin_app

_compile = Rule._compile_builder
_compiled: dict[Any, Callable[..., tuple[str, str]]] = {}


def _remembered(self: Rule, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
    """How URLs are built by a rule, compiled once and not once an app: that is most of what making an app takes."""
    key = (self.rule, append_unknown, *self._trace, *(self.defaults or {}).items())
    if key not in _compiled:
        _compiled[key] = _compile(self, append_unknown)
    return _compiled[key]


Rule._compile_builder = _remembered  # type: ignore[method-assign]  # for speed alone; no test depends on it


@contextmanager
def opened_app(url: str, config_file: str | None = None, **sections: dict[str, Any]) -> Iterator[Flask]:
    """An app on a database, with the configured projects; it is closed in any case."""
    database = {"url": url, **sections.get("database", {})}
    with admin_app({**sections, "database": database}, config_file=config_file) as app:
        yield app


def context_of(app: Flask) -> Context:
    """What the services of an app work with."""
    context: Context = app.extensions["rainbow"]
    return context
