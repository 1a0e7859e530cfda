"""Effective attributes and single attributes past Flask, where they are asked for plainly.

Every execution that some other system starts asks what applies at its scope. Answering that from memory takes 86 µs
here and 351 µs through Flask; `make bench` promises at least 0.6 of the rate of an empty route, which only this path
keeps, and the same of reading one attribute. It takes a query whose values need no decoding, and leaves every other
request, and every error, to Flask.

The answers come from memory (`services.effective.effective_text`, `services.attributes.known_attribute`); Flask's
routes compute theirs from the database. While the database cannot be read, the last that is known of effective
attributes is answered, with the header `Rainbow-Stale`. `tests/integration/test_fast_lane.py` fails where the two
differ, and where a plain query is not answered here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from admin.api.attributes import path_of
from admin.api.effective import STALE
from admin.api.front import ROUTE
from admin.core.problems import Invalid
from admin.core.settings.scopes import STORED_LEVELS, check_scope
from admin.errors import RainbowError
from admin.messages.attributes import ReadAnswer
from admin.messages.shared import encode
from admin.services.attributes import known_attribute
from admin.services.context import Context
from admin.services.effective import effective_text, stale_text

_PREFIX = "/api/v1"
PATH = f"{_PREFIX}/effective_attributes"
_VALUE = r"[A-Za-z0-9_.-]{1,255}"
_PARAMETER = rf"(?:project|domain|workflow|launch_plan|resource_type)={_VALUE}"
_PLAIN = re.compile(rf"{_PARAMETER}(?:&{_PARAMETER}){{0,4}}")
_ATTRIBUTE = re.compile(rf"{_PREFIX}/([a-z_]+)((?:/{_VALUE}){{1,4}})")
_KIND = re.compile(rf"resource_type=({_VALUE})")
#: The route and the scope's keys of each level, by the first part of its path.
_LEVELS = {path_of(level).split("/")[1]: (_PREFIX + path_of(level), level.keys) for level in STORED_LEVELS}

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class _Answer(NamedTuple):
    route: str
    text: bytes
    headers: tuple[tuple[str, str], ...] = ()


class FastLane:
    """Answers plain queries for attributes, of callers whom the gate has admitted."""

    def __init__(self, context: Context, otherwise: WSGIApplication) -> None:
        self._context = context
        self._otherwise = otherwise

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer = None
        if environ["REQUEST_METHOD"] == "GET":
            with suppress(Invalid, RainbowError):  # which Flask answers
                answer = self._answer(environ["PATH_INFO"], environ["QUERY_STRING"])
        if answer is None:
            return self._otherwise(environ, start_response)
        environ[ROUTE] = answer.route
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(answer.text))), *answer.headers]
        start_response("200 OK", headers)
        return [answer.text]

    def _answer(self, path: str, query: str) -> _Answer | None:
        if path == PATH:
            return self._effective(query)
        attribute, kind = _ATTRIBUTE.fullmatch(path), _KIND.fullmatch(query)
        if attribute is None or kind is None or attribute[1] not in _LEVELS:
            return None
        return self._attribute(attribute[1], attribute[2].split("/")[1:], kind[1])

    def _effective(self, query: str) -> _Answer | None:
        parameters = _parse(query)
        if parameters is None:
            return None
        word = parameters.pop("resource_type", None)
        kind = None if word is None else self._context.settings.kinds.find(word)
        scope = check_scope(**parameters)
        text = effective_text(self._context, scope, kind)
        if text is not None:
            return _Answer(PATH, text)
        stale = stale_text(self._context, scope, kind)
        return None if stale is None else _Answer(PATH, stale.text, ((STALE, str(stale.seconds)),))

    def _attribute(self, noun: str, names: list[str], word: str) -> _Answer | None:
        route, keys = _LEVELS[noun]
        if len(names) != len(keys):
            return None
        kind = self._context.settings.kinds.find(word)
        reading = known_attribute(self._context, kind, check_scope(**dict(zip(keys, names, strict=True))))
        if reading is None:
            return None
        tag = () if reading.row is None else (("ETag", f'"{reading.row.version}"'),)
        return _Answer(route, encode(ReadAnswer.from_reading(reading)), tag)


def _parse(query: str) -> dict[str, str] | None:
    """The parameters of a plain query, each given once; None for any other query."""
    if _PLAIN.fullmatch(query) is None:
        return None
    pairs = query.split("&")
    parameters: dict[str, str] = dict([pair.split("=") for pair in pairs])
    return parameters if len(parameters) == len(pairs) else None
