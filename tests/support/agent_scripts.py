"""An admin that answers by a script, for tests of the agent's side of HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.servers import serving


def answer(**fields: Any) -> dict[str, Any]:
    """The admin's answer to a sync that changes nothing, with other fields."""
    lists = ("leases", "confirmed", "lost", "cancels", "questions", "accepted", "refused", "log_offsets")
    intervals = {"wait_seconds": 0.05, "lease_seconds": 60, "retry_seconds": 5}
    return {**{name: [] for name in lists}, "state": {"enabled": True}, "intervals": intervals, **fields}


def error(name: str, message: str = "No.") -> dict[str, Any]:
    """The body of a refusal."""
    return {"code": 1, "error": name, "message": message, "details": []}


@dataclass
class ScriptedAdmin:
    """Gives answers in turn, and repeats the last one.

    An answer is a body, a status and a body, or a function of the request's body that returns either.
    """

    answers: list[Any] = field(default_factory=lambda: [answer()])
    bodies: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    url: str = ""

    def reply(self, body: dict[str, Any], token: str) -> tuple[int, Any]:
        self.bodies.append(body)
        self.tokens.append(token)
        reply = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        reply = reply(body) if callable(reply) else reply
        return reply if isinstance(reply, tuple) else (200, reply)


@contextmanager
def scripted_admin() -> Iterator[ScriptedAdmin]:
    """A scripted admin that listens on loopback."""
    admin = ScriptedAdmin()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # the body is a second packet, which would wait for the client

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, document = admin.reply(body, self.headers.get("Authorization", ""))
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if status == 429:
                self.send_header("Retry-After", "7")
            # A client that did not wait for the answer has closed its connection.
            with suppress(ConnectionError):
                self.end_headers()
                self.wfile.write(data)

        do_PUT = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    admin.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield admin
