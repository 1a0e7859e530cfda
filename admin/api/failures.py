"""How every failure is answered: one shape, a name for programs, a remedy for people."""

from __future__ import annotations

import logging

from flask import Flask, Response, g, jsonify, request
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException

from admin.core.problems import Invalid
from admin.errors import (
    BodyTooLarge,
    Internal,
    InvalidRequest,
    MethodNotAllowed,
    PathNotFound,
    RainbowError,
    Unavailable,
)

_log = logging.getLogger("rainbow.failures")


def answer_failures(app: Flask) -> None:
    """Answer every error in the one shape."""

    @app.errorhandler(RainbowError)
    def known(error: RainbowError) -> Response:
        return failure(error)

    @app.errorhandler(Invalid)
    def invalid(error: Invalid) -> Response:
        return failure(InvalidRequest.of(error))

    @app.errorhandler(HTTPException)
    def http(error: HTTPException) -> Response:
        response = failure(_translated(error, request.max_content_length))
        for name, value in error.get_headers():
            if name == "Allow":
                response.headers[name] = value
        return response

    @app.errorhandler(OperationalError)
    @app.errorhandler(PoolTimeout)
    def database(error: Exception) -> Response:
        _log.exception("database", extra={"request_id": g.get("request_id")}, exc_info=error)
        return failure(Unavailable())

    @app.errorhandler(Exception)
    def unexpected(error: Exception) -> Response:
        _log.exception("unexpected", extra={"request_id": g.get("request_id")}, exc_info=error)
        return failure(Internal())


def failure(error: RainbowError) -> Response:
    """An error as an answer."""
    response = jsonify(
        {
            "code": error.code,
            "error": error.name,
            "message": error.message,
            "details": error.details,
            "request_id": g.get("request_id", ""),
        }
    )
    response.status_code = error.status
    if error.status == 429:
        response.headers["Retry-After"] = "60"
    if error.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="rainbow"'
    return response


def _translated(error: HTTPException, most_bytes: int | None) -> RainbowError:
    match error.code:
        case 404:
            return PathNotFound()
        case 405:
            return MethodNotAllowed()
        case 413:
            return BodyTooLarge(f"The request body is larger than {most_bytes} bytes (server.maxBodyBytes).")
        case code if code is not None and 400 <= code < 500:
            return InvalidRequest(f"The request cannot be understood: {error.description}")
    return Internal()
