"""Effective attributes, and reading and replacing single ones, past Flask where they are asked for plainly.

Every execution that some other system starts asks what applies at its scope. Answering that from memory takes 86 µs
here and 351 µs through Flask; `make bench` promises at least 0.6 of the rate of an empty route, which only this path
keeps, and the same of reading one attribute. It takes a query whose values need no decoding, and leaves every other
read, and every error of one, to Flask.

These answers come from memory (`services.effective.effective_text`, `services.attributes.known_attribute`); Flask's
routes compute theirs from the database. While the database cannot be read, the last that is known of effective
attributes is answered, with the header `Rainbow-Stale`.

Replacing an attribute is promised at 0.8 of the rate of a route that inserts a row. It is the same function here as in
Flask's route; that its body is read and its answer written without Flask makes it 1.6 ms of processor time instead of
2.3, with 16 clients on PostgreSQL. Errors are answered here too: what may have been written is not tried again.

`tests/integration/test_fast_lane.py` fails where the two ways differ, and where a plain request is not answered here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from admin.api.attributes import path_of, put_attribute
from admin.api.current import CALLER, FAILURE
from admin.api.effective import STALE
from admin.api.failures import error_body, error_headers, status_line, translate
from admin.api.front import ROUTE
from admin.api.scopes import names_quota
from admin.core.changes import Authorship, Expectation
from admin.core.problems import Invalid
from admin.core.settings.scopes import STORED_LEVELS, Scope, check_scope
from admin.core.strict_json import parse_body
from admin.errors import RainbowError
from admin.gate import Caller
from admin.messages.attributes import PutBody, ReadAnswer, WriteAnswer
from admin.messages.reading import or_none, read
from admin.messages.shared import encode
from admin.services.access import Access
from admin.services.attributes import known_attribute
from admin.services.changeable.attributes import QUOTAS_WRITE
from admin.services.changeable.base import ChangeOptions
from admin.services.context import Context
from admin.services.effective import effective_text, stale_text
from admin.services.visibility import access_of

_PREFIX = "/api/v1"
PATH = f"{_PREFIX}/effective_attributes"
_VALUE = r"[A-Za-z0-9_.-]{1,255}"
_PARAMETER = rf"(?:project|domain|workflow|launch_plan|resource_type)={_VALUE}"
_PLAIN = re.compile(rf"{_PARAMETER}(?:&{_PARAMETER}){{0,4}}")
_ATTRIBUTE = re.compile(rf"{_PREFIX}/([a-z_]+)((?:/{_VALUE}){{1,4}})")
_KIND = re.compile(rf"resource_type=({_VALUE})")
#: The permissions of the routes that it answers for.
_READING, _WRITING = "attributes.read", "attributes.write"
#: Headers with which a PUT is not plain.
_LEFT_TO_FLASK = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH", "HTTP_TRANSFER_ENCODING")
_SMALL_LENGTH = re.compile("[1-9][0-9]{0,3}")
#: The route and the scope's keys of each level, by the first part of its path.
LEVELS = {path_of(level).split("/")[1]: (_PREFIX + path_of(level), level.keys) for level in STORED_LEVELS}

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class _Answer(NamedTuple):
    route: str
    text: bytes
    headers: tuple[tuple[str, str], ...] = ()
    status: str = "200 OK"


class FastLane:
    """Answers plain requests for attributes, of callers whom the gate has admitted."""

    def __init__(self, context_of_app: Callable[[], Context], otherwise: WSGIApplication) -> None:
        self._context_of_app = context_of_app
        self._otherwise = otherwise

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer = None
        if environ["REQUEST_METHOD"] == "GET":
            with suppress(Invalid, RainbowError, SQLAlchemyError):  # which Flask answers
                answer = self._answer(environ["PATH_INFO"], environ["QUERY_STRING"], self._access(environ))
        elif environ["REQUEST_METHOD"] == "PUT":
            answer = self._put(environ)
        if answer is None:
            return self._otherwise(environ, start_response)
        environ[ROUTE] = answer.route
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(answer.text))), *answer.headers]
        start_response(answer.status, headers)
        return [answer.text]

    @property
    def _context(self) -> Context:
        return self._context_of_app()

    def _access(self, environ: WSGIEnvironment) -> Access:
        caller: Caller = environ[CALLER]
        return access_of(self._context, caller.identity)

    def _answer(self, path: str, query: str, access: Access) -> _Answer | None:
        if path == PATH:
            return self._effective(query, access)
        attribute, kind = _attribute_path(path), _KIND.fullmatch(query)
        return None if attribute is None or kind is None else self._attribute(attribute, kind[1], access)

    def _effective(self, query: str, access: Access) -> _Answer | None:
        parameters = _parse(query)
        if parameters is None:
            return None
        word = parameters.pop("resource_type", None)
        kind = None if word is None else self._context.settings.kinds.find(word)
        scope = check_scope(**parameters)
        access.check(_READING, scope)
        text = effective_text(self._context, scope, kind)
        if text is not None:
            return _Answer(PATH, text)
        stale = stale_text(self._context, scope, kind)
        return None if stale is None else _Answer(PATH, stale.text, ((STALE, str(stale.seconds)),))

    def _attribute(self, attribute: _AttributePath, word: str, access: Access) -> _Answer | None:
        kind, scope = self._context.settings.kinds.find(word), check_scope(**attribute.keys)
        access.check(_READING, scope)
        reading = known_attribute(self._context, kind, scope)
        if reading is None:
            return None
        tag = _tag(None if reading.row is None else reading.row.version)
        return _Answer(attribute.route, encode(ReadAnswer.from_reading(reading)), tag)

    def _put(self, environ: WSGIEnvironment) -> _Answer | None:
        attribute = _attribute_path(environ["PATH_INFO"])
        if attribute is None or not _is_plain_write(environ, self._context.settings.server.max_body_bytes):
            return None
        caller: Caller = environ[CALLER]
        try:
            body = read(PutBody, parse_body(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
            author, claimed_by, proof = caller.actor(or_none(body.claimed_by))
            authorship = Authorship(
                author=author,
                claimed_by=claimed_by,
                proof=proof,
                message=or_none(body.message),
                request_id=caller.request_id,
            )
            access, scope = self._access(environ), Scope(**attribute.keys)
            if not access.allows(QUOTAS_WRITE, scope):  # the row is checked by its kind when it is drafted
                access.check(QUOTAS_WRITE if names_quota(None, body) else _WRITING, scope)
            options = ChangeOptions(authorship=authorship, access=access)
            kind, changed = put_attribute(self._context, check_scope(**attribute.keys), body, Expectation(), options)
        except Exception as failure:
            error = environ[FAILURE] = translate(failure, caller.request_id)
            text, headers = error_body(error, caller.request_id, environ["REQUEST_METHOD"]), tuple(error_headers(error))
            return _Answer(attribute.route, text, headers, status_line(error))
        text = encode(WriteAnswer.from_changed(kind, changed))
        return _Answer(attribute.route, text, _tag(changed.rows[0].version))


class _AttributePath(NamedTuple):
    """The scope that a path names, unchecked, and the route of its level."""

    route: str
    keys: dict[str, str]


def _attribute_path(path: str) -> _AttributePath | None:
    attribute = _ATTRIBUTE.fullmatch(path)
    if attribute is None or attribute[1] not in LEVELS:
        return None
    route, keys = LEVELS[attribute[1]]
    names = attribute[2].split("/")[1:]
    return _AttributePath(route, dict(zip(keys, names, strict=True))) if len(names) == len(keys) else None


def _is_plain_write(environ: WSGIEnvironment, max_body_bytes: int) -> bool:
    """Whether a request has a small body of JSON whose length it says, no query and no conditions."""
    length = environ.get("CONTENT_LENGTH", "")
    return (
        not environ["QUERY_STRING"]
        and environ.get("CONTENT_TYPE") == "application/json"
        and _SMALL_LENGTH.fullmatch(length) is not None
        and int(length) <= max_body_bytes
        and not any(header in environ for header in _LEFT_TO_FLASK)
    )


def _tag(version: int | None) -> tuple[tuple[str, str], ...]:
    return () if version is None else (("ETag", f'"{version}"'),)


def _parse(query: str) -> dict[str, str] | None:
    """The parameters of a plain query, each given once; None for any other query."""
    if _PLAIN.fullmatch(query) is None:
        return None
    pairs = query.split("&")
    parameters: dict[str, str] = dict([pair.split("=") for pair in pairs])
    return parameters if len(parameters) == len(pairs) else None
