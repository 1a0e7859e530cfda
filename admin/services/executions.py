"""Executions: read, listed, ended and repeated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core import names
from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.core.executions.run_times import RunTerms
from admin.core.executions.selectors import Condition, equals, group_field
from admin.core.executions.spec import EXECUTION_NAME
from admin.core.fleet.asking import REQUEST_FIELDS
from admin.core.json_text import JsonObject
from admin.core.placement.routes import winner_of
from admin.core.problems import Invalid, Problem
from admin.core.provenance import Actor
from admin.core.settings.scopes import Scope
from admin.errors import NotRecoverable
from admin.services.context import Context
from admin.services.retention import find_not_counted
from admin.services.run_requests import CreationRequest, check_name, run_request_of
from admin.services.scopes import check_readable
from admin.services.silences import NotedSilence, note_silences
from admin.services.unknown_executions import execution_not_found
from admin.services.unknown_names import UnknownName, find_unknown
from admin.services.visibility import seen_executions
from admin.services.waiting import Wait
from admin.store import (
    decisions,
    execution_counts,
    execution_events,
    execution_lists,
    executions,
)
from admin.store.execution_counts import CountPage
from admin.store.execution_events import Event
from admin.store.execution_lists import OLDEST_FIRST, Item, Order, Page, Place, TooManyToSort
from admin.store.executions import Execution, ExecutionId, ListedExecution

_PAGE_SIZE = 1000
#: The longest wait for an event without a look at the execution: ids of two transactions may come out of order.
_RECHECK_SECONDS = 1.0


def get_execution(context: Context, key: ExecutionId) -> Execution:
    """One execution."""
    with context.database.reading() as connection:
        return find_execution(context, connection, key)


@contextmanager
def reading_execution(
    context: Context, key: ExecutionId, after_event: int | None = None, wait: float = 0
) -> Iterator[tuple[Connection, Execution]]:
    """One execution in a transaction that more can be read in.

    With `after_event` once there is a later event, or `wait` seconds are over.
    """
    deadline = time.monotonic() + wait
    with context.wait_limiter.slot(Wait.EXECUTION) as slot:
        while True:
            with context.database.reading() as connection:
                last = execution_events.last_event(connection)
                execution = find_execution(context, connection, key)
                remaining = deadline - time.monotonic()
                has_later_event = after_event is None or execution.events > after_event
                if has_later_event or remaining <= 0 or context.event_watcher.is_closing:
                    yield connection, execution
                    return
            slot.require()
            context.event_watcher.wait_above(last, min(remaining, _RECHECK_SECONDS))


def find_execution(context: Context, connection: Connection, key: ExecutionId, *, lock: bool = False) -> Execution:
    """One execution; ExecutionNotFound with the closest names where there is none."""
    check_readable(context, connection, Scope(project=key.project, domain=key.domain))
    is_name = names.matches(EXECUTION_NAME, key.name)
    execution = executions.get(connection, key, lock=lock) if is_name else None
    if execution is None:
        raise execution_not_found(context, connection, key)
    return execution


class Previous(NamedTuple):
    """What the decision before the last chose."""

    cluster: str | None  #: None where it chose none


@dataclass(frozen=True, kw_only=True)
class ListedPage:
    """A page of executions, and by their row ids the rungs that decided where they went, if that was asked."""

    page: Page[ListedExecution]
    origins: Mapping[int, JsonObject]
    silences: Mapping[int, NotedSilence]  #: of those whose clusters are silent, by their row ids
    terms: Mapping[int, RunTerms]  #: by their row ids
    abort_requests: Mapping[int, datetime]  #: when it was requested to end those that somebody ended, by their row ids
    previous: Mapping[int, Previous]  #: what the decisions before the last ones chose, by their row ids
    unknown: list[UnknownName]  #: names that were asked for and that nothing has, where the list is empty
    not_counted: str | None  #: of the last page: what was pruned and might have been in the list, in a sentence


@dataclass(frozen=True, kw_only=True)
class CountedPage:
    """Counts of executions."""

    page: CountPage
    unknown: list[UnknownName]  #: as in lists
    not_counted: str | None  #: what was pruned and might have been among them, in a sentence


def list_executions(
    context: Context,
    conditions: Iterable[Condition],
    *,
    scope: Scope,
    order: Order,
    after: Place | None,
    limit: int,
    with_origin: bool = False,
    with_unknown: bool = False,
) -> ListedPage:
    """A page of executions; Invalid where too many of them would have to be sorted.

    With `with_unknown`, which is for those who may read these names, an empty list has the names that nothing has.
    """
    conditions = [*conditions, *seen_executions(context)]
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        try:
            page = execution_lists.page(
                connection,
                conditions,
                ListedExecution,
                order=order,
                after=after,
                limit=limit,
                limits=context.list_limits,
            )
        except TooManyToSort:
            reason = (
                f"more than {context.list_limits.sorted:,} executions would have to be sorted by {order.field}; name a "
                "project and domain, a workflow, a cluster or a time of creation, or sort by created_at."
            )
            raise Invalid(Problem(field="sort_by.key", reason=reason)) from None
        origins = _origins(connection, page.executions) if with_origin else {}
        silences = note_silences(context, connection, page.executions)
        terms = execution_lists.run_terms(connection, [execution.id for execution in page.executions])
        is_empty = not page.executions and page.last is None and after is None
        unknown = find_unknown(context, connection, conditions) if with_unknown and is_empty else []
        aborted = [execution.id for execution in page.executions if execution.abort_cause is not None]
        abort_requests = execution_events.abort_requests(connection, aborted)
        previous = find_previous(connection, page.executions)
        pruned = find_not_counted(connection, conditions, "listed") if page.last is None else None
    return ListedPage(
        page=page,
        origins=origins,
        silences=silences,
        terms=terms,
        abort_requests=abort_requests,
        previous=previous,
        unknown=unknown,
        not_counted=pruned,
    )


def find_previous(connection: Connection, listed: Iterable[Execution | ListedExecution]) -> dict[int, Previous]:
    """What was chosen before the last decisions, by the row ids of those that were decided again."""
    keys = [(execution.id, execution.decisions - 1) for execution in listed if execution.decisions > 1]
    return {id: Previous(cluster) for id, cluster in decisions.clusters(connection, keys).items()}


def _origins(connection: Connection, listed: Iterable[ListedExecution]) -> dict[int, JsonObject]:
    """The rung that decided where each execution went; equal trails are read once."""
    digests = decisions.settings_trails(connection, [(execution.id, execution.decisions) for execution in listed])
    rungs = decisions.rungs(connection, digests.values())
    return {id: dict(winner_of(rungs[digest])) for id, digest in digests.items()}


def count_executions(
    context: Context,
    conditions: Iterable[Condition],
    *,
    by: Sequence[str],
    scope: Scope,
    after: Place | None,
    most: int | None = None,
    with_unknown: bool = False,
) -> CountedPage:
    """How many executions have the same values of groups, among a limited number of them from after a place on.

    At `most` so many are looked at, if that is fewer than the admin's own limit.
    """
    limits = context.list_limits
    if most is not None:
        limits = replace(limits, counted=min(most, limits.counted))
    conditions = [*conditions, *seen_executions(context)]
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        page = execution_counts.count_page(
            connection,
            conditions,
            by=[group_field(group) for group in by],
            now=context.clock(),
            after=after,
            limits=limits,
        )
        is_empty = not page.groups and page.last is None and after is None
        unknown = find_unknown(context, connection, conditions) if with_unknown and is_empty else []
        pruned = find_not_counted(connection, conditions)
    return CountedPage(page=page, unknown=unknown, not_counted=pruned)


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """Some events of an execution."""

    execution: Execution
    events: list[Event]
    next_number: int | None  #: what the next page is above; None for the last page
    is_pruned: bool  #: whether events before these are no longer kept


def list_events(context: Context, key: ExecutionId, above: int, limit: int) -> EventPage:
    """The events of an execution above a number, oldest first."""
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
        events = execution_events.events_of(connection, execution.id, above, limit + 1)
    first = events[0].number if events else execution.events + 1
    return EventPage(
        execution=execution,
        events=events[:limit],
        next_number=events[limit - 1].number if len(events) > limit else None,
        is_pruned=first > above + 1,
    )


def set_state(context: Context, key: ExecutionId, state: str, by: Actor) -> tuple[Execution, bool]:
    """Archive an execution, or make it active again; returns whether that changed anything."""
    with context.database.writing() as connection:
        before = find_execution(context, connection, key, lock=True)
        if before.state == state:
            return before, False
        kind = "ARCHIVED" if state == "ARCHIVED" else "ACTIVATED"
        executions.change(connection, before, {"state": state}, kind, context.clock(), by=by)
        return find_execution(context, connection, key), True


def matching_unfinished(context: Context, conditions: Iterable[Condition], scope: Scope) -> Iterator[ListedExecution]:
    """Every execution in a scope that matches and has not ended, oldest first."""
    return matching(context, [*conditions, equals("phase", *(phase.value for phase in UNFINISHED))], scope)


def matching(
    context: Context, conditions: Iterable[Condition], scope: Scope, after: Place | None = None
) -> Iterator[ListedExecution]:
    """Every execution in a scope that matches, oldest first, read page by page, each in a transaction of its own."""
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
    yield from _all_pages(context.database.reading, conditions, ListedExecution, after)


def matching_in(
    connection: Connection, conditions: Iterable[Condition], after: Place | None = None, most: int = _PAGE_SIZE
) -> Iterator[Execution]:
    """The same in one transaction, each execution whole; where at most so many are wanted, no more are read at once."""
    return _all_pages(lambda: nullcontext(connection), conditions, Execution, after, min(most, _PAGE_SIZE))


def place_in_matching(execution: Execution | ListedExecution) -> Place:
    """What the executions after one of those that match come after."""
    return execution.created_at, execution.id


def _all_pages(
    transaction: Callable[[], AbstractContextManager[Connection]],
    conditions: Iterable[Condition],
    item_type: type[Item],
    after: Place | None,
    page_size: int = _PAGE_SIZE,
) -> Iterator[Item]:
    """Every execution that matches, oldest first; each page is read in a transaction of its own."""
    selected = list(conditions)
    last = after
    while True:
        with transaction() as connection:
            page = execution_lists.page(
                connection, selected, item_type, order=OLDEST_FIRST, after=last, limit=page_size
            )
        yield from page.executions
        last = page.last
        if last is None:
            return


def repeat_request(
    context: Context,
    key: ExecutionId,
    *,
    mode: str,
    name: str | None,
    changes: JsonObject,
    claimed_by: str | None = None,
) -> CreationRequest:
    """The request of an execution, with some fields changed, to be created again under the settings in force."""
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
    phase = Phase(execution.phase)
    if mode == "RECOVERED" and (phase is Phase.SUCCEEDED or not phase.is_finished):
        why = "it succeeded" if phase is Phase.SUCCEEDED else f"it is still {execution.phase}"
        raise NotRecoverable(
            f"Execution '{execution.name}' cannot be recovered: {why}. Only what failed, timed out or was aborted can "
            "be; relaunch runs anything again."
        )
    first = run_request_of(execution)
    spec, inputs = dict(first.spec), dict(first.inputs)
    for field, value in changes.items():
        if field == "inputs":
            inputs |= value
        else:
            spec[field] = value
    strategy = first.spec.get("strategy")
    if changes.get("strategy", strategy) != strategy:
        # These fields belong to the strategy that is replaced.
        for field in ("rules", *REQUEST_FIELDS):
            if field not in changes:
                spec.pop(field, None)
    if changes.keys() & {"cluster", "cluster_assignment", "execution_cluster_label"}:
        for field in ("cluster", "cluster_assignment", "execution_cluster_label"):
            if field not in changes:
                spec.pop(field, None)  # the new target replaces the old one
    check_name(name)
    run = replace(first, spec=spec, inputs=inputs, mode=mode, reference=execution.key._asdict())
    return CreationRequest(run, name, claimed_by)


def beyond_last(field: str, execution: Execution, last: int) -> Invalid:
    """The refusal of the number of an attempt or a decision that an execution does not have."""
    numbers = f"1 {field}; give 1" if last == 1 else f"{last} {field}s; give 1 to {last}"
    return Invalid(Problem(field=field, reason=f"execution '{execution.name}' has {numbers}."))
