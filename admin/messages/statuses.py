"""Statuses: where an execution stands now, and how the attempt before ended."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.causes import Cause
from admin.core.executions.run_times import Times
from admin.core.executions.starts import MOST_AHEAD, Start
from admin.core.executions.statuses import Status
from admin.core.executions.token_waits import TokenWait
from admin.core.settings.scopes import PLATFORM, Scope
from admin.messages.shared import Answer, Time, one_of
from admin.messages.token_holders import FullLimitAnswer


class FailureAnswer(Answer):
    """How the last attempt ended that another one follows."""

    attempt: Annotated[int, Meta(description="Of its lease.")]
    attempt_number: Annotated[int | None, Meta(description="Which attempt it was.")] = None
    phase: str
    reason: str
    cause: Annotated[str, one_of(*(cause.value for cause in Cause))] | None = None
    ended_by: Annotated[str, Meta(description="In words, such as `exit 1`.")]
    exit_code: int | None = None
    signal: int | None = None
    ended_at: Annotated[Time | None, Meta(description="Of the native job, by the agent's clock.")] = None

    @classmethod
    def from_record(cls, record: AttemptRecord) -> FailureAnswer:
        cause = record.cause
        return cls.from_attributes(
            record,
            attempt=record.number,
            attempt_number=record.shown_number,
            phase=record.outcome,
            cause=None if cause is None else cause.value,
        )


class TimesAnswer(Answer):
    """How the time since an execution was created was spent."""

    waiting_seconds: Annotated[float, Meta(description="In the queue, in back-off and until its cluster started it.")]
    backoff_seconds: Annotated[
        float | None, Meta(description="Of the time that it waited: until its next attempt was due.")
    ] = None
    run_seconds: Annotated[float, Meta(description="Of all its attempts, as far as agents were heard.")]
    unreported_seconds: Annotated[
        float | None, Meta(description="After a job had ended, until its agent was heard to say so.")
    ] = None
    unknown_seconds: Annotated[
        float | None, Meta(description="While an agent was silent, and nobody knows whether the job ran.")
    ] = None
    total_seconds: Annotated[
        float, Meta(description="Until it ended, and its job too where that was confirmed later; or until now.")
    ]

    @classmethod
    def from_times(cls, times: Times) -> TimesAnswer:
        return cls(
            waiting_seconds=times.waiting,
            backoff_seconds=times.backing_off or None,
            run_seconds=times.running,
            unreported_seconds=times.unreported or None,
            unknown_seconds=times.unknown or None,
            total_seconds=times.total,
        )


class AheadAnswer(Answer):
    """An execution that its cluster runs, or takes, before another one."""

    project: str
    domain: str
    name: str
    phase: str
    ends_by: Annotated[Time | None, Meta(description="When its time limit ends it, if it has one and runs.")] = None
    time_limit_seconds: float | None = None


class StartAnswer(Answer):
    """When an execution in line starts, as far as that is bounded."""

    position: Annotated[int, Meta(description="In line, from 1, among those that may start.")]
    running: Annotated[int, Meta(description=f"Executions that its cluster's agent has; {MOST_AHEAD + 1} for more.")]
    waiting: Annotated[int, Meta(description="Those that wait before it and may start; the same.")]
    backing_off: Annotated[int, Meta(description="Those in back-off that go before it if their time comes first.")]
    unlimited: Annotated[int, Meta(description="Of both, those without a time limit.")]
    latest_at: Annotated[Time | None, Meta(description="By when it starts; absent where there is no bound.")] = None
    first_end_at: Annotated[Time | None, Meta(description="By when the first of those that run has ended.")] = None
    ahead: Annotated[list[AheadAnswer], Meta(description="The first of them, those that end soonest first.")]
    message: str

    @classmethod
    def from_start(cls, start: Start) -> StartAnswer:
        return cls.from_attributes(start, ahead=[AheadAnswer.from_attributes(other) for other in start.ahead])


class TokenWaitAnswer(Answer):
    """What an execution waits for in token pools; who holds tokens is left out where the caller may not see it."""

    pools: Annotated[dict[str, int], Meta(description="How many tokens it needs, by pool.")]
    place: Annotated[int | None, Meta(description="In line; the first is 1.")] = None
    waiting: Annotated[int, Meta(description="How many wait for any of its pools, itself included.")] = 0
    full: list[FullLimitAnswer]
    message: str

    @classmethod
    def from_wait(cls, wait: TokenWait) -> TokenWaitAnswer:
        return cls(
            pools=dict(wait.amounts),
            place=wait.place,
            waiting=wait.waiting,
            full=[FullLimitAnswer.from_full(full, _is_told) for full in wait.full],
            message=wait.message,
        )


def _is_told(place: Scope) -> bool:
    """Whether a holder is named: of the others the service has left out where they are."""
    return place != PLATFORM


class KeptUntilAnswer(Answer):
    """When retention deletes what has ended, by the configuration of now; what is kept is left out."""

    execution: Time | None = None
    log: Annotated[Time | None, Meta(description="And its output files.")] = None
    events: Time | None = None


class ExecutionStatusAnswer(Answer):
    """Where an execution stands now."""

    phase: str
    since: Annotated[Time, Meta(description="When it came to this phase.")]
    attempt: Annotated[int, Meta(description="Attempts that came to nothing before they began do not count.")]
    attempts: Annotated[int, Meta(description="How many attempts there may be.")]
    message: str
    next: Annotated[str | None, Meta(description="What decides about it next.")] = None
    next_at: Time | None = None
    on_lost: Annotated[
        str | None, Meta(description="The policy for the case that its cluster falls silent, until it is over.")
    ] = None
    if_silent: Annotated[str | None, Meta(description="What happens by it then, while it runs.")] = None
    last_failure: Annotated[
        FailureAnswer | None, Meta(description="While it waits or runs again after an attempt that failed.")
    ] = None

    times: Annotated[TimesAnswer | None, Meta(description="Where all its attempts are recorded.")] = None
    start: Annotated[
        StartAnswer | None, Meta(description="While it is in line at a cluster that takes work: when it starts.")
    ] = None
    tokens: Annotated[TokenWaitAnswer | None, Meta(description="While it waits for tokens.")] = None
    token_pools: Annotated[
        dict[str, int] | None, Meta(description="The tokens that it needs while it runs, by pool.")
    ] = None
    holds_tokens: Annotated[
        bool | None, Meta(description="Whether it holds these tokens now; absent where it needs none.")
    ] = None

    kept_until: Annotated[
        KeptUntilAnswer | None, Meta(description="Once it has ended, where retention deletes it or a part of it.")
    ] = None

    @classmethod
    def from_status(cls, status: Status) -> ExecutionStatusAnswer:
        failure = status.last_failure
        return cls.from_attributes(
            status,
            last_failure=failure and FailureAnswer.from_record(failure),
            times=status.times and TimesAnswer.from_times(status.times),
            start=status.start and StartAnswer.from_start(status.start),
            tokens=status.tokens and TokenWaitAnswer.from_wait(status.tokens),
            kept_until=status.kept_until and KeptUntilAnswer.from_attributes(status.kept_until),
        )
