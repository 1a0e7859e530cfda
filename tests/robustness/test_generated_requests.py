"""Bad requests by the thousand, over plain sockets: none is answered with an error of ours, and none holds a thread."""

from __future__ import annotations

import json
import random
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from admin.app import all_operations
from tests.conftest import Scale
from tests.support.admins import RunningAdmin, running_admin
from tests.support.http_agents import HttpAgent, write_configuration
from tests.support.raw_requests import connect, read_all, request, statuses

THREADS = 8  #: of one worker, so that a few that are held would show
CLIENTS = 4
SEED = 15
NAMES = ["flytesnacks", "development", "local", "e1", "1", "", "..", "%00", "%ff", "a" * 300, "é", "-1", "nul\0"]
OPERATIONS = sorted({(operation.method, operation.path) for operation in all_operations()})
SYNC: dict[str, object] = {"agent": "a", "sequence": 1, "want": 1, "holding": [], "events": [], "logs": []}
CREATION: dict[str, object] = {
    "project": "flytesnacks",
    "domain": "development",
    "spec": {"job": {"command": ["true"]}},
}


class Generator:
    """Makes bad requests; the same ones for the same seed."""

    def __init__(self, seed: int, token: str) -> None:
        self._random = random.Random(seed)
        self._token = token

    def make(self) -> bytes:
        """The bytes of a request, mostly well-formed HTTP and mostly not what the path takes."""
        is_sync = self._random.random() < 0.3
        method, path = ("POST", "/api/v1/clusters/local/sync") if is_sync else self._random.choice(OPERATIONS)
        path = re.sub(r"<(?:rest:)?\w+>", lambda _: self._random.choice(NAMES), path)
        path = path.encode().decode("latin-1").replace(" ", "%20")
        if self._random.random() < 0.2:
            path += self._random.choice(
                ["?", "?limit=-1", "?resource_type=99", "?x=%zz", "?after_event=x", "?a&a=1&&="]
            )
        headers = {"Connection": "close"}
        if is_sync or self._random.random() < 0.1:
            headers["Authorization"] = f"Bearer {self._token}"
        body = self._body(SYNC if is_sync else CREATION)
        data = request(method, path, body, headers | self._headers())
        return self._damaged(data) if self._random.random() < 0.3 else data

    def _headers(self) -> dict[str, str]:
        odd = [
            {"Content-Type": "text/plain"},
            {"Content-Length": "-1"},
            {"Host": "elsewhere.example.org"},
            {"If-Match": '"x"'},
            {"Idempotency-Key": "\xe9" * 300},
            {"Expect": "100-continue"},
            {"X-Request-Id": "a b\tc"},
            {"Transfer-Encoding": "gzip, chunked"},
        ]
        return self._random.choice(odd) if self._random.random() < 0.3 else {}

    def _body(self, usual: dict[str, object]) -> bytes:
        document = dict(usual)
        for _ in range(self._random.randrange(3)):
            document[self._random.choice([*usual, "unknown", "name"])] = self._value(0)
        kind = self._random.random()
        if kind < 0.1:
            return self._random.randbytes(self._random.randrange(200))
        return b"" if kind < 0.2 else json.dumps(document).encode()

    def _value(self, depth: int) -> object:
        kind = self._random.randrange(10 if depth < 4 else 8)
        if kind == 8:
            return [self._value(depth + 1) for _ in range(self._random.randrange(4))]
        if kind == 9:
            return {
                self._random.choice(["id", "attempt", "name", "job", "x"]): self._value(depth + 1) for _ in range(3)
            }
        return [None, True, -1, 2**70, 1.5, "", "\0\ud800", "x" * 500][kind]

    def _damaged(self, data: bytes) -> bytes:
        """Some bytes replaced, cut off or doubled."""
        where = self._random.randrange(len(data))
        match self._random.randrange(3):
            case 0:
                return data[:where]
            case 1:
                return data[:where] + self._random.randbytes(3) + data[where + 3 :]
        return data[:where] + data[where // 2 :]


def send(url: str, data: bytes) -> list[int]:
    """The statuses that some bytes are answered with; the client then sends no more."""
    try:
        with connect(url, data) as connection:
            connection.settimeout(0.2)  # whether the admin still waits for the rest
            try:
                return statuses(read_all(connection))
            except TimeoutError:
                connection.settimeout(60)
                connection.shutdown(socket.SHUT_WR)
                return statuses(read_all(connection))
    except ConnectionError:
        return []


def test_generated_bad_requests_get_no_error_of_ours_and_hold_no_thread(tmp_path: Path, scale: Scale) -> None:
    count = scale(160, full=100_000)
    server = {"threads": THREADS, "receiveSeconds": 2}
    configuration = write_configuration(tmp_path, server=server, logging={"level": "warning"})
    with running_admin(tmp_path, "--config", str(configuration)) as admin:
        agent = HttpAgent(url=admin.url, cluster="local")
        agent.register()
        is_over = threading.Event()
        with ThreadPoolExecutor(CLIENTS + 1) as pool:
            health = pool.submit(watch_health, admin, is_over)
            try:
                for ours in pool.map(lambda n: run(admin, agent.token, SEED + n, count // CLIENTS), range(CLIENTS)):
                    assert ours == []
            finally:
                is_over.set()
            assert health.result() < scale(5, full=1)
        with ThreadPoolExecutor(THREADS) as pool:  # as many at once as one worker answers
            statuses = list(pool.map(lambda _: admin.get("/api/v1/projects").status_code, range(4 * THREADS)))
        assert set(statuses) == {200}


def run(admin: RunningAdmin, token: str, seed: int, count: int) -> list[tuple[bytes, list[int]]]:
    """The requests of one client that were answered with an error of ours."""
    generator = Generator(seed, token)
    sent = [(data, send(admin.url, data)) for data in (generator.make() for _ in range(count))]
    assert sum(bool(answered) for _, answered in sent) > count / 2
    return [(data, answered) for data, answered in sent if any(status >= 500 for status in answered)]


def watch_health(admin: RunningAdmin, is_over: threading.Event) -> float:
    """The longest time that /healthz took."""
    slowest = 0.0
    while not is_over.wait(0.05):
        begin = time.monotonic()
        assert requests.get(f"{admin.url}/healthz", timeout=30).status_code == 200
        slowest = max(slowest, time.monotonic() - begin)
    return slowest
