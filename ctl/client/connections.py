"""
Connections to one admin: HTTP/1.1, kept open from one request to the next.

Python's own `http.client` is used because it starts quickly; see docs/decisions/0007.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
from contextlib import suppress
from functools import cached_property
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from ctl.client.errors import InvalidInput

if TYPE_CHECKING:
    from ctl.client.proxies import Proxy

#: Variables that may name a file of certificate authorities; the first one that is set wins.
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class Remedies(NamedTuple):
    """Advice for the user where the admin does not answer; each program has its own flags and files."""

    check: str = "Check that it runs, and the endpoint that `rainbowctl config view` shows."
    trust: str = "Give the file of its certificate authority with --ca-file."


REMEDIES = Remedies()


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    reason: str
    headers: HTTPMessage
    content: bytes


class NoAnswer(Exception):
    """There was no answer."""

    def __init__(self, reason: str, *, remedy: str, was_sent: bool, may_pass: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason  #: in words
        self.remedy = remedy  #: a sentence
        self.was_sent = was_sent  #: whether the request may have arrived
        self.may_pass = may_pass  #: whether trying again may help


class Connections:
    """Opens connections and keeps those that can be used again; several threads may ask at once."""

    def __init__(
        self,
        url: str,
        *,
        ca_file: str | None = None,
        proxy: Proxy | None = None,
        remedies: Remedies = REMEDIES,
    ) -> None:
        parts = urlsplit(url)
        self._is_tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._is_tls else 80)
        self._ca_file = ca_file
        self._proxy = proxy
        self._remedies = remedies
        # A proxy for plain http gets the whole URL.
        self._start = f"http://{parts.netloc}" if proxy and not self._is_tls else ""
        self._start += quote(parts.path, safe="/%~:@!$&'()*+,;=")
        self._idle: list[HTTPConnection] = []

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, *, timeout: tuple[float, float]
    ) -> Answer:
        """The answer to one request; `timeout` is for the connection, and for each part of the answer."""
        connect_seconds, answer_seconds = timeout
        connection = self._idle_connection() or self._open_connection(connect_seconds)
        is_done = False
        try:
            connection.sock.settimeout(answer_seconds)
            # A server that refuses a body early may have sent an answer already.
            with suppress(BrokenPipeError):
                connection.request(method, self._start + path, body, {**headers, **self._proxy_headers})
            # Closed explicitly: a Ctrl-C during a close by the garbage collector would be lost.
            with connection.getresponse() as response:
                answer = Answer(response.status, response.reason, response.headers, response.read())
            is_done = True
        except (OSError, HTTPException) as error:
            is_late = isinstance(error, TimeoutError)
            remedy = _remedy(error, self._remedies)
            raise NoAnswer(_reason(error), remedy=remedy, was_sent=True, may_pass=not is_late) from error
        finally:
            if is_done and connection.sock is not None:
                self._idle.append(connection)
            else:
                connection.close()
        return answer

    @property
    def _proxy_headers(self) -> dict[str, str]:
        return self._proxy.headers if self._proxy and not self._is_tls else {}

    def _idle_connection(self) -> HTTPConnection | None:
        """A connection of an earlier request that the other side has not closed since."""
        while self._idle:
            connection = self._idle.pop()
            with selectors.DefaultSelector() as selector:
                selector.register(connection.sock, selectors.EVENT_READ)
                if not selector.select(timeout=0):
                    return connection
            connection.close()
        return None

    def _open_connection(self, seconds: float) -> HTTPConnection:
        connection = self._new(seconds)
        try:
            connection.connect()
        except (OSError, HTTPException) as error:
            connection.close()
            is_of_tls = isinstance(error, ssl.SSLError)
            prefix = f"the proxy {self._proxy}: " if self._proxy and not is_of_tls else ""
            reason = f"{prefix}{_reason(error)}"
            remedy = _remedy(error, self._remedies)
            raise NoAnswer(reason, remedy=remedy, was_sent=False, may_pass=not is_of_tls) from error
        return connection

    def _new(self, seconds: float) -> HTTPConnection:
        host, port = (self._proxy.host, self._proxy.port) if self._proxy else (self._host, self._port)
        if not self._is_tls:
            return HTTPConnection(host, port, timeout=seconds)
        connection = HTTPSConnection(host, port, timeout=seconds, context=self._context)
        if self._proxy:
            connection.set_tunnel(self._host, self._port, self._proxy.headers)
        return connection

    @cached_property
    def _context(self) -> ssl.SSLContext:
        bundle = self._ca_file or _bundle()
        try:
            if Path(bundle).is_dir():
                context = ssl.create_default_context(capath=bundle)
            else:
                context = ssl.create_default_context(cafile=bundle)
        except OSError as error:
            reason = error.strerror if not isinstance(error, ssl.SSLError) else "it is no file of certificates"
            raise InvalidInput(f"The certificate authorities of {bundle} cannot be read: {reason}.") from None
        context.set_alpn_protocols(["http/1.1"])
        return context


def _bundle() -> str:
    """The certificate authorities to trust where no file is given."""
    for name in _BUNDLES:
        if os.environ.get(name):
            return os.environ[name]
    from certifi import where

    return where()


def _reason(error: OSError | HTTPException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)):
        return "it closed the connection"
    if isinstance(error, BadStatusLine):
        return "the server does not speak HTTP"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message.rstrip('.')})"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS" if _is_plain(error) else f"TLS failed ({error.reason})"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return text[0].lower() + text[1:]


def _remedy(error: OSError | HTTPException, remedies: Remedies) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return remedies.trust
    if isinstance(error, ssl.SSLError):
        return "Write the endpoint with http://." if _is_plain(error) else "Check the certificate and the CA file."
    if isinstance(error, BadStatusLine) and not isinstance(error, ConnectionError):
        return "If it serves TLS, write the endpoint with https://."
    return remedies.check


def _is_plain(error: ssl.SSLError) -> bool:
    return error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}
