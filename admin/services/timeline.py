"""The timeline: what was changed, what happened to clusters, what was decided again and deleted, newest first."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.fleet.clusters import PRUNED, REDECIDED
from admin.core.fleet.definitions import FleetKind
from admin.core.problems import closest, did_you_mean, shorten
from admin.core.settings.scopes import Scope
from admin.services.cluster_provenance import drain_deadlines
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.scopes import check_existed
from admin.services.unknown_names import UnknownName
from admin.store import cluster_events, revisions, row_changes
from admin.store.cluster_events import ClusterEvent, ClusterEventFilter
from admin.store.revisions import Revision, RevisionFilter

_Item = Revision | ClusterEvent

#: The newest revisions and the newest events whose names a wrong one is compared with.
_NEWEST = 1000
#: So many changes of a revision are shown, the first ones; the revision itself has all.
MOST_CHANGES = 5


REVISION, CLUSTER_EVENT = "revision", "cluster-event"
#: The sources of events that belong to no cluster, by their types.
_EVENT_SOURCES = {REDECIDED: "redecision", PRUNED: "pruning"}
SOURCES = (REVISION, CLUSTER_EVENT, *_EVENT_SOURCES.values())


@dataclass(frozen=True, kw_only=True)
class TimelineFilter(RevisionFilter):
    """Which entries the timeline contains; None for any. `name` is that of a pool or label."""

    cluster: str | None = None  #: its definition and its events
    source: str | None = None  #: one of `SOURCES`

    @property
    def has_events(self) -> bool:
        """Whether events may be among them: they belong to no scope and are of no other kind."""
        is_scoped = any((self.domain, self.project, self.workflow, self.launch_plan))
        return self.source != REVISION and not is_scoped and self.kind in (None, FleetKind.CLUSTER.value)

    @property
    def has_revisions(self) -> bool:
        return self.source in (None, REVISION)

    def revisions(self) -> RevisionFilter:
        return self if self.cluster is None else replace(self, kind=FleetKind.CLUSTER.value, name=self.cluster)

    def events(self) -> ClusterEventFilter:
        types = [type_ for type_, source in _EVENT_SOURCES.items() if source == self.source]
        return ClusterEventFilter(
            cluster=self.cluster,
            types=types or None,
            of_clusters=self.kind is not None or self.source == CLUSTER_EVENT,
            actor=self.actor,
            after=self.after,
            before=self.before,
            without_reports=True,
        )


class Position(NamedTuple):
    """Where a page starts: below a revision and below an event; None for the newest of each."""

    revision: int | None = None
    event: int | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A revision with the first of its changes, or an event."""

    revision: Revision | None = None
    changes: Sequence[RowChange] = ()
    event: ClusterEvent | None = None
    deadline: datetime | None = None  #: of a drain that still goes on

    @property
    def source(self) -> str:
        return REVISION if self.event is None else _EVENT_SOURCES.get(self.event.type, CLUSTER_EVENT)


@dataclass(frozen=True, kw_only=True)
class TimelinePage:
    """A page of the timeline, and where the next one starts, if there is one."""

    entries: Sequence[Entry]
    next_position: Position | None
    unknown_names: Sequence[UnknownName] = ()  #: of an empty one


def list_entries(context: Context, conditions: TimelineFilter, position: Position, limit: int) -> TimelinePage:
    """What was changed and what happened, newest first; of each source in the order in which it was stored."""
    with context.database.reading() as connection:
        check_existed(context, connection, Scope(domain=conditions.domain or "", project=conditions.project or ""))
        changed: Sequence[_Item] = (
            revisions.page(connection, conditions.revisions(), position.revision, limit + 1)
            if conditions.has_revisions
            else []
        )
        events: Sequence[_Item] = (
            cluster_events.events(connection, conditions.events(), position.event, limit + 1)
            if conditions.has_events
            else []
        )
        # Each in its own order: a clock that was set back reorders neither.
        merged = list(heapq.merge(changed, events, key=_time, reverse=True))
        page = merged[:limit]
        numbers = [item.number for item in page if isinstance(item, Revision)]
        changes = row_changes.changes_of_many(connection, numbers, MOST_CHANGES)
        shown = [item for item in page if isinstance(item, ClusterEvent)]
        deadlines = drain_deadlines(context, connection, shown)
        is_empty = not page and position == Position()
        unknown = list(_find_unknown(context, connection, conditions)) if is_empty else []
    entries = [
        Entry(revision=item, changes=changes.get(item.number, ()))
        if isinstance(item, Revision)
        else Entry(event=item, deadline=deadlines.get(item.number))
        for item in page
    ]
    following = _position_after(page, position) if len(merged) > limit else None
    return TimelinePage(entries=entries, next_position=following, unknown_names=unknown)


def _find_unknown(context: Context, connection: Connection, conditions: TimelineFilter) -> Iterator[UnknownName]:
    """The names asked for that nothing has or had, each with the closest ones that something has."""
    if name := conditions.cluster or conditions.name:
        kind = FleetKind.CLUSTER if conditions.cluster else FleetKind(conditions.kind)
        # What was deleted has left changes or events; of it nothing else may match.
        if not row_changes.last_changes(connection, kind.value, name, 1):
            current = current_fleet(context, connection)
            groups = current.pools if kind is FleetKind.POOL else current.labels
            existing: Collection[str] = current.clusters if kind is FleetKind.CLUSTER else groups
            if name not in existing:
                near = closest(name, existing)
                message = f"No {kind.noun} is called '{shorten(name)}'.{did_you_mean(near)}"
                yield UnknownName("cluster" if conditions.cluster else "name", name, message, near)
    if conditions.actor is not None:
        names = revisions.newest_names(connection, _NEWEST) | cluster_events.newest_names(connection, _NEWEST)
        if conditions.actor not in names:
            near = closest(conditions.actor, names)
            start = f"None of the newest {_NEWEST:,} revisions and events is by '{shorten(conditions.actor)}'."
            yield UnknownName("actor", conditions.actor, f"{start}{did_you_mean(near)}", near)


def _time(item: _Item) -> datetime:
    return item.created_at if isinstance(item, Revision) else item.at


def _position_after(page: Sequence[_Item], before: Position) -> Position:
    numbers = [item.number for item in page if isinstance(item, Revision)]
    events = [item.number for item in page if isinstance(item, ClusterEvent)]
    return Position(numbers[-1] if numbers else before.revision, events[-1] if events else before.event)
