"""Timing, for the scripts that run in a peer's own environment: nothing but the standard library."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable

Act = Callable[[], Awaitable[int]]  #: does something, and answers how many it did; 0 where nothing is left


async def rate(act: Act, seconds: float, clients: int = 16) -> dict[str, float]:
    """The rate at which some clients do something, for so long or until nothing is left."""
    taken: list[float] = []
    count = 0
    begin = time.monotonic()

    async def client() -> None:
        nonlocal count
        while (start := time.monotonic()) < begin + seconds:
            done = await act()
            if not done:
                return
            taken.append(time.monotonic() - start)
            count += done

    await asyncio.gather(*(client() for _ in range(clients)))
    elapsed = time.monotonic() - begin
    cuts = statistics.quantiles(taken, n=100)
    return {"per_second": count / elapsed, "p50": cuts[49] * 1000, "p99": cuts[98] * 1000}


def say(what: str, measured: dict[str, float]) -> None:
    """Tell the bench what was measured."""
    print(json.dumps({"what": what, **measured}), flush=True)
