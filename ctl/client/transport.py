"""
HTTP with the admin: what is sent, what is tried again, and the errors.

What is tried again, with growing pauses and jitter, `Retry-After` honoured:

* reads and dry runs, when the connection failed or the answer was 429, 502, 503 or 504; not after a timeout,
  because the request itself may be slow;
* writes, only when no connection was established, so that nothing was sent, or the admin says that it did nothing
  because there were too many requests (429 `too_many_requests`).

A wrong token is not tried again, also where too many of them were sent (429 `too_many_attempts`), nor a creation that
a quota has no room for (429 `quota_exceeded`).

A write that may have arrived is never repeated, with a version or without: its second answer would be a conflict with
itself. It ends as `Unanswered`, which says to look first.

rainbowctl and the agent both talk through it. A program that tries again by its own rules, as the agent does, takes
`retries=0` and marks its calls `is_safe`, so that each failure to get an answer is `Unreachable`:

    transport = Transport(
        "https://rainbow.example.org",
        token=read_token,  # called for each request, so that a new token counts at once
        ca_file="/etc/rainbow/ca.pem",
        retries=0,
        connect_timeout=5.0,
        user_agent="rainbow-agent",
        replace_bad_text=True,
        remedies=Remedies(check="Check that it runs, and `endpoint`.", trust="Give its authority as `caFile`."),
    )
    answer = transport.call("POST", "clusters/a/sync", body=report, is_safe=True, timeout=35.0)

Several threads may share a transport; each takes a connection of its own while it waits.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ctl.client import errors
from ctl.client.connections import REMEDIES, Answer, Connections, NoAnswer, Remedies
from ctl.client.endpoints import Endpoint, parse_endpoint
from ctl.client.errors import ClientError, InvalidInput, ServerError, Unreachable

if TYPE_CHECKING:
    from ctl.client.proxies import Proxy

_BY_STATUS: dict[int, type[ClientError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    412: errors.Conflict,
    429: Unreachable,
    502: Unreachable,
    503: Unreachable,
    504: Unreachable,
}
#: The ids that the admin takes.
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_PASSING = {429, 502, 503, 504}
#: Characters above which servers may refuse an address for its length.
_LONG_ADDRESS = 4000
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 20.0
_CONNECT_SECONDS = 10.0


def new_request_id() -> str:
    """An id that no other request has."""
    return os.urandom(8).hex()


class Transport:
    """Sends requests to one admin and turns every failure into a ClientError."""

    def __init__(
        self,
        endpoint: str,
        *,
        token: str | Callable[[], str] | None = None,
        ca_file: str | None = None,
        timeout: float = 30.0,
        connect_timeout: float = _CONNECT_SECONDS,
        retries: int = 2,
        user_agent: str = "rainbowctl",
        replace_bad_text: bool = False,
        remedies: Remedies = REMEDIES,
        on_stale: Callable[[int], None] | None = None,
        as_user: str | None = None,
        request_id: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        As `Client`, with seconds to wait for a connection (`connect_timeout`) of their own.

        A function as `token` is called for each request. `replace_bad_text` sends `?` for invalid Unicode, as file
        names may hold; without it the admin refuses such a body. `on_stale` is called with the age in seconds of an
        answer that the admin gives from its memory, while its database is away.
        """
        parsed = parse_endpoint(endpoint, has_ca_file=ca_file is not None)
        self.url = parsed.url
        trusted = None if ca_file is None else _checked_ca_file(Path(ca_file).expanduser())
        self._connections = Connections(parsed.url, ca_file=trusted, proxy=find_proxy_of(parsed), remedies=remedies)
        self._headers = {"Accept": "application/json", "User-Agent": user_agent}
        self._token = token
        if isinstance(token, str):
            self._headers |= _bearer(token)
        if as_user is not None:
            self._headers |= _acting_as(as_user)
        self._request_id = None if request_id is None else _checked_request_id(request_id)
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._replace_bad_text = replace_bad_text
        self._retries = retries
        self._on_stale = on_stale
        self._sleep = sleep
        self.is_partial = False  #: whether an answer had only what the caller may see of what was asked for

    def close(self) -> None:
        self._connections.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        is_safe: bool = False,
        timeout: float | None = None,
        more_seconds: float = 0.0,
        retries: int | None = None,
    ) -> dict[str, Any]:
        """
        The JSON answer to one request; a path is below `/api/v1/` unless it starts with a slash.

        `is_safe` marks what may be sent twice; `timeout` and `retries` stand for the usual ones, and `more_seconds` is
        how much longer the answer may take.
        """
        request_id = self._request_id or new_request_id()
        sent = {**self._headers, **(headers or {}), "X-Request-Id": request_id}
        if callable(self._token):
            sent |= _bearer(self._token())
        content = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            content = _json(body, self._replace_bad_text)
        parameters = {key: value for key, value in (query or {}).items() if value is not None}
        url_path = path if path.startswith("/") else f"/api/v1/{path}"
        if parameters:
            url_path += f"?{urlencode(parameters, doseq=True)}"
        seconds = self._timeout if timeout is None else timeout
        limits = (min(seconds, self._connect_timeout), seconds + more_seconds)
        last_attempt = self._retries if retries is None else retries
        for attempt in range(last_attempt + 1):
            is_last = attempt == last_attempt
            try:
                answer = self._connections.ask(method, url_path, sent, content, timeout=limits)
            except NoAnswer as error:
                if is_last or not error.may_pass or (error.was_sent and not is_safe):
                    raise self._no_answer(error, is_safe, request_id) from error
                self._sleep(_pause(attempt))
                continue
            if not is_last and _may_repeat(answer, is_safe):
                self._sleep(_pause(attempt, answer.headers.get("Retry-After")))
                continue
            return self._read(answer, request_id, url_path)
        raise AssertionError("the last attempt returns or raises")

    def _read(self, answer: Answer, request_id: str, url_path: str) -> dict[str, Any]:
        try:
            document = json.loads(answer.content)
        except ValueError:
            document = None
        if 200 <= answer.status < 300 and isinstance(document, dict):
            age = answer.headers.get("Rainbow-Stale", "")
            if age.isdecimal() and self._on_stale is not None:
                self._on_stale(int(age))
            self.is_partial = self.is_partial or document.get("partial") is True
            return document
        if isinstance(document, dict) and "message" in document:
            error = refusal(answer.status, document, answer.headers.get("X-Request-Id") or request_id)
        else:
            error = self._foreign_answer(answer, url_path)
        error.retry_after = _retry_after_seconds(answer.headers.get("Retry-After"))
        raise error

    def _foreign_answer(self, answer: Answer, url_path: str) -> ClientError:
        """The error for an answer that is not an admin's, but of a proxy, a login page or another service."""
        status = answer.status
        if 300 <= status < 400:
            place = answer.headers.get("Location", "elsewhere")
            return ServerError(f"{self.url} redirects to {place}: set the endpoint to that place.", status=status)
        if status in (414, 431):  # by the admin's server or a proxy, before the admin reads a request
            reason = "the headers of the request are too large. Check the token in RAINBOW_TOKEN or its file"
            if len(url_path) > _LONG_ADDRESS:
                reason = (
                    f"the address of the request has {len(url_path):,} characters, which is too long. Select by fewer "
                    "terms or values, or ask several times"
                )
            return errors.InvalidRequest(f"{self.url} answered {status}: {reason}.", status=status)
        if status in _BY_STATUS and status != 404:
            return _BY_STATUS[status](f"{self.url} answered {status} {answer.reason}.", status=status)
        return ServerError(f"{self.url} answered {status}, but not as an admin does: is it one?", status=status)

    def _no_answer(self, error: NoAnswer, is_safe: bool, request_id: str) -> ClientError:
        if is_safe or not error.was_sent:
            return Unreachable(
                f"The admin at {self.url} cannot be reached: {error.reason}. {error.remedy}", request_id=request_id
            )
        return errors.Unanswered(
            f"The request was sent to {self.url}, but no answer came: {error.reason}. It may have been carried out: "
            "look with `rainbowctl get` before repeating it.",
            request_id=request_id,
        )


def _may_repeat(answer: Answer, is_safe: bool) -> bool:
    """Whether a request may be sent again after an answer, and another answer may come of it."""
    if answer.status != 429:
        return is_safe and answer.status in _PASSING
    try:
        name = json.loads(answer.content).get("error")
    except (ValueError, AttributeError):
        return is_safe  # a proxy's
    return name == "too_many_requests" or (is_safe and name not in ("too_many_attempts", "quota_exceeded"))


def refusal(status: int, document: Mapping[str, Any], request_id: str | None = None) -> ClientError:
    """The error that the admin answered with."""
    kind = _BY_STATUS.get(status) or (ServerError if status >= 500 else errors.InvalidRequest)
    details, restorable = document.get("details"), document.get("restorable")
    error = kind(
        str(document.get("message", "")),
        status=status,
        name=document.get("error"),
        code=document.get("code"),
        details=[detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else [],
        request_id=document.get("request_id") or request_id,
    )
    error.restorable = restorable if isinstance(restorable, list) else []
    return error


def _json(body: Mapping[str, Any], replace_bad_text: bool = False) -> bytes:
    try:
        if replace_bad_text:
            return json.dumps(body, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")
        return json.dumps(body, allow_nan=False).encode()
    except ValueError:
        raise errors.UnwritableBody() from None


def _checked_ca_file(path: Path) -> str:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"The CA file {path} cannot be read: {error.strerror}.") from None
    if b"-----BEGIN CERTIFICATE-----" not in text:
        raise InvalidInput(f"The CA file {path} holds no certificate in PEM form.")
    return str(path)


def find_proxy_of(endpoint: Endpoint) -> Proxy | None:
    """The proxy on the way to an endpoint, if there is one."""
    if endpoint.is_local:
        return None  # proxies are for other machines
    from ctl.client.proxies import find_proxy

    return find_proxy(endpoint.url)


def _bearer(token: str | None) -> dict[str, str]:
    """The headers of a token, or of several of one user with commas between, which add up."""
    if not token:
        return {}
    if not token.isascii() or not token.isprintable():
        raise InvalidInput("The token has invalid characters: it must be printable ASCII.")
    first, *more = (part.strip() for part in token.split(","))
    return {"Authorization": f"Bearer {first}", **({"Rainbow-Tokens": ",".join(more)} if more else {})}


def _acting_as(user: str) -> dict[str, str]:
    if not user or not user.isascii() or not user.isprintable() or " " in user:
        raise InvalidInput(f"{user!r} is no user to act as: give the name of one.")
    return {"Rainbow-As": user}


def _checked_request_id(id: str) -> str:
    """The id as it is; InvalidInput for one that the admin would replace by one of its own."""
    if not _REQUEST_ID.fullmatch(id):
        raise InvalidInput(
            f"{id!r} cannot be the id of a request: use 1 to 128 letters, digits and characters of `_.:-`, "
            "as in release-7."
        )
    return id


def _pause(attempt: int, retry_after: str | None = None) -> float:
    """Seconds to wait: what the admin asks for, else exponential back-off with jitter."""
    seconds = _retry_after_seconds(retry_after)
    if seconds is not None:
        return min(seconds, _LONGEST_PAUSE_SECONDS)
    from random import uniform

    return _FIRST_PAUSE_SECONDS * float(2**attempt) * uniform(0.5, 1.0)


def _retry_after_seconds(header: str | None) -> float | None:
    if not header:
        return None
    if header.strip().isdigit():
        return float(header)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
