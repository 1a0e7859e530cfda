"""A proxy between an agent and its admin that delays, doubles, repeats, loses or holds back syncs."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.robustness.histories.records import Exchange, Recorder, now

#: How a network may treat each request.
MANNERS = ("pass", "delay", "duplicate", "replay", "lose", "hold")
_ANSWER_SECONDS = 60.0


class Proxy:
    """Passes requests of a cluster's agents on to an admin, in a manner that can be changed at any time.

    delay: requests and answers take up to a second, so that they overtake each other; duplicate: each request is sent
    twice; replay: requests are sent again later, after newer ones; lose: answers are lost; hold: nothing passes.
    It records when the admin has heard a sync, and when an agent has acted on the answer to one.
    """

    def __init__(self, url: Callable[[], str], cluster: str, recorder: Recorder, seed: str) -> None:
        self.manner = "pass"
        self._url = url
        self._cluster = cluster
        self._recorder = recorder
        self._lock = threading.Lock()
        self._answered: list[tuple[str, int, float]] = []  #: agent, number and time of syncs
        self._rng = random.Random(seed)
        self._is_closed = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                begun = now()
                body = self.rfile.read(int(self.headers["Content-Length"]))
                proxy._note_request(body, begun)
                names = ("Content-Type", "Authorization", "Accept", "User-Agent", "Content-Encoding")
                headers = {name: self.headers[name] for name in names if name in self.headers}
                answer = proxy._pass_on(self.command, self.path, body, headers)
                proxy._note_answer(body, answer, begun)
                with suppress(OSError):
                    self._reply(answer)

            do_GET = do_POST

            def _reply(self, answer: tuple[int, str, bytes] | None) -> None:
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer[0])
                self.send_header("Content-Type", answer[1])
                self.send_header("Content-Length", str(len(answer[2])))
                self.end_headers()
                self.wfile.write(answer[2])

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass  # agents are killed in the middle of a request

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._is_closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _pass_on(self, *request: Any) -> tuple[int, str, bytes] | None:
        """The admin's answer to a request, None to close the connection without one."""
        manner = self.manner
        self._wait_while_held()
        if manner == "delay":
            time.sleep(self._rng.uniform(0, 1))
        if manner == "duplicate":
            threading.Thread(target=self._send, args=request, daemon=True).start()
        if manner == "replay":
            later = threading.Timer(self._rng.uniform(0.1, 2), self._send, request)
            later.daemon = True
            later.start()
        answer = self._send(*request)
        self._wait_while_held()
        if manner == "delay":
            time.sleep(self._rng.uniform(0, 1))
        if manner == "lose" and self._rng.random() < 0.5:
            return None
        return answer

    def _note_request(self, body: bytes, begun: float) -> None:
        """Record that an agent has acted on what it was answered: it numbers its syncs by the answers before."""
        request = _read(body)
        agent, number = request.get("agent"), request.get("sequence", 0)
        with self._lock:
            acted_on = [answered for answered in self._answered if answered[0] == agent and answered[1] < number]
            self._answered = [answered for answered in self._answered if answered not in acted_on]
        for _, _, answered_begun in acted_on:
            exchange = Exchange(cluster=self._cluster, side="agent", begun=answered_begun, ended=begun)
            self._recorder.exchange(exchange)

    def _note_answer(self, body: bytes, answer: tuple[int, str, bytes] | None, begun: float) -> None:
        """Note that an agent gets an answer that renews the leases it holds."""
        request = _read(body)
        if answer is None or answer[0] != 200 or "sequence" not in request:
            return
        document = _read(answer[2])
        if not request.get("holding") or document.get("confirmed") or document.get("cancels"):
            with self._lock:
                self._answered.append((request["agent"], request["sequence"], begun))

    def _wait_while_held(self) -> None:
        while self.manner == "hold" and not self._is_closed.wait(0.05):
            pass

    def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes] | None:
        connection = http.client.HTTPConnection(urlsplit(self._url()).netloc, timeout=_ANSWER_SECONDS)
        begun = now()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status == 200 and path.endswith("/sync"):
                self._recorder.exchange(Exchange(cluster=self._cluster, side="admin", begun=begun, ended=now()))
            return answer.status, answer.headers.get("Content-Type", ""), content
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


def _read(text: bytes) -> dict[str, Any]:
    """A document that was sent or answered; empty if it is none."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
