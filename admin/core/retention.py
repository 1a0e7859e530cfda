"""Retention: how long finished executions, events, logs, revisions and other records are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from admin.core.executions.lifecycle import Phase
from admin.core.quantities import parse_age

Key = TypeVar("Key")

#: Events of executions are kept at least so long after the end: recent decisions are looked up by them.
MINIMUM_EVENT_AGE = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Cutoffs:
    """What ended before these times is deleted; None for what is kept."""

    executions: datetime | None = None
    execution_events: datetime | None = None
    cluster_events: datetime | None = None
    logs: datetime | None = None
    revisions: datetime | None = None
    audit_events: datetime | None = None
    descriptions: datetime | None = None
    bids: datetime | None = None
    namespace_events: datetime | None = None


class KeptUntil(NamedTuple):
    """When retention deletes an execution that has ended, and what belongs to it; None for what is kept."""

    execution: datetime | None
    log: datetime | None  #: and its output files
    events: datetime | None


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long things are kept, each an age as it is configured; None for ever."""

    executions: str | None = None
    events: str | None = None
    logs: str | None = None
    revisions: str | None = None
    audit: str | None = None
    descriptions: str | None = None
    bids: str | None = None
    namespaces: str | None = None

    @property
    def is_for_ever(self) -> bool:
        """Whether nothing is ever deleted."""
        return not any(vars(self).values())

    def cutoffs(self, now: datetime) -> Cutoffs:
        """The cutoffs as of now; events and logs are deleted with their execution at the latest."""
        executions, events, logs = (_before(now, age) for age in (self.executions, self.events, self.logs))
        return Cutoffs(
            executions=executions,
            execution_events=_latest(executions, events and min(events, now - MINIMUM_EVENT_AGE)),
            cluster_events=events,
            logs=_latest(executions, logs),
            revisions=_before(now, self.revisions),
            audit_events=_before(now, self.audit),
            descriptions=_before(now, self.descriptions),
            bids=_before(now, self.bids),
            namespace_events=_before(now, self.namespaces),
        )

    def kept_until(self, ended_at: datetime, now: datetime) -> KeptUntil | None:
        """When what has ended is deleted, by the ages of now; None where all of it is kept."""
        limits = self.cutoffs(now)
        times = (limits.executions, limits.logs, limits.execution_events)
        kept = KeptUntil(*(None if cutoff is None else _later(ended_at, now - cutoff) for cutoff in times))
        return kept if any(kept) else None


def _later(time: datetime, span: timedelta) -> datetime | None:
    try:
        return time + span
    except OverflowError:
        return None  # after the last date


def _before(now: datetime, age: str | None) -> datetime | None:
    if age is None:
        return None
    try:
        return now - timedelta(seconds=float(parse_age(age)))
    except OverflowError:
        return None  # before the first date


def _latest(*moments: datetime | None) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)


class Lifespan(NamedTuple):
    """When an execution was created, and when it finished."""

    created_at: datetime
    phase: str
    finished_at: datetime | None

    def is_due(self, cutoff: datetime) -> bool:
        """Whether it finished before a time; an unfinished execution is never deleted."""
        return Phase(self.phase).is_finished and self.finished_at is not None and self.finished_at < cutoff

    def is_later(self, cutoff: datetime) -> bool:
        """Whether it was created at a time or later."""
        return self.created_at >= cutoff


def batches(weights: Iterable[tuple[Key, int]], most: int) -> Iterator[list[Key]]:
    """Keys in their order, in batches of at most a total weight; a heavier key is a batch of its own."""
    batch: list[Key] = []
    total = 0
    for key, weight in weights:
        if batch and total + weight > most:
            yield batch
            batch, total = [], 0
        batch.append(key)
        total += weight
    if batch:
        yield batch
