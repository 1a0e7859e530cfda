"""Loads beside bids: what stands before an execution at each cluster and is not counted by its report or its bid."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from admin.core.fleet.clusters import Cluster
from admin.core.placement.bids import Bid, BidAnswer
from admin.core.placement.lines import Entry, Lines, Position
from admin.core.resources import Amounts, add
from admin.store import execution_queue
from admin.store import lines as stored_lines
from admin.store.executions import Execution
from admin.store.lines import Given

#: Answers whose cluster may be chosen.
_USABLE = (BidAnswer.YES, BidAnswer.REPORTED)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """An execution that is to be placed, among what waits."""

    tier: int
    priority: int
    id: float = math.inf  #: infinite for one that would be created
    present: str | None = None  #: the cluster at which it waits

    def at(self, cluster: str) -> Position:
        """Its position at a cluster: where it waits its own, elsewhere behind all of its tier and priority.

        One that is older than some of these would get their room, after they were promised it.
        """
        if cluster == self.present:
            return Position.of(self.tier, self.priority, self.id)
        return Position.of(self.tier, self.priority)


@dataclass(frozen=True, kw_only=True)
class BidLoads:
    """What is taken of clusters by what goes before an execution there."""

    clusters: Mapping[str, Cluster]
    lines: Lines
    leased: Mapping[str, Amounts]  #: by what agents have, and do not report as started
    given: Mapping[str, list[Given]]  #: what agents have by decisions since the first of some bids

    def waiting(self, standing: Standing) -> dict[str, Amounts]:
        """What is taken beside what each cluster reported."""
        return {
            name: add(self.leased.get(name, {}), self.lines.before(name, standing.at(name))) for name in self.clusters
        }

    def beside(self, bids: Iterable[Bid], standing: Standing) -> dict[str, Amounts]:
        """What is taken of the cluster of each of some bids that the bid does not count."""
        taken: dict[str, Amounts] = {}
        for bid in bids:
            if bid.answer not in _USABLE or bid.cluster not in self.clusters:
                continue
            amounts = self.lines.before(bid.cluster, standing.at(bid.cluster))
            for given in self.given.get(bid.cluster, ()):
                if given.decided_at >= bid.answered_at and given.id != standing.id:
                    amounts = add(amounts, given.takes)
            taken[bid.cluster] = amounts
        return taken

    def assign(self, cluster: str, standing: Standing, takes_of: Callable[[str], Amounts]) -> None:
        """Let an execution wait at a cluster, and no longer where it did; it takes of each what `takes_of` says."""
        present, position = standing.present, Position.of(standing.tier, standing.priority, standing.id)
        if present is not None and present in self.clusters:
            self.lines.remove(present, Entry(position, takes_of(present)))
        self.lines.add(cluster, Entry(position, takes_of(cluster)))


def standing_of(execution: Execution) -> Standing:
    """Where a stored execution stands."""
    return Standing(tier=execution.tier, priority=execution.priority, id=execution.id, present=execution.cluster)


def load_beside(
    connection: Connection,
    clusters: Mapping[str, Cluster],
    bids: Iterable[Bid],
    now: datetime,
    *,
    singly: Iterable[str] = (),
) -> BidLoads:
    """What is taken of some clusters beside some bids; `singly` are those at which what is to be placed waits."""
    since = min((bid.answered_at for bid in bids if bid.answer in _USABLE), default=None)
    return BidLoads(
        clusters=clusters,
        lines=Lines(stored_lines.waiting(connection, clusters, now, singly=singly)),
        leased=execution_queue.taken_by_waiting(connection, clusters, now, leased_only=True),
        given={} if since is None else stored_lines.given_since(connection, clusters, since),
    )
