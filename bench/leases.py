"""Leases: executions created in batches, leased 50 at a time, reported running and then succeeded, all over HTTP."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

from bench import stock
from bench.admins import admin_on, port_of
from bench.agents import Agent, Client, register
from bench.ceilings import LIFE, without_http
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import Pace, Rate, rate_of

NAME = "leases"
WHOLE = "create, lease 50 at a time, running, succeeded"
BATCH = 100
CREATORS = 2
#: How many executions there are for each second of the pace, and how much longer they may take than that.
_PER_SECOND, _PATIENCE = 1000, 4


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    seconds = pace.seconds * pace.rounds
    with without_http(backend.create()) as direct:
        yield rate_figure(NAME, LIFE, backend.name, direct.live(50)(pace.seconds))
    database = backend.create()
    stock.fill(database, stock.THOUSAND)
    stock.bound_others(database, stock.THOUSAND)
    with admin_on(database) as admin:
        port = port_of(admin)
        clusters = [f"cluster-{number}" for number in range(stock.CLUSTERS)]
        agents = [Agent(client=Client(port, register(port, name)), cluster=name) for name in clusters]
        for agent in agents:
            agent.sync()  # every cluster has been seen
        rate = _measure_lifetimes(port, agents, seconds * _PER_SECOND, seconds * _PATIENCE)
    yield rate_figure(NAME, WHOLE, backend.name, rate, ceiling=LIFE)


def _measure_lifetimes(port: int, agents: list[Agent], count: int, most_seconds: float) -> Rate:
    """The rate of executions from the first creation to the last report."""
    stop, is_enough = threading.Event(), threading.Event()
    created = itertools.count(BATCH, BATCH)
    begin = time.monotonic()

    def is_over() -> bool:
        is_late = time.monotonic() >= begin + most_seconds
        return stop.is_set() or is_late or sum(agent.finished for agent in agents) >= count

    def work(agent: Agent) -> None:
        is_enough.wait(most_seconds)  # so many wait that there is something to lease at a time
        while not is_over():
            agent.sync()

    def create() -> None:
        client = Client(port)
        for _ in range(count // BATCH // CREATORS):
            if not is_over():
                answer = client.post("/executions", {"executions": [_body() for _ in range(BATCH)]})
                assert answer["failed"] == 0, f"{answer['failed']} creations failed"
                if next(created) >= sum(agent.at_once for agent in agents):
                    is_enough.set()
        client.close()

    with ThreadPoolExecutor(len(agents) + CREATORS) as pool:
        working = [pool.submit(work, agent) for agent in agents] + [pool.submit(create) for _ in range(CREATORS)]
        try:
            for future in as_completed(working):
                future.result()
        finally:
            stop.set()
            is_enough.set()
    elapsed = time.monotonic() - begin
    syncs = rate_of([seconds for agent in agents for seconds in agent.taken], elapsed)
    finished, refused = sum(agent.finished for agent in agents), sum(agent.refused for agent in agents)
    return replace(syncs, per_second=finished / elapsed, failures=refused)


def _body() -> dict[str, object]:
    """The body of a creation with random values filled in."""
    draws = {
        "project": stock.project_name(0),
        "domain": secrets.choice(stock.DOMAINS),
        "name": f"e{secrets.token_hex(8)}",
    }
    return {**stock.job_body(), **draws}
