"""Effective attributes past Flask, where they are asked for plainly.

Every execution that some other system starts asks what applies at its scope. Answering that from memory takes 86 µs
here and 351 µs through Flask; `make bench` promises at least 0.6 of the rate of an empty route, which only this path
keeps. It takes a query whose values need no decoding, and leaves every other request, and every error, to Flask.

The text comes from memory (`services.effective.effective_text`); Flask's route computes its answer from the database.
While the database cannot be read, the last that is known is answered, with the header `Rainbow-Stale`.
`tests/integration/test_fast_lane.py` fails where the two differ, and where a plain query is not answered here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from admin.api.effective import STALE
from admin.api.front import ROUTE
from admin.core.problems import Invalid
from admin.core.settings.scopes import check_scope
from admin.errors import RainbowError
from admin.services.context import Context
from admin.services.effective import StaleText, effective_text, stale_text

PATH = "/api/v1/effective_attributes"
_PARAMETER = r"(?:project|domain|workflow|launch_plan|resource_type)=[A-Za-z0-9_.-]{1,255}"
_PLAIN = re.compile(rf"{_PARAMETER}(?:&{_PARAMETER}){{0,4}}")

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class FastLane:
    """Answers plain queries for effective attributes, of callers whom the gate has admitted."""

    def __init__(self, context: Context, otherwise: WSGIApplication) -> None:
        self._context = context
        self._otherwise = otherwise

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        text = None
        if environ["PATH_INFO"] == PATH and environ["REQUEST_METHOD"] == "GET":
            text = self._text(environ["QUERY_STRING"])
        if text is None:
            return self._otherwise(environ, start_response)
        environ[ROUTE] = PATH
        headers = [("Content-Type", "application/json")]
        if isinstance(text, StaleText):
            headers.append((STALE, str(text.seconds)))
            text = text.text
        start_response("200 OK", [*headers, ("Content-Length", str(len(text)))])
        return [text]

    def _text(self, query: str) -> bytes | StaleText | None:
        parameters = _parse(query)
        if parameters is None:
            return None
        try:
            word = parameters.pop("resource_type", None)
            kind = None if word is None else self._context.settings.kinds.find(word)
            scope = check_scope(**parameters)
            return effective_text(self._context, scope, kind) or stale_text(self._context, scope, kind)
        except (Invalid, RainbowError):
            return None


def _parse(query: str) -> dict[str, str] | None:
    """The parameters of a plain query, each given once; None for any other query."""
    if _PLAIN.fullmatch(query) is None:
        return None
    pairs = query.split("&")
    parameters: dict[str, str] = dict([pair.split("=") for pair in pairs])
    return parameters if len(parameters) == len(pairs) else None
