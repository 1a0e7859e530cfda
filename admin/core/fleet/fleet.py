"""The fleet: every cluster, pool and label at one moment, and the warnings about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from admin.core.fleet.asking import NOTHING_SAID, Asking, read_asking
from admin.core.fleet.clusters import Cluster, ClusterState, build_cluster
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.graph.machines import Machine
from admin.core.json_text import json_string
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning, WarningCode

#: The strategy of labels, and of pools that name none.
DEFAULT_STRATEGY = "weighted"
#: The strategy that asks clusters in the order of the definition.
SPILL = "spill"
#: The strategy that goes by rules.
CONSTRAINT = "constraint"


class Member(NamedTuple):
    """A cluster in a pool or label."""

    cluster: str
    weight: float


@dataclass(frozen=True, kw_only=True)
class Group:
    """A pool or a label."""

    definition: Definition
    members: tuple[Member, ...]
    strategy: str = DEFAULT_STRATEGY  #: one of `placement.scores.STRATEGIES`
    rules: str | None = None  #: as JSON, for the strategy that has rules
    asking: Asking = NOTHING_SAID  #: for the strategy that asks

    @property
    def name(self) -> str:
        return self.definition.name

    @cached_property
    def weights(self) -> Mapping[str, float]:
        """The weight of each member, by its cluster."""
        return dict(self.members)


def build_group(definition: Definition) -> Group:
    """The group that a pool's or label's definition describes."""
    members = tuple(
        Member(cluster=member["id"], weight=member.get("weight", 1)) for member in definition.payload.get("members", [])
    )
    strategy, rules = definition.payload.get("strategy", DEFAULT_STRATEGY), definition.payload.get("rules")
    return Group(
        definition=definition,
        members=members,
        strategy=strategy,
        rules=None if rules is None else json_string(rules),
        asking=read_asking(definition.payload),
    )


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Everything that work can be placed on, at one moment."""

    generation: int  #: counts the changes of the fleet
    clusters: Mapping[str, Cluster]
    pools: Mapping[str, Group]
    labels: Mapping[str, Group]
    shadowed: tuple[Definition, ...] = ()  #: managed definitions that a configured one of the same name overrides

    def label(self, name: str) -> Group | None:
        """A label; a cluster's own name is one too, unless a label of that name is defined."""
        if name in self.labels or not self.has_cluster(name):
            return self.labels.get(name)
        source = self.clusters[name].definition.source
        definition = Definition(kind=FleetKind.LABEL, name=name, payload={}, source=source)
        return Group(definition=definition, members=(Member(cluster=name, weight=1),))

    @cached_property
    def properties(self) -> frozenset[str]:
        """The properties that some cluster has."""
        return frozenset(name for cluster in self.clusters.values() for name in cluster.properties)

    def label_names(self) -> frozenset[str]:
        return frozenset(self.labels) | self.cluster_names()

    def has_cluster(self, name: str) -> bool:
        """Whether there is such a cluster; one that was deleted is only a name that pools or labels have."""
        return name in self.clusters and not self.clusters[name].is_deleted

    def cluster_names(self) -> frozenset[str]:
        return frozenset(name for name, cluster in self.clusters.items() if not cluster.is_deleted)

    def with_states(self, states: Mapping[str, ClusterState]) -> Fleet:
        """The same fleet with newer states of its clusters."""
        clusters = {
            name: cluster.with_state(states.get(name, cluster.state)) for name, cluster in self.clusters.items()
        }
        return replace(self, clusters=clusters)

    def with_switches(self, switched_by: Mapping[str, Mapping[str, str]]) -> Fleet:
        """The same fleet with who switched clusters off, by cluster and state."""
        described = {name: replace(self.clusters[name], switched_by=states) for name, states in switched_by.items()}
        return replace(self, clusters={**self.clusters, **described})

    def clusters_unlike(self, other: Fleet) -> frozenset[str]:
        """The names of the clusters that another fleet does not have, or not with the same definition and state."""
        return frozenset(name for name, cluster in self.clusters.items() if cluster != other.clusters.get(name))

    def groups_of(self, cluster: str, groups: Mapping[str, Group]) -> list[str]:
        """The names of the pools, or of the labels, that a cluster is in."""
        return [name for name, group in groups.items() if any(member.cluster == cluster for member in group.members)]


def build_fleet(
    generation: int,
    definitions: list[Definition],
    states: Mapping[str, ClusterState],
    machines: Mapping[str, Machine] | None = None,
) -> Fleet:
    """The fleet of these definitions; configuration wins over managed definitions of the same name.

    `machines` are those that descriptions tell of, by cluster.
    """
    by_kind: dict[FleetKind, dict[str, Definition]] = {kind: {} for kind in FleetKind}
    shadowed = []
    for definition in sorted(definitions, key=lambda definition: definition.source is Source.MANAGED):
        if definition.name in by_kind[definition.kind]:
            shadowed.append(definition)
        else:
            by_kind[definition.kind][definition.name] = definition
    pools, labels = (
        {name: build_group(definition) for name, definition in sorted(by_kind[kind].items())}
        for kind in (FleetKind.POOL, FleetKind.LABEL)
    )
    declared = by_kind[FleetKind.CLUSTER]
    members = {member.cluster for group in [*pools.values(), *labels.values()] for member in group.members}
    clusters = {
        name: build_cluster(
            declared.get(name) or Definition(kind=FleetKind.CLUSTER, name=name, payload={}, source=Source.NAMED),
            states.get(name) or ClusterState(name=name),
            (machines or {}).get(name),
        )
        for name in sorted({*declared, *members})
    }
    return Fleet(generation=generation, clusters=clusters, pools=pools, labels=labels, shadowed=tuple(shadowed))


def fleet_warnings(fleet: Fleet) -> list[Warning]:
    """Every warning about the definitions of a fleet."""
    undeclared = [
        replace(
            _warn(
                WarningCode.EXPECTED_CLUSTER,
                group.definition,
                _describe_undeclared(fleet.clusters[member.cluster]),
            ),
            missing=((FleetKind.CLUSTER.value,), member.cluster),
        )
        for group in [*fleet.pools.values(), *fleet.labels.values()]
        for member in group.members
        if fleet.clusters[member.cluster].definition.source is Source.NAMED
    ]
    return undeclared + [
        _warn(
            WarningCode.SHADOWED_DEFINITION,
            definition,
            f"Configuration declares the {definition.kind.noun} '{definition.name}' too, and wins. Delete one.",
        )
        for definition in fleet.shadowed
    ]


def _describe_undeclared(cluster: Cluster) -> str:
    if cluster.is_deleted:
        return f"Cluster '{cluster.name}' was deleted; it gets no work until it is defined again."
    return f"Cluster '{cluster.name}' is not declared; it counts as a cluster that is expected to register."


def expected_warnings(
    fleet: Fleet, waiting: Mapping[str, int], naming: Mapping[str, int] | None = None
) -> list[Warning]:
    """A warning of each cluster that is expected and at which executions wait, which `waiting` counts.

    `naming` counts those of them whose requests name the cluster itself, so that no other one can take them.
    """
    return [
        Warning(
            code=WarningCode.UNSEEN_CLUSTER,
            message=f"No agent of cluster '{name}' {cluster.unseen}, and work waits there (executions: "
            f"{waiting[name]}). Start its agent{_other_ways(waiting[name], (naming or {}).get(name, 0))}.",
            kind=FleetKind.CLUSTER.value,
            scope=PLATFORM,
            field="",
            name=name,
        )
        for name, cluster in fleet.clusters.items()
        if cluster.is_expected and waiting.get(name)
    ]


def _other_ways(waiting: int, naming: int) -> str:
    """How what waits at a cluster without an agent gets elsewhere; what names the cluster itself waits for it alone."""
    ways = []
    if waiting > naming:
        ways.append("add a cluster that has one to the pools and labels that the executions were placed by")
    if naming:
        executions = "the executions" if naming == waiting else f"{naming} of the executions"
        ways.append(f"end {executions}, whose requests name the cluster itself, and create them anew")
    return "".join(f", or {way}" for way in ways)


def _warn(code: WarningCode, definition: Definition, message: str) -> Warning:
    return Warning(
        code=code, message=message, kind=definition.kind.value, scope=PLATFORM, field="members", name=definition.name
    )
