"""Run times: how the time of an execution was spent, as far as its agents were heard, and how long it may run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from admin.core.executions.attempts import time_limit_seconds
from admin.core.executions.retries import Retries
from admin.core.json_text import JsonObject

_NONE = timedelta(0)
#: Whatever an agent has measured, nothing ran for longer: a hundred years.
_MOST_SECONDS = 100 * 365 * 86400.0
#: A report that takes no longer than this counts as coming at once.
_PROMPT = timedelta(seconds=1)


class TimedAttempt(Protocol):
    """The times of an attempt."""

    @property
    def started_at(self) -> datetime | None: ...

    @property
    def ended_at(self) -> datetime | None: ...  # of its native job

    @property
    def reported_at(self) -> datetime | None: ...  # when the admin heard of its end, or ended it

    @property
    def silent_since(self) -> datetime | None: ...  # when its agent was last heard before, where it was silent


@dataclass(frozen=True, kw_only=True)
class Spent:
    """How the time of one attempt was spent, from its start."""

    running: timedelta
    unreported: timedelta = _NONE  #: after its job had ended, until its agent was heard to say so
    unknown: timedelta = _NONE  #: while its agent was silent, and nobody knows whether it ran


@dataclass(frozen=True, kw_only=True)
class Times:
    """How the time since an execution was created was spent, in seconds."""

    waiting: float  #: in the queue, in back-off and until its cluster started it
    running: float  #: of all its attempts
    unreported: float  #: after a job had ended, until its agent was heard to say so
    unknown: float  #: while an agent was silent, and nobody knows whether the job ran
    backing_off: float = 0.0  #: of what it waited, until its next attempt was due
    total: float  #: until it ended, and its job too where that was confirmed later; or until now


def spend(attempt: TimedAttempt, now: datetime, silent_since: datetime | None, measured: float | None) -> Spent:
    """How the time of an attempt was spent.

    Of one that is not over `silent_since` says since when its agent is silent. `measured` is how many seconds it ran by
    its agent.
    """
    over_at, since = attempt.reported_at or now, attempt.silent_since or silent_since
    started_at, ended_at = attempt.started_at, attempt.ended_at
    if since is not None and ended_at is None:
        heard_until = min(since, over_at)
        running = _NONE if started_at is None else max(_NONE, heard_until - started_at)
        return Spent(running=running, unknown=over_at - max(heard_until, min(started_at or heard_until, over_at)))
    running = _NONE if started_at is None else max(_NONE, (ended_at or over_at) - started_at)
    if measured is not None:
        running = timedelta(seconds=min(measured, _MOST_SECONDS))
    if since is None:
        if measured is None or started_at is None or attempt.reported_at is None:
            return Spent(running=running)
        late = attempt.reported_at - started_at - running
        return Spent(running=running, unreported=late if late > _PROMPT else _NONE)
    if started_at is not None and measured is None:  # a job may go on beside the attempt that follows it
        running = min(running, max(_NONE, over_at - started_at))
    return Spent(running=running, unreported=late_by(attempt) or _NONE)


def late_by(attempt: TimedAttempt) -> timedelta | None:
    """How long before the admin heard of its end an attempt had ended, whose agent was silent; None of any other."""
    if attempt.ended_at is None or attempt.silent_since is None or attempt.reported_at is None:
        return None
    ended_at = max(attempt.ended_at, attempt.silent_since)
    return max(_NONE, attempt.reported_at - ended_at)


def add_up(attempts: Iterable[Spent], total: timedelta, backing_off: timedelta = _NONE) -> Times:
    """How the time of an execution was spent: what its attempts did not spend, it waited, some of it in back-off."""
    spent = list(attempts)
    unreported = min(total, sum((attempt.unreported for attempt in spent), _NONE))
    unknown = min(total - unreported, sum((attempt.unknown for attempt in spent), _NONE))
    running = min(total - unreported - unknown, sum((attempt.running for attempt in spent), _NONE))
    waiting = total - running - unreported - unknown
    return Times(
        waiting=waiting.total_seconds(),
        backing_off=min(waiting, backing_off).total_seconds(),
        running=running.total_seconds(),
        unreported=unreported.total_seconds(),
        unknown=unknown.total_seconds(),
        total=total.total_seconds(),
    )


class Waiting(Protocol):
    """The fields of an execution by which it waits for its start."""

    @property
    def created_at(self) -> datetime: ...

    @property
    def not_before(self) -> datetime | None: ...

    @property
    def last_failure(self) -> JsonObject | None: ...

    @property
    def started_at(self) -> datetime | None: ...

    @property
    def finished_at(self) -> datetime | None: ...


def could_start_at(execution: Waiting) -> datetime | None:
    """Since when an execution could start: its creation, or the end of the back-off of its last attempt.

    None of another attempt that followed without a back-off, for that time is not kept.
    """
    return execution.created_at if execution.last_failure is None else execution.not_before


def waited_for_start(execution: Waiting, now: datetime) -> timedelta | None:
    """How long an execution has waited for its start since it could; until its end, or `now`, if it has not started."""
    begin = could_start_at(execution)
    if begin is None:
        return None
    return max(_NONE, (execution.started_at or execution.finished_at or now) - begin)


class RunTerms(NamedTuple):
    """What lists show of an execution's job, retry policy and settings."""

    on_lost: str
    time_limit_seconds: float | None  #: None for as long as it takes
    queue: str | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> RunTerms:
        """The terms of an execution with this content."""
        return cls(Retries.of(content.get("retry")).on_lost, time_limit_seconds(content), content.get("queue"))
