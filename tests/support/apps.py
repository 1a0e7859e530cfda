"""The admin's app within a test's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask
from werkzeug.routing import Rule

from admin.app import create_app
from admin.configuration import load_settings
from admin.services.context import Context
from admin.services.projects import seed_projects
from admin.store.database import db

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
    """An app on a database that is set up, with the configured projects; it is closed in any case."""
    overrides = {**sections, "database": {"url": url, **sections.get("database", {})}}
    app = create_app(load_settings(config_file, {}, overrides))
    context: Context = app.extensions["rainbow"]
    try:
        seed_projects(context)
        yield app
    finally:
        app.extensions["rainbow"].close()  # a test may have replaced the context
        with app.app_context():
            db.engine.dispose()
