"""Pairs of requests over HTTP, of which the second needs the answer to the first: take something, and give it back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from typing import Any

from bench.ceilings import in_threads
from bench.load import Measure

#: A request: its path and its body.
Request = tuple[str, dict[str, Any]]


def pair_measure(port: int, take: Callable[[], Request], give_back: Callable[[Any], Request]) -> Measure:
    """The rate of pairs; each thread has a connection of its own, which it keeps."""
    local = threading.local()

    def send(request: Request) -> Any:
        path, body = request
        if not hasattr(local, "connection"):
            local.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        local.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = local.connection.getresponse()
        text = answer.read()
        assert 200 <= answer.status < 300, text
        return json.loads(text) if text else None

    def act() -> None:
        send(give_back(send(take())))

    return partial(in_threads, act)
