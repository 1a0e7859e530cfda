"""Candidates: the clusters that a route leads to, and the workload that needs one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.fleet import Fleet, Group, Member
from admin.core.graph.rooms import asked_in, asked_key
from admin.core.placement.routes import Route, RouteKind
from admin.core.resources import Amounts, occupied, subtract
from admin.core.use_grants import UsableClusters


class JobParameters(NamedTuple):
    """What rules may look at of a job beside its demand."""

    tasks: int
    duration: float | None  #: seconds that it may run; None without a limit
    priority: int
    project: str
    domain: str
    workflow: str
    launch_plan: str
    labels: Mapping[str, str]
    parameters: Mapping[str, bool | int | float | str] = MappingProxyType({})  #: of its jobspec


class RequestedStrategy(NamedTuple):
    """The strategy that a request asks for, in place of that of its pool."""

    name: str
    rules: str | None = None  #: as JSON, for the strategy that has rules
    asking: tuple[tuple[str, object], ...] = ()  #: fields for the strategy that asks, by name


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is to be placed."""

    key: str  #: project/domain/name; the same key always draws the same cluster
    demand: Amounts = field(default_factory=dict)
    exclusive: bool = False  #: whether it has its nodes to itself
    asks: str | None = None  #: of a cluster's graph, as `request_texts` writes it; None where that is not known
    plugins: tuple[str, ...] = ()  #: the cluster must offer one of these; empty for any
    declined: tuple[str, ...] = ()  #: clusters whose agents declined it
    usable: UsableClusters | None = None  #: the clusters that its creator may use; None for all
    requested: RequestedStrategy | None = None  #: None for that of the pool or label
    job: JobParameters | None = None  #: None where no job is known; rules then drop and rank nothing

    @property
    def criteria(self) -> tuple[object, ...]:
        """All that filters and strategies may look at, but for what rules do: evaluations are cached by it."""
        demand = tuple(self.demand.items())
        return demand, self.exclusive, self.asks, self.plugins, self.declined, self.usable, self.requested

    def takes_of(self, cluster: Cluster) -> Amounts:
        """What it takes of a cluster while it runs."""
        if not self.exclusive:
            return with_asks(self._takes_of_any, self.asks, cluster)
        return with_asks(
            cluster.takes(self.demand, exclusive=True, asks_graph=self.asks is not None), self.asks, cluster
        )

    @cached_property
    def _takes_of_any(self) -> Amounts:
        """What it takes of any cluster unless it is exclusive: worked out once for all clusters of a decision."""
        return occupied(self.demand, {}, exclusive=False)


def with_asks(taken: Amounts, asks: str | None, cluster: Cluster) -> Amounts:
    """What a job takes of a cluster, and where its nodes are known one by one, what the job asks for."""
    return taken if asks is None or not cluster.tells_nodes else {**taken, asked_key(asks): 1}


#: In place of the definition of a pool or label, where a route names none.
EVERY_CLUSTER = Definition(kind=FleetKind.LABEL, name="", payload={}, source=Source.CONFIGURATION)


class Candidate(NamedTuple):
    """A cluster that may be chosen, with what filters and strategies read of it."""

    cluster: Cluster
    weight: float
    position: int  #: in its group, from 0
    free: Amounts | None  #: what is free there; None where that is unknown or the strategy does not ask
    waiting: Amounts | None = None  #: what is taken by what waits there; None where the strategy does not ask

    def lacks_for(self, workload: Workload) -> str:
        """What its nodes lack for a job beside what was assigned there since its last report; "" where that is nothing.

        Also where its nodes, or what waits there, are not known.
        """
        room = self.cluster.room
        if workload.asks is None or self.waiting is None or room is None:
            return ""
        return room.lacks(asked_in(self.waiting), workload.asks)


def group_of(route: Route, fleet: Fleet) -> Group | None:
    """The clusters that a route leads to, None where the fleet does not know its name."""
    match route.kind:
        case RouteKind.POOL:
            return fleet.pools.get(route.name)
        case RouteKind.LABEL:
            return fleet.label(route.name)
        case RouteKind.CLUSTER:
            if not fleet.has_cluster(route.name):
                return None
            only = (Member(cluster=route.name, weight=1),)
            return Group(definition=fleet.clusters[route.name].definition, members=only)
    every = tuple(Member(cluster=name, weight=1) for name in fleet.clusters)
    return Group(definition=EVERY_CLUSTER, members=every)


def candidates_of(group: Group, fleet: Fleet, waiting: Mapping[str, Amounts] | None) -> list[Candidate]:
    """The clusters of a group in their order; with what is free where `waiting` says what is taken by what waits."""
    clusters = fleet.clusters
    if waiting is None:
        return [Candidate(clusters[name], weight, at, None) for at, (name, weight) in enumerate(group.members)]
    return [
        Candidate(cluster := clusters[name], weight, at, free_amounts(cluster, waiting), waiting.get(name, {}))
        for at, (name, weight) in enumerate(group.members)
    ]


def free_amounts(cluster: Cluster, waiting: Mapping[str, Amounts]) -> Amounts | None:
    """What was free at the last report, less what waits at the cluster; None where that is unknown."""
    unused, taken = cluster.unused, waiting.get(cluster.name)
    return unused if unused is None or not taken else subtract(unused, taken)
