"""The admin's app within a test's own process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.store.execution_lists import ListLimits
from admin.testing import admin_app
from tests.support.compiled_once import compile_once

compile_once()


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


def set_limits(app: Flask, **limits: int) -> FlaskClient:
    """Let the lists of an app look at fewer executions; a client of it."""
    app.extensions["rainbow"] = replace(app.extensions["rainbow"], list_limits=ListLimits(**limits))
    return app.test_client()
