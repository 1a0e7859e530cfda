"""A decision of the core among a thousand clusters, or by rules among a hundred, in processor time."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator, Mapping

from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import JobParameters, Workload
from admin.core.placement.decisions import decide
from admin.core.resources import Amounts
from bench.databases import Backend
from bench.figures import Figure
from bench.load import Pace
from tests.support.small_fleets import group, pool, small_fleet

NAME = "decisions"
CLUSTERS = 1000
WEIGHTED, LEAST_LOADED, BUSY = (
    "among 1,000 clusters, weighted",
    "among 1,000 clusters, least loaded",
    "among 1,000 clusters, least loaded, work waits at each",
)
BY_RULES = "among 101 clusters, by three rules, work waits at each"
RULES_CLUSTERS = 101
_RULES = [
    {"filter": "cpu_free > 0"},
    {"calculate": {"price": "cost_per_node_hour * job.nodes"}},
    {"sort": "price"},
]
_JOB = JobParameters(
    tasks=1, duration=None, priority=50, project="team-1", domain="development", workflow="", launch_plan="", labels={}
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
        (BY_RULES, "by-rules", busy),
    ):
        taken = sorted(_took(fleet, name, waiting, number) for number in range(_TIMES))
        middle, late = statistics.median(taken), taken[-_TIMES // 100]
        yield Figure(bench=NAME, what=what, value=middle, unit="ms", p50=middle, p99=late)


def _took(fleet: Fleet, name: str, waiting: Mapping[str, Amounts], number: int) -> float:
    """Milliseconds that one decision takes."""
    workload = Workload(key=f"team-1/development/e{number}", demand={"executions": 1}, job=_JOB)
    begin = time.process_time()
    decision = decide(pool(name), fleet, workload, waiting)
    taken = time.process_time() - begin
    assert decision.cluster is not None, decision.message
    return taken * 1000


def _fleet() -> Fleet:
    """Clusters of several sizes that have all reported, in pools of all."""
    names = {f"cluster-{number}": number for number in range(CLUSTERS)}
    capacity = {"cpu": "512", "memory": "2Ti", "gpu": "16", "executions": 1000}
    weights = {name: 1 + number % 7 for name, number in names.items()}
    return small_fleet(
        clusters={
            name: {
                "capacity": capacity,
                "cost": 1 + number % 4,
                "properties": {"cost_per_node_hour": 0.5 + number % 4},
            }
            for name, number in names.items()
        },
        pools={
            "by-rules": group(dict(list(weights.items())[:RULES_CLUSTERS]), strategy="constraint", rules=_RULES),
            "weighted": group(weights),
            "least-loaded": group(weights, strategy="least-loaded"),
        },
        states={
            name: {"report": {"capacity": capacity, "free": {"cpu": str(number % 512), "executions": 1 + number % 900}}}
            for name, number in names.items()
        },
    )
