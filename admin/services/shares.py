"""Shares: what a pool promises its clusters, against what was placed there within a window of time, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from admin.core.fleet.clusters import STATE_EVENTS
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Group
from admin.core.fleet.memberships import MemberChanges, Regrouping, member_changes, regroupings
from admin.core.placement.shares import (
    CLUSTER,
    USER,
    GroupShare,
    PassedOver,
    Placing,
    Range,
    Weighting,
    expected_range,
    explain_share,
    promised_shares,
    shares_promised_by,
    weightings_of,
)
from admin.core.problems import list_first
from admin.core.provenance import Provenance, show_name
from admin.core.settings.scopes import Scope
from admin.core.times import check_window, show_time
from admin.services.access import Access
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.fleet import not_found
from admin.services.retention import not_counted
from admin.store import cluster_events, retention, row_changes, shares
from admin.store.cluster_events import ClusterEvent
from admin.store.shares import PlacedExecution, Window

#: Clusters that a summary names.
_MOST_NAMED = 3
#: Changes of the definition that a sentence names.
_MOST_CHANGES = 5


@dataclass(frozen=True, kw_only=True)
class ShareLimits:
    """How much an answer about shares looks at."""

    executions: int = 10_000  #: of the pool, the newest
    compared: int = 100_000  #: clusters, over all executions
    counted: int = 100_000
    otherwise: int = 50_000  #: executions of the pool's clusters, all together
    definition_changes: int = 1000  #: of the pool, the newest


@dataclass(frozen=True, kw_only=True)
class ClusterShare:
    """What was placed on one cluster."""

    cluster: str
    weight: float | None  #: None for one that is no member any more
    promised_share: float | None  #: None where the strategy promises no share
    placed: int
    passed_over: Mapping[PassedOver, int]  #: what of it would have gone to other clusters
    switched_by: Mapping[PassedOver, Sequence[Provenance]]  #: by what operators kept these from work, newest first
    otherwise: Mapping[str, int]  #: what was placed there by another route, by its kind
    drawn: int | None  #: what would have been placed there with all clusters able; None where no share is promised
    expected: Range | None  #: what chance makes of the promised share
    why: str
    joined: Provenance | None = None  #: the revision by which it joined the pool within the window
    left: Provenance | None = None  #: the revision by which it left it within the window

    @property
    def by_strategy(self) -> int:
        return self.placed - sum(self.passed_over.values())

    @property
    def is_uneven(self) -> bool:
        """Whether its number is not what chance makes of the weights, or clusters were passed over."""
        is_by_chance = self.expected is None or (self.drawn in self.expected and self.drawn == self.placed)
        return not is_by_chance or bool(self.passed_over)


@dataclass(frozen=True, kw_only=True)
class PoolShares:
    """How what a pool placed was shared out."""

    group: Group
    window: Window
    clusters: Sequence[ClusterShare]
    examined: int  #: executions, the newest
    examined_since: datetime | None  #: when the oldest of them was created
    total: int  #: executions of the window, up to `ShareLimits.counted`
    requested: int  #: those of the examined ones that asked for a strategy themselves, which no number counts
    unplaced: int  #: those of the others that no cluster was able to take
    not_counted: Sequence[str]  #: what the numbers leave out, in sentences
    changes: Sequence[Regrouping]  #: of the definition since the window began, oldest first
    by: str | None = None  #: what the executions were counted by, one of `SHARED_BY`, if that was asked
    groups: Sequence[GroupShare] = ()  #: those counts, the largest first
    is_other: bool  #: whether some executions were placed by another definition than that of now

    @property
    def placed(self) -> int:
        return self.examined - self.requested - self.unplaced

    @property
    def summary(self) -> str:
        """What was placed, and who has the most of it, or why some clusters got more or less than their share."""
        if self.by is not None and self.placed:
            first = self.groups[0]
            share = f"{first.placed / self.placed:.1%}"
            whose = f"{self.by} {first.value}" if first.value is not None else f"{self.by}s without a name here"
            verb = "has" if first.value is not None else "have"
            return f"{self._start}; {whose} {verb} {first.placed} of them ({share})."
        return f"{self._placed_summary}{self._member_summary}"

    @property
    def promise(self) -> str | None:
        """Of which definitions the promised shares are, where the pool was defined otherwise in the window."""
        if not self.changes and not self.is_other:
            return None
        basis = "Shares are promised by the members and weights that each execution was placed by"
        if not self.placed:
            basis = "Nothing was placed, so shares are promised by the members and weights of now"
        elif all(share.promised_share is None for share in self.clusters):
            basis = "No share is promised for a window with decisions by a strategy that promises none"
        if not self.changes:
            return f"{basis}; the pool was defined otherwise then, by what no revision keeps."
        named = [
            f"{change.made_by.describe(None)} ({change.change})" for change in reversed(self.changes[-_MOST_CHANGES:])
        ]
        hidden = len(self.changes) - len(named)
        more = f"; {hidden} earlier changes" if hidden else ""
        return f"{basis}; the pool's definition was changed by {'; by '.join(named)}{more}."

    @property
    def _member_summary(self) -> str:
        """Which clusters joined or left the pool."""
        changes = {
            "joined it": [share.cluster for share in self.clusters if share.joined],
            "left it": [share.cluster for share in self.clusters if share.left],
        }
        parts = [f"{list_first(names, _MOST_NAMED)} {verb}" for verb, names in changes.items() if names]
        return f" Since the window began, {' and '.join(parts)}." if parts else ""

    @property
    def _start(self) -> str:
        noun = "execution" if self.placed == 1 else "executions"
        return f"Pool '{self.group.name}' ({self.group.strategy}) placed {self.placed} {noun}"

    @property
    def _placed_summary(self) -> str:
        start = self._start
        if not self.placed:
            return f"{start} in this window."
        uneven = [share for share in self.clusters if share.is_uneven][:_MOST_NAMED]
        if uneven:
            named = "; ".join(f"{share.cluster} got {share.placed}: {share.why}" for share in uneven)
            return f"{start}; {named}."
        if self.clusters[0].expected is not None:
            return f"{start}, and each cluster got what its weight promises, as far as chance allows."
        return f"{start}, each where its strategy prefers."


def pool_shares(
    context: Context,
    name: str,
    after: datetime,
    before: datetime | None,
    limits: ShareLimits | None = None,
    *,
    by: str | None = None,
) -> PoolShares:
    """How the executions of a pool that were created within a window were shared out, and counted `by` what."""
    most = limits or ShareLimits()
    window = Window(after, before or context.clock())
    check_window(window.after, window.before)
    with context.database.reading() as connection:
        pools = current_fleet(context, connection).pools
        if name not in pools:
            raise not_found(context, connection, FleetKind.POOL, name)
        group = pools[name]
        placed = shares.placed_by(connection, name, window, most.executions)
        total = len(placed)
        if total == most.executions:
            total = shares.count_placed_by(connection, name, window, most.counted)
        bodies = shares.trails_of(connection, {execution.placement_trail for execution in placed})
        placings = {digest: Placing(body) for digest, body in bodies.items()}
        examined = _affordable(placed, placings, most.compared)
        # No revision keeps a pool of configuration.
        is_managed = group.definition.version is not None
        kept = most.definition_changes if is_managed else 0
        changes = row_changes.definition_changes_since(connection, FleetKind.POOL.value, name, window.after, kept)
        pruned = list(_pruned(connection, window, is_managed=is_managed))
        # What asked for a strategy itself tells nothing of what the pool promises.
        is_beside = {digest: placing.is_beside(group.strategy) for digest, placing in placings.items()}
        counted = [execution for execution in examined if not is_beside[execution.placement_trail]]
        placement = _placement(connection, counted, placings)
        members = member_changes(changes)
        promised = shares_promised_by(placement.weightings) if placement.placed else promised_shares(group)
        # Those that are no members any more stand behind those that are.
        names = dict.fromkeys(member.cluster for member in group.members)
        names |= dict.fromkeys(sorted(placement.placed.keys() | members.left.keys() | promised.keys()))
        each = max(100, most.otherwise // len(names))
        otherwise = shares.placed_otherwise(connection, name, list(names), window, each)
    clusters = _clusters(group, placement, promised, otherwise, members)
    weights = {member.cluster: member.weight for member in group.members}
    return PoolShares(
        group=group,
        window=window,
        clusters=clusters,
        examined=len(examined),
        examined_since=examined[-1].created_at if examined else None,
        total=total,
        requested=len(examined) - len(counted),
        unplaced=sum(execution.cluster is None for execution in counted),
        not_counted=[
            *_not_counted(len(examined), total, most, clusters, each),
            *_requested(len(examined) - len(counted)),
            *pruned,
        ],
        changes=regroupings(changes),
        by=by,
        groups=_count_groups(context.access, counted, by) if by else (),
        is_other=any(
            weighting.weights != weights or weighting.strategy != group.strategy for weighting in placement.weightings
        ),
    )


def _count_groups(access: Access, examined: Sequence[PlacedExecution], by: str) -> list[GroupShare]:
    """How many of the executions that were placed each user, project or cluster has.

    Of executions that the caller may not read, users and projects are not told.
    """
    counts = Counter[str | None]()
    readable: dict[tuple[str, str], bool] = {}
    for execution in examined:
        if execution.cluster is None:
            continue
        value: str | None = execution.cluster
        if by != CLUSTER:
            place = execution.project, execution.domain
            if place not in readable:
                scope = Scope(project=execution.project, domain=execution.domain)
                readable[place] = access.allows("executions.read", scope)
            named = show_name(execution.created_by, execution.claimed_by) if by == USER else execution.project
            value = (named if readable[place] else "") or None
        counts[value] += 1
    # What has no name stands last.
    ordered = sorted(counts.items(), key=lambda pair: (pair[0] is None, -pair[1], pair[0] or ""))
    return [GroupShare(value, count) for value, count in ordered]


def _pruned(connection: Connection, window: Window, *, is_managed: bool) -> Iterator[str]:
    """What pruning has removed from the window."""
    cutoffs = retention.cutoffs(connection)
    if cutoffs.executions is not None and cutoffs.executions > window.after:
        yield not_counted(cutoffs.executions)
    if cutoffs.revisions is not None and cutoffs.revisions > window.after and is_managed:
        time = show_time(cutoffs.revisions)
        yield f"Revisions made before {time} are pruned, so who joined or left the pool before is not known."


def _requested(number: int) -> Iterator[str]:
    if number == 1:
        yield "1 execution is not counted, which asked for another strategy than the pool's."
    elif number:
        yield f"{number} executions are not counted, which asked for another strategy than the pool's."


def _not_counted(
    examined: int, total: int, most: ShareLimits, clusters: Sequence[ClusterShare], each: int
) -> Iterator[str]:
    if examined < total:
        number = f"{total - examined} or more" if total == most.counted else total - examined
        yield f"{number} older executions of the window are not counted."
    if any(share.placed + sum(share.otherwise.values()) >= each for share in clusters):
        yield f"Beside the pool only the newest {each} executions of each cluster were looked at."


def _affordable(
    placed: Sequence[PlacedExecution], placings: Mapping[str, Placing], most: int
) -> Sequence[PlacedExecution]:
    """The first executions for which no more than so many clusters are compared."""
    compared = 0
    for number, execution in enumerate(placed):
        compared += placings[execution.placement_trail].cost
        if compared > most:
            return placed[: max(1, number)]
    return placed


@dataclass(frozen=True, kw_only=True)
class _Placement:
    """Where executions were placed, and what they went past."""

    placed: Counter[str]
    passed_over: Mapping[str, Counter[PassedOver]]  #: by the cluster that was chosen instead
    switched_by: Mapping[PassedOver, Sequence[Provenance]]
    drained: Collection[PassedOver]  #: of those, which were cordoned by drains alone
    weightings: Sequence[Weighting]


def _placement(
    connection: Connection, examined: Sequence[PlacedExecution], placings: Mapping[str, Placing]
) -> _Placement:
    placed, decided = Counter[str](), Counter[str]()
    passed_over: dict[str, Counter[PassedOver]] = {}
    times: dict[PassedOver, list[datetime]] = {}
    for execution in examined:
        if execution.cluster is not None:
            placed[execution.cluster] += 1
            decided[execution.placement_trail] += 1
            other = placings[execution.placement_trail].passed_over(execution.key, execution.cluster)
            if other is not None:
                passed_over.setdefault(execution.cluster, Counter())[other] += 1
                times.setdefault(other, []).append(execution.decided_at)
    switched_by = _switched_by(connection, times)
    return _Placement(
        placed=placed,
        passed_over=passed_over,
        switched_by={other: [event.provenance for event in events] for other, events in switched_by.items()},
        drained=[
            other
            for other, events in switched_by.items()
            if events and all(event.type == "DRAINING" for event in events)
        ],
        weightings=weightings_of((placings[digest], number) for digest, number in decided.items()),
    )


def _switched_by(
    connection: Connection, times: Mapping[PassedOver, Sequence[datetime]]
) -> Mapping[PassedOver, Sequence[ClusterEvent]]:
    """The events by which operators kept clusters from work at the times of decisions, newest first."""
    switched: dict[PassedOver, Sequence[ClusterEvent]] = {}
    for state, begins in STATE_EVENTS.items():
        others = [other for other in times if other.reason == state]
        if not others:
            continue
        until = max(time for other in others for time in times[other])
        events = cluster_events.switches_of(connection, state, {other.cluster for other in others}, until)
        for other in others:
            of_cluster = [event for event in events if event.cluster == other.cluster]
            last = (next((event for event in of_cluster if event.at <= time), None) for time in times[other])
            by_number = {event.number: event for event in last if event is not None and event.type in begins}
            switched[other] = [by_number[number] for number in sorted(by_number, reverse=True)]
    return switched


def _clusters(
    group: Group,
    placement: _Placement,
    promised: Mapping[str, float],
    otherwise: Mapping[str, Mapping[str, int]],
    members: MemberChanges,
) -> list[ClusterShare]:
    """What was placed on each cluster of `otherwise`, in its order."""
    placed, passed_over = placement.placed, placement.passed_over
    weights = {member.cluster: member.weight for member in group.members}
    draws = placed.total()
    lost: dict[str, Counter[PassedOver]] = {}
    for others in passed_over.values():
        for other, count in others.items():
            lost.setdefault(other.cluster, Counter())[other] += count
    shares_of_clusters = []
    for name, came_otherwise in otherwise.items():
        gained, lost_there = passed_over.get(name, Counter()), lost.get(name, Counter())
        promised_share = promised.get(name)
        expected = None
        if promised_share is not None and draws:
            expected = expected_range(promised_share, draws, len(promised))
        drawn = placed[name] - gained.total() + lost_there.total() if expected else None
        why = explain_share(
            placed=placed[name],
            drawn=drawn,
            expected=expected,
            lost=lost_there if expected else {},
            gained=gained,
            switched_by=placement.switched_by,
            drained=placement.drained,
        )
        shares_of_clusters.append(
            ClusterShare(
                cluster=name,
                weight=weights.get(name),
                promised_share=promised_share,
                placed=placed[name],
                passed_over=gained,
                switched_by={other: placement.switched_by.get(other, ()) for other in gained},
                otherwise=came_otherwise,
                drawn=drawn,
                expected=expected,
                why="; ".join([why, *members.describe(name)]),
                joined=members.joined.get(name),
                left=members.left.get(name),
            )
        )
    return shares_of_clusters
