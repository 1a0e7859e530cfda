"""A closed load on loopback: keep-alive connections, each sending its next request when it has its answer.

`wrk` generates it if it is installed; otherwise asyncio does, which costs a good part of the same cores.
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
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bench.stolen_time import STOLEN, StolenTime

CONNECTIONS = 16
_SCRIPT = Path(__file__).with_name("load.lua")
_DRAWN = re.compile("<([a-z]+)>")
_REFUSED = re.compile(rb'"failed": ?(\d+)')
#: How long the last answers may take once the load is over.
_LAST_SECONDS = 30
#: Requests in flight when the time is up do not count, which is a large share of batches: measure those longer.
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
    """A request with random parts: `<name>` is drawn for each request, `<unique>` never repeats."""

    port: int
    path: str
    method: str = "GET"
    body: str = ""
    #: A number below a limit, or a choice of words.
    draws: Mapping[str, int | Sequence[str]] = field(default_factory=dict)
    #: How many times the body is repeated in one request, between the two ends.
    times: int = 1
    ends: tuple[str, str] = ("", "")
    headers: Mapping[str, str] = field(default_factory=dict)

    def measure(self, seconds: int) -> Rate:
        """The rate of successful answers; a batch counts once for each of its bodies."""
        seconds *= _TIMES_AS_LONG if self.times > 1 else 1
        return _with_wrk(self, seconds) if _wrk() else asyncio.run(_with_asyncio(self, seconds))

    @property
    def refuses_singly(self) -> bool:
        """Whether a successful answer may report failures, as `failed` in the answer to a batch."""
        return self.times > 1


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long to measure: rounds of seconds, after a warm-up that does not count."""

    seconds: int = 2
    rounds: int = 7
    warm_up: int = 1
    rest_seconds: float = 0.5  #: in which a server ends the last requests, so that the next load does not pay for them


QUICK = Pace(seconds=2, rounds=1)


#: Measures something for so many seconds.
Measure = Callable[[int], Rate]


def measure_in_turns(
    measures: Mapping[str, Measure], pace: Pace, stolen_time: StolenTime = STOLEN, worst: Collection[str] = ()
) -> dict[str, Rate]:
    """Several rates, measured in turns, so that other load on the machine affects all of them alike.

    Of each the middle round counts; of those in `worst`, whose rounds differ by what happens in them, the slowest.
    """

    def measure_and_rest(measure: Measure, seconds: int) -> Rate:
        rate = measure(seconds)
        time.sleep(pace.rest_seconds)
        return rate

    def measure_undisturbed(measure: Measure, seconds: int) -> Rate:
        return stolen_time.measure(lambda: measure_and_rest(measure, seconds))

    for measure in measures.values():
        measure_and_rest(measure, pace.warm_up)
    rounds = [
        {name: measure_undisturbed(measure, pace.seconds) for name, measure in measures.items()}
        for _ in range(pace.rounds)
    ]
    return {name: (_worst if name in worst else _median)([rates[name] for rates in rounds]) for name in measures}


def _worst(rates: list[Rate]) -> Rate:
    return min(rates, key=lambda rate: rate.per_second)


def _median(rates: list[Rate]) -> Rate:
    return Rate(
        per_second=statistics.median(rate.per_second for rate in rates),
        p50=statistics.median(rate.p50 for rate in rates),
        p99=statistics.median(rate.p99 for rate in rates),
        failures=sum(rate.failures for rate in rates),
    )


@cache
def _wrk() -> str | None:
    program = shutil.which("wrk")
    if program is None:
        print("wrk is not installed: asyncio makes the load, and takes time from the servers.", file=sys.stderr)
    return program


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
    counts = json.loads(done.stdout.splitlines()[-1])
    usual = counts["microseconds"] // max(1, counts["answers"] // CONNECTIONS)
    latencies = _without_correction(dict(counts["latencies"]), usual)
    return Rate(
        per_second=(counts["answers"] * call.times - counts["refused"]) / (counts["microseconds"] / 1e6),
        p50=_percentile(latencies, 50) / 1000,
        p99=_percentile(latencies, 99) / 1000,
        failures=counts["lost"] + counts["refused"] + (0 if counts["answers"] else CONNECTIONS),
    )


def _without_correction(counts: Mapping[int, int], usual: int) -> dict[int, int]:
    """How often each latency was measured, without the correction that wrk applies.

    wrk adds the latencies of requests it would have sent at a steady rate while it waited for a slow answer (its
    correction for coordinated omission). Our clients are meant to wait. Each slow answer adds latencies below it, in
    steps of the usual latency, so they are subtracted again from the slowest answer down.
    """
    measured = dict(counts)
    for latency in sorted(counts, reverse=True):
        for added in range(latency - usual, usual, -usual) if measured[latency] else ():
            measured[added] -= measured[latency]
    return measured


def _percentile(counts: Mapping[int, int], share: float) -> int:
    """The latency that this percentage of answers does not exceed."""
    rank = share / 100 * sum(counts.values())
    seen = 0
    for latency in sorted(counts):
        seen += counts[latency]
        if seen >= rank:
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
        headers = {
            "Host": f"127.0.0.1:{call.port}",
            "Content-Type": "application/json",
            "Content-Length": len(body),
            **call.headers,
        }
        head = "".join(f"{name}: {self._fill(str(value))}\r\n" for name, value in headers.items())
        return f"{call.method} {self._fill(call.path)} HTTP/1.1\r\n{head}\r\n{body}".encode()

    def _fill(self, text: str) -> str:
        self._count += 1
        drawn = {
            name: str(random.randrange(among)) if isinstance(among, int) else random.choice(among)
            for name, among in self._call.draws.items()
        }
        drawn["unique"] = f"{self._run}-{self._count}"
        return _DRAWN.sub(lambda match: drawn[match[1]], text)


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
