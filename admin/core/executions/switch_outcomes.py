"""Switch outcomes: what becomes of an execution if its cluster is switched or removed, or if settings change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from admin.core.executions.attempts import (
    Repeatable,
    attempt_number,
    may_have_started,
    seconds_until_retry,
    time_limit_ends_at,
    waits_for_agent,
)
from admin.core.executions.lifecycle import Phase
from admin.core.executions.queues import queue_deadline
from admin.core.executions.retries import CLUSTER_LOST, DRAINED, Retries
from admin.core.placement.decisions import Decision
from admin.core.times import show_due, show_time


class Outcome(Enum):
    """What becomes of an execution."""

    MOVES = "MOVES"  # to another cluster
    WAITS = "WAITS"  # no cluster would take it
    TIMES_OUT = "TIMES_OUT"  # the same until its queueing budget is over, which ends it
    RUNS_ON = "RUNS_ON"
    RUNS_AGAIN = "RUNS_AGAIN"  # it is ended at the deadline, and another attempt follows
    ENDS = "ENDS"  # it is ended at the deadline
    ENDING = "ENDING"  # it is being ended already, whatever is changed
    STAYS = "STAYS"  # where it is, unless an operator redecides it by the settings


@dataclass(frozen=True, kw_only=True)
class SwitchOutcome:
    """What becomes of an execution, and where it would be then."""

    outcome: Outcome
    message: str
    cluster: str | None  #: None where none would take it
    at: datetime | None = None  #: when it ends or is decided again, where that is known and not at once
    redecided_cluster: str | None = None  #: of one that stays: where it would be if it were decided again


class LeasedAttempt(Repeatable, Protocol):
    """The fields of an execution that an agent has, by which a drain affects it."""

    @property
    def phase(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def cluster(self) -> str | None: ...

    @property
    def started_at(self) -> datetime | None: ...

    @property
    def confirmed(self) -> bool: ...

    @property
    def lease_expires_at(self) -> datetime | None: ...


def of_placement(cluster: str | None, reason: str, *, was_waiting: bool = False) -> SwitchOutcome:
    """The outcome for an execution in the queue, which goes to a cluster or waits for a reason.

    One that `was_waiting` had no cluster before.
    """
    if cluster is None:
        message = f"Still waits, for another reason: {reason}" if was_waiting else reason
        return SwitchOutcome(outcome=Outcome.WAITS, message=message, cluster=None)
    return SwitchOutcome(outcome=Outcome.MOVES, message=f"Moves to {cluster}.", cluster=cluster)


def within_budget(queued: SwitchOutcome, deadline: datetime | None, *, is_leased: bool = False) -> SwitchOutcome:
    """The outcome for an execution in the queue whose queueing budget is over at a deadline, if it has one.

    One that an agent has is not ended for it before the agent gives it back.
    """
    if deadline is None or queued.outcome not in (Outcome.WAITS, Outcome.MOVES):
        return queued
    decided_at = queued.at or deadline
    if queued.outcome is Outcome.MOVES and (queued.at is None or decided_at < deadline):
        return queued
    at = max(deadline, decided_at) if is_leased else deadline
    message = f"{_tell_budget(at)} {queued.message}"
    return replace(queued, outcome=Outcome.TIMES_OUT, message=message, cluster=None, at=at)


def _tell_budget(at: datetime) -> str:
    return f"Fails for its queueing budget at {show_time(at)} (TIMED_OUT), unless a cluster takes it before."


def of_settings(cluster: str | None, redecided: str | None, reason: str) -> SwitchOutcome:
    """The outcome of new settings for an execution in the queue, which count for it once it is decided again."""
    then = f"move it to {redecided}" if redecided is not None else f"leave it without a cluster: {reason.rstrip('.')}"
    where = f"at {cluster}" if cluster else "without a cluster"
    message = f"Waits {where} until it is decided again, which would {then}."
    return SwitchOutcome(outcome=Outcome.STAYS, message=message, cluster=cluster, redecided_cluster=redecided)


def returns_to_queue(attempt: LeasedAttempt, deadline: datetime | None) -> bool:
    """Whether a drain takes an execution from its cluster while it still has attempts."""
    if attempt.phase == Phase.QUEUED.value:
        return True  # its agent gives it back, unless it is about to start it
    return _is_cut_short(attempt, deadline) and seconds_until_retry(attempt, CLUSTER_LOST) is not None


def _is_cut_short(attempt: LeasedAttempt, deadline: datetime | None) -> bool:
    """Whether the deadline of a drain ends an execution that its time limit would not have ended before."""
    if deadline is None or attempt.phase == Phase.ABORTING.value:
        return False
    ends_at = time_limit_ends_at(attempt.started_at, attempt.content)
    return ends_at is None or ends_at > deadline


def of_drain(attempt: LeasedAttempt, deadline: datetime | None, decision: Decision | None) -> SwitchOutcome:
    """The outcome of a drain for an execution that the agent has; `decision` places one that returns to the queue."""
    if decision is not None and attempt.phase == Phase.QUEUED.value:
        return of_placement(decision.cluster, decision.message)
    if deadline is not None and _is_cut_short(attempt, deadline):
        return _at_deadline(attempt, deadline, decision)
    if attempt.phase == Phase.ABORTING.value:
        message = f"It is being ended already{_then(attempt)}."
        return SwitchOutcome(outcome=Outcome.ENDING, message=message, cluster=attempt.cluster)
    ends_at = time_limit_ends_at(attempt.started_at, attempt.content)
    limit = "" if ends_at is None else f", at the latest at {show_time(ends_at)} by its time limit"
    message = f"Runs on until it ends{limit}."
    return SwitchOutcome(outcome=Outcome.RUNS_ON, message=message, cluster=attempt.cluster, at=ends_at)


def of_running(attempt: LeasedAttempt, deadline: datetime | None) -> SwitchOutcome:
    """What becomes of an execution that runs, by the deadline of a drain, wherever another attempt would go."""
    outcome = of_drain(attempt, deadline, None)
    if deadline is None or outcome.outcome is not Outcome.ENDS or seconds_until_retry(attempt, CLUSTER_LOST) is None:
        return outcome
    return replace(outcome, message=f"{_ended_at(deadline)}, and another attempt follows.")


def _ended_at(deadline: datetime) -> str:
    return f"Is ended at {show_time(deadline)}, unless it has ended by then"


def _then(attempt: LeasedAttempt) -> str:
    """That another attempt follows one that is being ended for a drain, by its policy."""
    is_repeated = attempt.reason == DRAINED and seconds_until_retry(attempt, CLUSTER_LOST) is not None
    return ", and another attempt follows" if is_repeated else ""


def _at_deadline(attempt: LeasedAttempt, deadline: datetime, decision: Decision | None) -> SwitchOutcome:
    return _ended(attempt, deadline, decision, _ended_at(deadline), is_drained=True)


@dataclass(frozen=True, kw_only=True)
class MissingAgent:
    """The agent of a cluster that is silent, or that is removed and so can report no more."""

    why: str  #: such as `its agent can no longer report it`
    lost_at: datetime  #: when the cluster counts as lost
    given_up_at: datetime  #: when what waits for the agent is given up
    now: datetime
    drained_at: datetime | None = None  #: the deadline of a drain

    def judged_at(self, attempt: LeasedAttempt) -> datetime:
        """When an execution counts as lost: its cluster does, and its lease is over."""
        return max(attempt.lease_expires_at or self.lost_at, self.lost_at)

    def is_drained(self, attempt: LeasedAttempt) -> bool:
        """Whether a drain is to end an execution that waits for the agent, before it is given up."""
        return (
            self.drained_at is not None
            and self.drained_at < self.given_up_at
            and waits_for_agent(attempt)
            and _is_cut_short(attempt, self.drained_at)
        )


def returns_without_agent(attempt: LeasedAttempt, agent: MissingAgent) -> bool:
    """Whether an execution whose agent is missing goes back to the queue when its lease or a drain is over."""
    if not may_have_started(attempt):
        return True
    waits = waits_for_agent(attempt) and not agent.is_drained(attempt)
    is_ended = attempt.phase != Phase.ABORTING.value and not waits
    return is_ended and seconds_until_retry(attempt, CLUSTER_LOST) is not None


def of_missing_agent(attempt: LeasedAttempt, agent: MissingAgent, decision: Decision | None) -> SwitchOutcome:
    """The outcome for an execution whose agent is missing, whatever else is asked of that.

    `decision` places one that returns to the queue; one that waits for its agent is given up in the end.
    """
    if decision is not None and not may_have_started(attempt):
        return _returned(attempt, agent, decision)
    over = agent.given_up_at if waits_for_agent(attempt) else agent.judged_at(attempt)
    if attempt.phase == Phase.ABORTING.value:
        ends = f"it counts as ended {show_due(over, agent.now)}{_then(attempt)}"
        message = f"It is being ended already, but {agent.why}: {ends}."
        return SwitchOutcome(outcome=Outcome.ENDING, message=message, cluster=attempt.cluster, at=over)
    if agent.drained_at is not None and agent.is_drained(attempt):
        order = f"Its agent is to end it {show_due(agent.drained_at, agent.now)}, but {agent.why}"
        until = f"it is ABORTING until that is heard again, or it is given up {show_due(over, agent.now)}"
        return _ended(attempt, over, decision, f"{order}: {until} (on_lost: wait)", is_drained=True)
    if waits_for_agent(attempt):
        message = f"May run on, but {agent.why}; it is given up {show_due(over, agent.now)} (on_lost: wait)."
        return SwitchOutcome(outcome=Outcome.RUNS_ON, message=message, cluster=attempt.cluster, at=over)
    return _ended(attempt, over, decision, f"Counts as lost {_when_lost(attempt, agent)}")


def _when_lost(attempt: LeasedAttempt, agent: MissingAgent) -> str:
    """When an execution counts as lost, and which of the two conditions is met last."""
    lease = attempt.lease_expires_at
    if lease is None or lease < agent.lost_at:
        over = "" if lease is None else f" (its lease is over at {show_time(lease)})"
        return f"when its cluster does, {show_due(agent.lost_at, agent.now)}{over}"
    return f"when its lease is over, {show_due(lease, agent.now)}"


def _returned(attempt: LeasedAttempt, agent: MissingAgent, decision: Decision) -> SwitchOutcome:
    """The outcome for an execution that has not started and that its agent can not give back."""
    at, when = agent.judged_at(attempt), _when_lost(attempt, agent)
    if agent.drained_at is not None and agent.drained_at < at:
        at, when = agent.drained_at, f"when the drain is over, at {show_time(agent.drained_at)}"
    return _decided_later(f"Has not started, and is decided again {when}", at, decision.cluster, decision.message)


def _decided_later(start: str, at: datetime, cluster: str | None, reason: str) -> SwitchOutcome:
    placed = of_placement(cluster, reason)
    then = f"it then moves to {cluster}." if cluster is not None else f"it then waits. {reason}"
    return replace(placed, message=f"{start}; {then}", at=at)


def _ended(
    attempt: LeasedAttempt, deadline: datetime, decision: Decision | None, ended: str, *, is_drained: bool = False
) -> SwitchOutcome:
    if decision is None:
        retries = Retries.of(attempt.content.get("retry"))
        why = retries.why_no_other(attempt_number(attempt), CLUSTER_LOST, is_drained=is_drained)
        message = f"{ended}; no other attempt follows{f': {why}' if why else ''}."
        return SwitchOutcome(outcome=Outcome.ENDS, message=message, cluster=attempt.cluster, at=deadline)
    cluster = decision.cluster
    then = f"runs again at {cluster}."
    if cluster is None:
        wait = timedelta(seconds=seconds_until_retry(attempt, CLUSTER_LOST) or 0)
        over = queue_deadline(attempt.content.get("quality_of_service", {}), deadline + wait)
        then = " ".join(["waits to run again.", *([] if over is None else [_tell_budget(over)]), decision.message])
    message = f"{ended}, and {then}"
    return SwitchOutcome(outcome=Outcome.RUNS_AGAIN, message=message, cluster=cluster, at=deadline)
