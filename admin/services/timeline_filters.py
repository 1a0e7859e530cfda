"""What the timeline may be asked for: which of its entries, by source, scope, cluster, author, request and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from admin.core.executions.lifecycle import Phase
from admin.core.executions.selectors import Condition, equals
from admin.core.fleet.clusters import PRUNED, REDECIDED
from admin.core.fleet.definitions import FleetKind
from admin.core.settings.scopes import Scope
from admin.store.cluster_events import ClusterEventFilter
from admin.store.registration_history import RegistrationFilter
from admin.store.revisions import RevisionFilter

REVISION, CLUSTER_EVENT, REGISTRATION, EXECUTION = "revision", "cluster-event", "registration", "execution"
CREATION = "creation"
#: The sources of events that belong to no cluster, by their types.
EVENT_SOURCES = {REDECIDED: "redecision", PRUNED: "pruning"}
SOURCES = (REVISION, CLUSTER_EVENT, *EVENT_SOURCES.values(), REGISTRATION, EXECUTION, CREATION)


@dataclass(frozen=True, kw_only=True)
class TimelineFilter(RevisionFilter):
    """Which entries the timeline contains; None for any. `name` is that of a pool, label or user."""

    cluster: str | None = None  #: its definition and events, what moved from or to it, and the groups that name it
    source: str | None = None  #: one of `SOURCES`
    executions: bool = False  #: the ends of executions too, which may be many
    creations: bool = False  #: the creations of executions too
    registered: frozenset[Scope] | None = None  #: only registrations at and below these scopes

    @property
    def has_events(self) -> bool:
        """Whether events may be among them: they belong to no scope and are of no other kind."""
        is_scoped = any((self.domain, self.project, self.workflow, self.launch_plan))
        is_of_events = self.source not in (REVISION, REGISTRATION, EXECUTION, CREATION)
        return is_of_events and not is_scoped and self.sees_fleet and self.kind in (None, FleetKind.CLUSTER.value)

    @property
    def sees_fleet(self) -> bool:
        """Whether clusters, and the pools and labels that they are members of, may be told."""
        return self.seen is None or FleetKind.CLUSTER.value in self.seen.kinds

    @property
    def has_revisions(self) -> bool:
        return self.source in (None, REVISION)

    @property
    def has_registrations(self) -> bool:
        """Whether registrations may be among them: they are of no kind and about no cluster."""
        return self.source in (None, REGISTRATION) and self.kind is None and self.cluster is None

    @property
    def has_executions(self) -> bool:
        """Whether ends of executions may be among them: they are of no kind, and no request is kept with them."""
        is_asked = (self.executions or self.source == EXECUTION) and self.source != CREATION
        return is_asked and self.kind is None and self.request_id is None

    @property
    def has_creations(self) -> bool:
        """Whether creations of executions may be among them."""
        is_asked = (self.creations or self.source == CREATION) and self.source != EXECUTION
        return is_asked and self.kind is None and self.request_id is None

    def created(self) -> Iterator[Condition]:
        """What selects the executions that were created; who caused that is the creator."""
        yield from self._executions()
        if self.actor is not None:
            yield equals("created_by", self.actor)
        if self.after is not None:
            yield Condition(field="created_at", function="gte", values=(self.after,))
        if self.before is not None:
            yield Condition(field="created_at", function="lt", values=(self.before,))

    def _executions(self) -> Iterator[Condition]:
        for name in ("domain", "project", "workflow", "launch_plan", "cluster"):
            if getattr(self, name) is not None:
                yield equals(name, getattr(self, name))

    def ended(self) -> Iterator[Condition]:
        """What selects the executions; who caused an end is who ended it."""
        yield from self._executions()
        if self.actor is not None:
            yield equals("abort_principal", self.actor)
            yield equals("phase", Phase.ABORTED.value, Phase.FAILED.value)  # failed are those that somebody gave up
        if self.after is not None:
            yield Condition(field="finished_at", function="gte", values=(self.after,))
        if self.before is not None:
            yield Condition(field="finished_at", function="lt", values=(self.before,))

    def revisions(self) -> RevisionFilter:
        if self.cluster is None:
            return self
        member = self.cluster if self.sees_fleet else None
        return replace(self, kind=FleetKind.CLUSTER.value, name=self.cluster, member=member)

    def events(self) -> Iterator[ClusterEventFilter]:
        """What selects the events: those of one cluster, and apart from them the rounds that moved from or to it."""
        types = [type_ for type_, source in EVENT_SOURCES.items() if source == self.source]
        own = ClusterEventFilter(
            cluster=self.cluster,
            types=types or None,
            # What happened to executions everywhere is not for those who may see some of them.
            of_clusters=self.kind is not None or self.source == CLUSTER_EVENT or self.seen is not None,
            actor=self.actor,
            after=self.after,
            before=self.before,
            request_id=self.request_id,
            without_reports=True,
        )
        yield own
        if self.cluster is not None and self.source != CLUSTER_EVENT and self.seen is None:
            yield replace(own, cluster=None, moved=self.cluster, of_clusters=False, without_reports=False)

    def registrations(self) -> RegistrationFilter:
        names = ("domain", "project", "workflow", "launch_plan", "actor", "after", "before", "request_id")
        return RegistrationFilter(**{name: getattr(self, name) for name in names}, within=self.registered)
