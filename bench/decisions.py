"""A decision of the core among a thousand clusters, in processor time."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator, Mapping

from admin.core.fleet.fleet import Fleet
from admin.core.resources import Amounts
from bench.databases import Backend
from bench.figures import Figure
from bench.load import Pace
from tests.support.small_fleets import decided, group, pool, small_fleet

NAME = "decisions"
CLUSTERS = 1000
WEIGHTED, LEAST_LOADED, BUSY = (
    "among 1,000 clusters, weighted",
    "among 1,000 clusters, least loaded",
    "among 1,000 clusters, least loaded, work waits at each",
)
_TIMES = 100


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures of the core, which knows no database: measured once."""
    if backend.name != "sqlite":
        return
    fleet = _fleet()
    busy = {name: {"cpu": 2000, "executions": 3} for name in fleet.clusters}
    gc.collect()
    gc.freeze()  # as workers do
    for what, name, waiting in (
        (WEIGHTED, "weighted", {}),
        (LEAST_LOADED, "least-loaded", {}),
        (BUSY, "least-loaded", busy),
    ):
        taken = sorted(_took(fleet, name, waiting, number) for number in range(_TIMES))
        middle, late = statistics.median(taken), taken[-_TIMES // 100]
        yield Figure(bench=NAME, what=what, value=middle, unit="ms", p50=middle, p99=late)


def _took(fleet: Fleet, name: str, waiting: Mapping[str, Amounts], number: int) -> float:
    """Milliseconds that one decision takes."""
    begin = time.process_time()
    decision = decided(fleet, pool(name), key=f"team-1/development/e{number}", waiting=waiting)
    taken = time.process_time() - begin
    assert decision.cluster is not None, decision.message
    return taken * 1000


def _fleet() -> Fleet:
    """Clusters of several sizes that have all reported, in pools of all."""
    names = {f"cluster-{number}": number for number in range(CLUSTERS)}
    capacity = {"cpu": "512", "memory": "2Ti", "gpu": "16", "executions": 1000}
    weights = {name: 1 + number % 7 for name, number in names.items()}
    return small_fleet(
        clusters={name: {"capacity": capacity, "cost": 1 + number % 4} for name, number in names.items()},
        pools={
            "weighted": group(weights),
            "least-loaded": group(weights, strategy="least-loaded"),
        },
        states={
            name: {"report": {"capacity": capacity, "free": {"cpu": str(number % 512), "executions": 1 + number % 900}}}
            for name, number in names.items()
        },
    )
