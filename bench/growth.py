"""Growth: the cost of creation, leasing, lists and reads as finished executions accumulate."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import sqlalchemy

from bench import creations, stock
from bench.admins import API, admin_on, port_of
from bench.agents import Agent, Client, register
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.finished import PROJECTS, add_finished
from bench.load import QUICK, Call, Measure, Pace, Rate, measure_in_turns, rate_of

NAME = "growth"
SIZES = (0, 100_000, 1_000_000, 10_000_000)
QUICK_SIZES = SIZES[:-1]
_BATCH = 100
_CLUSTER = "cluster-0"
#: Executions that wait for each second of leasing, so that there are always some.
_PER_SECOND = 2000


def run(backend: Backend, pace: Pace, sizes: tuple[int, ...] = ()) -> Iterator[Figure]:
    """Figures at every size; an admin runs on each database at the same time, and they are measured in turns."""
    admins: dict[int, tuple[str, int]] = {}
    with ExitStack() as stack:
        for size in sizes or (QUICK_SIZES if pace == QUICK else SIZES):
            database = backend.create()
            stock.fill(database, PROJECTS)
            add_finished(database, size)
            admins[size] = database, port_of(stack.enter_context(admin_on(database)))
        for what, make in _WHAT.items():
            rates = measure_in_turns({str(size): make(*admin) for size, admin in admins.items()}, pace)
            for size in admins:
                yield rate_figure(NAME, what, backend.name, rates[str(size)], size=size)


def _creation(_database: str, port: int) -> Measure:
    return creations.create_call(port, stock.job_body()).measure


def _list(path: str) -> Callable[[str, int], Measure]:
    return lambda _database, port: Call(port=port, path=f"{API}/{path}").measure


def _leasing(_database: str, port: int) -> Measure:
    """An agent that takes 50 leases at a time, reports them running, and finishes them."""
    agents: list[Agent] = []

    def measure(seconds: int) -> Rate:
        if not agents:
            agents.append(Agent(client=Client(port, register(port, _CLUSTER)), cluster=_CLUSTER))
        [agent] = agents
        _create_waiting(port, seconds * _PER_SECOND)
        finished, syncs = agent.finished, len(agent.taken)
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            agent.sync()
        elapsed = time.monotonic() - begin
        rate = rate_of(agent.taken[syncs:], elapsed, failures=agent.refused)
        return replace(rate, per_second=(agent.finished - finished) / elapsed)

    return measure


def _create_waiting(port: int, count: int) -> None:
    client = Client(port)
    numbers = itertools.count()
    run = f"{time.monotonic_ns():x}"
    for _ in range(count // _BATCH):
        bodies = [_body(f"w{run}-{next(numbers)}") for _ in range(_BATCH)]
        answer = client.post("/executions", {"executions": bodies})
        assert answer["failed"] == 0, f"{answer['failed']} creations failed"
    client.close()


def _body(name: str) -> dict[str, Any]:
    place = {"project": stock.project_name(0), "domain": stock.DOMAINS[0], "name": name}
    return {**place, "spec": {"job": stock.JOB, "cluster": _CLUSTER}}


def _read(database: str, port: int) -> Measure:
    """Reads by name of executions from all over the table."""
    calls: list[Call] = []

    def measure(seconds: int) -> Rate:
        if not calls:
            path = f"{API}/executions/<execution>"
            calls.append(Call(port=port, path=path, draws={"execution": _sample_ids(database)}))
        return calls[0].measure(seconds)

    return measure


def _sample_ids(database: str) -> tuple[str, ...]:
    engine = sqlalchemy.create_engine(database)
    with engine.connect() as connection:
        last = connection.exec_driver_sql("SELECT max(id) FROM executions").scalar_one()
        ids = ", ".join(str(number) for number in range(1, last + 1, max(1, last // 1000)))
        rows = connection.exec_driver_sql(f"SELECT project, domain, name FROM executions WHERE id IN ({ids})").all()
    engine.dispose()
    return tuple("/".join(row) for row in rows)


#: The number of a project and of a cluster where nothing is leased meanwhile. Each has one in twenty of the stored
#: ends, so that its first page has to be found among the ends of the others.
_OF_ENDS = 7
_SCOPE = f"/{stock.project_name(0)}/{stock.DOMAINS[0]}"
#: In this order: what is created and ended is then listed and read, where nothing else is stored.
_WHAT: dict[str, Callable[[str, int], Measure]] = {
    "create": _creation,
    "lease and end, 50 at a time": _leasing,
    "first page": _list("executions?limit=100"),
    "first page of a project and domain": _list(f"executions{_SCOPE}?limit=100"),
    "first page of a phase": _list("executions?limit=100&phase=SUCCEEDED"),
    "history of ends, first page": _list("timeline?limit=20&source=execution"),
    "history of ends of a project, first page": _list(
        f"timeline?limit=20&source=execution&project={stock.project_name(_OF_ENDS)}"
    ),
    "history of ends of a cluster, first page": _list(
        f"timeline?limit=20&source=execution&cluster={stock.cluster_name(_OF_ENDS)}"
    ),
    "read one": _read,
}
