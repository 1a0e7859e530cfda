"""How every failure is answered: one shape, a name for programs, a remedy for people."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from flask import Flask, Response, current_app, request
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from admin.api.current import FAILURE, caller
from admin.core.problems import Invalid, shorten
from admin.errors import (
    BodyTooLarge,
    Internal,
    InvalidRequest,
    MethodNotAllowed,
    PathNotFound,
    RainbowError,
)
from admin.messages.errors import ErrorAnswer
from admin.messages.shared import encode
from admin.services.database_failures import explain

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_log = logging.getLogger("rainbow.failures")


class ErrorPages(Protocol):
    """Paths whose errors are answered with pages."""

    def owns(self, path: str) -> bool:
        """Whether a path is one of them."""

    def session(self, environ: WSGIEnvironment) -> str | None:
        """The id of the session that a request to such a path brings."""

    def answer(self, error: RainbowError, request_id: str) -> Response:
        """The page that answers the request that Flask knows."""

    def refuse(self, environ: WSGIEnvironment, error: RainbowError, request_id: str) -> Response:
        """The same for a request that did not get as far as Flask."""


#: How much of a refusal a line of the log has.
_MOST_FIELDS, _MOST_CHARACTERS = 5, 500


def translate(failure: Exception, request_id: str) -> RainbowError:
    """The error that answers a failure; one that is ours to mend is written to the log."""
    match failure:
        case RainbowError():
            return failure
        case Invalid():
            return InvalidRequest.of(failure)
        case SQLAlchemyError() if error := explain(failure):
            _log.error("database", extra={"request_id": request_id, "error": error.name}, exc_info=failure)
            return error
    _log.exception("unexpected", extra={"request_id": request_id}, exc_info=failure)
    return Internal()


def note_refusal(error: RainbowError, request_id: str, method: str) -> None:
    """Write to the log why something was refused; a failure of ours is there already, and nothing to read is none."""
    is_absence = error.status == HTTPStatus.NOT_FOUND and method in ("GET", "HEAD")
    if error.status >= 500 or is_absence or not _log.isEnabledFor(logging.INFO):
        return
    fields = list(dict.fromkeys(str(detail["field"]) for detail in error.details if detail.get("field")))
    _log.info(
        "refused",
        extra={
            "request_id": request_id,
            "status": error.status,
            "error": error.name,
            "field": shorten(", ".join(fields[:_MOST_FIELDS]), _MOST_CHARACTERS) if fields else None,
            "reason": shorten(error.message, _MOST_CHARACTERS),
        },
    )


def error_body(error: RainbowError, request_id: str, method: str) -> bytes:
    """The JSON that answers an error, which is noted in the log."""
    note_refusal(error, request_id, method)
    return encode(ErrorAnswer.from_error(error, request_id))


def status_line(error: RainbowError) -> str:
    """The status that answers an error, with its phrase."""
    return f"{error.status} {HTTPStatus(error.status).phrase.upper()}"


def error_headers(error: RainbowError) -> list[tuple[str, str]]:
    """The headers that some errors are answered with."""
    if error.retry_after is not None:
        return [("Retry-After", str(error.retry_after))]
    return [("WWW-Authenticate", 'Bearer realm="rainbow"')] if error.status == 401 else []


def body_too_large(most_bytes: int | None, remedy: str = "") -> BodyTooLarge:
    """The error for a body that is larger than so many bytes; it names the setting where that is the limit."""
    setting = " (server.maxBodyBytes)" if most_bytes == current_app.config["MAX_CONTENT_LENGTH"] else ""
    return BodyTooLarge(f"The request body is larger than {most_bytes} bytes{setting}. {remedy}".rstrip())


def answer_failures(app: Flask, pages: ErrorPages) -> None:
    """Answer every failure within Flask in the one shape; those of pages with a page that says the same."""

    @app.errorhandler(HTTPException)
    def http(failure: HTTPException) -> Response:
        response = respond(_translate_http(failure, request.max_content_length))
        for name, value in failure.get_headers():
            if name == "Allow":
                response.headers[name] = value
        return response

    @app.errorhandler(Exception)
    def any_other(failure: Exception) -> Response:
        return respond(translate(failure, caller().request_id))

    def respond(error: RainbowError) -> Response:
        request.environ[FAILURE] = error
        if pages.owns(request.path):
            note_refusal(error, caller().request_id, request.method)
            return pages.answer(error, caller().request_id)
        body = error_body(error, caller().request_id, request.method)
        response = Response(body, status=error.status, mimetype="application/json")
        response.headers.extend(error_headers(error))
        return response


def _translate_http(failure: HTTPException, most_bytes: int | None) -> RainbowError:
    match failure.code:
        case 404:
            return PathNotFound()
        case 405:
            return MethodNotAllowed()
        case 413:
            return body_too_large(most_bytes)
        case code if code is not None and 400 <= code < 500:
            return InvalidRequest(f"The request cannot be understood: {failure.description}")
    return Internal()
