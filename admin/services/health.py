"""Health: how the admin itself fares: its database, its background work, its clock, and what waits for an operator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from admin.core.times import show_duration, show_time
from admin.services.clocks import ClockView, read_clock
from admin.services.context import Context
from admin.services.reconciliations import RESTORED, is_waiting
from admin.services.state import is_ready
from admin.store import loop_leases, revisions
from admin.store.loop_leases import BACKGROUND, Failure, Holder
from admin.store.schema import latest_revision


@dataclass(frozen=True, kw_only=True)
class Health:
    """The admin as it is now, by the process that answers and by what all of them have stored."""

    at: datetime
    database: str  #: sqlite or postgresql
    schema: str  #: the migration that this version works with
    revision: int
    is_ready: bool
    database_state: str  #: why requests cannot be served, or that they can
    leader: Holder | None  #: of the background work; None where nobody ever did it
    failure: Failure | None  #: the last of the background work that is known
    clock: ClockView
    problems: list[str]  #: in sentences, the gravest first


def read_health(context: Context) -> Health:
    """How the admin fares now."""
    ready, state = is_ready(context)
    now, clock = context.clock(), read_clock(context)
    with context.database.reading() as connection:
        leader = loop_leases.find_holder(connection, BACKGROUND, now)
        failure = loop_leases.last_failure(connection, BACKGROUND)
        revision = revisions.head(connection)
    problems = [] if ready else [f"Not ready: {state}."]
    if leader is None or not leader.is_present:
        problems.append("No process does the background work: nothing that waits is decided again, or judged lost.")
    if failure is not None and is_recent(failure, now, context.settings.loop_lease_seconds):
        ago = show_duration(max(0.0, (now - failure.at).total_seconds()))
        problems.append(f"The background work failed {ago} ago, and is tried again: {failure.message}")
    if clock.problem is not None:
        problems.append(clock.problem)
    if is_waiting(context):
        problems.append(RESTORED)
    return Health(
        at=now,
        database=context.database.engine.dialect.name,
        schema=latest_revision(),
        revision=revision,
        is_ready=ready,
        database_state=state,
        leader=leader,
        failure=failure,
        clock=clock,
        problems=problems,
    )


def is_recent(failure: Failure, now: datetime, lease_seconds: float) -> bool:
    """Whether a failure is so young that the work may still fail: it is noted again while it lasts."""
    return (now - failure.at).total_seconds() < 3 * max(lease_seconds, loop_leases.NOTED_EVERY_SECONDS)


def describe_health(health: Health) -> str:
    """All problems in one text, or that there is none."""
    if health.problems:
        return " ".join(health.problems)
    since = health.leader.since if health.leader is not None else None
    work = f", and the background work is done since {show_time(since)}" if since is not None else ""
    return f"The admin is well: its database answers{work}."
