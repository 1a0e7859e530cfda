"""Statuses: where an execution stands now and why, and what happens next, each in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from admin.core.executions.admissions import NAMESPACE_NOT_READY
from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.attempts import UNDECIDED, is_backing_off
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import DRAINED
from admin.core.executions.run_times import Times
from admin.core.executions.silences import Drain, as_sentence
from admin.core.executions.starts import Start
from admin.core.executions.token_waits import TokenWait
from admin.core.placement.decisions import ASKING, WAITS_FOR_ROOM
from admin.core.placement.filters import EXPECTED, ROOM, Verdict
from admin.core.placement.obstacles import ENGINE
from admin.core.provenance import Actor
from admin.core.retention import KeptUntil
from admin.core.times import show_due, show_duration, show_time

_PLACES = ("next", "second in line", "third in line", "fourth in line", "fifth in line")


@dataclass(frozen=True, kw_only=True)
class Status:
    """Where an execution stands."""

    phase: str
    since: datetime  #: when it entered this phase
    attempt: int  #: those that never started do not count
    attempts: int  #: how many there may be
    message: str
    next: str | None  #: what decides about it next; None where nothing does
    next_at: datetime | None  #: when, where that is known
    on_lost: str | None  #: the policy for the case that its cluster falls silent; None once it is over
    if_silent: str | None  #: what happens by it then; None where its cluster is silent, or no agent may have started it
    last_failure: AttemptRecord | None  #: of the attempt before, while another one waits or runs
    times: Times | None  #: None where some of its attempts are not recorded
    start: Start | None  #: while it is in line at a cluster that takes work
    tokens: TokenWait | None = None  #: while it waits for tokens
    token_pools: Mapping[str, int] | None = None  #: the tokens that it needs, by pool
    holds_tokens: bool | None = None  #: whether it holds them now; None where it needs none
    kept_until: KeptUntil | None = None  #: once it has ended, where retention deletes it or a part of it


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What the status of an execution depends on."""

    phase: Phase
    since: datetime
    reason: str
    reason_message: str
    cluster: str | None
    attempt: int  #: which one runs, or is the next
    attempts_begun: int = 1
    attempts: int
    failure: AttemptRecord | None = None  #: of the last attempt that another one follows
    route: str  #: which rung decided, and over which others
    limit: str = ""  #: where the limit was set that ended it
    time_limit: str = ""  #: how long it may run, and who says so
    queueing_budget: str = ""  #: how long it may wait, and where that was set
    no_other: str = ""  #: why no other attempt follows
    times: Times | None = None
    has_started: bool = False
    duration: float | None = None
    late: str = ""  #: that its end was reported late, because its agent was silent
    position: int | None = None  #: in the line at its cluster, from 1; None where an agent has it
    is_position_told: bool = True  #: whether who asks may know how much work of others the cluster has
    obstacle: Verdict | None = None  #: why its cluster would not take it now
    waits_for: str = ""  #: why the agent of its cluster does not start what it has
    engine_says: str = ""  #: why it waits in the engine of its cluster, in the engine's words
    has_never_synced: bool = False  #: whether its cluster's agent has never synced, although its state was reported
    may_move: bool = False  #: whether it leaves an expected cluster for one that was seen, as soon as that has room
    obstacles: str | None = None  #: why no cluster would take it now
    triggers: str = ""  #: when it is decided again, where no cluster would take it now
    ask_again_at: datetime | None = None  #: when its clusters are asked again, of which none has said yes
    start: Start | None = None  #: when it starts, where its cluster takes work
    quota: str = ""  #: the quota that has no room for it now, and who has it
    tokens: TokenWait | None = None  #: what it waits for in token pools, where its cluster has room
    lacks: str = ""  #: the tokens that it runs without
    token_pools: Mapping[str, int] | None = None  #: the tokens that it needs, by pool
    holds_tokens: bool = False
    drain: Drain | None = None  #: of its cluster
    not_before: datetime | None = None
    queue_deadline: datetime | None = None
    ends_at: datetime | None = None  #: when its time limit ends it
    aborted_by: Actor | None = None
    abort_requested_at: datetime | None = None
    given_up_by: Actor | None = None
    silence: str | None = None  #: what is to be said of its cluster, if that is silent
    on_lost: str = "wait"
    if_silent: str = ""  #: what becomes of it if its cluster falls silent
    judgement: str = ""  #: what decides about it if its cluster stays silent
    judged_at: datetime | None = None  #: when that does

    def status(self, now: datetime) -> Status:
        """What is to be said of it now."""
        next_step, next_at = self._next(now)
        return Status(
            phase=self.phase.value,
            since=self.since,
            attempt=self.attempts_begun,
            attempts=self.attempts,
            message=self._sentence(now),
            next=next_step,
            next_at=next_at,
            on_lost=None if self.phase.is_finished else self.on_lost,
            if_silent=self.if_silent if self.phase is Phase.RUNNING and self.silence is None else None,
            last_failure=None if self.phase.is_finished else self.failure,
            times=self.times,
            start=self.start,
            tokens=self.tokens,
            token_pools=self.token_pools,
            holds_tokens=self.holds_tokens if self.token_pools else None,
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
            lacks = f" It runs without the {self.lacks} that it needs." if self.lacks else ""
            return f"RUNNING{self._where} for {age}{self._of}: {self._silence(now) or f'{self.route}.'}{lacks}"
        if self.phase is Phase.ABORTING:
            return f"ABORTING{self._where} for {age}{self._by(now)}: {self._reason}"
        if self.phase is Phase.SUCCEEDED:
            took = f" after {show_duration(self.duration)}" if self.duration is not None else ""
            return f"SUCCEEDED{self._where} {age} ago{took}{self._of}{self._late}: {self.route}."
        if self.phase is Phase.ABORTED:
            return f"ABORTED{self._where} {age} ago{self._by(now)}{self._late}: {self._end}"
        return f"{self.phase.value}{self._where} {age} ago{self._of}{self._late}: {self._end}"

    def _silence(self, now: datetime) -> str:
        """What is to be said of its cluster if that is silent, and of a time limit that is over meanwhile."""
        if self.silence is None or self.ends_at is None or self.ends_at > now:
            return self.silence or ""
        set_by = f" ({self.time_limit})" if self.time_limit else ""
        over = f"Its time limit was over at {show_time(self.ends_at)}{set_by}"
        return f"{over}: its cluster was to end it, and nobody has confirmed that it has. {self.silence}"

    @property
    def _late(self) -> str:
        return f" ({self.late})" if self.late else ""

    @property
    def _end(self) -> str:
        """Why it ended, where the limit was set that ended it, and why no other attempt follows."""
        no_other = f"No other attempt follows: {self.no_other}." if self.no_other else ""
        reason = as_sentence(self.reason_message) if self.limit or no_other else self.reason_message
        return " ".join(part for part in (reason, self.limit, no_other) if part)

    @property
    def _reason(self) -> str:
        """Why it has its phase; the silence of its cluster is what counts most, besides who wants it ended and why."""
        if self.phase is Phase.ABORTING:
            return self.reason_message if self.silence is None else f"{as_sentence(self.reason_message)} {self.silence}"
        return self.silence or self.obstacles or self.reason_message

    def _by(self, now: datetime) -> str:
        """Who ended it; of a drain the reason says so."""
        if not self.aborted_by or self.reason == DRAINED:
            return ""
        if self.given_up_by is None or self.given_up_by == self.aborted_by:
            return f", by {self.aborted_by}"
        asked = (
            f" {show_duration((now - self.abort_requested_at).total_seconds())} ago" if self.abort_requested_at else ""
        )
        return f", cancelled{asked} by {self.aborted_by} and given up by {self.given_up_by}"

    def _queued(self, age: str, now: datetime) -> str:
        if self.not_before is not None and self._is_backing_off(now):
            wait = show_duration((self.not_before - now).total_seconds())
            after, rest = "", f" {self.reason_message}"  # of what is older than records of attempts
            if self.failure is not None:
                after, rest = f" after {self.failure.ended_by}", ""
            rest += f" The agent of {self.cluster} is silent." if self.silence is not None else ""
            rest += f" {self._nowhere}" if self.obstacles else ""
            of = f"attempt {self.attempt - 1} of {self.attempts}"
            return f"QUEUED: in back-off{after} ({of}), next attempt in {wait}.{rest}"
        if self.cluster is None or self.silence is not None:
            return f"QUEUED for {age}{self._of}: {self._reason}"
        if self.position is None:
            held = self.engine_says.rstrip(".") or self.waits_for or "has not said that it runs"
            return f"QUEUED for {age}{self._of}: the agent of {self.cluster} has it, and {held}."
        if self.tokens is not None:
            line = f", {self.tokens.line}" if self.tokens.line else ""
            return f"QUEUED for {age} at {self.cluster}{line}{self._of}: {self.tokens.message}"
        place = _PLACES[self.position - 1] if self.position <= len(_PLACES) else f"number {self.position} in line"
        place = place if self.is_position_told else "in line"
        if self.quota and (self.obstacle is None or self.obstacle.filter == ROOM.name):
            return f"QUEUED for {age} at {self.cluster}{self._of}: {self.quota}"
        if self._waits_for_namespace:
            return f"QUEUED for {age} at {self.cluster}{self._of}: {self.reason_message}"
        if self.waits_for and (self.obstacle is None or self.obstacle.filter == ROOM.name):
            return (
                f"QUEUED for {age}, {place} at {self.cluster}{self._of}: its agent takes nothing now: {self.waits_for}."
            )
        is_what, _, why = self.obstacle.reason.partition(": ") if self.obstacle else ("", "", "")
        obstacle = f"{self.cluster} {is_what}{f' ({why})' if why else ''}; " if is_what else ""
        return f"QUEUED for {age}, {place} at {self.cluster}{self._of}: {obstacle}{self.route}."

    @property
    def _waits_for_namespace(self) -> bool:
        return self.reason == NAMESPACE_NOT_READY and (self.obstacle is None or self.obstacle.filter == ROOM.name)

    @property
    def _nowhere(self) -> str:
        """That no cluster would take the next attempt, and why."""
        reason = self.obstacles or ""
        if " is able: " in reason:
            return reason.replace(" is able: ", " would take the next attempt: ", 1)
        return f"No cluster would take the next attempt: {reason[:1].lower()}{reason[1:]}"

    def _is_backing_off(self, now: datetime) -> bool:
        """Whether it waits for its next attempt; no agent has it, so that none can be missed."""
        has_agent = self.cluster is not None and self.position is None
        return not has_agent and is_backing_off(self.not_before, now)

    def _next(self, now: datetime) -> tuple[str | None, datetime | None]:
        """What decides about it next, and when."""
        if self.phase.is_finished:
            return None, None
        if self.silence is not None and not self._is_backing_off(now):
            return self.judgement, self.judged_at
        if self.phase is Phase.ABORTING:
            return "Its agent ends it and says so.", None
        if self.phase is Phase.RUNNING:
            return self._next_of_running(now)
        return self._next_of_queued(now)

    def _next_of_running(self, now: datetime) -> tuple[str, datetime | None]:
        ends, times = ["It ends by itself"], []
        if self.ends_at is not None:
            set_by = f" ({self.time_limit})" if self.time_limit else ""
            ends.append(f"or for its time limit {show_due(self.ends_at, now)}{set_by}")
            times.append(self.ends_at)
        if self.drain is not None and self.drain.deadline is not None:
            then = "another attempt follows" if self.drain.is_retried else "no other attempt follows"
            at = show_due(self.drain.deadline, now)
            ends.append(f"or is ended {at} by the drain of {self.cluster} ({self.drain.by}), and {then} then")
            times.append(self.drain.deadline)
        end = ", ".join(ends)
        return f"{end}." if self.ends_at is not None else f"{end}; it has no time limit.", min(times, default=None)

    def _next_of_queued(self, now: datetime) -> tuple[str, datetime | None]:
        if self.not_before is not None and is_backing_off(self.not_before, now):
            if_taken = ", if some cluster takes it by then" if self.obstacles else ""
            return f"Its next attempt may start {show_due(self.not_before, now)}{if_taken}.", self.not_before
        if self.reason == ASKING and not self.obstacles:
            step = "The bids of its clusters decide; if none of them says yes, they are asked again."
            if self.ask_again_at is not None:
                step = f"No cluster has said yes; they are asked again {show_due(self.ask_again_at, now)}."
        elif self.cluster is None:
            trigger = "when something ends at one of these clusters, or the fleet changes"
            if self.reason not in WAITS_FOR_ROOM:
                trigger = "any moment now" if self.reason == UNDECIDED else "when the fleet changes"
            step = f"It is decided again {self.triggers or trigger}."
        elif self.position is None:
            return f"The agent of {self.cluster} reports that it runs, or gives it back.", None
        elif self.obstacle is not None and self.obstacle.filter == EXPECTED.name:
            room = "a cluster that has been seen has room for it, or " if self.may_move else ""
            taken = f"The agent of {self.cluster} takes it once there is one."
            step = f"{taken} It is decided again when {room}the fleet changes."
        elif self.obstacle is not None and self.obstacle.filter == ENGINE:
            step = f"The agent of {self.cluster} takes it once it can use its engine."
        elif self.tokens is not None:
            step = f"The agent of {self.cluster} gets it with its tokens, when they are free and it is its turn."
        elif self._waits_for_namespace:
            step = f"The agent of {self.cluster} gets it when it has made the namespace."
        elif self.obstacle is None or self.obstacle.filter == ROOM.name:
            when = "both it and the quota have room" if self.quota else "it has room"
            when = "that is over" if self.waits_for and not self.quota else when
            never_synced = ", which has never synced," if self.has_never_synced else ""
            step = f"The agent of {self.cluster}{never_synced} takes it when {when}."
        else:  # it may not stay there, and the next round moves it
            step = "It is decided again any moment now."
        if self.queue_deadline is not None:
            budget = f" (its queueing budget is {self.queueing_budget})" if self.queueing_budget else ""
            step += f" If it still waits, it is TIMED_OUT {show_due(self.queue_deadline, now)}{budget}."
        times = (self.queue_deadline, self.ask_again_at)
        return step, min((time for time in times if time is not None), default=None)
