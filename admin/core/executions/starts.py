"""Starts: by when an execution in line starts at the latest, as far as the time limits of what is ahead of it say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from admin.core.times import show_due

#: The most executions ahead of one that are looked at; of those that its agent has, and of those that wait.
MOST_AHEAD = 500
#: How many of them an answer names.
MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """An execution that its cluster runs, or takes, before another one."""

    project: str
    domain: str
    name: str
    phase: str
    started_at: datetime | None  #: of this attempt
    time_limit_seconds: float | None  #: the longest that an attempt may run
    is_hidden: bool = False  #: whether who asks may not know what it is

    def __str__(self) -> str:
        if self.is_hidden:
            return "an execution that you may not see"
        return f"{self.project}/{self.domain}/{self.name}"

    @property
    def ends_by(self) -> datetime | None:
        """When its time limit ends an attempt that has started."""
        if self.started_at is None or self.time_limit_seconds is None:
            return None
        return _later(self.started_at, self.time_limit_seconds)


@dataclass(frozen=True, kw_only=True)
class Start:
    """When an execution in line starts, as far as that is bounded."""

    position: int  #: in line, from 1, among those that may start
    running: int  #: how many executions the agent of its cluster has
    waiting: int  #: how many wait before it and may start
    backing_off: int  #: how many are in back-off, and go before it if their time comes first
    unlimited: int  #: how many of both have no time limit
    latest_at: datetime | None  #: None where there is no bound
    first_end_at: datetime | None  #: when the first of those that run has ended at the latest
    ahead: tuple[Ahead, ...]  #: the first of them, those that end soonest first
    message: str


def find_start(
    cluster: str,
    position: int,
    held: Sequence[Ahead],
    waiting: Sequence[Ahead],
    now: datetime,
    backing_off: int = 0,
) -> Start:
    """When an execution starts that is behind what the agent of its cluster has and what waits before it."""
    ahead = [*sorted(held, key=lambda other: (other.ends_by is None, other.ends_by or now)), *waiting]
    ends = [other.ends_by for other in held if other.ends_by is not None]
    unlimited = [other for other in ahead if other.time_limit_seconds is None]
    is_counted = max(len(held), len(waiting)) <= MOST_AHEAD
    latest_at = _latest(ahead, now) if ahead and is_counted and not unlimited else None
    first_end_at = min(ends, default=None)
    message = _message(cluster, held, waiting, unlimited, latest_at, first_end_at, now)
    return Start(
        position=position,
        running=len(held),
        waiting=len(waiting),
        backing_off=backing_off,
        unlimited=len(unlimited),
        latest_at=latest_at,
        first_end_at=first_end_at,
        ahead=tuple([other for other in ahead if not other.is_hidden][:MOST_NAMED]),
        message=f"{message}{_tell_backing_off(backing_off)}",
    )


def _tell_backing_off(number: int) -> str:
    if not number:
        return ""
    return f" {number} more in back-off {'goes' if number == 1 else 'go'} before it if the back-off is over by then."


def _latest(ahead: Sequence[Ahead], now: datetime) -> datetime | None:
    """When all have ended if those that run end for their limits, and then the others run one after the other."""
    ends = [other.ends_by for other in ahead if other.started_at is not None]
    end: datetime | None = None if None in ends else max([now, *(end for end in ends if end is not None)])
    for other in ahead:
        if other.started_at is None and end is not None:
            end = _later(end, other.time_limit_seconds or 0)
    return end


def _later(time: datetime, seconds: float) -> datetime | None:
    try:
        return time + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _message(
    cluster: str,
    held: Sequence[Ahead],
    waiting: Sequence[Ahead],
    unlimited: Sequence[Ahead],
    latest_at: datetime | None,
    first_end_at: datetime | None,
    now: datetime,
) -> str:
    if not held and not waiting:
        return f"Nothing is ahead of it at {cluster}: its agent takes it as soon as it has room for it."
    if max(len(held), len(waiting)) > MOST_AHEAD:
        return f"No bound: more than {MOST_AHEAD} executions are ahead of it at {cluster}."
    line = f"the agent of {cluster} has {len(held) or 'none'}, and {len(waiting) or 'none'} " + (
        "waits before it" if len(waiting) == 1 else "wait before it"
    )
    if latest_at is not None:
        return (
            f"At the latest {show_due(latest_at, now)}, by the time limits of what is ahead ({line}), if none of that "
            "is tried again and nothing is put before it."
        )
    others = len(unlimited) - 1
    more = f", nor {'has 1 other' if others == 1 else f'have {others} others'}" if others > 0 else ""
    reason = f"{unlimited[0]} has no time limit{more}" if unlimited else "the time limits go beyond any date"
    soonest = ""
    if first_end_at is not None:
        soonest = f" The first of those that run ends at the latest {show_due(first_end_at, now)}."
    return f"No bound: {reason} ({line}); its agent takes it before that if it has room.{soonest}"
