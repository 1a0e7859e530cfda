"""Effective attributes over HTTP: kinds with origins, scopes drawn at random, from a thousand rows and a million."""

from __future__ import annotations

from collections.abc import Iterator

from bench import stock
from bench.admins import admin_on, port_of, timed_admin_on
from bench.ceilings import EMPTY, empty_call, running_ceilings
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import Pace, measure_in_turns
from bench.processes import largest_worker

NAME = "effective"
FEW, MANY = "all kinds, of 1,000 attributes", "all kinds, of 1,000,000 attributes"
ONE_KIND = "one kind, of 1,000,000 attributes"
READY, LOADED = "first answer, 1,000,000 attributes", "all in memory, 1,000,000 attributes"
MEMORY = "memory of a worker, 1,000,000 attributes"


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    few, many = backend.create(), backend.create()
    stock.fill(few, stock.THOUSAND)
    stock.fill(many, stock.MILLION)
    with timed_admin_on(many) as (large, ready, loaded):
        yield Figure(bench=NAME, what=READY, database=backend.name, value=ready, unit="s")
        yield Figure(bench=NAME, what=LOADED, database=backend.name, value=loaded, unit="s")
        with admin_on(few) as small, running_ceilings(backend.create()) as ceilings:
            rates = measure_in_turns(
                {
                    EMPTY: empty_call(ceilings).measure,
                    FEW: stock.effective_call(port_of(small), stock.THOUSAND).measure,
                    MANY: stock.effective_call(port_of(large), stock.MILLION).measure,
                    ONE_KIND: stock.effective_call(port_of(large), stock.MILLION, "&resource_type=0").measure,
                },
                pace,
            )
        for what, rate in rates.items():
            yield rate_figure(NAME, what, backend.name, rate, ceiling="" if what == EMPTY else EMPTY)
        largest = largest_worker(large)
        yield Figure(bench=NAME, what=MEMORY, database=backend.name, value=largest, unit="MiB")
