"""The fleet: clusters, and the pools and labels that group them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

from admin.core import names
from admin.core.fields import (
    Boolean,
    Choice,
    Duration,
    FreeForm,
    ListOf,
    Number,
    Path,
    Record,
    Section,
    Text,
    read,
)
from admin.core.problems import Invalid, Problem
from admin.core.resources import CLUSTER_RESOURCES, Amounts, available, load


class Strategy(Enum):
    """How a pool chooses among the clusters that are able."""

    WEIGHTED = "weighted"  # by weight alone
    SPILL = "spill"  # in the listed order, the next one when one is full
    LEAST_LOADED = "least-loaded"  # the emptiest first
    CHEAPEST = "cheapest"  # the least cost first
    SOONEST = "soonest"  # the earliest start first

    @property
    def needs_room(self) -> bool:
        """Whether a full cluster is passed over; elsewhere work waits at the cluster itself."""
        return self in (Strategy.SPILL, Strategy.LEAST_LOADED)

    @property
    def looks_at_load(self) -> bool:
        """Whether the choice depends on what clusters run at the moment."""
        return self.needs_room or self is Strategy.SOONEST


class Health(Enum):
    """Whether a cluster's agent comes and asks."""

    EXPECTED = "expected"  # never seen; a candidate like any other
    READY = "ready"
    UNREACHABLE = "unreachable"  # silent for a while: no new work
    LOST = "lost"  # silent for so long that its work is given away


class Source(Enum):
    """Who says that something is part of the fleet."""

    CONFIGURATION = "configuration"  # the admin's own file
    MANAGED = "managed"  # somebody, while the admin runs
    EXPECTED = "expected"  # only a pool or label that names it


_NAME = Text(pattern=names.ENTITY_NAME, rule=names.ENTITY_NAME_RULE, max_length=255)
_DESCRIPTION = Text(max_length=1000, description="For people.")

MEMBERS = ListOf(
    unique=False,
    max_items=10_000,
    description="Clusters and their weights; the order counts for spill.",
    item=Record(
        required=("id",),
        fields={"id": _NAME, "weight": Number(minimum=0, maximum=1e12, description="Share of the work; 0 for none.")},
    ),
)
STRATEGY = Choice(words=tuple(one.value for one in Strategy), description="How a cluster is chosen; weighted.")


class FleetKind(Enum):
    """What can be defined; the value is its name in revisions."""

    CLUSTER = "CLUSTER"
    POOL = "POOL"
    LABEL = "LABEL"

    @property
    def noun(self) -> str:
        return self.value.lower()


DEFINITIONS: Mapping[FleetKind, Section] = {
    FleetKind.CLUSTER: Section(
        fields={
            "endpoint": Text(max_length=2048, description="Where engines and consoles reach the cluster."),
            "auth": Record(
                description="How engines and consoles sign in.",
                fields={"type": Text(), "token_path": Text(), "cert_path": Text()},
            ),
            "enabled": Boolean(description="Whether it takes part at all; true."),
            "cost": Number(minimum=0, maximum=1e12, description="Price of its work, in any unit, for `cheapest`."),
            "capacity": CLUSTER_RESOURCES,
            "properties": FreeForm(description="Anything else worth knowing."),
            "description": _DESCRIPTION,
        }
    ),
    FleetKind.POOL: Section(fields={"members": MEMBERS, "strategy": STRATEGY, "description": _DESCRIPTION}),
    FleetKind.LABEL: Section(fields={"members": MEMBERS, "description": _DESCRIPTION}),
}

#: What a cluster's agent says of it.
REPORT = Section(
    fields={
        "capacity": CLUSTER_RESOURCES,
        "free": CLUSTER_RESOURCES,
        "eta": Duration(zero=True, description="How long new work would wait to start; 0s for not at all."),
        "plugins": ListOf(item=Text(max_length=255), min_items=0, description="Plugins that its agent offers."),
        "engine": Text(max_length=64),
        "engine_version": Text(max_length=255),
        "properties": FreeForm(),
    }
)


#: What a cluster says that changes all the time, and matters only to pools that look at load.
_LOAD = frozenset({"free", "eta"})


def is_load_alone(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether two reports differ in nothing but how busy the cluster is."""
    return all(before.get(name) == after.get(name) for name in {*before, *after} - _LOAD)


def read_definition(kind: FleetKind, name: str, payload: Any) -> dict[str, Any]:
    """A definition in its normal form; Invalid with every problem in it."""
    normal: dict[str, Any] = read(DEFINITIONS[kind], payload)
    normal = {key: value for key, value in normal.items() if value is not None}
    if not names.is_entity_name(name):
        raise Invalid(Problem(field="name", reason=f"is not a {kind.noun}'s name: use {names.ENTITY_NAME_RULE}."))
    if kind is FleetKind.CLUSTER:
        return normal
    if "members" not in normal:
        raise Invalid(Problem(field="members", reason=f"is missing: a {kind.noun} is a list of clusters."))
    problems = list(member_problems(normal["members"], ("members",)))
    if problems:
        raise Invalid(*problems)
    normal["members"] = [{"id": one["id"], "weight": one.get("weight", 1)} for one in normal["members"]]
    return normal


def member_problems(members: list[dict[str, Any]], path: Path) -> Iterator[Problem]:
    """Lists that nothing could be drawn from: a cluster twice, no weight above zero."""
    where = ".".join(path)
    ids = [member["id"] for member in members]
    for twice in sorted({one for one in ids if ids.count(one) > 1}):
        yield Problem(field=where, reason=f"the cluster '{twice}' is listed twice.")
    if not any(member.get("weight", 1) for member in members):
        yield Problem(field=where, reason="every weight is 0: nothing could ever be chosen.")


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One cluster, pool or label as somebody defined it."""

    kind: FleetKind
    name: str
    payload: dict[str, Any]
    source: Source
    version: int | None = None  #: number of the last revision that changed it, None for configuration


class Member(NamedTuple):
    """A cluster in a pool or label."""

    cluster: str
    weight: float


@dataclass(frozen=True, kw_only=True)
class Group:
    """A pool or a label: clusters to choose from."""

    definition: Definition
    members: tuple[Member, ...]
    strategy: Strategy = Strategy.WEIGHTED

    @property
    def name(self) -> str:
        return self.definition.name


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """What has happened to a cluster, and what it last said of itself."""

    name: str
    enabled: bool | None = None  #: None for what its definition says
    cordoned: bool = False
    cordon_reason: str | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    reported_at: datetime | None = None
    health: str = Health.EXPECTED.value
    admitted: bool = True  #: False for a new name that waits for an operator
    draining: bool = False
    drain_deadline: datetime | None = None
    last_sync_at: datetime | None = None
    agent: str | None = None  #: the process that synced last


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A place that runs work, as placement sees it."""

    definition: Definition
    state: ClusterState
    capacity: Amounts | None  #: None where nobody has said
    free: Amounts | None  #: as last reported

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def enabled(self) -> bool:
        if self.state.enabled is not None:
            return self.state.enabled
        return bool(self.definition.payload.get("enabled", True))

    @property
    def cordoned(self) -> bool:
        return self.state.cordoned

    @property
    def health(self) -> Health:
        if self.state.health == Health.EXPECTED.value and self.state.reported_at is not None:
            return Health.READY  # somebody reported for it by hand
        return Health(self.state.health)

    @property
    def is_reachable(self) -> bool:
        return self.health in (Health.EXPECTED, Health.READY)

    @cached_property
    def unused(self) -> Amounts | None:
        """What was free when it was last asked, and all of what it did not speak of; None where nobody has said."""
        if self.free is None and self.capacity is None:
            return None
        return {**(self.capacity or {}), **(self.free or {})}

    @cached_property
    def load(self) -> float | None:
        """How full it was when it was last asked, from 0 to 1; None where nobody has said."""
        return None if self.capacity is None or self.unused is None else load(self.capacity, self.unused)

    @cached_property
    def standing(self) -> tuple[str, str, str]:
        """Why it gets nothing, whatever is to run: disabled, cordoned, out of reach; "" for each that it is not."""
        return "" if self.enabled else "is disabled", self._cordon(), self._out_of_reach()

    @cached_property
    def is_able(self) -> bool:
        """Whether it may get something at all."""
        return not any(self.standing)

    def _cordon(self) -> str:
        if not self.cordoned:
            return ""
        what = "is draining" if self.state.draining else "is cordoned"
        return f"{what} ({self.state.cordon_reason})" if self.state.cordon_reason else what

    def _out_of_reach(self) -> str:
        if not self.state.admitted:
            return "waits to be admitted"
        return "" if self.is_reachable else f"is {self.health.value}"

    @property
    def cost(self) -> float | None:
        return self.definition.payload.get("cost")

    def as_of(self, state: ClusterState) -> Cluster:
        """The same cluster with another state."""
        return _cluster(self.definition, state)

    @property
    def plugins(self) -> tuple[str, ...] | None:
        """The plugins its agent offers, None before it has said."""
        return tuple(self.state.report["plugins"]) if "plugins" in self.state.report else None


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Everything that work can be placed on, at one moment."""

    number: int  #: counts the changes of the fleet
    clusters: Mapping[str, Cluster]
    pools: Mapping[str, Group]
    labels: Mapping[str, Group]
    shadowed: tuple[Definition, ...] = ()  #: managed ones that configuration defines as well, and wins

    def label(self, name: str) -> Group | None:
        """A label; a cluster's own name is one too, unless somebody defined that name."""
        if name in self.labels or name not in self.clusters:
            return self.labels.get(name)
        definition = Definition(
            kind=FleetKind.LABEL, name=name, payload={}, source=self.clusters[name].definition.source
        )
        return Group(definition=definition, members=(Member(cluster=name, weight=1),))

    def label_names(self) -> frozenset[str]:
        return frozenset(self.labels) | frozenset(self.clusters)

    def looks_at_load_of(self, cluster: str) -> bool:
        """Whether some choice depends on how busy a cluster is."""
        return any(self.pools[name].strategy.looks_at_load for name in self.groups_of(cluster, self.pools))

    def groups_of(self, cluster: str, groups: Mapping[str, Group]) -> list[str]:
        """The names of the pools, or of the labels, that a cluster is in."""
        return [name for name, group in groups.items() if any(one.cluster == cluster for one in group.members)]


def build_fleet(number: int, definitions: list[Definition], states: Mapping[str, ClusterState]) -> Fleet:
    """The fleet that some definitions make; what configuration declares goes before what is managed."""
    chosen: dict[tuple[FleetKind, str], Definition] = {}
    shadowed = []
    for one in sorted(definitions, key=lambda one: one.source is Source.MANAGED):
        if (one.kind, one.name) in chosen:
            shadowed.append(one)
        else:
            chosen[one.kind, one.name] = one
    pools = {name: _group(one) for (kind, name), one in sorted(chosen.items(), key=_key) if kind is FleetKind.POOL}
    labels = {name: _group(one) for (kind, name), one in sorted(chosen.items(), key=_key) if kind is FleetKind.LABEL}
    declared = {name: one for (kind, name), one in chosen.items() if kind is FleetKind.CLUSTER}
    members = {one.cluster for group in [*pools.values(), *labels.values()] for one in group.members}
    clusters = {
        name: _cluster(declared.get(name) or _expected(name), states.get(name) or ClusterState(name=name))
        for name in sorted({*declared, *members})
    }
    return Fleet(number=number, clusters=clusters, pools=pools, labels=labels, shadowed=tuple(shadowed))


def _key(item: tuple[tuple[FleetKind, str], Definition]) -> str:
    return item[0][1]


def _group(definition: Definition) -> Group:
    members = tuple(
        Member(cluster=one["id"], weight=one.get("weight", 1)) for one in definition.payload.get("members", [])
    )
    strategy = Strategy(definition.payload.get("strategy", Strategy.WEIGHTED.value))
    return Group(definition=definition, members=members, strategy=strategy)


def _expected(name: str) -> Definition:
    return Definition(kind=FleetKind.CLUSTER, name=name, payload={}, source=Source.EXPECTED)


def _cluster(definition: Definition, state: ClusterState) -> Cluster:
    """What the agent reports counts for more than what somebody once declared."""
    capacity = {**definition.payload.get("capacity", {}), **state.report.get("capacity", {})}
    free = state.report.get("free")
    return Cluster(
        definition=definition,
        state=state,
        capacity=available(capacity) if capacity else None,
        free=available(free) if free is not None else None,
    )
