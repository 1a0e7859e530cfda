"""Retention: how long what is over is kept, and what is due to go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from admin.core.executions.lifecycle import Phase
from admin.core.quantities import parse_age

Key = TypeVar("Key")

#: Events stay so long after the end in any case: what was decided lately is found by them.
LEAST_FOR_EVENTS = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The moments before which something must have been over to go; None for what stays."""

    executions: datetime | None = None
    execution_events: datetime | None = None
    cluster_events: datetime | None = None
    logs: datetime | None = None
    revisions: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long things are kept, each an age as it is written; None for ever."""

    executions: str | None = None
    events: str | None = None
    logs: str | None = None
    revisions: str | None = None

    @property
    def is_for_ever(self) -> bool:
        """Whether nothing ever goes."""
        return not any(vars(self).values())

    def limits(self, now: datetime) -> Limits:
        """What is due now; what belongs to an execution goes with it at the latest."""
        executions, events, logs = (_before(now, age) for age in (self.executions, self.events, self.logs))
        return Limits(
            executions=executions,
            execution_events=_latest(executions, events and min(events, now - LEAST_FOR_EVENTS)),
            cluster_events=events,
            logs=_latest(executions, logs),
            revisions=_before(now, self.revisions),
        )


def _before(now: datetime, age: str | None) -> datetime | None:
    if age is None:
        return None
    try:
        return now - timedelta(seconds=float(parse_age(age)))
    except OverflowError:
        return None  # longer than time itself


def _latest(*moments: datetime | None) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class Life:
    """When an execution began, and when it was over."""

    created_at: datetime
    phase: Phase
    finished_at: datetime | None

    def is_due(self, limit: datetime) -> bool:
        """Whether it was over by then; what is not over never goes."""
        return self.phase.is_finished and self.finished_at is not None and self.finished_at < limit

    def is_later(self, limit: datetime) -> bool:
        """Whether it had not even begun by then."""
        return self.created_at >= limit


def batches(weights: Iterable[tuple[Key, int]], most: int) -> Iterator[list[Key]]:
    """Keys in their order, in batches that weigh at most so much; one that weighs more is a batch of its own."""
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
