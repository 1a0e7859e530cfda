"""A bounded load on loopback: some keep-alive connections, each sending its next request when it has its answer."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

CONNECTIONS = 16
SECONDS = 4


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What a load measured; latencies in milliseconds."""

    per_second: float
    p50: float
    p99: float
    failures: int


def get(path: str) -> bytes:
    """A GET as it goes over the wire."""
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


def put(path: str, body: bytes) -> bytes:
    """A PUT of JSON as it goes over the wire."""
    head = (
        f"PUT {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def measure(port: int, request: Callable[[int], bytes]) -> Rate:
    """The rate at which a server answers; `request` makes the n-th request."""
    return asyncio.run(_measure(port, request))


async def _measure(port: int, request: Callable[[int], bytes]) -> Rate:
    taken: list[float] = []
    failures = 0
    end = time.monotonic() + SECONDS
    number = iter(range(10**9))

    async def client() -> None:
        nonlocal failures
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (begin := time.monotonic()) < end:
            writer.write(request(next(number)))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            taken.append(time.monotonic() - begin)
            failures += b" 200 " not in head.split(b"\r\n", 1)[0] + b" "
        writer.close()

    await asyncio.wait_for(asyncio.gather(*(client() for _ in range(CONNECTIONS))), SECONDS + 30)
    cuts = statistics.quantiles(taken, n=100)
    return Rate(per_second=len(taken) / SECONDS, p50=cuts[49] * 1000, p99=cuts[98] * 1000, failures=failures)
