"""Shares: what a pool promises its clusters, against what was placed there within a window of time, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Group
from admin.core.placement.shares import PassedOver, Placing, promised_shares
from admin.core.problems import invalid
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.fleet import not_found
from admin.store import shares
from admin.store.shares import PlacedExecution, Window


@dataclass(frozen=True, kw_only=True)
class ShareLimits:
    """How much an answer about shares looks at."""

    executions: int = 10_000  #: of the pool, the newest
    compared: int = 100_000  #: clusters, over all executions
    counted: int = 100_000
    otherwise: int = 50_000  #: executions of the pool's clusters, all together


@dataclass(frozen=True, kw_only=True)
class ClusterShare:
    """What came to one cluster."""

    cluster: str
    weight: float | None  #: None for one that is no member any more
    promised: float | None  #: None where the strategy promises no share
    placed: int
    passed_over: Mapping[PassedOver, int]  #: what of it would have gone to other clusters
    otherwise: Mapping[str, int]  #: what came there by another route, by its kind

    @property
    def by_strategy(self) -> int:
        return self.placed - sum(self.passed_over.values())


@dataclass(frozen=True, kw_only=True)
class PoolShares:
    """How what a pool placed was shared out."""

    group: Group
    window: Window
    clusters: Sequence[ClusterShare]
    examined: int  #: executions, the newest
    examined_since: datetime | None  #: when the oldest of them was created
    total: int  #: executions of the window, up to `ShareLimits.counted`
    unplaced: int  #: those of the examined ones that no cluster was able to take

    @property
    def placed(self) -> int:
        return self.examined - self.unplaced


def pool_shares(
    context: Context, name: str, after: datetime, before: datetime | None, limits: ShareLimits | None = None
) -> PoolShares:
    """How the executions of a pool that were created within a window were shared out."""
    most = limits or ShareLimits()
    window = Window(after, before or context.clock())
    if window.after >= window.before:
        raise invalid("after", "is not before the end of the window: give an earlier time.")
    with context.database.reading() as connection:
        pools = current_fleet(context, connection).pools
        if name not in pools:
            raise not_found(FleetKind.POOL, name, pools)
        group = pools[name]
        placed = shares.placed_by(connection, name, window, most.executions)
        total = len(placed)
        if total == most.executions:
            total = shares.count_placed_by(connection, name, window, most.counted)
        bodies = shares.trails_of(connection, {execution.placement_trail for execution in placed})
        placings = {digest: Placing(body) for digest, body in bodies.items()}
        examined = _affordable(placed, placings, most.compared)
        each = max(100, most.otherwise // len(group.members))
        members = [member.cluster for member in group.members]
        otherwise = shares.placed_otherwise(connection, name, members, window, each)
    return PoolShares(
        group=group,
        window=window,
        clusters=_clusters(group, examined, placings, otherwise),
        examined=len(examined),
        examined_since=examined[-1].created_at if examined else None,
        total=total,
        unplaced=sum(execution.cluster is None for execution in examined),
    )


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


def _clusters(
    group: Group,
    examined: Sequence[PlacedExecution],
    placings: Mapping[str, Placing],
    otherwise: Mapping[str, Mapping[str, int]],
) -> list[ClusterShare]:
    placed = Counter[str]()
    passed_over: dict[str, Counter[PassedOver]] = {}
    for execution in examined:
        if execution.cluster is not None:
            placed[execution.cluster] += 1
            other = placings[execution.placement_trail].passed_over(execution.key, execution.cluster)
            if other is not None:
                passed_over.setdefault(execution.cluster, Counter())[other] += 1
    weights = {member.cluster: member.weight for member in group.members}
    promised = promised_shares(group)
    return [
        ClusterShare(
            cluster=name,
            weight=weights.get(name),
            promised=promised.get(name),
            placed=placed[name],
            passed_over=passed_over.get(name, {}),
            otherwise=otherwise.get(name, {}),
        )
        for name in [*weights, *sorted(placed.keys() - weights.keys())]
    ]
