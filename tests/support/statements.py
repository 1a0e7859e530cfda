"""The statements that are sent to a database."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from admin import gate
from admin.services.context import Context
from admin.store import cache

#: Code that reads for itself every half second: who the caller is, and what is kept in memory of rights and settings.
_FOLLOWING = (gate.__file__, cache.__path__[0])


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
    """The transactions that this thread begins meanwhile to read what it answers."""
    begun: list[Any] = []
    this_thread = threading.get_ident()

    def note(connection: Any) -> None:
        if threading.get_ident() != this_thread:  # of an admin's loops
            return
        if not any(frame.f_code.co_filename.startswith(_FOLLOWING) for frame, _ in traceback.walk_stack(None)):
            begun.append(connection)

    event.listen(context.database.engine, "begin", note)
    try:
        yield begun
    finally:
        event.remove(context.database.engine, "begin", note)
