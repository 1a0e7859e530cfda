"""The front of the admin: the gate before everything that answers, and one log line and one count a request."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from flask import Flask, request

from admin import metrics
from admin.api.browsers import BrowserGuard
from admin.api.current import CALLER
from admin.api.failures import error_body, error_headers, translate
from admin.gate import Gate, accept_request_id

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

#: Where the environ of a request holds the route that answers it.
ROUTE = "rainbow.route"

_log = logging.getLogger("rainbow.requests")
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class Front:
    """Admits a request past the browser guard and the gate, passes it on with its caller, and observes the answer."""

    def __init__(self, gate: Gate, browser_guard: BrowserGuard, answer: WSGIApplication) -> None:
        self._gate = gate
        self._browser_guard = browser_guard
        self._answer = answer

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        started = time.perf_counter()
        method, path = environ["REQUEST_METHOD"], _path(environ["PATH_INFO"])
        request_id = accept_request_id(environ.get("HTTP_X_REQUEST_ID"))

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            headers.append(("X-Request-Id", request_id))
            seconds = time.perf_counter() - started
            _observe(method, path, environ.get(ROUTE, "unknown"), int(status[:3]), seconds, request_id)
            return start_response(status, headers, *exc_info)

        try:
            self._browser_guard.check(environ)
            environ[CALLER] = self._gate.admit(
                method, path, authorization=environ.get("HTTP_AUTHORIZATION"), request_id=request_id
            )
        except Exception as failure:
            environ[ROUTE] = self._gate.route(method, path)
            error = translate(failure, request_id)
            body = error_body(error, request_id)
            headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *error_headers(error)]
            start(f"{error.status} {HTTPStatus(error.status).phrase.upper()}", headers)
            return [] if method == "HEAD" else [body]
        return self._answer(environ, start)


def name_routes(app: Flask) -> None:
    """Let Flask say which route answers a request."""

    @app.before_request
    def name_route() -> None:
        if request.url_rule is not None:
            request.environ[ROUTE] = request.url_rule.rule


def _path(path_info: str) -> str:
    """A path as it is routed: WSGI passes UTF-8 as Latin-1, and slashes before the first name do not count."""
    text = path_info if path_info.isascii() else path_info.encode("latin-1").decode("utf-8", "replace")
    return text if text[1:2] != "/" and text[:1] == "/" else f"/{text.lstrip('/')}"


def _observe(method: str, path: str, route: str, status: int, seconds: float, request_id: str) -> None:
    metrics.count_request(method if method in _METHODS else "other", route, status, seconds)
    if _log.isEnabledFor(logging.INFO):
        _log.info(
            "request",
            extra={
                "request_id": request_id,
                "method": method,
                "path": path,
                "status": status,
                "milliseconds": round(seconds * 1000, 2),
            },
        )
