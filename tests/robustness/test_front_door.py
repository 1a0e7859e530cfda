"""Clients that send half a request, send it too slowly or do not read the answer: they keep nobody else out."""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.conftest import Scale
from tests.support.admins import RunningAdmin, running_admin
from tests.support.certificates import write_certificate
from tests.support.http_agents import HttpAgent, write_configuration
from tests.support.placing import DOMAIN, PROJECT
from tests.support.raw_requests import connect, exchange, read_all, read_until_closed, request, statuses
from tests.support.waiting import wait_until

TOKEN = "the-token-of-the-operators"
RECEIVE_SECONDS = 3
THREADS = 16  #: of one worker: far fewer than half-sent requests
JOB = {"command": ["true"]}
_OPEN_STATES = ("01", "08")  #: ESTABLISHED and CLOSE_WAIT, as /proc/net/tcp writes them


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    directory: Path = tmp_path_factory.mktemp("front-door")
    token = directory / "token"
    token.write_text(TOKEN)
    server = {"threads": THREADS, "receiveSeconds": RECEIVE_SECONDS, "apiTokenFile": str(token)}
    configuration = write_configuration(directory, server=server, logging={"level": "warning"})
    with running_admin(directory, "--config", str(configuration)) as running:
        yield running


@pytest.fixture(scope="module")
def agent(admin: RunningAdmin) -> HttpAgent:
    agent = HttpAgent(url=admin.url, cluster="local")
    agent.register()
    return agent


def creation() -> dict[str, Any]:
    return {"project": PROJECT, "domain": DOMAIN, "name": f"e{secrets.token_hex(6)}", "spec": {"job": JOB}}


def create(admin: RunningAdmin) -> requests.Response:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return requests.post(f"{admin.url}/api/v1/executions", json=creation(), headers=headers, timeout=60)


class Watch:
    """Asks for /healthz and creates executions, again and again, within a context."""

    def __init__(self, admin: RunningAdmin) -> None:
        self._admin = admin
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.statuses: set[int | str] = set()
        self.count = 0
        self.slowest_healthz = 0.0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._is_over.wait(0.05):
            try:
                begin = time.monotonic()
                self.statuses.add(self._admin.get("/healthz").status_code)
                self.slowest_healthz = max(self.slowest_healthz, time.monotonic() - begin)
                self.statuses.add(create(self._admin).status_code)
                self.count += 1
            except requests.RequestException as error:
                self.statuses.add(repr(error))


def halves(agent: HttpAgent) -> dict[str, bytes]:
    """Requests that stop in the middle."""
    operator, cluster = ({"Authorization": f"Bearer {token}"} for token in (TOKEN, agent.token))
    body = json.dumps(creation()).encode()
    return {
        "register": request("POST", "/api/v1/clusters/new/register", b'{"secret": "x"}')[:-4],
        "creation": request("POST", "/api/v1/executions", body, operator)[:-4],
        "sync": request("POST", "/api/v1/clusters/local/sync", b'{"agent": "a"}', cluster)[:-4],
        "chunks": request("POST", "/api/v1/executions", b"5\r\n{", operator | {"Transfer-Encoding": "chunked"}).replace(
            b"Content-Length: 4\r\n", b""
        ),
        "head": b"POST /api/v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Le",
        "nothing": b"",
    }


@pytest.mark.parametrize("kind", ["register", "creation", "sync", "chunks", "head", "nothing"])
def test_half_sent_requests_are_given_up_and_keep_nobody_out(
    admin: RunningAdmin, agent: HttpAgent, kind: str, scale: Scale
) -> None:
    half = halves(agent)[kind]
    count = scale(400, full=6000)
    with ExitStack() as stack, Watch(admin) as watch:
        connections = [stack.enter_context(connect(admin.url, half)) for _ in range(count)]
        answers = read_until_closed(connections, 60)
    assert (watch.statuses, watch.count > 0) == ({200}, True)
    assert watch.slowest_healthz < scale(5, full=1)
    expected = [] if kind in ("head", "nothing") else [408]
    assert [answer for answer in answers if answer is None or statuses(answer) not in ([], expected)] == []
    if expected:
        assert any(answer and statuses(answer) == [408] and b'"body_timeout"' in answer for answer in answers)


def test_handshakes_that_are_not_finished_keep_nobody_out(tmp_path: Path, scale: Scale) -> None:
    tls, verify = write_certificate(tmp_path), str(tmp_path / "ca.pem")
    # For as long as the test takes, none of them is given up.
    config = str(write_configuration(tmp_path, server={"receiveSeconds": 3600}))
    with (
        running_admin(tmp_path, "--config", config, *tls, scheme="https", verify=verify) as admin,
        ExitStack() as stack,
    ):
        for number in range(scale(400, full=2600)):
            stack.enter_context(connect(admin.url, b"\x16\x03\x01\x02\x00\x01" if number % 2 else b""))
        for _ in range(scale(2, full=20)):
            answer = requests.get(f"{admin.url}/healthz", timeout=scale(60, full=1), verify=verify)
            assert answer.status_code == 200


def test_bodies_that_arrive_byte_by_byte_are_given_up_and_keep_nobody_out(admin: RunningAdmin, scale: Scale) -> None:
    head = request("POST", "/api/v1/clusters/new/register", headers={"Content-Length": "1000"})
    with ExitStack() as stack, Watch(admin) as watch:
        connections = [stack.enter_context(connect(admin.url, head)) for _ in range(scale(100, full=1000))]
        is_over = threading.Event()
        drips = threading.Thread(target=_drip, args=(connections, is_over))
        drips.start()
        answers = read_until_closed(connections, 60)
        is_over.set()
        drips.join()
    assert watch.statuses == {200}
    assert None not in answers


def _drip(connections: list[socket.socket], is_over: threading.Event) -> None:
    """Send a byte on every connection, again and again."""
    while not is_over.wait(0.2):
        for connection in connections:
            with suppress(OSError):
                connection.send(b" ")


def test_a_large_body_may_take_longer_than_the_limit_as_long_as_it_goes_on(admin: RunningAdmin) -> None:
    batch = json.dumps({"executions": [creation()]}).encode()
    body = batch + b" " * (4 * 64 * 1024)
    headers = {"Authorization": f"Bearer {TOKEN}", "Connection": "close"}
    data = request("POST", "/api/v1/executions", body, headers)
    with connect(admin.url) as connection:
        for start in range(0, len(data), 64 * 1024):
            connection.sendall(data[start : start + 64 * 1024])
            time.sleep(0.8)
        answer = read_all(connection)
    assert statuses(answer) == [200], answer


def held_ports(admin: RunningAdmin) -> set[int]:
    """The ports of the clients whose connections an admin holds."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    # A connection that the admin has closed stays in the kernel's table until the client closes its end too.
    ends = [(int(line[1][-4:], 16), int(line[2][-4:], 16)) for line in lines if line[3] in _OPEN_STATES]
    return {client for server, client in ends if server == urlsplit(admin.url).port}


def test_clients_that_do_not_read_their_answers_are_let_go_and_keep_nobody_out(admin: RunningAdmin) -> None:
    document = request("GET", "/api/v1/openapi.json")
    length = len(exchange(admin.url, request("GET", "/api/v1/openapi.json", headers={"Connection": "close"})))
    times = 32_000_000 // length + 1  # more than the buffers of both sides take
    with ExitStack() as stack, Watch(admin) as watch:
        connections = [stack.enter_context(connect(admin.url, document * times)) for _ in range(3 * THREADS)]
        ports = {connection.getsockname()[1] for connection in connections}
        assert ports <= held_ports(admin)
        wait_until(lambda: not ports & held_ports(admin))
    assert watch.statuses == {200}


def test_a_request_without_a_token_is_refused_before_its_body_arrives(admin: RunningAdmin) -> None:
    for path in ("/api/v1/executions", "/api/v1/clusters/local/sync"):
        with connect(admin.url, request("POST", path, headers={"Content-Length": "100"})) as connection:
            assert statuses(read_all(connection)) == [401]


@pytest.mark.parametrize(
    ("path", "size"), [("executions", 10**12), ("clusters/x/register", 10**12), ("clusters/x/register", 64 * 1024 + 1)]
)
def test_a_body_that_is_too_large_by_its_own_word_is_refused_before_it_arrives(
    admin: RunningAdmin, path: str, size: int
) -> None:
    headers = {"Content-Length": str(size), "Authorization": f"Bearer {TOKEN}"}
    with connect(admin.url, request("POST", f"/api/v1/{path}", headers=headers)) as connection:
        assert statuses(read_all(connection)) == [413]


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


def post_chunked(path: str, chunks: bytes) -> bytes:
    headers = {"Authorization": f"Bearer {TOKEN}", "Transfer-Encoding": "chunked", "Connection": "close"}
    return request("POST", path, chunks, headers).replace(b"Content-Length: %d\r\n" % len(chunks), b"")


def test_a_body_in_chunks_is_taken_when_it_is_whole_and_only_then(admin: RunningAdmin) -> None:
    body = json.dumps(creation()).encode()
    path = "/api/v1/executions"
    parts = [body[:1], body[1:40], body[40:]]
    assert statuses(exchange(admin.url, post_chunked(path, chunked(*parts, b"")))) == [200]
    with connect(admin.url, post_chunked(path, chunked(*parts))) as connection:
        connection.shutdown(socket.SHUT_WR)  # the client ends before the body does
        assert statuses(read_all(connection)) in ([], [400])
    bad = exchange(admin.url, post_chunked(path, chunked(*parts) + b"not a length\r\n"))
    assert statuses(bad) in ([], [400])
    too_large = exchange(admin.url, post_chunked("/api/v1/clusters/x/register", chunked(b" " * 2**16, b" ", b"")))
    assert statuses(too_large) == [413]


@pytest.mark.parametrize(("size", "status"), [(2, 400), (600, 200)])
def test_a_body_in_many_small_chunks_is_refused(admin: RunningAdmin, size: int, status: int) -> None:
    chunks = [b" " * size] * 100
    answer = exchange(
        admin.url, post_chunked("/api/v1/executions", chunked(*chunks, json.dumps(creation()).encode(), b""))
    )
    assert statuses(answer) == [status]
    assert (b"too many chunks" in answer) == (status == 400)


def test_requests_that_follow_each_other_on_a_connection_are_answered_in_order(admin: RunningAdmin) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    bodies = [json.dumps(creation()).encode() for _ in range(3)]
    posts = [request("POST", "/api/v1/executions", body, headers) for body in bodies]
    posts[2] = posts[2].replace(b"Host:", b"Connection: close\r\nHost:")
    answer = exchange(admin.url, posts[0] + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + posts[1] + posts[2])
    assert statuses(answer) == [200, 200, 200, 200]


def test_a_client_that_asks_first_is_told_to_go_on_or_refused(admin: RunningAdmin) -> None:
    body = json.dumps(creation()).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Expect": "100-continue"}
    headers |= {"Content-Length": str(len(body)), "Connection": "close"}
    with connect(admin.url, request("POST", "/api/v1/executions", headers=headers)) as connection:
        assert statuses(connection.recv(1000)) == [100]
        connection.sendall(body)
        assert statuses(read_all(connection)) == [200]


def test_a_half_sent_body_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    server = {"receiveSeconds": 300, "gracefulShutdownSeconds": 20}
    configuration = write_configuration(tmp_path, server=server)
    head = request("POST", "/api/v1/executions", headers={"Content-Length": "10", "Expect": "100-continue"})
    with running_admin(tmp_path, "--config", str(configuration)) as admin, connect(admin.url, head) as connection:
        assert statuses(connection.recv(1000)) == [100]  # the body is awaited
        admin.process.terminate()
        answer = read_all(connection)
        assert (statuses(answer), b"retry-after: 2" in answer.lower()) == ([503], True)
        assert admin.process.wait(30) == 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
        (b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
        (b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
        (
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://\xe9.org\r\nConnection: close\r\n\r\n",
            403,
        ),
        (b"GET /api/v1/projects/%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 401),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab", 400),
        (b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 500_000 + b"\r\n\r\n", 431),
        (b"NO HTTP AT ALL\r\n\r\n", 400),
    ],
)
def test_odd_requests_are_answered_by_the_rules_of_http(admin: RunningAdmin, data: bytes, status: int) -> None:
    assert statuses(exchange(admin.url, data)) == [status]


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("rbu-" + "0" * 1_000_000, 431),  # by the server, before anything of ours reads it
        ("rbu-" + "0" * 60_000, 401),
        ("rbc-" + "0" * 60_000, 401),
        ("rbu-00000000-\0\0", 400),  # no header may hold it
        ("rbu-\xe9\xe9\xe9", 401),
        ("\xff" * 40, 401),
    ],
    ids=["a million characters", "many characters", "many of an agent", "NUL", "no ASCII", "no ASCII and no mark"],
)
def test_an_absurd_token_is_refused_and_keeps_nobody_out(admin: RunningAdmin, token: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {token}", "Connection": "close"}
    answer = exchange(admin.url, request("GET", "/api/v1/whoami", headers=headers))
    assert statuses(answer) == [status]
    assert token[4:40].encode("latin-1") not in answer
    assert create(admin).status_code == 200
