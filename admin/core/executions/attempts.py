"""Attempts: how one begins, ends, is followed by another, or goes back to the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.lifecycle import Phase
from admin.core.executions.queues import queue_deadline
from admin.core.executions.retries import CLUSTER_LOST, DRAINED, Retries
from admin.core.executions.silences import UNCONFIRMED, as_sentence, describe_silence, may_still_run
from admin.core.fleet.silence import silent_since
from admin.core.provenance import Actor, Provenance
from admin.core.quantities import parse_duration

#: The reason of an execution that waits for the background loop to place it again.
UNDECIDED = "UNDECIDED"
#: The type of the event, and the reason, of an attempt that another one follows.
RETRY = "RETRY"
#: The reason of an execution that presumably still runs, at a cluster that is silent.
CLUSTER_SILENT = "CLUSTER_SILENT"


class AttemptState(Protocol):
    """The fields of an execution that these rules read; the last three only where an attempt may fail."""

    uid: str
    phase: str
    reason: str
    reason_message: str
    cluster: str | None
    attempt: int
    started_at: datetime | None
    lease_expires_at: datetime | None
    lease_instance: str
    confirmed: bool
    silent_since: datetime | None
    unstarted: int
    native_id: str | None
    content: Mapping[str, Any]
    avoid: list[str]
    nodes: list[str] | None


def time_limit_seconds(content: Mapping[str, Any]) -> float | None:
    """The longest that an attempt may run; None for as long as it takes."""
    duration = content["job"].get("resources", {}).get("duration")
    return float(parse_duration(duration)) if duration else None


def time_limit_ends_at(started_at: datetime | None, content: Mapping[str, Any]) -> datetime | None:
    """When its time limit ends an attempt that has started; None where it has none, or that is beyond any date."""
    seconds = time_limit_seconds(content)
    if started_at is None or seconds is None:
        return None
    try:
        return started_at + timedelta(seconds=seconds)
    except OverflowError:
        return None


class Startable(Protocol):
    """The fields of an execution by which it may have started."""

    @property
    def phase(self) -> str: ...

    @property
    def confirmed(self) -> bool: ...


class Numbered(Protocol):
    """The fields of an execution by which its attempts are counted."""

    @property
    def attempt(self) -> int: ...

    @property
    def unstarted(self) -> int: ...


def attempt_number(execution: Numbered) -> int:
    """The number of the current attempt, without the leases that never started."""
    return max(1, execution.attempt - execution.unstarted)


class Repeatable(Numbered, Protocol):
    """The fields of an execution by which another attempt may follow."""

    @property
    def content(self) -> Mapping[str, Any]: ...


class Begun(Numbered, Protocol):
    """The fields of an execution by which its current attempt has begun."""

    @property
    def phase(self) -> str: ...

    @property
    def started_at(self) -> datetime | None: ...

    @property
    def native_id(self) -> str | None: ...


#: The phases of an execution whose current attempt may never have begun.
MAY_NOT_HAVE_BEGUN = (Phase.QUEUED.value, Phase.ABORTED.value, Phase.TIMED_OUT.value)


def attempts_begun(execution: Begun) -> int:
    """How many attempts have begun, which is the number of the last one; 1 before the first has."""
    has_begun = execution.started_at is not None or execution.native_id is not None
    waits = execution.phase in MAY_NOT_HAVE_BEGUN and not has_begun
    return max(1, attempt_number(execution) - 1) if waits else attempt_number(execution)


def seconds_until_retry(execution: Repeatable, kind: str) -> float | None:
    """The wait before the attempt that follows one which ended so; None where none follows."""
    return Retries.of(execution.content.get("retry")).seconds_until_next(attempt_number(execution), kind)


@dataclass(kw_only=True, slots=True)
class Outcome:
    """What an agent reports of an attempt."""

    phase: Phase
    reason: str
    message: str
    exit_code: int | None = None
    native_id: str | None = None
    nodes: list[str] | None = None
    duration: float | None = None
    signal: int | None = None
    started_at: datetime | None = None  #: of the native job, by the agent's clock
    ended_at: datetime | None = None
    is_confirmed: bool = True  #: False where it is not an agent that says so
    silent_since: datetime | None = None  #: when its agent was last heard before this, where it was silent

    def native_time(self, time: datetime | None, now: datetime) -> datetime | None:
        """A time of the native job between the last sync and now; None unless its agent was silent.

        Otherwise the admin has heard of it when it happened, and no agent's clock counts.
        """
        if time is None or self.silent_since is None:
            return None
        return min(max(time, self.silent_since), now)


@dataclass(kw_only=True, slots=True)
class Change:
    """A change of an execution: the kind of its event, and the new values."""

    kind: str
    values: dict[str, Any]
    message: str | None = None  #: of the event; None for the new reason's
    attempt: AttemptRecord | None = None  #: the one that is over with it
    by: Actor | None = None  #: who caused it, where somebody did


class Endable(Protocol):
    """The fields of an execution by which it may be ended."""

    @property
    def phase(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def lease_expires_at(self) -> datetime | None: ...


def phase_when_ended(execution: Endable, phase: Phase, reason: str) -> Phase | None:
    """The phase of an execution that is to end in one, for a reason; None where that changes nothing."""
    if not Phase(execution.phase).may_become(phase):
        return None
    if phase is not Phase.ABORTED or execution.lease_expires_at is None:
        return phase
    # What is ended for a drain would run elsewhere; who terminates it wants that no more.
    if execution.phase == Phase.ABORTING.value and (execution.reason != DRAINED or reason == DRAINED):
        return None
    return Phase.ABORTING  # its agent ends it


def start(outcome: Outcome, now: datetime) -> Change:
    """Mark an attempt as running: since now, or since its job started while its agent was silent."""
    started_at = outcome.native_time(outcome.started_at, now) or now
    values = {"phase": Phase.RUNNING.value, "reason": outcome.reason, "reason_message": outcome.message}
    return Change(kind="RUNNING", values={**values, "started_at": started_at, **_native(outcome)})


def finish(
    execution: AttemptState, outcome: Outcome, now: datetime, *, stays: bool = True, is_lost_first: bool = False
) -> Change:
    """End an attempt, and the execution with it unless another attempt follows; on the same cluster if it `stays`.

    Where `is_lost_first`, its cluster was silent already when it was drained, so that its end is that of a lost one.
    """
    is_aborting = execution.phase == Phase.ABORTING.value
    is_drained = is_aborting and execution.reason == DRAINED
    if is_drained and is_lost_first:
        return _lose_before_drain(execution, outcome, now)
    if is_drained and outcome.phase is Phase.SUCCEEDED:
        return _succeed_before_drain(execution, outcome, now)
    if outcome.phase is not Phase.SUCCEEDED and (is_drained or not is_aborting):
        kind = CLUSTER_LOST if outcome.reason == CLUSTER_LOST or is_drained else outcome.phase.value
        wait = seconds_until_retry(execution, kind)
        if wait is not None:
            return _retry(execution, outcome, now, wait, stays=stays, is_drained=is_drained)
    phase = Phase.ABORTED if is_aborting else outcome.phase
    reason = execution.reason if is_aborting else outcome.reason
    message = execution.reason_message if is_aborting else outcome.message
    if is_aborting and outcome.phase is Phase.SUCCEEDED:
        message = f"{as_sentence(message)} It had succeeded by then."
    if is_aborting and outcome.reason == CLUSTER_LOST:
        message = f"{as_sentence(message)} {outcome.message}"
    return _end(execution, replace(outcome, phase=phase, reason=reason, message=message), now)


def _lose_before_drain(execution: AttemptState, outcome: Outcome, now: datetime) -> Change:
    """End an execution whose cluster was silent when it was drained; the drain is told beside its loss."""
    lost = replace(outcome, message=f"{outcome.message} {execution.reason_message}")
    wait = seconds_until_retry(execution, CLUSTER_LOST)
    if wait is not None:
        return _retry(execution, lost, now, wait, stays=False, is_drained=False)
    change = _end(execution, replace(lost, phase=Phase.ABORTED), now)
    return replace(change, values={**change.values, **NOT_ABORTED})


def _succeed_before_drain(execution: AttemptState, outcome: Outcome, now: datetime) -> Change:
    """End an execution that had succeeded before its agent was told to end it for a drain."""
    message = f"{as_sentence(outcome.message)} It had succeeded before the drain of its cluster reached it.".strip()
    change = _end(execution, replace(outcome, message=message), now)
    started_at = execution.started_at or outcome.native_time(outcome.started_at, now)
    return replace(change, values={**change.values, **NOT_ABORTED, "started_at": started_at})


def _end(execution: AttemptState, outcome: Outcome, now: datetime) -> Change:
    """End an execution."""
    duration = outcome.duration
    if duration is None and execution.started_at is not None:
        heard_until = now if outcome.is_confirmed else outcome.silent_since or now
        ended_at = outcome.native_time(outcome.ended_at, now) or heard_until
        duration = max(0.0, (ended_at - execution.started_at).total_seconds())
    values = {
        "phase": outcome.phase.value,
        "reason": outcome.reason,
        "reason_message": outcome.message,
        "finished_at": now,
        "duration": duration,
        "lease_expires_at": None,
        "silent_since": None,
        **({} if outcome.is_confirmed else {"unconfirmed": True}),
        **_native(outcome),
    }
    return Change(kind=outcome.phase.value, values=values, attempt=_record(execution, outcome))


def _record(execution: AttemptState, outcome: Outcome) -> AttemptRecord:
    """What is kept of an attempt that ends so."""
    return AttemptRecord(
        number=execution.attempt,
        attempt_number=attempt_number(execution),
        outcome=outcome.phase.value,
        reason=outcome.reason,
        native_id=outcome.native_id or execution.native_id,
        nodes=outcome.nodes,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        started_at=outcome.started_at or execution.started_at,
        ended_at=outcome.ended_at,
        unconfirmed=None if outcome.is_confirmed else True,
        silent_since=outcome.silent_since,
    )


def is_backing_off(not_before: datetime | None, now: datetime) -> bool:
    """Whether an execution in the queue waits for the time of its next attempt, and takes no room meanwhile."""
    return not_before is not None and not_before > now


#: The values of an execution that nobody ends any more.
NOT_ABORTED = {"abort_cause": None, "abort_principal": None, "abort_author": None, "abort_proof": None}


def aborted(cause: str, by: Actor | None) -> dict[str, str | None]:
    """The values of an execution that somebody ends, or nobody who is known."""
    return {
        "abort_cause": cause,
        "abort_principal": None if by is None else by.name,
        "abort_author": None if by is None else by.proven_author,
        "abort_proof": None if by is None else by.proof,
    }


def given_up(by: Actor) -> dict[str, str | None]:
    """The values of an execution that somebody gives up, whoever had ended it before."""
    return {"given_up_principal": by.name, "given_up_author": by.proven_author, "given_up_proof": by.proof}


def _retry(
    execution: AttemptState, outcome: Outcome, now: datetime, wait: float, *, stays: bool, is_drained: bool
) -> Change:
    """Queue the next attempt; for another cluster, if this one is lost or takes no new work."""
    is_lost = outcome.reason == CLUSTER_LOST or is_drained
    reason, why = (DRAINED, execution.reason_message) if is_drained else (outcome.reason, outcome.message)
    message = f"Attempt {attempt_number(execution)} ended {outcome.phase.value} ({reason}): {why}"
    record = _record(execution, replace(outcome, reason=reason, nodes=outcome.nodes or execution.nodes))
    values = {
        **_next_attempt(execution),
        "last_failure": record.as_json(),
        "not_before": now + timedelta(seconds=wait) if wait else None,
        "queue_deadline": queue_deadline(execution.content["quality_of_service"], now + timedelta(seconds=wait)),
        "started_at": None,
        **NOT_ABORTED,
        **({"reason": RETRY} if stays and not is_lost else {"cluster": None, "reason": UNDECIDED}),
        "reason_message": message,
    }
    return Change(kind=RETRY, values=values, attempt=record)


def requeue(execution: AttemptState, message: str, *, stays: bool, declined: bool = False) -> Change:
    """Queue what had not started; for another cluster, if this one declined it or takes no work."""
    values: dict[str, Any] = {**_next_attempt(execution), "reason": "ASSIGNED", "reason_message": message}
    values["unstarted"] = execution.unstarted + 1
    if declined:
        values["avoid"] = [*execution.avoid, execution.cluster]
    if declined or not stays:
        values |= {"cluster": None, "reason": UNDECIDED}
    return _give_back("DECLINED" if declined else "RELEASED", execution, values)


def withhold(reason: str) -> Change:
    """Keep what waits at a cluster from it, since its creator may not use it any more: it needs another one."""
    return Change(kind="WITHHELD", values={"cluster": None, "reason": UNDECIDED, "reason_message": reason})


def _give_back(kind: str, execution: AttemptState, values: dict[str, Any]) -> Change:
    """The end of an attempt that never started."""
    record = AttemptRecord(number=execution.attempt, outcome=kind, reason=kind, native_id=execution.native_id)
    return Change(kind=kind, values=values, attempt=record)


def judge_silence(
    execution: AttemptState, since: datetime, now: datetime, *, is_given_up: bool, is_lost_first: bool = False
) -> Change:
    """What becomes of an execution whose lease is over at a silent cluster, lost unless the execution waits for it.

    `is_lost_first` says of one that a drain is to end that its cluster was silent already when it was drained.
    """
    if waits_for_agent(execution) and not is_given_up and may_have_started(execution):
        return _fall_silent(execution, since)
    return evict(execution, execution.silent_since or since, now, is_lost_first=is_lost_first)


def wait_for_other(execution: AttemptState, since: datetime) -> Change:
    """Note that an execution waits for another agent than the one that serves its cluster now."""
    return _fall_silent(execution, since, is_taken_over=True)


def _fall_silent(execution: AttemptState, since: datetime, *, is_taken_over: bool = False) -> Change:
    is_aborting = execution.phase == Phase.ABORTING.value
    silence = describe_silence(execution.cluster, since, is_taken_over=is_taken_over, is_aborting=is_aborting)
    may_run = may_still_run(is_aborting=is_aborting, is_drained=execution.reason == DRAINED)
    message = f"{silence} {may_run}. `rainbowctl delete execution --giveUp` gives it up."
    values: dict[str, Any] = {"silent_since": since}
    if not is_aborting:
        values |= {"reason": CLUSTER_SILENT, "reason_message": message}
    return Change(kind="SILENT", values=values, message=message)


def hear(execution: AttemptState) -> Change:
    """Note that the agent of a cluster that was silent has an execution after all."""
    message = f"Cluster '{execution.cluster}' is heard again."
    values: dict[str, Any] = {"silent_since": None}
    if execution.phase != Phase.ABORTING.value:
        reason = "ASSIGNED" if execution.phase == Phase.QUEUED.value else execution.phase
        values |= {"reason": reason, "reason_message": message}
    return Change(kind="HEARD", values=values, message=message)


def evict(execution: AttemptState, since: datetime, now: datetime, *, is_lost_first: bool = False) -> Change:
    """Take an execution from a cluster that is silent, after its lease has expired."""
    message = f"Cluster '{execution.cluster}' had been {silent_since(since)}."
    if not may_have_started(execution):
        values = {**_next_attempt(execution), "cluster": None, "reason": UNDECIDED, "reason_message": message}
        return _give_back("EVICTED", execution, {**values, "unstarted": execution.unstarted + 1})
    outcome = Outcome(
        phase=Phase.FAILED,
        reason=CLUSTER_LOST,
        message=f"{message} {UNCONFIRMED}",
        is_confirmed=False,
        silent_since=since,
    )
    return finish(execution, outcome, now, is_lost_first=is_lost_first)


def describe_drain(by: Provenance | None) -> str:
    """That the drain of its cluster ended an execution, and who drained it; None where that is not kept."""
    return f"Its cluster was drained ({by.describe(None)})." if by is not None else "Its cluster was drained."


def end_for_drain(
    execution: AttemptState, by: Provenance | None, silent_since: datetime | None = None
) -> Change | None:
    """End an execution because the drain of its cluster is over: ask its agent, or queue what had not started.

    An agent that has been silent since some time is asked when it returns; nobody knows until then whether the job has
    ended. None for one that is being ended already.
    """
    message = describe_drain(by)
    if not may_have_started(execution):
        return requeue(execution, message, stays=False)
    if execution.phase == Phase.ABORTING.value:
        return None
    actor = None if by is None else Actor(by.author, by.claimed_by, by.proof)
    values = {"phase": Phase.ABORTING.value, "reason": DRAINED, "reason_message": message}
    event_message = None
    if silent_since is not None:
        silence = describe_silence(execution.cluster, silent_since, is_aborting=True)
        event_message = f"{message} {silence} {may_still_run(is_aborting=True, is_drained=True)}."
    return Change(
        kind=Phase.ABORTING.value,
        values={**values, **aborted(message, actor)},
        message=event_message,
        by=actor,
    )


def _next_attempt(execution: AttemptState) -> dict[str, Any]:
    """The values of a next attempt that is not leased yet; reports of the one before are refused from now on."""
    return {
        "phase": Phase.QUEUED.value,
        "attempt": execution.attempt + 1,
        "lease_expires_at": None,
        "confirmed": False,
        "lease_instance": "",
        "silent_since": None,
        "native_id": None,
        "nodes": None,
        "exit_code": None,
    }


def _native(outcome: Outcome) -> dict[str, Any]:
    values = {"native_id": outcome.native_id, "nodes": outcome.nodes, "exit_code": outcome.exit_code}
    return {name: value for name, value in values.items() if value is not None}


def may_have_started(execution: Startable) -> bool:
    """Whether its agent may have started it: it has left the queue, or its lease was confirmed."""
    return execution.phase != Phase.QUEUED.value or execution.confirmed


def is_over_for(execution: AttemptState, instance: str, now: datetime) -> bool:
    """Whether a lease is over that another agent than this one confirmed, and so may run its execution."""
    is_over = execution.lease_expires_at is not None and execution.lease_expires_at <= now
    return is_over and execution.lease_instance not in ("", instance) and may_have_started(execution)


def waits_for_other(execution: AttemptState, instance: str, now: datetime) -> bool:
    """Whether an execution goes on to wait for an agent that is not this one, though its lease is over."""
    return is_over_for(execution, instance, now) and waits_for_agent(execution)


def waits_for_agent(execution: Repeatable) -> bool:
    """Whether its policy is to wait for the agent of a silent cluster."""
    return Retries.of(execution.content.get("retry")).on_lost == "wait"
