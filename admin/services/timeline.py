"""The timeline: what was changed and registered, what happened to clusters, what was decided, ended and deleted."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.cluster_groups import CLUSTER_GROUP
from admin.core.executions.selectors import Condition
from admin.core.fleet.definitions import FleetKind
from admin.core.problems import closest, did_you_mean, shorten
from admin.core.provenance import Provenance, read_name
from admin.core.retention import Cutoffs
from admin.core.settings.scopes import Scope
from admin.core.times import check_window, show_time
from admin.core.user_groups import GROUP
from admin.core.users import USER
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.scopes import check_existed
from admin.services.timeline_filters import (
    CLUSTER_EVENT,
    CREATION,
    EVENT_SOURCES,
    EXECUTION,
    REGISTRATION,
    REVISION,
    TimelineFilter,
)
from admin.services.unknown_names import UnknownName, names_of_executions
from admin.services.visibility import seen_executions, seen_rows
from admin.store import (
    cluster_events,
    execution_lists,
    registration_history,
    retention,
    revisions,
    row_changes,
    user_groups,
    users,
)
from admin.store.cluster_events import ClusterEvent
from admin.store.cluster_groups import CLUSTER_GROUPS
from admin.store.execution_lists import LAST_ENDED_FIRST, NEWEST_FIRST, Order, Page, Place
from admin.store.executions import ListedExecution
from admin.store.registration_history import Registration
from admin.store.registration_tables import launch_plan_activations, launch_plans, workflows
from admin.store.revisions import Revision


class Creation(NamedTuple):
    """An execution that was created."""

    execution: ListedExecution


_Item = Revision | ClusterEvent | Registration | ListedExecution | Creation

#: The newest revisions, events and registrations whose names a wrong one is compared with.
_NEWEST = 1000
#: So many changes of a revision are shown, the first ones; the revision itself has all.
MOST_CHANGES = 5


class Position(NamedTuple):
    """Where a page starts: below a number of each source; None for its newest."""

    revision: int | None = None
    event: int | None = None
    workflow: int | None = None
    launch_plan: int | None = None
    activation: int | None = None
    execution: tuple[datetime, int] | None = None  #: when it ended, and its row's id
    creation: tuple[datetime, int] | None = None  #: when it was created, and its row's id


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A revision with the first of its changes, an event, a registration, or an execution that was created or ended."""

    revision: Revision | None = None
    changes: Sequence[RowChange] = ()
    event: ClusterEvent | None = None
    ended_by: Provenance | None = None  #: the event that ended a drain
    registration: Registration | None = None
    execution: ListedExecution | None = None
    creation: ListedExecution | None = None

    @property
    def source(self) -> str:
        if self.creation is not None:
            return CREATION
        if self.execution is not None:
            return EXECUTION
        if self.registration is not None:
            return REGISTRATION
        return REVISION if self.event is None else EVENT_SOURCES.get(self.event.type, CLUSTER_EVENT)


@dataclass(frozen=True, kw_only=True)
class TimelinePage:
    """A page of the timeline, and where the next one starts, if there is one."""

    entries: Sequence[Entry]
    next_position: Position | None
    unknown_names: Sequence[UnknownName] = ()  #: of an empty one
    not_listed: str | None = None  #: what was pruned and would stand after the last page, in a sentence


def list_entries(context: Context, conditions: TimelineFilter, position: Position, limit: int) -> TimelinePage:
    """What was changed and what happened, newest first; of each source in the order in which it was stored."""
    if conditions.after is not None and conditions.before is not None:
        check_window(conditions.after, conditions.before)
    access = context.access
    conditions = replace(conditions, seen=seen_rows(access), registered=access.scopes("workflows.read"))
    with context.database.reading() as connection:
        check_existed(context, connection, Scope(domain=conditions.domain or "", project=conditions.project or ""))
        # Each in its own order: a clock that was set back reorders none.
        ends = _find_ended(context, connection, conditions, position, limit + 1)
        creations = _find_created(context, connection, conditions, position, limit + 1)
        created = [Creation(execution) for execution in creations.executions]
        sources = [*_find(connection, conditions, position, limit + 1), ends.executions, created]
        merged = list(heapq.merge(*sources, key=_time, reverse=True))
        # Where rare ones are looked for further on, entries from before the last that was looked at come later.
        searched = {"execution": ends, "creation": creations}
        places = {name: _end_of(page.last) for name, page in searched.items() if len(page.executions) <= limit}
        unfinished = {name: place for name, place in places.items() if place is not None}
        # Of two of them the one that has not come as far back; the other goes on after what is shown of it.
        last_searched = max(unfinished, key=lambda name: unfinished[name], default=None)
        reached = None if last_searched is None else unfinished[last_searched]
        if reached is not None:
            merged = [item for item in merged if _time(item) >= reached[0]]
        page = merged[:limit]
        numbers = [item.number for item in page if isinstance(item, Revision)]
        changes = row_changes.changes_of_many(connection, numbers, MOST_CHANGES, conditions.seen)
        shown = [item for item in page if isinstance(item, ClusterEvent)]
        ended_by = cluster_events.ends_of_drains(connection, shown)
        is_last = len(merged) <= limit and reached is None
        is_empty = not page and is_last and position == Position()
        may_know = not access.is_restricted  # names are drawn from everything
        unknown = list(_find_unknown(context, connection, conditions)) if is_empty and may_know else []
        not_listed = _not_listed(retention.cutoffs(connection), conditions) if is_last else None
    next_position = None if is_last else _position_after(page, position)
    if next_position is not None and last_searched is not None and len(merged) <= limit:
        next_position = Position(**{**next_position._asdict(), last_searched: reached})
    return TimelinePage(
        entries=[_entry(item, changes, ended_by) for item in page],
        next_position=next_position,
        unknown_names=unknown,
        not_listed=not_listed,
    )


def _find(
    connection: Connection, conditions: TimelineFilter, position: Position, limit: int
) -> Iterator[Sequence[_Item]]:
    """The first entries of each source."""
    if conditions.has_revisions:
        yield revisions.page(connection, conditions.revisions(), position.revision, limit)
    if conditions.has_events:
        events = (cluster_events.events(connection, filters, position.event, limit) for filters in conditions.events())
        yield sorted((event for page in events for event in page), key=lambda event: event.number, reverse=True)[:limit]
    if conditions.has_registrations:
        filters = conditions.registrations()
        yield registration_history.page(connection, workflows, filters, position.workflow, limit)
        yield registration_history.page(connection, launch_plans, filters, position.launch_plan, limit)
        yield registration_history.page(connection, launch_plan_activations, filters, position.activation, limit)


def _find_ended(
    context: Context, connection: Connection, conditions: TimelineFilter, position: Position, limit: int
) -> Page[ListedExecution]:
    """The executions that ended last; there may be fewer than asked for, with a place to go on after."""
    if not conditions.has_executions:
        return Page(executions=[], last=None)
    return _page(context, connection, conditions.ended(), LAST_ENDED_FIRST, position.execution, limit)


def _find_created(
    context: Context, connection: Connection, conditions: TimelineFilter, position: Position, limit: int
) -> Page[ListedExecution]:
    """The executions that were created last; there may be fewer than asked for, with a place to go on after."""
    if not conditions.has_creations:
        return Page(executions=[], last=None)
    return _page(context, connection, conditions.created(), NEWEST_FIRST, position.creation, limit)


def _page(
    context: Context,
    connection: Connection,
    conditions: Iterable[Condition],
    order: Order,
    after: Place | None,
    limit: int,
) -> Page[ListedExecution]:
    return execution_lists.page(
        connection,
        [*conditions, *seen_executions(context)],
        ListedExecution,
        order=order,
        after=after,
        limit=limit,
        limits=context.list_limits,
    )


def _entry(item: _Item, changes: Mapping[int, Sequence[RowChange]], ended_by: Mapping[int, Provenance]) -> Entry:
    if isinstance(item, Revision):
        return Entry(revision=item, changes=changes.get(item.number, ()))
    if isinstance(item, Registration):
        return Entry(registration=item)
    if isinstance(item, ListedExecution):
        return Entry(execution=item)
    if isinstance(item, Creation):
        return Entry(creation=item.execution)
    return Entry(event=item, ended_by=ended_by.get(item.number))


def _not_listed(cutoffs: Cutoffs, conditions: TimelineFilter) -> str | None:
    """That revisions or events were pruned which might be among the entries, in a sentence."""
    sources = [
        (conditions.has_revisions, "revisions made before", cutoffs.revisions),
        (conditions.has_events, "events from before", cutoffs.cluster_events),
        (conditions.has_executions or conditions.has_creations, "executions that ended before", cutoffs.executions),
    ]
    parts = [
        f"{words} {show_time(cutoff)}"
        for is_asked, words, cutoff in sources
        if is_asked and cutoff is not None and (conditions.after is None or conditions.after < cutoff)
    ]
    pruned = " and ".join(parts)
    if not pruned:
        return None
    kept = " Events of states that still hold are kept." if "events" in pruned else ""
    return f"{pruned[0].upper()}{pruned[1:]} are pruned, so they are not listed.{kept}"


def _find_unknown(context: Context, connection: Connection, conditions: TimelineFilter) -> Iterator[UnknownName]:
    """The names asked for that nothing has or had, each with the closest ones that something has."""
    if name := conditions.cluster or conditions.name:
        kind = FleetKind.CLUSTER.value if conditions.cluster else conditions.kind or ""
        # What was deleted has left changes or events; of it nothing else may match.
        if not row_changes.last_changes(connection, kind, name, 1):
            existing = _existing_names(context, connection, kind)
            if name not in existing:
                near = closest(name, existing)
                message = f"No {kind.lower()} is called '{shorten(name)}'.{did_you_mean(near)}"
                yield UnknownName("cluster" if conditions.cluster else "name", name, message, near)
    if conditions.request_id is not None:
        id = conditions.request_id
        message = f"Nothing that is kept and matches is of request '{shorten(id)}'; executions keep none."
        yield UnknownName("request_id", id, message, ())
    if conditions.actor is not None:
        names = revisions.newest_names(connection, _NEWEST) | cluster_events.newest_names(connection, _NEWEST)
        names |= registration_history.newest_names(connection, _NEWEST)
        searched = "revisions, events and registrations"
        if conditions.has_executions or conditions.has_creations:
            searched = "revisions, events, registrations and executions"
            seen = seen_executions(context)
            if conditions.has_creations:
                names |= names_of_executions(connection, "created_by", seen)
            if conditions.has_executions:
                names |= names_of_executions(connection, "abort_principal", seen)
        shown = read_name(conditions.actor)
        if conditions.actor not in names and (shown is None or shown[1] not in names):
            near = closest(conditions.actor, names)
            actor = shorten(conditions.actor)
            start = f"None of the newest {_NEWEST:,} {searched} is by '{actor}'."
            yield UnknownName("actor", conditions.actor, f"{start}{did_you_mean(near)}", near)


def _existing_names(context: Context, connection: Connection, kind: str) -> Collection[str]:
    """The names of the rows of a kind that there are now; grants are not called by names that one could mistake."""
    if kind == USER:
        return users.names(connection)
    if kind == CLUSTER_GROUP:
        return CLUSTER_GROUPS.names(connection)
    if kind not in {fleet_kind.value for fleet_kind in FleetKind}:
        return user_groups.names(connection) if kind == GROUP else ()
    current = current_fleet(context, connection)
    groups = current.pools if kind == FleetKind.POOL.value else current.labels
    return current.clusters if kind == FleetKind.CLUSTER.value else groups


def _time(item: _Item) -> datetime:
    if isinstance(item, Creation):
        return item.execution.created_at
    if isinstance(item, ListedExecution):
        assert item.finished_at is not None, "only those that have ended are listed"
        return item.finished_at
    return item.created_at if isinstance(item, Revision) else item.at


def _position_after(page: Sequence[_Item], before: Position) -> Position:
    position = before
    for item in page:
        if isinstance(item, ListedExecution):
            position = position._replace(execution=(_time(item), item.id))
        elif isinstance(item, Creation):
            position = position._replace(creation=(_time(item), item.execution.id))
        else:
            position = Position(**{**position._asdict(), _source(item): item.number})
    return position


def _end_of(place: Place | None) -> tuple[datetime, int] | None:
    """A place in the order of the ends."""
    if place is None:
        return None
    ended_at, id = place
    assert isinstance(ended_at, datetime), "the order is that of times"
    return ended_at, id


#: The fields of a position of what is registered, by table.
_REGISTRATIONS = {
    workflows.name: "workflow",
    launch_plans.name: "launch_plan",
    launch_plan_activations.name: "activation",
}


def _source(item: Revision | ClusterEvent | Registration) -> str:
    """The field of a position that an entry moves."""
    if isinstance(item, Registration):
        return _REGISTRATIONS[item.table]
    return "revision" if isinstance(item, Revision) else "event"
