"""The fast lane: what is asked most, answered past Flask where it is asked plainly.

What applies at a scope is asked for every execution, and Flask takes as long to pass the question on as it takes to
answer it. Whatever is unusual about a request goes the usual way, which answers the same and says what is wrong.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flask import Flask

from admin.api.observation import observed, request_id
from admin.core.problems import Invalid
from admin.core.settings.scopes import check_scope
from admin.errors import RainbowError
from admin.services.context import Context
from admin.services.effective import effective_text

PATH = "/api/v1/effective_attributes"
_KEY = r"(?:project|domain|workflow|launch_plan|resource_type)=[A-Za-z0-9_.-]{1,255}"
_PLAIN = re.compile(rf"{_KEY}(?:&{_KEY}){{0,4}}")

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


class FastLane:
    """Answers plain questions for effective attributes; all else is Flask's."""

    def __init__(self, app: Flask, token: str | None) -> None:
        self._usual = app.wsgi_app
        self._context: Context = app.extensions["rainbow"]
        self._bearer = None if token is None else f"Bearer {token}".encode()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != PATH or environ["REQUEST_METHOD"] != "GET" or not self._is_let_in(environ):
            return self._usual(environ, start_response)
        started = time.perf_counter()
        text = self._text(environ["QUERY_STRING"])
        if text is None:
            return self._usual(environ, start_response)
        named = request_id(environ.get("HTTP_X_REQUEST_ID", ""))
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text))), ("X-Request-Id", named)]
        observed("GET", PATH, PATH, 200, time.perf_counter() - started, named)
        start_response("200 OK", headers)
        return [text]

    def _is_let_in(self, environ: WSGIEnvironment) -> bool:
        given = environ.get("HTTP_AUTHORIZATION")
        if self._bearer is None:
            return given is None
        return given is not None and hmac.compare_digest(given.encode("latin-1"), self._bearer)

    def _text(self, query: str) -> bytes | None:
        keys = _keys(query)
        if keys is None:
            return None
        try:
            named = keys.pop("resource_type", None)
            only = None if named is None else self._context.settings.kinds.find(named)
            return effective_text(self._context, check_scope(**keys), only)
        except (Invalid, RainbowError):
            return None


def _keys(query: str) -> dict[str, str] | None:
    """What a query says plainly, each key once."""
    if _PLAIN.fullmatch(query) is None:
        return None
    pairs = query.split("&")
    keys: dict[str, str] = dict([pair.split("=") for pair in pairs])
    return keys if len(keys) == len(pairs) else None
