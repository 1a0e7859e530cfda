"""Foreseen loads: what waiting executions take of clusters, as moves that are only foreseen would leave it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection

from admin.core.executions.attempts import is_backing_off
from admin.core.fleet.clusters import Cluster
from admin.core.placement.candidates import Workload
from admin.core.resources import add, subtract
from admin.store import execution_queue
from admin.store.executions import Execution

#: What is taken of clusters, by their names.
_Taken = dict[str, dict[str, int]]


class ForeseenLoad:
    """What is taken of clusters in one transaction; each is read once, and moves are added up."""

    def __init__(self, connection: Connection, now: datetime) -> None:
        self._connection = connection
        self._now = now
        self._clusters: dict[str, Cluster] = {}  #: those that were read
        self._taken: _Taken = {}
        self._moves: list[tuple[Execution, str | None]] = []

    def of(self, clusters: Mapping[str, Cluster]) -> _Taken:
        """What is taken of some clusters, as far as something is."""
        unread = {name: cluster for name, cluster in clusters.items() if name not in self._clusters}
        if unread:
            taken = execution_queue.taken_by_waiting(self._connection, unread, self._now)
            for execution, target in self._moves:
                move_load(taken, unread, execution, target)
            self._taken |= taken
            self._clusters |= unread
        return {name: self._taken[name] for name in clusters if name in self._taken}

    def count(self, cluster: str, workload: Workload) -> bool:
        """Count a new workload that goes to a cluster, before it is stored; returns whether the cluster was read."""
        read = self._clusters.get(cluster)
        if read is not None:
            self._taken[cluster] = add(self._taken.get(cluster, {}), workload.takes_of(read))
        return read is not None

    def move(self, execution: Execution, target: str | None) -> None:
        """Count an execution at another cluster, or at none; what is in back-off takes nothing."""
        if not is_backing_off(execution.not_before, self._now):
            self._moves.append((execution, target))
            move_load(self._taken, self._clusters, execution, target)


def move_load(taken: _Taken, clusters: Mapping[str, Cluster], execution: Execution, target: str | None) -> None:
    """Change what is taken of some clusters by a move from one, or to one."""
    left = execution.cluster
    if left is not None and left in taken and left in clusters:
        taken[left] = subtract(taken[left], execution.takes_of(clusters[left]))
    if target is not None and target in clusters:
        taken[target] = add(taken.get(target, {}), execution.takes_of(clusters[target]))
