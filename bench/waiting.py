"""A thousand agents that wait for work: what they cost while nothing happens, and how soon one has its lease."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import sqlalchemy

from bench import stock
from bench.admins import API, admin_on, port_of
from bench.agents import Client, register
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import QUICK, Pace
from bench.processes import largest_worker, processor_seconds
from tests.support.admins import RunningAdmin

NAME = "waiting"
AGENTS, FEW_AGENTS = 1000, 100
_WAIT_SECONDS = 30
_QUIET_SECONDS = 8
_SAMPLES = 100


@dataclass
class _Poller:
    """An agent that syncs until it has a lease."""

    port: int
    cluster: str
    token: str
    leased_at: float | None = None

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        sequence = 0
        try:
            while self.leased_at is None:
                sequence += 1
                writer.write(self._request(sequence))
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                answer = json.loads(body)
                if "leases" not in answer:
                    raise RuntimeError(f"a sync was answered {answer}")
                if answer["leases"]:
                    self.leased_at = time.monotonic()
        finally:
            writer.close()

    def _request(self, sequence: int) -> bytes:
        body = {"agent": "bench", "sequence": sequence, "want": 1, "wait_seconds": _WAIT_SECONDS}
        text = json.dumps(body)
        return (
            f"POST {API}/clusters/{self.cluster}/sync HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Length: {len(text)}\r\n\r\n{text}"
        ).encode()


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    database = backend.create()
    stock.fill(database, stock.THOUSAND)
    with admin_on(database) as admin:
        yield from asyncio.run(_measured(backend, database, admin, pace))


async def _measured(backend: Backend, database: str, admin: RunningAdmin, pace: Pace) -> list[Figure]:
    port = port_of(admin)
    names = [f"waits-{number}" for number in range(FEW_AGENTS if pace == QUICK else AGENTS)]
    with ThreadPoolExecutor(4) as pool:
        tokens = list(pool.map(lambda name: register(port, name), names))
    pollers = [_Poller(port, name, token) for name, token in zip(names, tokens, strict=True)]
    polls = []
    for poller in pollers:
        polls.append(asyncio.create_task(poller.run()))
        await asyncio.sleep(_WAIT_SECONDS / len(pollers))  # they come again as evenly as they have come
    before = processor_seconds(admin)
    await asyncio.sleep(_QUIET_SECONDS)
    busy = (processor_seconds(admin) - before) / _QUIET_SECONDS
    connections = _connections(database)
    call = stock.effective_call(port, stock.THOUSAND)
    rate = await asyncio.to_thread(call.measure, pace.seconds)
    taken = [await _lease(port, poller) for poller in pollers[:_SAMPLES]]
    waiting = sum(not poll.done() for poll in polls)
    for poll in polls:
        poll.cancel()
    failed = [
        result for result in await asyncio.gather(*polls, return_exceptions=True) if isinstance(result, RuntimeError)
    ]
    if failed:
        raise failed[0]

    def figure(what: str, value: float, unit: str) -> Figure:
        return Figure(bench=NAME, what=what, database=backend.name, value=value, unit=unit)

    cuts = statistics.quantiles(taken, n=100)
    lease = figure("from a creation's answer to the agent's lease", cuts[49], "ms")
    figures = [
        figure("agents that wait", waiting + _SAMPLES, "agents"),
        figure("processor they cost, of one core", busy * 100, "%"),
        figure("memory of a worker meanwhile", largest_worker(admin), "MiB"),
        Figure(**{**vars(lease), "p50": cuts[49], "p99": cuts[98]}),
        rate_figure(NAME, "effective attributes, all kinds, meanwhile", backend.name, rate),
    ]
    return figures if connections is None else [*figures, figure("database connections", connections, "connections")]


async def _lease(port: int, poller: _Poller) -> float:
    """Milliseconds from the answer to a creation until the agent has its lease; less than 0 where that came first."""
    body = json.loads(json.dumps(stock.job_body()).replace("<project>", "0").replace("<domain>", stock.DOMAINS[0]))
    body |= {"name": f"w-{poller.cluster}", "spec": {**body["spec"], "cluster": poller.cluster}}
    client = Client(port)
    await asyncio.to_thread(client.post, "/executions", body)
    answered = time.monotonic()
    client.close()
    while poller.leased_at is None:
        if time.monotonic() > answered + 60:
            raise RuntimeError(f"the agent of {poller.cluster} got no lease")
        await asyncio.sleep(0.0005)
    return (poller.leased_at - answered) * 1000


def _connections(database: str) -> int | None:
    """How many connections the admin has to a PostgreSQL database."""
    if database.startswith("sqlite"):
        return None
    engine = sqlalchemy.create_engine(database)
    with engine.connect() as connection:
        query = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
        count = int(connection.exec_driver_sql(query).scalar_one())
    engine.dispose()
    return count
