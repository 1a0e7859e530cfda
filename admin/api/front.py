"""The front of the admin: the gate before everything that answers, and one log line and one count a request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from flask import Flask, request

from admin import metrics
from admin.api.browsers import BrowserGuard
from admin.api.current import CALLER, FAILURE, READMIT
from admin.api.failures import ErrorPages, error_body, error_headers, note_refusal, status_line, translate
from admin.core.audit import RequestOrigin
from admin.core.identities import Identity
from admin.errors import Busy, RainbowError
from admin.gate import MOST_OPEN_BYTES, Caller, Gate, accept_request_id
from admin.services.audit import Auditor
from admin.services.rates import RateLimiter

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

#: Where the environ of a request holds the route that answers it.
ROUTE = "rainbow.route"
#: How many requests to one path that needs no token are answered at once.
MOST_ON_OPEN_PATH = 16

_HEAD = "rainbow.head"
_STATUS = "rainbow.status"
_ALIVE = "/healthz"

_log = logging.getLogger("rainbow.requests")
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class Front:
    """Admits a request past the browser guard and the gate, passes it on with its caller, and observes the answer.

    At most so many requests are answered at once. Paths that need no token have small shares of their own, each one,
    so that callers without a token cannot crowd out others; `/healthz` is always answered.
    """

    def __init__(
        self,
        gate: Gate,
        browser_guard: BrowserGuard,
        answer: WSGIApplication,
        *,
        most_at_once: int,
        max_body_bytes: int,
        auditor: Auditor | None = None,
        rate_limiter: RateLimiter | None = None,
        knows: Callable[[Identity, str], bool] = lambda _identity, _project: True,
        pages: ErrorPages | None = None,
    ) -> None:
        """`knows` tells whether a caller may know of a project; `pages` are the paths that answer with pages."""
        self._pages = pages
        self._auditor = auditor
        self._gate = gate
        self._browser_guard = browser_guard
        self._answer = answer
        self._max_body_bytes = max_body_bytes
        self._rate_limiter = rate_limiter if rate_limiter is not None and rate_limiter.limits_requests else None
        self._knows = knows
        self._places = [None] * most_at_once
        self._open_places: dict[str, list[None]] = {}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request; one that was not admitted before is admitted first."""
        if CALLER not in environ:
            refusal = self.admit(environ, start_response)
            if refusal is not None:
                return refusal
        places = self._places_for(environ[_HEAD])
        try:
            place = places.pop()  # of a list, which no two threads can do at once
        except IndexError:
            return self.refuse(environ, start_response, Busy())
        try:
            chunks = self._answer(environ, _identifying(environ, start_response))
        finally:
            places.append(place)
        _observe(environ)  # not before: an application that fails after it has started is answered once more
        # Not kept: its traceback has the request, which would then outlive its answer.
        self._note_denied(environ, environ.pop(FAILURE, None))
        return chunks

    def admit(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes] | None:
        """Admit a request by its head, whatever its body is; what answers it where it is refused."""
        head = environ[_HEAD] = _Head(
            method=environ["REQUEST_METHOD"],
            path=_path(environ["PATH_INFO"]),
            request_id=accept_request_id(environ.get("HTTP_X_REQUEST_ID")),
            started=time.perf_counter(),
        )
        pages = self._pages_of(head)
        try:
            self._browser_guard.check(environ)
            environ[READMIT] = partial(
                self._gate.admit,
                head.method,
                head.path,
                authorization=environ.get("HTTP_AUTHORIZATION"),
                request_id=head.request_id,
                more_tokens=environ.get("HTTP_RAINBOW_TOKENS"),
                act_as=environ.get("HTTP_RAINBOW_AS"),
                address=environ.get("REMOTE_ADDR", ""),
                is_forwarded=_is_forwarded(environ),
                session=None if pages is None else pages.session(environ),
            )
            environ[CALLER] = environ[READMIT]()
            if self._rate_limiter is not None:
                self._count(self._rate_limiter, head, environ)
        except Exception as failure:
            return self.refuse(environ, start_response, translate(failure, head.request_id))
        if self._auditor is not None and environ[CALLER].identity.token is not None:
            address = environ.get("REMOTE_ADDR") or None
            self._auditor.note_use(environ[CALLER].identity, address, partial(self._origin, environ))
        return None

    def _count(self, rate_limiter: RateLimiter, head: _Head, environ: WSGIEnvironment) -> None:
        """Count a request of its user and its project; probes, and agents, which have their pace, are not limited.

        Whoever may not know of a project takes nothing of its rate, and learns nothing from it.
        """
        identity = environ[CALLER].identity
        if identity.cluster is None and not self._gate.is_open(head.method, head.path):
            project = self._gate.project(head.method, head.path) or _asked_project(environ["QUERY_STRING"])
            is_known = project is not None and self._knows(identity, project)
            rate_limiter.count_request(identity.proven_user, project if is_known else None)

    def refuse(self, environ: WSGIEnvironment, start_response: StartResponse, error: RainbowError) -> list[bytes]:
        """What answers a request that is refused."""
        head: _Head = environ[_HEAD]
        environ[ROUTE] = self._gate.route(head.method, head.path)
        start = _identifying(environ, start_response)
        pages = self._pages_of(head)
        if pages is not None:
            note_refusal(error, head.request_id, head.method)
            chunks = list(pages.refuse(environ, error, head.request_id)(environ, start))
        else:
            body = error_body(error, head.request_id, head.method)
            headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *error_headers(error)]
            start(status_line(error), headers)
            chunks = [] if head.method == "HEAD" else [body]
        _observe(environ)
        self._note_denied(environ, error)
        return chunks

    def _pages_of(self, head: _Head) -> ErrorPages | None:
        """What answers a request whose errors are pages; None for all others."""
        return self._pages if self._pages is not None and self._pages.owns(head.path) else None

    def _note_denied(self, environ: WSGIEnvironment, error: RainbowError | None) -> None:
        """Note a request that was denied."""
        if self._auditor is None or error is None or not error.is_denial:
            return
        caller: Caller | None = environ.get(CALLER)
        if caller is not None or "HTTP_AUTHORIZATION" in environ or error.status == HTTPStatus.FORBIDDEN:
            self._auditor.note_denied(self._origin(environ), None if caller is None else caller.identity, error)

    def _origin(self, environ: WSGIEnvironment) -> RequestOrigin:
        head: _Head = environ[_HEAD]
        return RequestOrigin(
            address=environ.get("REMOTE_ADDR") or None,
            method=head.method if head.method in _METHODS else "other",
            route=environ.get(ROUTE) or self._gate.route(head.method, head.path),
            request_id=head.request_id,
        )

    def most_bytes(self, environ: WSGIEnvironment) -> int:
        """How large the body of a request may be."""
        head: _Head = environ[_HEAD]
        if self._gate.is_open(head.method, head.path):
            return min(MOST_OPEN_BYTES, self._max_body_bytes)
        if int(environ.get("CONTENT_LENGTH", self._max_body_bytes + 1)) <= self._max_body_bytes:
            return self._max_body_bytes
        return max(self._gate.most_bytes(head.method, head.path) or 0, self._max_body_bytes)

    def _places_for(self, head: _Head) -> list[None]:
        """The free places for a request, of which it takes one."""
        if head.path == _ALIVE:
            return [None]
        if not self._gate.is_open(head.method, head.path):
            return self._places
        return self._open_places.setdefault(self._gate.route(head.method, head.path), [None] * MOST_ON_OPEN_PATH)


class _Head(NamedTuple):
    """What the answer to a request needs to know of it."""

    method: str
    path: str
    request_id: str
    started: float


def _identifying(environ: WSGIEnvironment, start_response: StartResponse) -> Callable[..., Any]:
    """A `start_response` that gives the answer its id, and keeps its status."""
    head: _Head = environ[_HEAD]

    def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        headers.append(("X-Request-Id", head.request_id))
        environ[_STATUS] = int(status[:3])
        return start_response(status, headers, *exc_info)

    return start


def name_routes(app: Flask) -> None:
    """Let Flask say which route answers a request."""

    @app.before_request
    def name_route() -> None:
        if request.url_rule is not None:
            request.environ[ROUTE] = request.url_rule.rule


def _asked_project(query: str) -> str | None:
    """The project that a query names."""
    return dict(parse_qsl(query)).get("project") if "project=" in query else None


def _is_forwarded(environ: WSGIEnvironment) -> bool:
    """Whether a proxy says that it has passed a request on."""
    return (  # without a loop, for every request is asked
        "HTTP_X_FORWARDED_FOR" in environ
        or "HTTP_FORWARDED" in environ
        or "HTTP_VIA" in environ
        or "HTTP_X_REAL_IP" in environ
        or "HTTP_X_FORWARDED_HOST" in environ
        or "HTTP_X_FORWARDED_PROTO" in environ
        or "HTTP_X_FORWARDED_SERVER" in environ
        or "HTTP_CF_CONNECTING_IP" in environ
        or "HTTP_TRUE_CLIENT_IP" in environ
    )


def _path(path_info: str) -> str:
    """A path as it is routed: WSGI passes UTF-8 as Latin-1, and slashes before the first name do not count."""
    text = path_info if path_info.isascii() else path_info.encode("latin-1").decode("utf-8", "replace")
    return text if text[1:2] != "/" and text[:1] == "/" else f"/{text.lstrip('/')}"


def _observe(environ: WSGIEnvironment) -> None:
    """Count and log an answer."""
    head: _Head = environ[_HEAD]
    status: int = environ[_STATUS]
    seconds = time.perf_counter() - head.started
    metrics.count_request(
        head.method if head.method in _METHODS else "other", environ.get(ROUTE, "unknown"), status, seconds
    )
    if _log.isEnabledFor(logging.INFO):
        _log.info(
            "request",
            extra={
                "request_id": head.request_id,
                "method": head.method,
                "path": head.path,
                "status": status,
                "milliseconds": round(seconds * 1000, 2),
            },
        )
