"""Requests over plain sockets, for what no client library would send."""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit


def request(method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """A request as it goes over the wire; headers replace the usual ones."""
    usual = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in {**usual, **(headers or {})}.items()]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + body


def connect(url: str, data: bytes = b"") -> socket.socket:
    """A connection over which some bytes have been sent."""
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=60)
    connection.sendall(data)
    return connection


def read_all(connection: socket.socket) -> bytes:
    """What arrives until the other side closes the connection, or resets it."""
    data = b""
    try:
        while chunk := connection.recv(65536):
            data += chunk
    except ConnectionError:
        pass
    return data


def exchange(url: str, data: bytes) -> bytes:
    """What is answered to some bytes, until the other side closes the connection."""
    with connect(url, data) as connection:
        return read_all(connection)


def statuses(answer: bytes) -> list[int]:
    """The status of each answer on one connection."""
    return [int(status) for status in re.findall(rb"^HTTP/1\.[01] (\d{3}) ", answer, re.MULTILINE)]


def read_until_closed(connections: Iterable[socket.socket], seconds: float) -> list[bytes | None]:
    """What arrived on each of many connections until the other side closed it; None where it did not in time."""
    listed = list(connections)
    answers: dict[socket.socket, bytes] = dict.fromkeys(listed, b"")
    closed: set[socket.socket] = set()
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for connection in listed:
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)
        while len(closed) < len(listed) and time.monotonic() < end:
            for key, _ in selector.select(0.5):
                connection = key.fileobj  # type: ignore[assignment]
                try:
                    data = connection.recv(65536)
                except ConnectionError:
                    data = b""
                answers[connection] += data
                if not data:
                    closed.add(connection)
                    selector.unregister(connection)
    return [answers[connection] if connection in closed else None for connection in listed]
