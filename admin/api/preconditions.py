"""The headers by which a write says what it expects of the row that it changes."""

from __future__ import annotations

from flask import request

from admin.core.changes import Expectation
from admin.messages.preconditions import read_expectation

WRITE_HEADERS = ("If-Match", "If-None-Match")


def expectation() -> Expectation:
    """What the request's headers expect."""
    return read_expectation(request.headers.get("If-Match"), request.headers.get("If-None-Match"))
