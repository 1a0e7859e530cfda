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
        given = request.headers.get("X-Request-Id", "")
        g.request_id = given if _ACCEPTABLE_ID.fullmatch(given) else secrets.token_hex(10)
        g.started = time.perf_counter()

    @app.after_request
    def end(response: Response) -> Response:
        seconds = time.perf_counter() - g.started
        route = request.url_rule.rule if request.url_rule else "unknown"
        method = request.method if request.method in _METHODS else "other"
        metrics.requests_total.labels(method, route, response.status_code).inc()
        metrics.request_seconds.labels(method, route).observe(seconds)
        response.headers["X-Request-Id"] = g.request_id
        _log.info(
            "request",
            extra={
                "request_id": g.request_id,
                "method": request.method,
                "path": request.path,
                "status": response.status_code,
                "milliseconds": round(seconds * 1000, 2),
            },
        )
        return response
