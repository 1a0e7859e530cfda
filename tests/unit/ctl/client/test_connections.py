"""The wire itself: kept and dropped connections, proxies, TLS, and how failures are told."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from ctl.client.connections import Answer, Connections, NoAnswer
from ctl.client.errors import ClientError, InvalidInput, Unanswered, Unreachable
from ctl.client.proxies import Proxy
from ctl.client.transport import Transport
from tests.support.servers import serving

TIMEOUT = (5.0, 5.0)


class Handler(BaseHTTPRequestHandler):
    """Answers every request with its own first line, and notes it with its headers and its connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.server.seen.append((self.requestline, dict(self.headers), self.client_address))  # type: ignore[attr-defined]
        text = f'{{"asked": "{self.path}"}}'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        for header in self.server.headers:  # type: ignore[attr-defined]
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(text)

    def do_CONNECT(self) -> None:
        """As a proxy does: bytes to and fro, whatever they are."""
        self.server.seen.append((self.requestline, dict(self.headers), self.client_address))  # type: ignore[attr-defined]
        if "Proxy-Authorization" not in self.headers:
            self.send_error(407)
            return
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as target:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_pump, args=(target, self.connection))
            back.start()
            _pump(self.connection, target)
            back.join()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _pump(start: socket.socket, end: socket.socket) -> None:
    with suppress(OSError):  # either side may be gone
        while read := start.recv(65536):
            end.sendall(read)
        end.shutdown(socket.SHUT_WR)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *headers: tuple[str, str], context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.headers = headers
        self.port = self.server_address[1]
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, *_args: Any) -> None:
        """A client that turns away is no news."""


@contextmanager
def open_to(url: str, **settings: Any) -> Iterator[Callable[..., Answer]]:
    connections = Connections(url, **settings)

    def get(path: str = "/x", timeout: tuple[float, float] = TIMEOUT) -> Answer:
        return connections.ask("GET", path, {"Accept": "application/json"}, None, timeout=timeout)

    try:
        yield get
    finally:
        connections.close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return str(tmp_path / "ca.pem")


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def test_a_connection_is_kept_for_the_next_request() -> None:
    with serving(Server()) as server, open_to(f"http://127.0.0.1:{server.port}/prefix") as get:
        assert [get("/a?b=c").content, get("/d").status] == [b'{"asked": "/prefix/a?b=c"}', 200]
        assert len({address for _line, _headers, address in server.seen}) == 1


def test_a_connection_that_is_to_be_closed_is_not_kept() -> None:
    with serving(Server(("Connection", "close"))) as server, open_to(f"http://127.0.0.1:{server.port}") as get:
        get(), get()
        assert len({address for _line, _headers, address in server.seen}) == 2


def test_an_interrupt_while_a_response_is_closed_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_response: HTTPResponse) -> None:
        raise KeyboardInterrupt

    with serving(Server()) as server, open_to(f"http://127.0.0.1:{server.port}") as get:
        monkeypatch.setattr(HTTPResponse, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            get(), get()
        monkeypatch.undo()


@contextmanager
def answering(*answers: bytes | None) -> Iterator[tuple[str, list[threading.Event]]]:
    """A server with one answer for each connection, which it then closes; None is no answer at all."""
    listening = socket.create_server(("127.0.0.1", 0))
    closed = [threading.Event() for _ in answers]
    ended = threading.Event()

    def serve() -> None:
        for answer, event in zip(answers, closed, strict=True):
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                if answer is None:
                    ended.wait(10)
                else:
                    connection.sendall(answer)
            event.set()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", closed
    finally:
        ended.set()
        thread.join(10)
        listening.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_a_connection_that_was_dropped_meanwhile_is_opened_anew() -> None:
    """Servers close what is idle; the next request must not fail for it, a write least of all."""
    with answering(OK, OK) as (url, closed), closing(Transport(url)) as transport:
        assert transport.call("PUT", "x", body={}) == {}
        closed[0].wait(10)
        assert transport.call("PUT", "x", body={}) == {}


@pytest.mark.parametrize(
    ("answer", "reason", "remedy"),
    [
        (b"", "it closed the connection", "Check that it runs"),
        (b"SSH-2.0-OpenSSH\r\n", "the server does not speak HTTP", "write the endpoint with https://"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", "IncompleteRead", "Check that it runs"),
    ],
)
def test_a_broken_answer_is_told_in_words(answer: bytes, reason: str, remedy: str) -> None:
    with answering(answer) as (url, _closed), open_to(url) as get, pytest.raises(NoAnswer) as caught:
        get()
    assert reason.lower() in caught.value.reason.lower()
    assert remedy in caught.value.remedy
    assert (caught.value.was_sent, caught.value.may_pass) == (True, True)


def test_an_answer_that_does_not_come_in_time_is_not_waited_for_again() -> None:
    with answering(None) as (url, _closed), open_to(url) as get, pytest.raises(NoAnswer) as caught:
        get(timeout=(5.0, 0.05))
    assert (caught.value.reason, caught.value.was_sent, caught.value.may_pass) == ("no answer in time", True, False)


@pytest.mark.parametrize(
    ("url", "reason"),
    [("http://127.0.0.1:1", "connection refused"), ("http://no-such-host.invalid", "no such host")],
)
def test_where_no_connection_comes_about_nothing_was_sent(url: str, reason: str) -> None:
    with open_to(url) as get, pytest.raises(NoAnswer) as caught:
        get()
    assert (caught.value.reason, caught.value.was_sent, caught.value.may_pass) == (reason, False, True)


def test_a_body_that_is_refused_before_its_end_is_told_why() -> None:
    """A server may answer 413 and close while a large body is still being sent."""
    refusal = b'HTTP/1.1 413 Too Large\r\nContent-Length: 25\r\nConnection: close\r\n\r\n{"message": "Too large."}'
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(refusal)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 20):
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    with listening, closing(Transport(f"http://127.0.0.1:{listening.getsockname()[1]}")) as transport:
        with pytest.raises(ClientError, match="Too large") as caught:
            transport.call("POST", "x", body={"text": "x" * (8 << 20)})
        assert caught.value.status == 413
    thread.join(10)


def test_several_threads_may_ask_at_once() -> None:
    with serving(Server()) as server, open_to(f"http://127.0.0.1:{server.port}") as get:
        contents: list[bytes] = []
        threads = [threading.Thread(target=lambda n=n: contents.append(get(f"/{n}").content)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(contents) == [f'{{"asked": "/{number}"}}'.encode() for number in range(8)]


def test_a_proxy_of_plain_http_is_told_the_whole_url_and_who_asks() -> None:
    with serving(Server()) as server:
        proxy = Proxy(host="127.0.0.1", port=server.port, headers={"Proxy-Authorization": "Basic YTpi"})
        with open_to("http://rainbow.example.org:8088/prefix", proxy=proxy) as get:
            assert get("/x").status == 200
    [(line, headers, _address)] = server.seen
    assert line == "GET http://rainbow.example.org:8088/prefix/x HTTP/1.1"
    assert (headers["Host"], headers["Proxy-Authorization"]) == ("rainbow.example.org:8088", "Basic YTpi")


def test_tls_goes_through_a_proxy_untouched(authority: trustme.CA, trusted: str) -> None:
    with serving(Server(context=server_context(authority, "localhost"))) as server, serving(Server()) as between:
        proxy = Proxy(host="127.0.0.1", port=between.port, headers={"Proxy-Authorization": "Basic YTpi"})
        with open_to(f"https://localhost:{server.port}", ca_file=trusted, proxy=proxy) as get:
            assert [get("/a").status, get("/b").status] == [200, 200]
        [(line, headers, _address)] = between.seen
        assert (line, headers["Proxy-Authorization"]) == (f"CONNECT localhost:{server.port} HTTP/1.0", "Basic YTpi")
        assert ["Proxy-Authorization" in headers for _line, headers, _address in server.seen] == [False, False]


def test_a_proxy_that_fails_is_named(authority: trustme.CA, trusted: str) -> None:
    with serving(Server()) as between:
        proxy = Proxy(host="127.0.0.1", port=between.port, headers={})
        with open_to("https://localhost:1", ca_file=trusted, proxy=proxy) as get, pytest.raises(NoAnswer) as caught:
            get()
    assert caught.value.reason.startswith(f"the proxy 127.0.0.1:{between.port}: tunnel connection failed: 407")
    assert not caught.value.was_sent


@pytest.mark.parametrize(
    ("names", "trusts", "reason"),
    [
        (["localhost"], True, None),
        (["localhost"], False, "its certificate is not trusted (unable to get local issuer certificate)"),
        (["elsewhere"], True, "its certificate is not trusted (Hostname mismatch"),
    ],
)
def test_a_certificate_is_checked(
    authority: trustme.CA, trusted: str, names: list[str], trusts: bool, reason: str | None
) -> None:
    with serving(Server(context=server_context(authority, *names))) as server:
        url = f"https://localhost:{server.port}"
        with open_to(url, ca_file=trusted if trusts else None) as get:
            if reason is None:
                assert get().status == 200
                return
            with pytest.raises(NoAnswer) as caught:
                get()
    assert caught.value.reason.startswith(reason)
    assert (caught.value.was_sent, caught.value.may_pass) == (False, False)
    assert "--ca-file" in caught.value.remedy


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_environment_may_name_whom_to_trust(
    authority: trustme.CA, trusted: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, trusted)
    with serving(Server(context=server_context(authority, "localhost"))) as server:
        with open_to(f"https://localhost:{server.port}") as get:
            assert get().status == 200
        monkeypatch.setenv(variable, f"{trusted}.none")
        with open_to(f"https://localhost:{server.port}") as get, pytest.raises(InvalidInput, match="cannot be read"):
            get()


def test_whoever_does_not_speak_tls_is_told_apart(trusted: str) -> None:
    with serving(Server()) as server:
        url = f"https://127.0.0.1:{server.port}"
        with open_to(url, ca_file=trusted) as get, pytest.raises(NoAnswer, match="it does not speak TLS") as caught:
            get()
    assert caught.value.remedy == "Write the endpoint with http://."


def test_a_write_is_repeated_only_where_nothing_was_sent() -> None:
    pauses: list[float] = []
    with closing(Transport("http://127.0.0.1:1", sleep=pauses.append)) as transport:
        with pytest.raises(Unreachable) as caught:
            transport.call("PUT", "x", body={})
        assert not isinstance(caught.value, Unanswered)
        assert len(pauses) == 2
    with answering(b"") as (url, _closed), closing(Transport(url, sleep=pauses.append)) as transport:
        with pytest.raises(Unanswered):
            transport.call("PUT", "x", body={})
        assert len(pauses) == 2


@pytest.mark.parametrize("token", ["two\nlines", "ümlaut"])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput, match="The token has invalid characters"):
        Transport("http://127.0.0.1:1", token=token)


def test_a_number_that_json_cannot_write_is_refused_before_anything_is_sent() -> None:
    with (
        closing(Transport("http://127.0.0.1:1")) as transport,
        pytest.raises(InvalidInput, match="JSON cannot represent"),
    ):
        transport.call("PUT", "x", body={"cpu": float("nan")})
