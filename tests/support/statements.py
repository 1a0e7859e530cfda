"""The statements that are sent to a database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from admin.services.context import Context


@contextmanager
def statements(context: Context) -> Iterator[list[str]]:
    """What is asked of the database meanwhile."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(context.database.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(context.database.engine, "before_cursor_execute", note)


@contextmanager
def transactions(context: Context) -> Iterator[list[Any]]:
    """The transactions that this thread begins meanwhile, in which something may be read."""
    begun: list[Any] = []
    this_thread = threading.get_ident()

    def note(connection: Any) -> None:
        if threading.get_ident() == this_thread:  # not those of an admin's loops
            begun.append(connection)

    event.listen(context.database.engine, "begin", note)
    try:
        yield begun
    finally:
        event.remove(context.database.engine, "begin", note)
