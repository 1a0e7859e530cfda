"""Attempt records: what is kept of an attempt that is over, and by what it ended in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from admin.core.executions.causes import TRIED_AGAIN, Cause, cause_of
from admin.core.executions.lifecycle import Phase
from admin.core.json_text import JsonObject

_TIMES = ("started_at", "ended_at", "silent_since")
#: The outcomes of leases that never started.
NOT_BEGUN = ("DECLINED", "RELEASED", "EVICTED")
#: Reasons that say no more than the phase, or than the exit code or signal.
_PLAIN = ("FAILED", "SIGNAL", "TIMED_OUT", "ABORTED", "SUCCEEDED")


@dataclass(frozen=True, kw_only=True)
class AttemptRecord:
    """How an attempt ended."""

    number: int  #: of the lease, which reports name
    attempt_number: int | None = None  #: as people count; None for one that never began, and of before it was kept
    outcome: str  #: the phase in which it ended, or the type of the event for one that never started
    reason: str
    native_id: str | None = None
    nodes: list[str] | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: datetime | None = None  #: by its agent's clock, else when its agent said so
    ended_at: datetime | None = None  #: by its agent's clock; None where it was not reported
    unconfirmed: bool | None = None  #: True where it was ended without its agent, so that its job may have gone on
    silent_since: datetime | None = None  #: when its agent was last heard before the end, where it was silent then

    @property
    def shown_number(self) -> int | None:
        """Its number among the attempts that started; None for one that never started."""
        return None if self.outcome in NOT_BEGUN else self.attempt_number or self.number

    @property
    def cause(self) -> Cause | None:
        return cause_of(self.outcome, self.reason)

    @property
    def ended_by(self) -> str:
        """By what it ended, in words: `exit 1`, `signal 9`, `out of memory (exit 137)`, `cluster lost`."""
        code = f"signal {self.signal}" if self.signal else "" if self.exit_code is None else f"exit {self.exit_code}"
        if self.reason in _PLAIN:
            return code or _words(self.outcome)
        return f"{_words(self.reason)} ({code})" if code else _words(self.reason)

    def as_json(self) -> JsonObject:
        """All of it that is known, as it is stored."""
        fields = {name: value for name, value in vars(self).items() if value is not None}
        return fields | {name: fields[name].isoformat() for name in _TIMES if name in fields}

    @classmethod
    def from_json(cls, stored: JsonObject) -> AttemptRecord:
        """A record that was stored."""
        return cls(**stored | {name: datetime.fromisoformat(stored[name]) for name in _TIMES if name in stored})


class Failing(Protocol):
    """The fields of an execution by which it has a cause."""

    @property
    def phase(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def last_failure(self) -> JsonObject | None: ...


def attempt_before(execution: Failing) -> AttemptRecord | None:
    """The attempt before, while the next one waits: lists and selectors have its fields; None for any other."""
    if execution.phase == Phase.QUEUED.value and execution.last_failure is not None:
        return AttemptRecord.from_json(execution.last_failure)
    return None


def cause_of_execution(execution: Failing) -> Cause | None:
    """What ended an execution without success, or while another attempt waits or runs, the one that failed last."""
    if execution.phase in TRIED_AGAIN and execution.last_failure is not None:
        return AttemptRecord.from_json(execution.last_failure).cause
    return cause_of(execution.phase, execution.reason)


def _words(code: str) -> str:
    return code.lower().replace("_", " ")
