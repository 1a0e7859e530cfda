"""Memory: the size of a worker, and the time an admin takes to start, by the number of stored attributes."""

from __future__ import annotations

from collections.abc import Iterator

from bench import stock
from bench.admins import port_of, timed_admin_on
from bench.databases import Backend
from bench.figures import Figure
from bench.load import QUICK, Pace
from bench.processes import largest_worker

NAME = "memory"
_PROJECTS = (1, 10, 100, 1000)


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    for projects in _PROJECTS[:2] if pace == QUICK else _PROJECTS:
        database = backend.create()
        count = stock.fill(database, projects)
        with timed_admin_on(database) as (admin, ready, loaded):
            stock.effective_call(port_of(admin), projects).measure(pace.seconds)
            resident = largest_worker(admin)
        for what, value, unit in (
            ("memory of a worker", resident, "MiB"),
            ("start to the first answer", ready, "s"),
            ("start to all in memory", loaded, "s"),
        ):
            yield Figure(bench=NAME, what=what, database=backend.name, value=value, unit=unit, size=count)
