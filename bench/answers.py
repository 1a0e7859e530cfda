"""Answers about settings: reach, uses and rows without effect, of a million attributes while ten thousand wait."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from bench import stock
from bench.admins import admin_on, port_of
from bench.agents import Client
from bench.databases import Backend
from bench.figures import Figure
from bench.load import QUICK, Pace

NAME = "answers"
WAITING, FEW_WAITING = 10_000, 500
_BATCH = 500
_TIMES = 5
_PLACE = f"project={stock.project_name(0)}&domain={stock.DOMAINS[0]}"
#: What is asked, each about one name or scope, or the first page of what is about the whole system.
QUERIES = {
    "reach of a project's row in a domain": f"effective_attributes/reach?resource_type=0&limit=1000&{_PLACE}",
    "where a pool is used, first page": "uses?pool=training&reach=true",
    "where a pool is used that nothing names": "uses?pool=nowhere",
    "where a cluster is used, first page": "uses?cluster=cluster-1&reach=true",
    "where a value is used": "uses?resource_type=0&field=limits.cpu&value=12",
    "settings of a project without effect": f"matchable_attributes/no_effect?{_PLACE}",
    "settings without effect, first page": "matchable_attributes/no_effect",
    "nearest row of every kind": f"effective_attributes?domain={stock.DOMAINS[0]}&nearest=true",
}


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    database = backend.create()
    stock.fill(database, stock.MILLION)
    with admin_on(database) as admin:
        client = Client(port_of(admin))
        _let_wait(client, FEW_WAITING if pace == QUICK else WAITING)
        for what, path in QUERIES.items():
            taken = sorted(_took(client, path) for _ in range(_TIMES + 1))[:-1]  # the first one reads the fleet
            middle = statistics.median(taken)
            yield Figure(
                bench=NAME, what=what, database=backend.name, value=middle, unit="ms", p50=middle, p99=taken[-1]
            )
        client.close()


def _let_wait(client: Client, number: int) -> None:
    """Executions that nobody leases."""
    place = {"project": stock.project_name(0), "domain": stock.DOMAINS[0]}
    for start in range(0, number, _BATCH):
        executions = [{**place, "name": f"w{start + each}", "spec": {"job": stock.JOB}} for each in range(_BATCH)]
        client.post("/executions", {"executions": executions})


def _took(client: Client, path: str) -> float:
    """Milliseconds that an answer takes, which must be a good one."""
    begin = time.monotonic()
    client.get(f"/{path}")
    return (time.monotonic() - begin) * 1000
