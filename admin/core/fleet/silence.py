"""Silence: how long clusters have not been heard, by one process's own monotonic clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from admin.core.fleet.clusters import Health
from admin.core.times import is_past, show_due, show_duration, show_time

#: The clock has jumped if it differs so much from the monotonic one between two looks.
JUMP_SECONDS = 5.0
#: The most that one look adds to a silence: who looked seldom could not have heard in between.
LONGEST_LOOK_SECONDS = 5.0


@dataclass(kw_only=True)
class Watch:
    """What one process has heard of clusters since it began to listen, and whether it may judge by time.

    Nothing is judged for one lease after it begins, after the clock has jumped, and after it did not look for a lease:
    until then running agents may not have had time to sync.
    """

    _last_look: tuple[datetime, float] | None = None  #: by the clock and by the monotonic one
    _judges_from: float = 0
    _listened_at: float | None = None
    _heard: dict[str, datetime] = field(default_factory=dict)  #: the last sync of each cluster
    _silent: dict[str, float] = field(default_factory=dict)  #: seconds since it was seen first

    def restart(self) -> None:
        """Clear the state: another process was the leader since, or this one long ago."""
        self._last_look = self._listened_at = None
        self._heard, self._silent = {}, {}

    def look(self, now: datetime, monotonic: float, lease_seconds: float) -> str | None:
        """Compare the clock with the monotonic one; returns why nothing is judged for a lease, if that begins now."""
        reason = self._unsure(now, monotonic, lease_seconds)
        self._last_look = now, monotonic
        if reason is not None:
            self._judges_from = monotonic + lease_seconds
        return reason

    def _unsure(self, now: datetime, monotonic: float, lease_seconds: float) -> str | None:
        if self._last_look is None:
            return "start"
        elapsed = monotonic - self._last_look[1]
        if abs((now - self._last_look[0]).total_seconds() - elapsed) > JUMP_SECONDS:
            return "jump"
        return "pause" if elapsed > lease_seconds else None

    @property
    def may_judge(self) -> bool:
        """Whether anything may be judged by time, as of the last look."""
        return self._last_look is not None and self._last_look[1] >= self._judges_from

    def listen(self, last_syncs: Mapping[str, datetime | None], monotonic: float) -> None:
        """Note which clusters have synced since the last time."""
        last, self._listened_at = self._listened_at, monotonic
        elapsed = 0.0 if last is None else min(LONGEST_LOOK_SECONDS, monotonic - last)
        heard = {name: at for name, at in last_syncs.items() if at is not None}
        self._silent = {
            name: self._silent.get(name, 0.0) + elapsed if self._heard.get(name) == at else 0.0
            for name, at in heard.items()
        }
        self._heard = heard

    def silent(self, seconds: float) -> set[str]:
        """The clusters that have been silent for longer than some seconds."""
        return {name for name, silence in self._silent.items() if silence > seconds}


class Loss(NamedTuple):
    """When a silent cluster counts as lost if it is not heard before."""

    at: datetime
    is_earliest: bool  #: it may be later
    seconds: float  #: of silence, as the process counts them that does the background work


def foresee_loss(
    last_sync_at: datetime, seconds: float, now: datetime, *, listened_since: datetime | None, is_listened: bool = True
) -> Loss:
    """When a cluster counts as lost that has been silent since its last sync.

    A process counts the silence from when it began to do the background work, `listened_since`; None where that is not
    known. Where no process does it, not `is_listened`, the next one has yet to begin.
    """
    limit = timedelta(seconds=seconds)
    if not is_listened:
        return Loss(max(last_sync_at, now) + limit, is_earliest=True, seconds=seconds)
    if listened_since is None:
        return Loss(last_sync_at + limit, is_earliest=True, seconds=seconds)
    return Loss(max(last_sync_at, listened_since) + limit, is_earliest=False, seconds=seconds)


def show_loss(time: datetime, loss: Loss, now: datetime) -> str:
    """When something happens that waits for the loss of a cluster: `at T`, `at the earliest at T` or `within 5 min`.

    What is late by the clock is so because silence is counted anew, and never for longer than the limit.
    """
    if is_past(time, now):
        return f"within {show_duration(loss.seconds)}"
    is_earliest = loss.is_earliest and time < now + timedelta(seconds=loss.seconds + 1)
    return f"at the earliest {show_due(time, now)}" if is_earliest else show_due(time, now)


def silent_since(last_sync_at: datetime | None) -> str:
    """That an agent is silent, and since when, as every sentence about it says: `silent since 2026-03-01T12:00:05Z`."""
    return "silent" if last_sync_at is None else f"silent since {show_time(last_sync_at)}"


def describe_loss(last_sync_at: datetime | None, limit: float, key: str) -> str:
    """Why a cluster counts as unreachable or lost: when its agent was heard, and the limit that is over."""
    return f"Its agent had been {silent_since(last_sync_at)}, for more than {show_duration(limit)} ({key})."


def describe_return(health: str, last_sync_at: datetime | None, now: datetime, *, was_deleted: bool = False) -> str:
    """How a cluster became ready: for the first time, also since it was deleted, or after a silence."""
    if was_deleted:
        return "Its agent synced for the first time since the cluster was deleted."
    if health not in (Health.UNREACHABLE.value, Health.LOST.value) or last_sync_at is None:
        return "Its agent synced for the first time."
    silent = show_duration((now - last_sync_at).total_seconds())
    return f"Its agent is heard again, after {silent} without a sync; the cluster was {health}."
