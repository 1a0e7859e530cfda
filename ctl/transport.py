"""
HTTP with the admin: one session, its retries, and its errors.

What is tried again, with growing pauses and jitter, `Retry-After` honoured:

* reads and dry runs, when the connection failed or the answer was 429, 502, 503 or 504; not when the time was up, for
  that may be the work itself;
* writes, only when no connection came about, so that nothing was sent.

A write that may have arrived is never repeated, with a version or without: its second answer would be a conflict with
itself. It ends as `Unanswered`, which says to look first.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import requests
import urllib3.exceptions

from ctl.endpoints import parse_endpoint
from ctl.errors import (
    ClientError,
    Conflict,
    Forbidden,
    InvalidInput,
    InvalidRequest,
    NotFound,
    ServerError,
    Unanswered,
    Unauthenticated,
    Unreachable,
)

_BY_STATUS: dict[int, type[ClientError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    429: Unreachable,
    502: Unreachable,
    503: Unreachable,
    504: Unreachable,
}
_PASSING = {429, 502, 503, 504}
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 20.0
_CONNECT_SECONDS = 10.0


class Transport:
    """Sends requests to one admin and turns every failure into a ClientError."""

    def __init__(
        self,
        endpoint: str,
        *,
        token: str | None = None,
        ca_file: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        where = parse_endpoint(endpoint, has_ca_file=ca_file is not None)
        self.url = where.url
        self._verify: bool | str = True if ca_file is None else _checked_ca_file(Path(ca_file).expanduser())
        self._timeout = (min(timeout, _CONNECT_SECONDS), timeout)
        self._retries = retries
        self._sleep = sleep
        self._session = requests.Session()
        # Proxies are for other machines.
        self._session.trust_env = not where.is_local
        # An `auth` of our own, even without a token: otherwise a ~/.netrc would supply one.
        self._session.auth = _Bearer(token)
        self._session.headers.update({"Accept": "application/json", "User-Agent": "rainbowctl"})

    def close(self) -> None:
        self._session.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        is_safe: bool = False,
        more_seconds: float = 0.0,
    ) -> dict[str, Any]:
        """
        The JSON answer to one request below `/api/v1/`.

        `is_safe` marks what may be sent twice; `more_seconds` is how much longer than usual the answer may take.
        """
        connect, wait = self._timeout
        request_id = secrets.token_hex(8)
        for attempt in range(self._retries + 1):
            is_last = attempt == self._retries
            try:
                answer = self._session.request(
                    method,
                    f"{self.url}/api/v1/{path}",
                    params=query,
                    json=body,
                    headers={**(headers or {}), "X-Request-Id": request_id},
                    timeout=(connect, wait + more_seconds),
                    verify=self._verify,
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                if is_last or not _may_repeat(error, is_safe):
                    raise self._no_answer(error, is_safe, request_id) from error
                self._sleep(_pause(attempt))
                continue
            if answer.status_code in _PASSING and is_safe and not is_last:
                self._sleep(_pause(attempt, answer.headers.get("Retry-After")))
                continue
            return self._read(answer, request_id)
        raise AssertionError("the last attempt returns or raises")

    def _read(self, answer: requests.Response, request_id: str) -> dict[str, Any]:
        try:
            document = answer.json()
        except requests.exceptions.JSONDecodeError:
            document = None
        if answer.ok and answer.status_code < 300 and isinstance(document, dict):
            return document
        if not isinstance(document, dict) or "message" not in document:
            raise self._foreign_answer(answer)
        kind = _BY_STATUS.get(answer.status_code)
        kind = kind or (ServerError if answer.status_code >= 500 else InvalidRequest)
        details = document.get("details")
        raise kind(
            str(document["message"]),
            status=answer.status_code,
            name=document.get("error"),
            code=document.get("code"),
            details=[detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else [],
            request_id=document.get("request_id") or answer.headers.get("X-Request-Id") or request_id,
        )

    def _foreign_answer(self, answer: requests.Response) -> ClientError:
        """For what answers like no admin: a proxy, a login page, another service."""
        status = answer.status_code
        if 300 <= status < 400:
            place = answer.headers.get("Location", "elsewhere")
            return ServerError(f"{self.url} redirects to {place}: set the endpoint to that place.", status=status)
        if status in _BY_STATUS and status != 404:
            return _BY_STATUS[status](f"{self.url} answered {status} {answer.reason}.", status=status)
        return ServerError(f"{self.url} answered {status}, but not as an admin does: is it one?", status=status)

    def _no_answer(self, error: requests.RequestException, is_safe: bool, request_id: str) -> ClientError:
        reason = _reason(error)
        if is_safe or _never_sent(error):
            return Unreachable(
                f"The admin at {self.url} cannot be reached: {reason}. {_remedy(error)}", request_id=request_id
            )
        return Unanswered(
            f"The request was sent to {self.url}, but no answer came: {reason}. It may have been carried out: "
            "look with `rainbowctl get` before repeating it.",
            request_id=request_id,
        )


def _checked_ca_file(path: Path) -> str:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"The CA file {path} cannot be read: {error.strerror}.") from None
    if b"-----BEGIN CERTIFICATE-----" not in text:
        raise InvalidInput(f"The CA file {path} holds no certificate in PEM form.")
    return str(path)


class _Bearer(requests.auth.AuthBase):
    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _may_repeat(error: requests.RequestException, is_safe: bool) -> bool:
    if isinstance(error, (requests.exceptions.SSLError, requests.exceptions.ReadTimeout)):
        return False
    return is_safe or _never_sent(error)


def _never_sent(error: requests.RequestException) -> bool:
    """Whether no connection came about at all."""
    if isinstance(error, (requests.exceptions.ConnectTimeout, requests.exceptions.SSLError)):
        return True
    cause = error.args[0] if error.args else None
    return isinstance(getattr(cause, "reason", None), urllib3.exceptions.NewConnectionError)


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time"
    text = str(getattr(error.args[0], "reason", error.args[0]) if error.args else error)
    for mark, words in _REASONS.items():
        if mark in text:
            return words
    return text.split(": ", 1)[-1].strip("'\"()")


_REASONS = {
    "Connection refused": "connection refused",
    "Failed to resolve": "no such host",
    "Name or service not known": "no such host",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted",
    "Network is unreachable": "network unreachable",
    "No route to host": "no route to host",
    "BadStatusLine": "what answers does not speak HTTP",
    "RemoteDisconnected": "it closed the connection",
    "Connection reset": "it closed the connection",
}


def _remedy(error: requests.RequestException) -> str:
    if "WRONG_VERSION_NUMBER" in str(error):
        return "Write the endpoint with http://."
    if "BadStatusLine" in str(error):
        return "If it serves TLS, write the endpoint with https://."
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "Give the file of its certificate authority with --ca-file."
    if isinstance(error, requests.exceptions.SSLError):
        return "Check the certificate and the CA file."
    return "Check that it runs, and the endpoint that `rainbowctl config view` shows."


def _pause(attempt: int, retry_after: str | None = None) -> float:
    """Seconds to wait: what the admin asks for, else a doubling time with full jitter against stampedes."""
    asked = _retry_after_seconds(retry_after)
    if asked is not None:
        return min(asked, _LONGEST_PAUSE_SECONDS)
    return _FIRST_PAUSE_SECONDS * float(2**attempt) * random.uniform(0.5, 1.0)


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
