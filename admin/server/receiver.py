"""Requests as the server hands them over: their bodies are received without a thread, which only whole requests get.

The server calls `Receiver` in a thread of its pool when the head of a request has arrived. A body that is still on its
way lets go of the thread, and a piece that arrives brings a new one. A body that stops arriving is given up. Why it is
done in this way and what it costs: docs/decisions/0010-bodies-without-threads.md.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from granian._granian import RSGIProtocolClosed

from admin.errors import BodyTimeout, BodyTruncated, Busy, Internal, InvalidRequest, RainbowError
from admin.server.event_sinks import ServerSink
from admin.services.live_streams import MAY_STAY_OPEN, OPENED

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_log = logging.getLogger("rainbow.server")

#: This much of a body must arrive within the time limit.
PIECE_BYTES = 64 * 1024
#: What bodies on their way may take of a worker's memory, beyond a piece of each.
_MOST_HELD_BYTES = 256 * 1024 * 1024
#: Beyond so many chunks of a body, they must have so many bytes on average: each costs as much as a small request.
_MOST_SMALL_CHUNKS = 64
_LEAST_CHUNK_BYTES = 512
_SWEEP_SECONDS = 0.5
_MOST_NAMES = 1024


class Application(Protocol):
    """A WSGI application that judges a request by its head, before the body has arrived."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse, /) -> Iterable[bytes]: ...

    def admit(self, environ: WSGIEnvironment, start_response: StartResponse, /) -> Iterable[bytes] | None:
        """None, or what answers a request that is refused."""

    def refuse(self, environ: WSGIEnvironment, start_response: StartResponse, error: RainbowError, /) -> list[bytes]:
        """What answers a request that was admitted and cannot be answered."""

    def most_bytes(self, environ: WSGIEnvironment, /) -> int:
        """How large the body of a request may be."""


class Receiver:
    """Receives requests, and answers them by an application."""

    def __init__(self, application: Application, seconds: float) -> None:
        """Give up a body of which no further piece arrives within so many seconds."""
        self.application = application
        self.seconds = seconds
        self._names = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
        self._common: dict[str, Any] | None = None
        self._bodies: dict[_Body, None] = {}
        self._held_bytes = 0
        self._is_closed = False
        self._lock = threading.Lock()
        threading.Thread(target=self._sweep, name="receiver", daemon=True).start()

    def __call__(self, watcher: Any) -> None:
        """Handle a request whose head has arrived; an exception must not reach the server."""
        try:
            scope, protocol = watcher.scope, watcher.proto
            environ = self._environ(scope)
            if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
                self._receive(environ, protocol)
            else:
                environ["wsgi.input"] = io.BytesIO()
                environ[MAY_STAY_OPEN] = True
                _Answer(protocol).send(self.application, environ)
        except BaseException:
            _log.exception("a request could not be received")

    def _receive(self, environ: WSGIEnvironment, protocol: Any) -> None:
        answer = _Answer(protocol)
        refusal = self.application.admit(environ, answer)
        if refusal is not None:
            answer.finish(refusal)
            return
        length = _length(environ)
        most = self.application.most_bytes(environ)
        if length == 0 or (length is not None and length > most):  # the application refuses what is too large
            environ["wsgi.input"] = io.BytesIO()
            answer.send(self.application, environ)
        else:
            _Body(self, environ, protocol, length, most + 1).receive()

    def close(self) -> None:
        """Give up all bodies on their way, and those that are still to come: the worker is to stop."""
        self._is_closed = True

    def expect(self, body: _Body) -> None:
        """Watch the time limit of a body until it is forgotten."""
        self._bodies[body] = None

    def forget(self, body: _Body) -> None:
        """Stop watching a body, which is whole or given up."""
        self._bodies.pop(body, None)
        self.hold(-body.held_bytes)

    def hold(self, size: int) -> bool:
        """Count bytes that bodies hold; False where that is too much."""
        if size == 0:
            return True
        with self._lock:
            self._held_bytes += size
            return self._held_bytes <= _MOST_HELD_BYTES

    def _sweep(self) -> None:
        """Give up what is late, and everything once the receiver is closed."""
        while True:
            time.sleep(_SWEEP_SECONDS)
            now = time.monotonic()
            for body in list(self._bodies):
                if self._is_closed or now >= body.deadline:
                    body.give_up(Busy("The admin is about to stop.") if self._is_closed else BodyTimeout())

    def _environ(self, scope: Any) -> WSGIEnvironment:
        """The head of a request as WSGI wants it."""
        if self._common is None:
            self._common = _common(scope)
        path, query = scope.path, scope.query_string
        environ: WSGIEnvironment = {
            **self._common,
            "REQUEST_METHOD": scope.method,
            "PATH_INFO": path if path.isascii() else path.encode().decode("latin-1"),
            "QUERY_STRING": query if query.isascii() else query.encode().decode("latin-1"),
            "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        }
        headers = scope.headers
        before = len(environ)
        for name, value in headers.items():
            key = self._names.get(name) or self._name(name)
            if key not in environ:
                environ[key] = value
            elif key != "CONTENT_LENGTH":
                environ[key] += f",{value}"
        if len(environ) - before < len(headers):  # a value that is not ASCII was left out, and yet the header was sent
            for name in headers.keys():  # noqa: SIM118 - it is no dict
                environ.setdefault(self._name(name), "")
        if "HTTP_HOST" not in environ:
            environ["HTTP_HOST"] = scope.authority or ""
        return environ

    def _name(self, header: str) -> str:
        """The name of a header in the environ."""
        name = self._names.get(header) or f"HTTP_{header.upper().replace('-', '_')}"
        if len(self._names) < _MOST_NAMES:
            self._names[header] = name
        return name


class _Body:
    """A body on its way. Its methods run in whatever thread brings the next piece, never in two at once."""

    def __init__(
        self, receiver: Receiver, environ: WSGIEnvironment, protocol: Any, length: int | None, most: int
    ) -> None:
        self.deadline = time.monotonic() + receiver.seconds
        self.held_bytes = 0  #: those that count, beyond the first piece
        self._receiver = receiver
        self._environ = environ
        self._protocol = protocol
        self._length = length
        self._most = most
        self._data = bytearray()
        self._pieces = 0
        self._size = 0
        self._next_piece_at = PIECE_BYTES
        self._pending: Any = None
        self._reason: RainbowError = BodyTimeout()  #: why it is given up

    def receive(self) -> None:
        """Begin to receive the body, then answer the request."""
        self._receiver.expect(self)
        if self._length is not None and self._length <= PIECE_BYTES:
            self._await(self._protocol())  # all at once, which costs less
        else:
            aiter(self._protocol)
            self._await(self._protocol.__anext__())

    def give_up(self, error: RainbowError) -> None:
        """Stop receiving, unless the rest has arrived meanwhile; called by the thread that watches time limits."""
        pending = self._pending
        if pending is not None:
            self._reason = error
            pending.cancel()  # calls _received

    def _await(self, pending: Any) -> None:
        self._pending = pending
        pending.add_done_callback(self._received)

    def _received(self, pending: Any) -> None:
        try:
            if pending.cancelled():
                self._fail(self._reason)
                return
            piece = pending.result()
            self._add(piece)
            if self._is_whole(piece):
                self._answer()
            elif not piece:
                self._fail(BodyTruncated())
            elif self._has_small_chunks():
                self._fail(InvalidRequest("The body comes in too many chunks of a few bytes. Send larger ones."))
            elif not self._receiver.hold(self._newly_held(len(piece))):
                self._fail(Busy())
            else:
                self._await(self._protocol.__anext__())
        except RSGIProtocolClosed:
            self._fail(BodyTruncated())
        except BaseException:
            _log.exception("a body could not be received")
            if self._protocol is not None:
                self._fail(Internal())

    def _add(self, piece: bytes) -> None:
        self._data += piece
        self._pieces += 1
        self._size += len(piece)
        if self._size >= self._next_piece_at:
            self._next_piece_at = self._size + PIECE_BYTES
            self.deadline = time.monotonic() + self._receiver.seconds

    def _newly_held(self, size: int) -> int:
        """How many bytes of a piece count as held."""
        held = min(size, max(0, self._size - PIECE_BYTES))
        self.held_bytes += held
        return held

    def _has_small_chunks(self) -> bool:
        """Whether a body has too many small chunks."""
        return self._length is None and self._pieces > _MOST_SMALL_CHUNKS + self._size // _LEAST_CHUNK_BYTES

    def _is_whole(self, piece: bytes) -> bool:
        """Whether the last piece has come; more than the application takes is as good as all."""
        if self._length is not None or self._size >= self._most:
            return self._size >= (self._most if self._length is None else self._length)
        return not piece and self._is_exhausted()

    def _is_exhausted(self) -> bool:
        """Whether a body of unknown length has ended as it should: the server says so only when asked once more."""
        try:
            self._protocol.__anext__()
        except StopAsyncIteration:
            return True
        return False

    def _answer(self) -> None:
        self._environ["wsgi.input"] = io.BytesIO(self._data)
        self._end().send(self._receiver.application, self._environ)

    def _fail(self, error: RainbowError) -> None:
        answer = self._end()
        answer.finish(self._receiver.application.refuse(self._environ, answer, error))

    def _end(self) -> _Answer:
        """Let go of the body, which the server would keep, and the connection with it, as long as we do."""
        self._receiver.forget(self)
        self._data = bytearray()
        answer, self._protocol, self._pending = _Answer(self._protocol), None, None
        return answer


class _Answer:
    """What an application answers, and the way it goes to the client; also the `start_response` of WSGI."""

    __slots__ = ("_headers", "_protocol", "_status")

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._status = 500
        self._headers: list[tuple[str, str]] = []

    def __call__(self, status: str, headers: list[tuple[str, str]], _exc_info: Any = None, /) -> Any:
        self._status = int(status[:3])
        self._headers = headers

    def send(self, application: Application, environ: WSGIEnvironment) -> None:
        """Let an application answer."""
        try:
            chunks = application(environ, self)
        except Exception:
            _log.exception("a request could not be answered")
            chunks = application.refuse(environ, self, Internal())
        opened = environ.pop(OPENED, None)
        if opened is None or self._status != HTTPStatus.OK:
            self.finish(chunks)
        else:
            protocol, self._protocol = self._protocol, None
            opened(ServerSink(protocol.response_stream(self._status, self._headers)))

    def finish(self, chunks: Iterable[bytes]) -> None:
        """Send an answer; it is whole, so that a client who does not read it holds no thread."""
        try:
            body = b"".join(chunks)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        protocol, self._protocol = self._protocol, None  # which would keep what is left of a body that is given up
        protocol.response_bytes(self._status, self._headers, body)


def _common(scope: Any) -> dict[str, Any]:
    """What all requests to a worker have in common."""
    server, _, port = scope.server.rpartition(":")
    return {
        "SCRIPT_NAME": "",
        "SERVER_NAME": server.strip("[]"),
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.scheme,
        "wsgi.errors": sys.stderr,
        "wsgi.input_terminated": True,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }


def _length(environ: WSGIEnvironment) -> int | None:
    """The length of a body, which the server has checked; None for a chunked body."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        return None
    return int(environ["CONTENT_LENGTH"])
