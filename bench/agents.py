"""Agents without an engine: they take leases, report the work as running, then as done."""

from __future__ import annotations

import http.client
import itertools
import time
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench.admins import API
from tests.support.http_agents import SECRET

Document = dict[str, Any]


class Client:
    """One keep-alive connection."""

    def __init__(self, port: int, token: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def post(self, path: str, body: Document, status: int = 200) -> Document:
        """The answer to a call that must succeed, or have another status."""
        return self._call("POST", path, orjson.dumps(body), status)

    def get(self, path: str, status: int = 200) -> Document:
        """The answer to a question that must have one, or another status."""
        return self._call("GET", path, status=status)

    def delete(self, path: str) -> Document:
        """The answer to a call that must succeed."""
        return self._call("DELETE", path, b"{}")

    def _call(self, method: str, path: str, body: bytes | None = None, status: int = 200) -> Document:
        self._connection.request(method, API + path, body, self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != status:
            raise RuntimeError(f"{method} {path} was answered {answer.status}: {text[:500].decode(errors='replace')}")
        answer_body: Document = orjson.loads(text)
        return answer_body

    def close(self) -> None:
        self._connection.close()


def register(port: int, cluster: str) -> str:
    """The token of a cluster's new agent."""
    client = Client(port)
    try:
        token: str = client.post(f"/clusters/{cluster}/register", {"secret": SECRET})["token"]
        return token
    finally:
        client.close()


@dataclass(kw_only=True)
class Agent:
    """The agent of one cluster; every sync reports what it holds, what runs and what is done."""

    client: Client
    cluster: str
    at_once: int = 50
    finished: int = 0
    refused: int = 0
    taken: list[float] = field(default_factory=list)  #: seconds that each sync took
    _offered: list[Document] = field(default_factory=list)
    _confirmed: list[Document] = field(default_factory=list)
    _running: list[Document] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _sequence: int = 0

    def sync(self) -> None:
        """Lease more executions, and advance those that are held by one step."""
        done, started = self._running, self._confirmed
        self._sequence += 1
        body = {
            "agent": "bench",
            "sequence": self._sequence,
            "want": self.at_once,
            "wait_seconds": 0.5,
            "holding": self._offered + started,
            "events": [*self._events("SUCCEEDED", done), *self._events("RUNNING", started)],
        }
        begin = time.monotonic()
        answer = self.client.post(f"/clusters/{self.cluster}/sync", body)
        self.taken.append(time.monotonic() - begin)
        self.refused += len(answer["refused"]) + len(answer["lost"])
        self.finished += len(done)
        confirmed = {tuple(_id(lease["id"]).values()) for lease in answer["confirmed"]}
        self._running = started
        self._confirmed = [lease for lease in self._offered if tuple(lease["id"].values()) in confirmed]
        self._offered = [{"id": _id(lease["id"]), "attempt": lease["attempt"]} for lease in answer["leases"]]

    def _events(self, type: str, leases: list[Document]) -> list[Document]:
        return [{"event": f"{self.cluster}-{next(self._numbers)}", "type": type, **lease} for lease in leases]


def _id(execution_id: Document) -> Document:
    """The keys in a fixed order, so that their values can be compared."""
    return {key: execution_id[key] for key in ("project", "domain", "name")}
