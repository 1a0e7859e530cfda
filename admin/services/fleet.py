"""The fleet: define and delete clusters, pools and labels, list clusters, and take their reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from sys import maxsize
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from admin.core.changes import Expectation
from admin.core.executions.ignored_fields import ignored_fields
from admin.core.executions.lifecycle import Phase
from admin.core.executions.switch_outcomes import of_running
from admin.core.fleet.clusters import REPORTED, Cluster, differs_only_in_load, read_report, why_unreachable
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet, Group
from admin.core.fleet.summaries import describe_cluster, off_because, states_of
from admin.core.placement.capacity import GroupCapacity, group_capacity, usable_amounts
from admin.core.provenance import Provenance
from admin.core.resources import Amounts
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import Scope
from admin.errors import ClusterNotFound, LabelNotFound, NotFound, PoolNotFound
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.fleet import definition_write
from admin.services.changes import Changed, make_change
from admin.services.cluster_provenance import cluster_provenance
from admin.services.context import Context
from admin.services.definitions import current_fleet, find_unused
from admin.services.description_views import DescriptionView, newest_description
from admin.services.named_rows import create_row, row_not_found
from admin.services.own_settings import EffectsByKind
from admin.services.silences import ClusterLoss, note_silences, view_cluster_loss
from admin.store import bids, cluster_events, execution_queue, executions, fleet, unfinished
from admin.store.bids import BidRecord
from admin.store.cluster_events import CHANGED, ClusterEvent, ClusterEventFilter
from admin.store.executions import ListedExecution
from admin.store.tokens import CLUSTER_TOKENS

NOT_FOUND: Mapping[FleetKind, type[NotFound]] = {
    FleetKind.CLUSTER: ClusterNotFound,
    FleetKind.POOL: PoolNotFound,
    FleetKind.LABEL: LabelNotFound,
}


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """A cluster with what is known of it right now."""

    cluster: Cluster
    pools: list[str]
    labels: list[str]
    waiting: int
    running: int
    leases: int
    assigned: Amounts  #: what is taken by what waits there, which its agent may not have reported yet
    free: Amounts | None  #: for new work
    silence: str | None  #: why its agent does not sync
    summary: str  #: whether it takes work, and why not
    bid_record: BidRecord | None  #: how good its bids were; None where it was never chosen by one
    provenance: Mapping[str, Provenance]  #: of its `definition`, and of `disabled`, `cordoned` and `draining` if it is


class RecentWait(NamedTuple):
    """How long the newest executions of a cluster waited for their first start."""

    seconds: float  #: on average
    executions: int  #: how many have started there first, of those that were looked at
    examined: int


class Outlook(NamedTuple):
    """What becomes of an execution that a cluster runs."""

    message: str
    ends_by: datetime | None  #: when its time limit or a drain ends it; None where nothing does, or it is not heard


@dataclass(frozen=True, kw_only=True)
class ClusterDetails(ClusterView):
    """A cluster with its first executions, and with what the pools have that it is in."""

    leased: Sequence[ListedExecution]
    outlooks: Mapping[int, Outlook]  #: of those that run, by their row ids
    queue: Sequence[ListedExecution]  #: what its agent does not have yet, the first to be leased first
    waiting_for: Sequence[ListedExecution]  #: what waits without a cluster and names it, in the same order
    by_pool: Mapping[str, GroupCapacity]
    recent_wait: RecentWait | None  #: None where none of the newest executions has started there first
    ignored_settings: EffectsByKind | None  #: the fields of settings that its engine ignores; None if that is unknown
    loss: ClusterLoss | None  #: when it counts as lost if its agent stays silent; None of one that is heard, or lost
    described: DescriptionView | None  #: the newest revision of its description


Named = TypeVar("Named", Cluster, Group)


def page_of(of: Iterable[Named], after: str, most: int) -> list[Named]:
    """The first of what comes after a name, by name."""
    return sorted((each for each in of if each.name > after), key=lambda each: each.name)[:most]


def capacities_of(
    context: Context, connection: Connection, current: Fleet, groups: Sequence[Group]
) -> tuple[Mapping[str, Cluster], list[GroupCapacity]]:
    """The members of some groups by name, and what those of each group have together."""
    names = {member.cluster for group in groups for member in group.members}
    clusters = _with_states(connection, [current.clusters[name] for name in names])
    waiting = execution_queue.taken_by_waiting(connection, clusters, context.clock())
    return clusters, [group_capacity(group, clusters, waiting) for group in groups]


def _with_states(connection: Connection, clusters: Sequence[Cluster]) -> dict[str, Cluster]:
    """Clusters with their states as they are stored: a sync alone is no new generation of the cached fleet."""
    states = fleet.states(connection, [cluster.name for cluster in clusters])
    return {cluster.name: cluster.with_state(states.get(cluster.name, cluster.state)) for cluster in clusters}


def groups_of(current: Fleet, kind: FleetKind) -> Mapping[str, Group]:
    """The pools, or labels, of a fleet by name."""
    return current.pools if kind is FleetKind.POOL else current.labels


def not_found(context: Context, connection: Connection, kind: FleetKind, name: str) -> NotFound:
    """The error for a name that the fleet does not have: by whom it was deleted, or the closest known ones."""
    current = current_fleet(context, connection)
    names: Iterable[str] = current.clusters if kind is FleetKind.CLUSTER else groups_of(current, kind)
    return row_not_found(context, connection, NOT_FOUND[kind], kind.value, name, names)


class ClusterFilter(NamedTuple):
    """Which clusters are meant."""

    pool: str | None = None
    label: str | None = None
    search: str = ""  #: a part of the name, in any case
    unused: bool = False  #: only those that nothing uses


class ClusterCounts(NamedTuple):
    """How many clusters there are, take work, and are in each state, of which one may have several."""

    clusters: int
    takes_work: int
    states: Mapping[str, int]


def list_clusters(
    context: Context,
    *,
    chosen: ClusterFilter,
    state: str | None = None,
    takes_work: bool | None = None,
    after: str = "",
    most: int = maxsize,
) -> list[ClusterView]:
    """The first clusters after a name, declared or expected, of those that fit; perhaps in one state."""
    with context.database.reading() as connection:
        current = current_fleet(context, connection)
        clusters = [
            cluster
            for cluster in _fitting(context, connection, current, chosen)
            if (state is None or state in states_of(cluster))
            and (takes_work is None or takes_work is not bool(off_because(cluster)))
        ]
        return _views(context, connection, current, page_of(clusters, after, most))


def count_clusters(context: Context, chosen: ClusterFilter) -> ClusterCounts:
    """How many of the clusters that fit are in each state, and take work."""
    with context.database.reading() as connection:
        clusters = _fitting(context, connection, current_fleet(context, connection), chosen)
    states = Counter(state for cluster in clusters for state in states_of(cluster))
    able = sum(not off_because(cluster) for cluster in clusters)
    return ClusterCounts(clusters=len(clusters), takes_work=able, states=states)


def _fitting(context: Context, connection: Connection, current: Fleet, chosen: ClusterFilter) -> list[Cluster]:
    names = set(current.clusters)
    if chosen.unused:
        names &= find_unused(context, connection, FleetKind.CLUSTER)
    if chosen.pool is not None:
        if chosen.pool not in current.pools:
            raise not_found(context, connection, FleetKind.POOL, chosen.pool)
        names &= {member.cluster for member in current.pools[chosen.pool].members}
    if chosen.label is not None:
        group = current.label(chosen.label)
        if group is None:
            raise not_found(context, connection, FleetKind.LABEL, chosen.label)
        names &= {member.cluster for member in group.members}
    return [current.clusters[name] for name in names if chosen.search.lower() in name.lower()]


def view_clusters(context: Context, clusters: Iterable[Cluster]) -> list[ClusterView]:
    """Clusters as they are now; those that were deleted meanwhile are shown all the same."""
    with context.database.reading() as connection:
        current = current_fleet(context, connection)
        shown = [current.clusters.get(cluster.name, cluster) for cluster in clusters]
        return _views(context, connection, current, shown)


#: Executions that the answer about one cluster shows of those that its agent has, and of those that wait there.
MOST_EXECUTIONS = 10
#: The phases in which an agent runs an execution.
_RUNNING = (Phase.RUNNING.value, Phase.ABORTING.value)
#: Executions whose waits it averages.
_MOST_WAITS = 100


def get_cluster(context: Context, name: str) -> ClusterDetails:
    """One cluster."""
    with context.database.reading() as connection:
        return view_cluster(context, connection, name)


def view_cluster(context: Context, connection: Connection, name: str) -> ClusterDetails:
    """One cluster, as a transaction sees it."""
    current = current_fleet(context, connection)
    [view] = _views(context, connection, current, [find_cluster(context, connection, name)])
    pools = [current.pools[pool] for pool in view.pools]
    leased = _seen(context, unfinished.leases_at(connection, name, MOST_EXECUTIONS))
    return ClusterDetails(
        **vars(view),
        leased=leased,
        outlooks=_outlooks(context, connection, view.cluster, leased),
        queue=_seen(context, execution_queue.next_at(connection, name, MOST_EXECUTIONS)),
        waiting_for=_seen(context, execution_queue.waiting_for(connection, name, MOST_EXECUTIONS)),
        by_pool=dict(zip(view.pools, capacities_of(context, connection, current, pools)[1], strict=True)),
        recent_wait=_recent_wait(connection, name),
        ignored_settings=ignored_fields(view.cluster.state.report.get("engine"), context.settings.kinds),
        loss=view_cluster_loss(context, connection, view.cluster),
        described=newest_description(connection, name),
    )


def _seen(context: Context, listed: Iterable[ListedExecution]) -> list[ListedExecution]:
    """Those of some executions that the caller may read."""

    def is_seen(execution: ListedExecution) -> bool:
        return context.access.allows("executions.read", Scope(project=execution.project, domain=execution.domain))

    return list(filter(is_seen, listed))


def _outlooks(
    context: Context, connection: Connection, cluster: Cluster, leased: Sequence[ListedExecution]
) -> dict[int, Outlook]:
    """What becomes of the executions that a cluster runs, by their row ids: by its limit, a drain or a silence."""
    deadline = cluster.state.drain_deadline if cluster.state.draining else None
    silences = note_silences(context, connection, leased)
    running = [execution.id for execution in leased if execution.phase in _RUNNING]
    outlooks: dict[int, Outlook] = {}
    for execution in executions.get_many(connection, running) if running else ():
        outcome = of_running(execution, deadline)
        silence = silences.get(execution.id)
        message = outcome.message if silence is None else silence.outlook
        outlooks[execution.id] = Outlook(message, None if silence is not None else outcome.at)
    return outlooks


def _recent_wait(connection: Connection, name: str) -> RecentWait | None:
    newest = executions.newest_waits(connection, name, _MOST_WAITS)
    waits = [(started_at - created_at).total_seconds() for created_at, started_at in newest if started_at is not None]
    return RecentWait(max(0.0, sum(waits)) / len(waits), len(waits), len(newest)) if waits else None


def find_cluster(context: Context, connection: Connection, name: str) -> Cluster:
    """A cluster of the fleet as a transaction sees it; ClusterNotFound where there is none."""
    return find_clusters(context, connection, [name])[name]


def find_clusters(context: Context, connection: Connection, names: Sequence[str]) -> dict[str, Cluster]:
    """Clusters of the fleet as a transaction sees it; ClusterNotFound where one of them is not there."""
    clusters = current_fleet(context, connection).clusters
    for name in names:
        if name not in clusters:
            raise not_found(context, connection, FleetKind.CLUSTER, name)
    return {name: clusters[name] for name in names}


def _views(context: Context, connection: Connection, current: Fleet, clusters: list[Cluster]) -> list[ClusterView]:
    counts = unfinished.counts_by_cluster(connection)
    leases = unfinished.leases_by_cluster(connection)
    by_name = _with_states(connection, clusters)
    clusters = list(by_name.values())
    waiting = execution_queue.taken_by_waiting(connection, by_name, context.clock())
    silent = [name for name in by_name if by_name[name].is_silent]
    with_token = CLUSTER_TOKENS.with_live(connection, silent, context.clock())
    groups: dict[str, tuple[list[str], list[str]]] = {cluster.name: ([], []) for cluster in clusters}
    for index, groups_of_kind in enumerate((current.pools, current.labels)):
        for name, group in groups_of_kind.items():
            for member in group.members:
                if member.cluster in groups:
                    groups[member.cluster][index].append(name)
    provenance, now = cluster_provenance(context, connection, clusters), context.clock()
    usable = {cluster.name: usable_amounts(cluster, waiting) for cluster in clusters}
    used = {name for name, number in leases.items() if number} | {
        name for (name, _), number in counts.items() if number
    }
    used |= {name for name, groups_of_cluster in groups.items() if any(groups_of_cluster)}
    records = bids.records(connection)
    return [
        ClusterView(
            cluster=cluster,
            pools=groups[cluster.name][0],
            labels=groups[cluster.name][1],
            waiting=counts.get((cluster.name, "QUEUED"), 0),
            running=counts.get((cluster.name, "RUNNING"), 0) + counts.get((cluster.name, "ABORTING"), 0),
            leases=leases.get(cluster.name, 0),
            assigned=waiting.get(cluster.name, {}),
            free=usable[cluster.name],
            silence=why_unreachable(cluster, has_token=cluster.name in with_token),
            summary=describe_cluster(
                cluster,
                usable[cluster.name],
                provenance[cluster.name],
                now,
                waiting=counts.get((cluster.name, "QUEUED"), 0),
                is_unused=cluster.name not in used,
            ),
            bid_record=records.get(cluster.name),
            provenance=provenance[cluster.name],
        )
        for cluster in clusters
    ]


def create_definition(
    context: Context, kind: FleetKind, name: str, payload: Payload, options: ChangeOptions
) -> Changed:
    """Create a cluster, pool or label; AlreadyExists where the name is taken."""
    write = definition_write(context, kind, name, payload, Expectation(absent=True))
    return create_row(context, kind.noun, write, options)


def put_definition(
    context: Context,
    kind: FleetKind,
    name: str,
    payload: Payload | None,
    expectation: Expectation,
    options: ChangeOptions,
) -> Changed:
    """Define a cluster, pool or label, or remove it; InUse where something uses it and force is not set."""
    return make_change(context, [definition_write(context, kind, name, payload, expectation)], options)


def report_state(context: Context, name: str, report: object) -> ClusterView:
    """Store a cluster's report of itself, which is in force until the next one."""
    fields, now = read_report(report), context.clock()
    with context.database.writing() as connection:
        fleet.lock(connection)
        find_cluster(context, connection, name)
        before = fleet.hold_state(connection, name)
        state = replace(before, report=fields, reported_at=now)
        is_same = before.reported_at is None or differs_only_in_load(before.report, fields)
        event = ClusterEvent(cluster=name, at=now, type=REPORTED, reason=None if is_same else CHANGED)
        fleet.save(connection, state, event)
    return get_cluster(context, name)


class ClusterEventPage(NamedTuple):
    """A page of a cluster's events, newest first."""

    events: Sequence[ClusterEvent]
    ended_by: Mapping[int, Provenance]  #: what ended drains, by the numbers of their events
    last: int | None  #: the number below which the next page starts, if there is one
    left_out: int  #: reports that the page has none of, among the events that it covers


def list_events(
    context: Context, name: str, below: int | None, limit: int, *, with_reports: bool = True
) -> ClusterEventPage:
    """What happened to a cluster."""
    chosen = ClusterEventFilter(cluster=name, without_reports=not with_reports)
    with context.database.reading() as connection:
        find_cluster(context, connection, name)
        events = cluster_events.events(connection, chosen, below, limit + 1)
        ended_by = cluster_events.ends_of_drains(connection, events)
        last = events[limit - 1].number if len(events) > limit else None
        left_out = 0 if with_reports else cluster_events.count_reports(connection, name, last, below)
    return ClusterEventPage(events[:limit], ended_by, last, left_out)
