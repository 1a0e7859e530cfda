"""Every request has an id, a line in the log and a place in the metrics."""

from __future__ import annotations

import logging
import re
import secrets
import time

from flask import Flask, Response, g, request

from admin import metrics

_log = logging.getLogger("rainbow.requests")
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def observe(app: Flask) -> None:
    """Give each request an id that its answer, its log line and its revision share."""

    @app.before_request
    def begin() -> None:
        g.request_id = request_id(request.headers.get("X-Request-Id", ""))
        g.started = time.perf_counter()

    @app.after_request
    def end(response: Response) -> Response:
        route = request.url_rule.rule if request.url_rule else "unknown"
        seconds = time.perf_counter() - g.started
        response.headers["X-Request-Id"] = g.request_id
        observed(request.method, request.path, route, response.status_code, seconds, g.request_id)
        return response


def request_id(given: str) -> str:
    """The id that a request brings, or one of its own."""
    return given if _ACCEPTABLE_ID.fullmatch(given) else secrets.token_hex(10)


def observed(method: str, path: str, route: str, status: int, seconds: float, named: str) -> None:
    """Count a request that was answered, and write its line."""
    metrics.count_request(method if method in _METHODS else "other", route, status, seconds)
    if _log.isEnabledFor(logging.INFO):
        _log.info(
            "request",
            extra={
                "request_id": named,
                "method": method,
                "path": path,
                "status": status,
                "milliseconds": round(seconds * 1000, 2),
            },
        )
