"""Executions: created, read, listed, ended, repeated and explained."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from admin.core import names
from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.core.executions.selectors import Condition, equals
from admin.core.executions.spec import EXECUTION_NAME
from admin.core.placement import decisions as placement_decisions
from admin.core.problems import Invalid, Problem, closest, did_you_mean, shorten
from admin.core.settings.scopes import Scope
from admin.errors import ExecutionNotFound, NotRecoverable
from admin.services.context import Context
from admin.services.launches import (
    CreationRequest,
    RunRequest,
    run_request_of,
)
from admin.services.scopes import check_readable
from admin.store import decisions, execution_lists, executions
from admin.store.execution_lists import MOST_SORTED, Page, Place, TooManyToSort
from admin.store.executions import Event, Execution, ExecutionId

_PAGE = 1000


def get_execution(context: Context, wanted: ExecutionId, after_event: int | None = None, wait: float = 0) -> Execution:
    """One execution; waits until something happens after an event, if asked to."""
    deadline = time.monotonic() + wait
    while True:
        with context.database.reading() as connection:
            last = executions.last_event(connection)
            found = find_execution(context, connection, wanted)
        remaining = deadline - time.monotonic()
        is_news = after_event is None or found.events > after_event
        if is_news or remaining <= 0 or context.event_watcher.is_closing:
            return found
        context.event_watcher.wait_above(last, min(remaining, 1.0))  # events of two transactions may cross


def find_execution(context: Context, connection: Connection, wanted: ExecutionId, *, lock: bool = False) -> Execution:
    """One execution; ExecutionNotFound with the nearest names where there is none."""
    check_readable(context, connection, Scope(project=wanted.project, domain=wanted.domain))
    is_name = names.matches(EXECUTION_NAME, wanted.name)
    found = executions.get(connection, wanted, lock=lock) if is_name else None
    if found is None:
        near = closest(wanted.name, executions.names_like(connection, wanted))
        place_named = f"{wanted.project}/{wanted.domain}"
        kept = context.settings.retention.executions
        raise ExecutionNotFound(
            f"No execution is called '{shorten(wanted.name)}' in {place_named}.{did_you_mean(near)} "
            f"`rainbowctl get execution -p {wanted.project} -d {wanted.domain}` lists them."
            + (f" They are kept for {kept} after their end." if kept else ""),
            details=[{"field": "name", "reason": "is unknown.", "closest": list(near)}],
        )
    return found


def list_executions(
    context: Context,
    conditions: Iterable[Condition],
    *,
    scope: Scope,
    sort_by: str,
    descending: bool,
    after: Place | None,
    limit: int,
) -> Page:
    """Some executions; Invalid where more of them would have to be sorted than one request should."""
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        try:
            return execution_lists.page(
                connection, conditions, sort_by=sort_by, descending=descending, after=after, limit=limit
            )
        except TooManyToSort:
            reason = (
                f"more than {MOST_SORTED:,} executions would have to be sorted by {sort_by}; name a project and "
                "domain, a workflow, a cluster or a time of creation, or sort by created_at."
            )
            raise Invalid(Problem(field="sort_by.key", reason=reason)) from None


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """Some events, the number to go on above, if there are more, and whether some before them are no longer kept."""

    events: list[Event]
    next_number: int | None
    is_pruned: bool


def list_events(context: Context, wanted: ExecutionId, above: int, limit: int) -> EventPage:
    """What happened to an execution, oldest first."""
    with context.database.reading() as connection:
        row = find_execution(context, connection, wanted)
        found = executions.events_of(connection, row.id, above, limit + 1)
    first = found[0].number if found else row.events + 1
    return EventPage(
        events=found[:limit],
        next_number=found[limit - 1].number if len(found) > limit else None,
        is_pruned=first > above + 1,
    )


def set_state(context: Context, wanted: ExecutionId, state: str) -> tuple[Execution, bool]:
    """Archive an execution, or bring it back to lists; answers whether that changed anything."""
    with context.database.writing() as connection:
        before = find_execution(context, connection, wanted, lock=True)
        if before.state == state:
            return before, False
        now = context.clock()
        number = before.events + 1
        executions.change(connection, before.id, {"state": state, "updated_at": now, "events": number})
        kind = "ARCHIVED" if state == "ARCHIVED" else "ACTIVATED"
        event = Event(number=number, at=now, type=kind, phase=before.phase, cluster=before.cluster)
        executions.add_events(connection, [(before.id, event)])
        after = executions.get(connection, wanted)
    assert after is not None
    return after, True


def terminate(context: Context, wanted: ExecutionId, cause: str, by: str) -> tuple[Execution, bool]:
    """End an execution; one that has ended already stays as it is."""
    with context.database.writing() as connection:
        before = find_execution(context, connection, wanted, lock=True)
        is_ended = end(connection, before, Phase.ABORTED, "TERMINATED", cause, by, context.clock())
        after = executions.get(connection, wanted)
    assert after is not None
    return after, is_ended


def terminate_many(
    context: Context, conditions: Iterable[Condition], cause: str, by: str, *, scope: Scope, dry_run: bool
) -> list[tuple[Execution, bool]]:
    """End every execution that fits; each for itself, so that none waits for all. Finished ones are not touched."""
    unfinished = equals("phase", *(phase.value for phase in UNFINISHED))
    wanted = list(matching(context, [*conditions, unfinished], scope))
    if dry_run:
        return [(one, True) for one in wanted]
    return [terminate(context, executions.identity(one), cause, by) for one in wanted]


def matching(context: Context, conditions: Iterable[Condition], scope: Scope) -> Iterator[Execution]:
    """Every execution that fits, in a scope that is known, oldest first, page by page, so that any number may."""
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
    last: Place | None = None
    held = list(conditions)
    while True:
        with context.database.reading() as connection:
            some = _page(connection, held, last, whole=False)
        yield from some.executions
        last = some.last
        if last is None:
            return


def matching_in(connection: Connection, conditions: Iterable[Condition]) -> Iterator[Execution]:
    """The same, whole, in one transaction."""
    last: Place | None = None
    held = list(conditions)
    while True:
        some = _page(connection, held, last, whole=True)
        yield from some.executions
        last = some.last
        if last is None:
            return


def _page(connection: Connection, conditions: list[Condition], after: Place | None, *, whole: bool) -> Page:
    return execution_lists.page(
        connection, conditions, sort_by="created_at", descending=False, after=after, limit=_PAGE, whole=whole
    )


def end(
    connection: Connection, row: Execution, phase: Phase, reason: str, message: str, by: str | None, now: datetime
) -> bool:
    """End an execution that this transaction holds, or have its agent end it; False where that is not possible."""
    if not Phase(row.phase).may_become(phase):
        return False
    if phase is Phase.ABORTED and row.lease_expires_at is not None:
        phase = Phase.ABORTING  # its agent ends it
        if row.phase == phase.value:
            return False
    number = row.events + 1
    values = {
        "phase": phase.value,
        "reason": reason,
        "reason_message": message,
        "updated_at": now,
        "events": number,
    }
    if phase.is_finished:
        values |= {"finished_at": now, "lease_expires_at": None}
    if phase in (Phase.ABORTING, Phase.ABORTED):
        values |= {"abort_cause": message, "abort_principal": by}
    executions.change(connection, row.id, values)
    event = Event(
        number=number,
        at=now,
        type=phase.value,
        phase=phase.value,
        reason=reason,
        message=message,
        cluster=row.cluster,
        by=by,
    )
    executions.add_events(connection, [(row.id, event)])
    return True


def repeat_request(
    context: Context, wanted: ExecutionId, *, mode: str, name: str | None, changes: Mapping[str, Any]
) -> CreationRequest:
    """The request of an execution once more, with some things changed; settings will be resolved afresh."""
    with context.database.reading() as connection:
        row = find_execution(context, connection, wanted)
    if mode == "RECOVERED" and (Phase(row.phase) is Phase.SUCCEEDED or not Phase(row.phase).is_finished):
        why = "it succeeded" if row.phase == Phase.SUCCEEDED.value else f"it is still {row.phase}"
        raise NotRecoverable(
            f"Execution '{row.name}' cannot be recovered: {why}. Only what failed, timed out or was aborted can be; "
            "relaunch runs anything again."
        )
    first = run_request_of(row)
    spec, inputs = dict(first.spec), dict(first.inputs)
    for field, value in changes.items():
        if field == "inputs":
            inputs |= value
        else:
            spec[field] = value
    if changes.keys() & {"cluster", "cluster_assignment", "execution_cluster_label"}:
        for field in ("cluster", "cluster_assignment", "execution_cluster_label"):
            if field not in changes:
                spec.pop(field, None)  # another place was asked for, so the old wish is off
    if name is not None and not names.matches(EXECUTION_NAME, name):
        raise Invalid(Problem(field="name", reason=f"'{shorten(name)}' is not an execution's name."))
    asked = RunRequest(
        project=row.project,
        domain=row.domain,
        spec=spec,
        inputs=inputs,
        mode=mode,
        reference={"project": row.project, "domain": row.domain, "name": row.name},
    )
    return CreationRequest(asked, name)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A decision with everything that led to it."""

    execution: Execution
    decision: Any  #: a stored decision
    settings: Mapping[str, Any]
    candidates: list[dict[str, Any]]
    strategy: str
    history: list[Any]


def explain(context: Context, wanted: ExecutionId, number: int | None = None) -> Explanation:
    """Why an execution is where it is; or was, by an earlier decision."""
    with context.database.reading() as connection:
        row = find_execution(context, connection, wanted)
        history = decisions.of(connection, row.id)
        if number is not None and not 1 <= number <= len(history):
            reason = f"there are {len(history)} decisions; give 1 to {len(history)}."
            raise Invalid(Problem(field="decision", reason=reason))
        decision = history[(number or len(history)) - 1]
        settings = decisions.trail(connection, decision.settings_trail)
        way = decisions.trail(connection, decision.placement_trail)
    candidates = placement_decisions.render_candidates(way, decision.scores, str(wanted), decision.cluster)
    return Explanation(
        execution=row,
        decision=decision,
        settings=settings,
        candidates=candidates,
        strategy=way["strategy"],
        history=history,
    )
