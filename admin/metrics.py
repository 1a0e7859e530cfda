"""Metrics: counted in every worker, answered as one total whichever worker is asked."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admin import __version__
from admin.core.changes import RowChange
from admin.core.settings.scopes import Level
from admin.core.token_pools.answers import Answer, Exhausted, Granted, NeverFits
from admin.core.token_pools.grants import Grant
from admin.shared_values import Key, Segment, read_values, take_segment

requests_total = Counter("rainbow_http_requests_total", "HTTP requests answered.", ["method", "route", "status"])
request_seconds = Histogram("rainbow_http_request_seconds", "Time to answer a request.", ["method", "route"])
writes_total = Counter("rainbow_attribute_writes_total", "Attribute writes by outcome.", ["kind", "level", "outcome"])

_PLACE = ["cluster", "pool", "label", "domain"]
#: Stands for a level where nothing is granted to anyone, as after a restart of Redis.
NOT_READY = "not ready"


class Decided(Protocol):
    """An execution, as far as the labels of metrics tell it from others, with the reason of its decision or end."""

    @property
    def cluster(self) -> str | None: ...

    @property
    def pool(self) -> str | None: ...

    @property
    def label(self) -> str | None: ...

    @property
    def domain(self) -> str: ...

    @property
    def reason(self) -> str: ...


class Queued(Decided, Protocol):
    """An execution with its phase, and the times that its wait is measured by."""

    @property
    def phase(self) -> str: ...

    @property
    def created_at(self) -> datetime: ...

    @property
    def started_at(self) -> datetime | None: ...


class _Durations(Histogram):
    """A histogram that many equal observations are added to at once."""

    def observe_all(self, amount: float, count: int) -> None:
        self._sum.inc(amount * count)
        for bound, bucket in zip(self._upper_bounds, self._buckets, strict=True):
            if amount <= bound:
                bucket.inc(count)
                break


placements_total = Counter(
    "rainbow_placements_total", "Decisions of where an execution goes.", [*_PLACE, "reason", "because"]
)
created_total = Counter("rainbow_executions_created_total", "Executions created.", _PLACE)
finished_total = Counter("rainbow_executions_finished_total", "Executions that ended.", [*_PLACE, "phase", "reason"])
creation_seconds = _Durations("rainbow_execution_creation_seconds", "Time to resolve, decide and store.", ["domain"])
queue_seconds = Histogram(
    "rainbow_execution_queue_seconds",
    "Time that executions waited before they ran or ended.",
    _PLACE,
    buckets=(0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400),
)
namespace_objects_total = Counter(
    "rainbow_cluster_resource_objects_total",
    "Objects of namespaces that agents reported in another state than before.",
    ["cluster", "state"],
)
pruned_total = Counter("rainbow_pruned_rows_total", "Rows of what was over for long enough, deleted.", ["table"])
judgement_pauses_total = Counter(
    "rainbow_judgement_pauses_total", "Times that nothing was judged by time for one lease, and why.", ["reason"]
)
audited_total = Counter(
    "rainbow_audit_events_total", "Denied requests, logins, and what was done with tokens.", ["event"]
)
unaudited_total = Counter(
    "rainbow_audit_events_lost_total", "Audit events that could not be kept, and where.", ["place"]
)
bids_total = Counter("rainbow_bids_total", "Bids of clusters that were asked for executions.", ["cluster", "answer"])
refused_bids_total = Counter("rainbow_bids_refused_total", "Bids that do not count, and why.", ["cluster", "reason"])
bid_starts_total = Counter(
    "rainbow_bid_starts_total",
    "Starts at clusters that were chosen by their bids, as promised or late.",
    ["cluster", "kept"],
)
bid_late_seconds_total = Counter(
    "rainbow_bid_late_seconds_total", "How much later than promised by bids work has started.", ["cluster"]
)
limited_total = Counter("rainbow_limited_total", "Requests refused with 429, and by which limit.", ["limit"])
live_streams = Gauge("rainbow_live_streams", "Pages of the console that are kept up to date right now.", ["page"])
refused_streams_total = Counter(
    "rainbow_live_streams_refused_total", "Times that a page got no place and was told to come back.", ["page"]
)

token_grants_total = Counter("rainbow_token_grants_total", "Claims on a token pool that were granted.", ["pool"])
token_refusals_total = Counter(
    "rainbow_token_refusals_total", "Claims that a token pool refused, and the level that was full.", ["pool", "level"]
)
token_reclaims_total = Counter(
    "rainbow_token_reclaims_total", "Tokens taken back because their leases were over.", ["pool"]
)


@lru_cache(maxsize=4096)
def _requests(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    """What is counted for one kind of answer; to look it up by labels costs more than to count."""
    return requests_total.labels(method, route, status), request_seconds.labels(method, route)


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    """Count a request that was answered."""
    counted, timed = _requests(method, route, status)
    counted.inc()
    timed.observe(seconds)


@lru_cache(maxsize=4096)
def _creations(*place_and_reason: str) -> tuple[Counter, Counter]:
    *place, reason = place_and_reason
    return created_total.labels(*place), placements_total.labels(*place, reason, "created")


def count_created(executions: Collection[Decided], seconds: float) -> None:
    """Count new executions and their first decisions, each of which took so long."""
    for labels, count in Tally((*_place(execution), execution.reason) for execution in executions).items():
        for counter in _creations(*labels):
            counter.inc(count)
    for domain, count in Tally(execution.domain for execution in executions).items():
        creation_seconds.labels(domain).observe_all(seconds, count)


@lru_cache(maxsize=4096)
def _queued(place: tuple[str, ...]) -> Histogram:
    return queue_seconds.labels(*place)


@lru_cache(maxsize=4096)
def _finished(place: tuple[str, ...], phase: str, reason: str) -> Counter:
    return finished_total.labels(*place, phase, reason)


def count_bid(cluster: str, answer: str) -> None:
    """Count a bid."""
    bids_total.labels(cluster, answer).inc()


def count_refused_bid(cluster: str, reason: str) -> None:
    """Count a bid that does not count."""
    refused_bids_total.labels(cluster, reason).inc()


def count_bid_start(cluster: str, *, is_kept: bool, late_seconds: float) -> None:
    """Count a start that a bid promised."""
    bid_starts_total.labels(cluster, "yes" if is_kept else "no").inc()
    bid_late_seconds_total.labels(cluster).inc(max(0.0, late_seconds))


def count_redecided(changed: Iterable[Decided]) -> None:
    """Count decisions that were made again."""
    for decided in changed:
        placements_total.labels(*_place(decided), decided.reason, "decided again").inc()


def count_started(execution: Queued, now: datetime) -> None:
    """Count an execution that left the queue."""
    _queued(_place(execution)).observe(max(0.0, (now - execution.created_at).total_seconds()))


def count_finished(execution: Queued, now: datetime) -> None:
    """Count an execution that ended; one that never ran leaves the queue by it."""
    _finished(_place(execution), execution.phase, execution.reason).inc()
    if execution.started_at is None:
        count_started(execution, now)


def count_pruned(counts: Mapping[str, int]) -> None:
    """Count rows that were deleted, by their tables."""
    for table, count in counts.items():
        pruned_total.labels(table).inc(count)


def count_audited(event: str) -> None:
    """Count an audit event."""
    audited_total.labels(event).inc()


def count_unaudited(place: str, count: int) -> None:
    """Count audit events that the table or the file does not have."""
    unaudited_total.labels(place).inc(count)


def count_limited(limit: str) -> None:
    """Count a request that was one too many."""
    limited_total.labels(limit).inc()


def count_stream(page: str, change: int) -> None:
    """Count a page that began to be kept up to date, or ended."""
    live_streams.labels(page).inc(change)


def count_refused_stream(page: str) -> None:
    """Count a page for which there was no place."""
    refused_streams_total.labels(page).inc()


def count_judgement_pause(reason: str) -> None:
    """Count that nothing is judged by time for one lease."""
    judgement_pauses_total.labels(reason).inc()


def count_tokens(pools: Iterable[str], answer: Answer) -> None:
    """Count a claim on token pools that was granted or refused; one that waits counts when it starts to."""
    match answer:
        case Granted(is_new=True):
            for pool in pools:
                token_grants_total.labels(pool).inc()
        case Exhausted(is_repeated=False):
            for pool, level in {(full.pool, full.limit.level) for full in answer.full}:
                token_refusals_total.labels(pool, level).inc()
            for pool in () if answer.full else pools:
                token_refusals_total.labels(pool, NOT_READY).inc()
        case NeverFits():
            token_refusals_total.labels(answer.pool, answer.limit.level).inc()


def count_reclaimed(grants: Iterable[Grant]) -> None:
    """Count tokens whose leases were over."""
    for grant in grants:
        token_reclaims_total.labels(grant.pool).inc(grant.amount)


def token_refusals() -> dict[str, dict[str, int]]:
    """How many claims were refused so far, by pool and level, over all workers."""
    refusals: dict[str, dict[str, int]] = {}
    [counted] = token_refusals_total.describe()
    for metric in _counted.collect():
        for sample in metric.samples if metric.name == counted.name else ():
            if sample.name.endswith("_total"):
                refusals.setdefault(sample.labels["pool"], {})[sample.labels["level"]] = int(sample.value)
    return refusals


def _place(execution: Decided) -> tuple[str, ...]:
    return execution.cluster or "", execution.pool or "", execution.label or "", execution.domain


@lru_cache(maxsize=4096)
def _written(kind: str, level: Level, outcome: str) -> Counter:
    return writes_total.labels(kind, level.value, outcome)


def count_write(change: RowChange, *, dry_run: bool) -> None:
    """Count one written row."""
    outcome = "dry_run" if dry_run else "changed" if change.is_real else "unchanged"
    _written(change.kind, change.scope.level, outcome).inc()


def count_objects(cluster: str, states: Iterable[str]) -> None:
    """Count objects of namespaces that are in another state than before."""
    for state in states:
        namespace_objects_total.labels(cluster, state).inc()


class PoolCounts(NamedTuple):
    """A token pool in numbers."""

    capacity: int
    used: int
    waiting: int


#: The gauges of these numbers.
_OF_TOKEN_POOLS = {
    "rainbow_token_pool_capacity": "How many tokens a pool has.",
    "rainbow_token_pool_used": "How many tokens of a pool are held.",
    "rainbow_token_pool_waiting": "How many claims and executions wait for tokens of a pool.",
}


@dataclass(frozen=True, kw_only=True)
class State:
    """What the database has, as gauges show it."""

    warnings: Mapping[str, int]  #: by code
    revision: int
    executions: Sequence[tuple[str, str, str, str, str, str, int]]  #: unfinished, by the labels of their gauge
    quotas: Sequence[tuple[list[str], float, float]]  #: of executions: labels, what is used and the most
    clusters: Mapping[str, bool]  #: whether each may get work
    sync_ages: Mapping[str, float]  #: seconds since the last sync of each cluster that has synced
    capacities: Mapping[str, Mapping[str, float]]  #: what each cluster has, by resource
    free: Mapping[str, Mapping[str, float]]  #: what of it is free for new work
    token_pools: Mapping[str, PoolCounts]  #: empty where they cannot be asked


class StateCollector(Collector):
    """Gauges of the database's state, read at each scrape, so that every worker answers the same."""

    def __init__(self, state: Callable[[], State | None]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        yield _gauge("rainbow_info", "The version that answers.", ["version"], [([__version__], 1)])
        is_up = state is not None
        yield _gauge("rainbow_database_up", "1 if the database answers, else 0.", [], [([], int(is_up))])
        if state is None:
            return
        warnings = [([code], count) for code, count in state.warnings.items()]
        yield _gauge("rainbow_warnings", "Stored settings that are questionable.", ["code"], warnings)
        yield _gauge("rainbow_revision", "Number of the last revision.", [], [([], state.revision)])
        yield _gauge(
            "rainbow_executions",
            "Executions that have not ended.",
            ["phase", "reason", "domain", "cluster", "pool", "label"],
            [(labels, count) for *labels, count in state.executions],
        )
        for name, text, place in (
            ("rainbow_execution_quota_used", "What executions use of a quota.", 1),
            ("rainbow_execution_quota_limit", "The most that a quota lets executions use.", 2),
        ):
            samples = [(quota[0], quota[1] if place == 1 else quota[2]) for quota in state.quotas]
            yield _gauge(name, text, ["project", "domain", "workflow", "launch_plan", "field"], samples)
        yield _gauge(
            "rainbow_cluster_able",
            "1 for a cluster that may get work, also for an expected one, which gets what no cluster that was seen "
            "could run; 0 for one that is disabled, cordoned, not admitted or silent.",
            ["cluster"],
            [([name], int(is_able)) for name, is_able in state.clusters.items()],
        )
        yield _gauge(
            "rainbow_cluster_sync_age_seconds",
            "Time since the last sync of a cluster's agent.",
            ["cluster"],
            [([name], age) for name, age in state.sync_ages.items()],
        )
        yield _resource_gauge("rainbow_cluster_capacity", "What a cluster has of a resource.", state.capacities)
        yield _resource_gauge(
            "rainbow_cluster_free",
            "What of a resource is free for new work; 0 where the cluster may get none.",
            state.free,
        )
        for position, (name, help_text) in enumerate(_OF_TOKEN_POOLS.items()):
            numbers = [([pool], counts[position]) for pool, counts in state.token_pools.items()]
            yield _gauge(name, help_text, ["pool"], numbers)


def _resource_gauge(name: str, help_text: str, amounts: Mapping[str, Mapping[str, float]]) -> Metric:
    """A gauge of amounts by cluster and resource, in cores, bytes or pieces."""
    samples = [
        ([cluster, resource], amount)
        for cluster, amounts_there in amounts.items()
        for resource, amount in amounts_there.items()
    ]
    return _gauge(name, help_text, ["cluster", "resource"], samples)


def _gauge(name: str, help_text: str, labels: list[str], samples: Sequence[tuple[list[str], float]]) -> Metric:
    """A gauge with its samples: the values of the labels, and their number."""
    gauge = GaugeMetricFamily(name, help_text, labels=labels)
    for label_values, number in samples:
        gauge.add_metric(label_values, number)
    return gauge


class _SharedValue:
    """A number that every worker can read, as the metrics library calls its values."""

    def __init__(
        self,
        segment: Segment,
        type_: str,
        metric: str,
        name: str,
        labels: Sequence[str],
        label_values: Sequence[str],
        help_text: str,
        **_: object,
    ) -> None:
        self._lock = threading.Lock()
        self._segment = segment
        self._offset = segment.offset(
            Key(type_, metric, help_text, name, tuple(zip(labels, label_values, strict=True)))
        )
        self._value = 0.0 if self._offset is None else segment.read(self._offset)

    def inc(self, amount: float) -> None:
        with self._lock:
            self._value += amount
            if self._offset is not None:
                self._segment.write(self._offset, self._value)

    def get(self) -> float:
        return self._value


class _SharedCollector(Collector):
    """The totals of all workers, those that have ended included."""

    def __init__(self, files: Sequence[int]) -> None:
        self._files = files

    def collect(self) -> Iterable[Metric]:
        totals: dict[Key, float] = {}
        for file in self._files:
            for key, value in read_values(file):
                totals[key] = totals.get(key, 0.0) + value
        metrics: dict[str, Metric] = {}
        counts: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}  #: of histograms: a bucket includes the lower
        for key, value in totals.items():
            metric = metrics.setdefault(key.metric, Metric(key.metric, key.help, key.type))
            if key.name.endswith("_bucket"):
                histogram = key.metric, key.labels[:-1]
                value = counts[histogram] = counts.get(histogram, 0.0) + value
            metric.add_sample(key.name, dict(key.labels), value)
        for (name, labels), count in counts.items():
            metrics[name].add_sample(f"{name}_count", dict(labels), count)
        return metrics.values()


_counted = REGISTRY


def share(files: Sequence[int]) -> None:
    """Count together with the other workers from now on; to be called before anything is counted."""
    global _counted
    segment = take_segment(files)  # None cannot be but with strange processes; this one then counts for itself
    values.ValueClass = values.MutexValue if segment is None else partial(_SharedValue, segment)
    _counted = CollectorRegistry()
    _counted.register(_SharedCollector(files))


def exposition(state: StateCollector) -> bytes:
    """All metrics in Prometheus' text form."""
    stored = CollectorRegistry()
    stored.register(state)
    return generate_latest(_counted) + generate_latest(stored)
