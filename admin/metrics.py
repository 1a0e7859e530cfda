"""Metrics: counted in every worker, answered as one total whichever worker is asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from admin import __version__
from admin.services.attributes import Written
from admin.services.changes import Changed

requests_total = Counter("rainbow_http_requests_total", "HTTP requests answered.", ["method", "route", "status"])
request_seconds = Histogram("rainbow_http_request_seconds", "Time to answer a request.", ["method", "route"])
writes_total = Counter("rainbow_attribute_writes_total", "Attribute writes by outcome.", ["kind", "level", "outcome"])


def count_write(written: Written) -> None:
    """Count one write of an attribute."""
    outcome = "dry_run" if written.dry_run else "changed" if written.changed else "unchanged"
    writes_total.labels(written.kind.name, written.scope.level.value, outcome).inc()


def count_change(changed: Changed) -> None:
    """Count the attributes in a change of many rows."""
    for row in changed.rows:
        outcome = "dry_run" if changed.dry_run else "changed" if row.change.is_real else "unchanged"
        writes_total.labels(row.change.kind, row.change.scope.level.value, outcome).inc()


class StateCollector(Collector):
    """What the database holds, read when someone asks, so that every worker says the same."""

    def __init__(self, state: Callable[[], dict[str, dict[str, int]]]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("rainbow_info", "The version that answers.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        state = self._state()
        warnings = GaugeMetricFamily("rainbow_warnings", "Stored settings that are questionable.", labels=["code"])
        for code, count in state["warnings"].items():
            warnings.add_metric([code], count)
        yield warnings
        revision = GaugeMetricFamily("rainbow_revision", "Number of the last revision.")
        revision.add_metric([], state["revision"]["head"])
        yield revision


def exposition(state: StateCollector) -> bytes:
    """All metrics in Prometheus' text form."""
    counted = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):  # set by `rainbow-admin serve`
        counted = CollectorRegistry()
        MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
    held = CollectorRegistry()
    held.register(state)
    return generate_latest(counted) + generate_latest(held)
