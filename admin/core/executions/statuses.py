"""Statuses: where an execution stands now and why, and what happens next, each in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.attempts import UNDECIDED
from admin.core.executions.deciding_scopes import LIMITED
from admin.core.executions.lifecycle import Phase
from admin.core.executions.received import source_of_amount
from admin.core.placement.decisions import WAITS_FOR_ROOM
from admin.core.placement.filters import ROOM, Verdict
from admin.core.provenance import Provenance, show_name, split_name
from admin.core.settings import trails
from admin.core.times import show_duration, show_time

_PLACES = ("next", "second in line", "third in line", "fourth in line", "fifth in line")


@dataclass(frozen=True, kw_only=True)
class Status:
    """Where an execution stands."""

    phase: str
    since: datetime  #: when it came to this phase
    attempt: int  #: those that came to nothing before they began do not count
    attempts: int  #: how many there may be
    message: str
    next: str | None  #: what decides about it next; None where nothing does
    next_at: datetime | None  #: when, where that is known
    last_failure: AttemptRecord | None  #: of the attempt before, while another one waits or runs


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What the status of an execution depends on."""

    phase: Phase
    since: datetime
    reason: str
    reason_message: str
    cluster: str | None
    attempt: int
    attempts: int
    failure: AttemptRecord | None = None  #: of the last attempt that another one follows
    route: str  #: which rung decided, and over which others
    limit: str = ""  #: where the limit was set that ended it
    has_started: bool = False
    duration: float | None = None
    position: int | None = None  #: in the line at its cluster, from 1; None where an agent has it
    obstacle: Verdict | None = None  #: why its cluster would not take it now
    not_before: datetime | None = None
    queue_deadline: datetime | None = None
    ends_at: datetime | None = None  #: when its time limit ends it
    aborted_by: str | None = None
    silence: str | None = None  #: what is to be said of its cluster, if that is silent
    judged_at: datetime | None = None  #: when it is judged if its cluster stays silent

    def status(self, now: datetime) -> Status:
        """What is to be said of it now."""
        next_step, next_at = self._next(now)
        return Status(
            phase=self.phase.value,
            since=self.since,
            attempt=self.attempt,
            attempts=self.attempts,
            message=self._sentence(now),
            next=next_step,
            next_at=next_at,
            last_failure=None if self.phase.is_finished else self.failure,
        )

    @property
    def _of(self) -> str:
        after = f", after {self.failure.ended_by}" if self.failure and not self.phase.is_finished else ""
        return f" (attempt {self.attempt} of {self.attempts}{after})" if self.attempts > 1 else ""

    @property
    def _where(self) -> str:
        return f" on {self.cluster}" if self.cluster and self.has_started else ""

    def _sentence(self, now: datetime) -> str:
        age = show_duration((now - self.since).total_seconds())
        if self.phase is Phase.QUEUED:
            return self._queued(age, now)
        if self.phase is Phase.RUNNING:
            return f"RUNNING{self._where} for {age}{self._of}: {self.silence or f'{self.route}.'}"
        if self.phase is Phase.ABORTING:
            return f"ABORTING{self._where} for {age}{self._by}: {self._reason}"
        if self.phase is Phase.SUCCEEDED:
            took = f" after {show_duration(self.duration)}" if self.duration is not None else ""
            return f"SUCCEEDED{self._where} {age} ago{took}{self._of}: {self.route}."
        if self.phase is Phase.ABORTED:
            return f"ABORTED{self._where} {age} ago{self._by}: {self.reason_message}"
        ended = f"{self.phase.value}{self._where} {age} ago{self._of}: {self._reason}"
        return f"{ended} {self.limit}" if self.limit else ended

    @property
    def _reason(self) -> str:
        return self.silence or self.reason_message

    @property
    def _by(self) -> str:
        return f", by {show_name(*split_name(self.aborted_by))}" if self.aborted_by else ""

    def _queued(self, age: str, now: datetime) -> str:
        if self.not_before is not None and self._is_backing_off(now):
            wait = show_duration((self.not_before - now).total_seconds())
            after, rest = "", f" {self.reason_message}"  # of what is older than records of attempts
            if self.failure is not None:
                after, rest = f" after {self.failure.ended_by}", ""
            rest += f" The agent of {self.cluster} is silent." if self.silence is not None else ""
            of = f"attempt {self.attempt - 1} of {self.attempts}"
            return f"QUEUED: in back-off{after} ({of}), next attempt in {wait}.{rest}"
        if self.cluster is None or self.silence is not None:
            return f"QUEUED for {age}{self._of}: {self._reason}"
        if self.position is None:
            return f"QUEUED for {age}{self._of}: the agent of {self.cluster} has it, and has not said that it runs."
        place = _PLACES[self.position - 1] if self.position <= len(_PLACES) else f"number {self.position} in line"
        obstacle = f"{self.cluster} {self.obstacle.reason}; " if self.obstacle else ""
        return f"QUEUED for {age}, {place} at {self.cluster}{self._of}: {obstacle}{self.route}."

    def _is_backing_off(self, now: datetime) -> bool:
        """Whether it waits for its next attempt; no agent has it, so that none can be missed."""
        return self.judged_at is None and self.not_before is not None and self.not_before > now

    def _next(self, now: datetime) -> tuple[str | None, datetime | None]:
        """What decides about it next, and when."""
        if self.phase.is_finished:
            return None, None
        if self.silence is not None and not self._is_backing_off(now):
            if self.judged_at is None:
                return "It is decided again any moment now.", None
            return f"It is judged at {show_time(self.judged_at)} if the agent that has it stays away.", self.judged_at
        if self.phase is Phase.ABORTING:
            return "Its agent ends it and says so.", None
        if self.phase is Phase.RUNNING:
            if self.ends_at is None:
                return "It ends by itself; it has no time limit.", None
            return f"It ends by itself, or for its time limit at {show_time(self.ends_at)}.", self.ends_at
        return self._next_of_queued(now)

    def _next_of_queued(self, now: datetime) -> tuple[str, datetime | None]:
        if self.not_before is not None and self.not_before > now:
            return f"Its next attempt may start at {show_time(self.not_before)}.", self.not_before
        if self.cluster is None:
            trigger = "when something ends at one of these clusters, or the fleet changes"
            if self.reason not in WAITS_FOR_ROOM:
                trigger = "any moment now" if self.reason == UNDECIDED else "when the fleet changes"
            step = f"It is decided again {trigger}."
        elif self.position is None:
            return f"The agent of {self.cluster} reports that it runs, or gives it back.", None
        elif self.obstacle is None or self.obstacle.filter == ROOM.name:
            step = f"The agent of {self.cluster} takes it when it has room."
        else:
            step = "It is decided again when the fleet changes."
        if self.queue_deadline is not None:
            step += f" It is TIMED_OUT if it still waits at {show_time(self.queue_deadline)}."
        return step, self.queue_deadline


def describe_limit(
    reason: str,
    job: Mapping[str, Any],
    requested: Mapping[str, Any] | None,
    settings: Sequence[Mapping[str, Any]],
    provenance: Mapping[int, Provenance],
    now: datetime,
) -> str:
    """Where the limit was set that ended an execution for a reason, and by whom; "" where none did.

    `requested` is the job as an ad hoc request gave it; without it a workflow or jobspec may have set the limit.
    """
    resource = LIMITED.get(reason)
    limit = job.get("resources", {}).get("limits", {}).get(resource)
    if resource is None or limit is None:
        return ""
    if requested is None:
        return f"Its limit is {limit}."
    source = source_of_amount(resource, limit, requested, settings)
    if source is None:
        return f"Its limit {limit} is set by the job itself."
    word = "default" if source.setting.startswith("defaults.") else "limit"
    return f"Its limit {limit} is the {word} set {trails.describe_origin(source.origin, provenance, now)}."
