"""A bounded load on loopback: some keep-alive connections, each sending its next request when it has its answer.

`wrk` makes it where it is installed; else asyncio does, at the price of a good part of the same cores.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

CONNECTIONS = 16
_SCRIPT = Path(__file__).with_name("load.lua")
_DRAWN = re.compile("<([a-z]+)>")
_REFUSED = re.compile(rb'"failed": ?(\d+)')
#: How long the last answers may take once the load is over.
_LAST_SECONDS = 30
#: What a server was asked last it still works on when nobody waits any more; the next load is not to pay for it.
_REST_SECONDS = 0.5
#: What is under way when the time is up does not count, and of batches that is much: so many times as long are they
#: measured.
_TIMES_AS_LONG = 3


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What a load measured; latencies in milliseconds."""

    per_second: float
    p50: float
    p99: float
    failures: int


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request with draws in it: `<name>` is drawn anew each time, `<unique>` is what never came before."""

    port: int
    path: str
    method: str = "GET"
    body: str = ""
    #: A number below a limit, or one of some words.
    draws: Mapping[str, int | Sequence[str]] = field(default_factory=dict)
    #: How often the body stands in one request, between two ends.
    times: int = 1
    ends: tuple[str, str] = ("", "")
    headers: Mapping[str, str] = field(default_factory=dict)

    def measure(self, seconds: int) -> Rate:
        """The rate at which a server answers it well; a batch counts as many times as it has bodies."""
        seconds *= _TIMES_AS_LONG if self.times > 1 else 1
        return _with_wrk(self, seconds) if _wrk() else asyncio.run(_with_asyncio(self, seconds))

    @property
    def refuses_singly(self) -> bool:
        """Whether a good answer may still tell of failures, as the `failed` of a batch."""
        return self.times > 1


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long is measured: rounds of seconds, each after a moment that does not count."""

    seconds: int = 2
    rounds: int = 7
    warm_up: int = 1


QUICK = Pace(seconds=2, rounds=1)


#: Measures something for so many seconds.
Measure = Callable[[int], Rate]


def measure_in_turns(measures: Mapping[str, Measure], pace: Pace) -> dict[str, Rate]:
    """Several rates, round by round, so that whatever else the machine does meets them all alike."""

    def measure(one: Measure, seconds: int) -> Rate:
        rate = one(seconds)
        time.sleep(_REST_SECONDS)
        return rate

    for one in measures.values():
        measure(one, pace.warm_up)
    rounds = [{name: measure(one, pace.seconds) for name, one in measures.items()} for _ in range(pace.rounds)]
    return {name: _median([one[name] for one in rounds]) for name in measures}


def _median(rates: list[Rate]) -> Rate:
    return Rate(
        per_second=statistics.median(rate.per_second for rate in rates),
        p50=statistics.median(rate.p50 for rate in rates),
        p99=statistics.median(rate.p99 for rate in rates),
        failures=sum(rate.failures for rate in rates),
    )


@cache
def _wrk() -> str | None:
    found = shutil.which("wrk")
    if found is None:
        print("wrk is not installed: asyncio makes the load, and takes time from the servers.", file=sys.stderr)
    return found


def _with_wrk(call: Call, seconds: int) -> Rate:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(f"call = {_lua(_described(call))}\n{_SCRIPT.read_text()}")
        script.flush()
        command = [_wrk() or "", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout=20s", f"--script={script.name}"]
        done = subprocess.run(
            [*command, f"http://127.0.0.1:{call.port}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds + _LAST_SECONDS,
        )
    found = json.loads(done.stdout.splitlines()[-1])
    usual = found["microseconds"] // max(1, found["answers"] // CONNECTIONS)
    latencies = _as_they_came(dict(found["latencies"]), usual)
    return Rate(
        per_second=(found["answers"] * call.times - found["refused"]) / (found["microseconds"] / 1e6),
        p50=_percentile(latencies, 50) / 1000,
        p99=_percentile(latencies, 99) / 1000,
        failures=found["lost"] + found["refused"] + (0 if found["answers"] else CONNECTIONS),
    )


def _as_they_came(counts: Mapping[int, int], usual: int) -> dict[int, int]:
    """How often each latency was measured, out of what wrk makes of that.

    It adds what requests would have seen that it might have sent while it waited for slow answers, as if it had meant
    to send them at a steady rate. Our clients mean to wait. Whatever an answer has added stands below it, by multiples
    of the usual time, so it is taken away again from the slowest answer down.
    """
    measured = dict(counts)
    for latency in sorted(counts, reverse=True):
        for added in range(latency - usual, usual, -usual) if measured[latency] else ():
            measured[added] -= measured[latency]
    return measured


def _percentile(counts: Mapping[int, int], share: float) -> int:
    """The latency that so many of a hundred answers do not exceed."""
    wanted = share / 100 * sum(counts.values())
    seen = 0
    for latency in sorted(counts):
        seen += counts[latency]
        if seen >= wanted:
            return latency
    return 0


def _described(call: Call) -> dict[str, object]:
    return {
        "run": secrets.token_hex(4),
        "seed": secrets.randbelow(2**31),
        "method": call.method,
        "path": call.path,
        "body": call.body,
        "first": call.ends[0],
        "last": call.ends[1],
        "times": call.times,
        "draws": dict(call.draws),
        "headers": {"Content-Type": "application/json", **call.headers},
        "refuses_singly": call.refuses_singly,
    }


def _lua(value: object) -> str:
    """A value as Lua writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"[{_lua(name)}] = {_lua(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "{" + ", ".join(map(_lua, value)) + "}"
    return json.dumps(value)


class _Requests:
    """The requests of a call, as they go over the wire."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._run = secrets.token_hex(4)
        self._count = 0

    def make(self) -> bytes:
        call = self._call
        body = ""
        if call.body:
            body = call.ends[0] + ",".join(self._fill(call.body) for _ in range(call.times)) + call.ends[1]
        headers = {"Host": "bench", "Content-Type": "application/json", "Content-Length": len(body), **call.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{call.method} {self._fill(call.path)} HTTP/1.1\r\n{head}\r\n{body}".encode()

    def _fill(self, text: str) -> str:
        self._count += 1
        drawn = {
            name: str(random.randrange(among)) if isinstance(among, int) else random.choice(among)
            for name, among in self._call.draws.items()
        }
        drawn["unique"] = f"{self._run}-{self._count}"
        return _DRAWN.sub(lambda found: drawn[found[1]], text)


async def _with_asyncio(call: Call, seconds: int) -> Rate:
    taken: list[float] = []
    failures = 0
    requests = _Requests(call)
    end = time.monotonic() + seconds

    async def client() -> None:
        nonlocal failures
        reader, writer = await asyncio.open_connection("127.0.0.1", call.port)
        while (begin := time.monotonic()) < end:
            writer.write(requests.make())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            taken.append(time.monotonic() - begin)
            if head.split(b" ", 2)[1][:1] != b"2":
                failures += call.times
            if call.refuses_singly:
                failures += sum(map(int, _REFUSED.findall(body)))
        writer.close()

    await asyncio.wait_for(asyncio.gather(*(client() for _ in range(CONNECTIONS))), seconds + _LAST_SECONDS)
    return rate_of(taken, seconds, failures=failures, times=call.times)


def rate_of(taken: list[float], seconds: float, *, failures: int = 0, times: int = 1) -> Rate:
    """The rate of something that was done in so many seconds, from how long each time took."""
    cuts = statistics.quantiles(taken, n=100)
    per_second = (len(taken) * times - failures) / seconds
    return Rate(per_second=per_second, p50=cuts[49] * 1000, p99=cuts[98] * 1000, failures=failures)
