"""Clocks: whether anything may be judged by time now, and whether anything may be deleted by it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.clock_checks import ClockCheck
from admin.core.provenance import NOBODY, Actor
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import Warning, WarningCode
from admin.metrics import count_judgement_pause
from admin.services.context import Context
from admin.services.reconciliations import is_waiting
from admin.store import bid_rounds, clock_checks, leases

_log = logging.getLogger("rainbow.loops")
_REASONS = {
    "start": "this process has just begun to watch the clusters",
    "jump": "the clock has jumped",
    "pause": "this process was paused",
}


def may_judge(context: Context) -> bool:
    """Whether executions may be judged by time: not before a restored database knows what agents have."""
    return may_judge_silence(context) and not is_waiting(context)


def may_judge_silence(context: Context) -> bool:
    """Whether it may be said how long clusters have been silent.

    Not for one lease after a start, a jump or a pause. What was stored while the clock was ahead is brought back first,
    so that nothing waits until the clock is there again.
    """
    lease_seconds, now = context.settings.agents.lease_seconds, context.clock()
    reason = context.watch.look(now, context.monotonic(), lease_seconds)
    if reason is not None:
        count_judgement_pause(reason)
        _log.log(
            logging.INFO if reason == "start" else logging.WARNING,
            f"nothing is judged by time for {lease_seconds:g} s: {_REASONS[reason]}",
        )
        with context.database.writing() as connection:
            leases.shorten(connection, now, lease_seconds)
            bid_rounds.bring_back(connection, now)
    return context.watch.may_judge


def begin_clock_check(context: Context) -> None:
    """Store how far the clock is trusted, before it can jump and anything is stored by it."""
    with context.database.reading() as connection:
        if clock_checks.is_stored(connection):
            return
    with context.database.writing() as connection:
        clock_checks.save(connection, clock_checks.get(connection, context.clock()))


def follow_clock(context: Context, now: datetime, seconds: float) -> str | None:
    """Note that the clock was watched for some seconds up to now; returns why nothing may be deleted by it, if so."""
    with context.database.writing() as connection:
        check = clock_checks.get(connection, now).after(now, seconds)
        clock_checks.save(connection, check)
    return check.problem(now)


@dataclass(frozen=True, kw_only=True)
class ClockView:
    """The clock, and whether anything is deleted or given up by it."""

    time: datetime
    check: ClockCheck

    @property
    def problem(self) -> str | None:
        """Why nothing is deleted or given up by it, if so."""
        return self.check.problem(self.time)


def read_clock(context: Context) -> ClockView:
    """The clock as it is now."""
    with context.database.reading() as connection:
        return _view(context, connection)


def accept_clock(context: Context, reason: str | None = None, by: Actor = NOBODY) -> tuple[ClockView, bool]:
    """Accept the clock as it is, on an operator's word; the second value says whether it was suspended."""
    with context.database.writing() as connection:
        before = _view(context, connection)
        if before.problem is None:
            return before, False
        accepted = before.check.accept(before.time, by, reason)
        clock_checks.save(connection, accepted)
    extra = {"before": before.check.trusted_at.isoformat(), "reason": reason, "claimed_by": by.claimed_by}
    _log.info("an operator says that the clock is right", extra=extra)
    return replace(before, check=accepted), True


def clock_warnings(context: Context, connection: Connection) -> list[Warning]:
    """The warning that nothing is pruned or given up because of the clock, if that is so."""
    problem = _view(context, connection).problem
    if problem is None:
        return []
    return [Warning(code=WarningCode.CLOCK_JUMPED, message=problem, kind="CLOCK", scope=Scope(), field="")]


def _view(context: Context, connection: Connection) -> ClockView:
    now = context.clock()
    return ClockView(time=now, check=clock_checks.get(connection, now))
