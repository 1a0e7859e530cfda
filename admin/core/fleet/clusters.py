"""Clusters: a definition and the state that goes with it, and what its agent reports of it at each sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Any

from admin.core.fields.branches import MapOf, Section, read
from admin.core.fields.compounds import FreeForm, ListOf, Record
from admin.core.fields.leaves import Boolean, Duration, Text
from admin.core.fleet.definitions import Definition, Source
from admin.core.graph.machines import Machine
from admin.core.graph.rooms import Room, used_of
from admin.core.json_text import JsonObject
from admin.core.problems import invalid, quoted
from admin.core.resources import CLUSTER_RESOURCES, TASK_RESOURCES, Amounts, occupied, parse_capacity, utilization

#: Nodes that a report may tell of.
MOST_NODES = 10_000

REPORT = Section(
    fields={
        "capacity": CLUSTER_RESOURCES,
        "free": CLUSTER_RESOURCES,
        "eta": Duration(zero=True, description="How long new work would wait to start; 0s for not at all."),
        "plugins": ListOf(item=Text(max_length=255), min_items=0, description="Plugins that its agent offers."),
        "engine": Text(max_length=64),
        "engine_version": Text(max_length=255),
        "problem": Text(max_length=4000, description="Why its agent cannot use its engine now, in the engine's words."),
        "properties": FreeForm(),
        "nodes": MapOf(
            value=Record(
                fields={**TASK_RESOURCES, "closed": Boolean(description="Whether it takes no jobs now.")},
                nullable=False,
            ),
            max_entries=MOST_NODES,
            description="What is free of each node, by name; one that is left out is free as a whole.",
        ),
        "waits_for": Text(
            max_length=4000, description="Why its agent does not start what it has, and takes nothing more."
        ),
        "queued": MapOf(
            value=Text(max_length=4000, nullable=False),
            description="Why executions wait in its engine, in the engine's words, by the `uid` of each.",
        ),
    }
)


def read_report(report: object) -> dict[str, Any]:
    """A report in its normal form, without fields that are null; Invalid with every problem."""
    if not isinstance(report, Mapping):
        raise invalid("report", f"{quoted(report)} is not a mapping: give fields such as capacity, or leave it out.")
    fields = {key: value for key, value in read(REPORT, report).items() if value is not None}
    # That no node is in use or closed is said by an empty mapping, which reading leaves out.
    tells_nodes = report.get("nodes") == {}
    return {**fields, "nodes": {}} if tells_nodes else fields


def updated_report(before: Mapping[str, Any], report: Mapping[str, Any]) -> Mapping[str, Any]:
    """A report with what is known from the one before, where its agent could ask its engine for nothing."""
    return {**before, **report} if "problem" in report and "capacity" not in report else report


def eta_of(report: Mapping[str, Any], free: Amounts | None) -> str | None:
    """How long new work would wait to start, as reported; None where it waits for a slot first.

    `free` is what is free for new work, since the report knows nothing of what waits.
    """
    return None if free is not None and free.get("executions", 1) <= 0 else report.get("eta")


#: Fields that change with every job, and matter only to strategies that look at load.
_LOAD_FIELDS = frozenset({"free", "eta", "nodes", "waits_for", "queued"})


def differs_only_in_load(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether two reports differ in nothing but how busy the cluster is."""
    return all(before.get(name) == after.get(name) for name in {*before, *after} - _LOAD_FIELDS)


#: The type of the event of a report, which agents make at each change of their load.
REPORTED = "REPORTED"
#: The types of events by which operators switch a cluster.
SWITCHES = frozenset({"ENABLED", "DISABLED", "CORDONED", "UNCORDONED", "DRAINING", "UNDRAINED", "ADMITTED"})


#: The type of the event of a cluster that is deleted, which ends every state.
DELETED = "DELETED"
#: The type of the event of an agent that registers, which is who it is by.
REGISTERED, BY_AGENT = "REGISTERED", "its agent"
#: The type of the event of a new description of a cluster, by its agent or an operator.
DESCRIBED = "DESCRIBED"
#: The types of events that operators cause.
BY_OPERATORS = SWITCHES | {DELETED}
#: The types of events that put a cluster into a state, its own first; the last of them did.
STATE_EVENTS = {"disabled": ("DISABLED",), "cordoned": ("CORDONED", "DRAINING"), "draining": ("DRAINING",)}
#: The types of events that end a state.
END_EVENTS = {
    "disabled": ("ENABLED", DELETED),
    "cordoned": ("UNCORDONED", "UNDRAINED", DELETED),
    "draining": ("UNCORDONED", "UNDRAINED", DELETED),
}
#: The types of events that belong to no cluster: executions were decided again, and what was over is deleted.
REDECIDED, PRUNED = "REDECIDED", "PRUNED"


class Health(Enum):
    """Whether a cluster's agent syncs."""

    EXPECTED = "expected"  # never seen: chosen only where no cluster that has been seen could run the job
    READY = "ready"
    UNREACHABLE = "unreachable"  # silent for a while: no new work
    LOST = "lost"  # silent for so long that its work is given to other clusters


#: The types of events by which the health of a cluster changed, by that health.
HEALTH_EVENTS = {health.value: health.value.upper() for health in (Health.READY, Health.UNREACHABLE, Health.LOST)}
#: The types of the events of another agent that serves a cluster, and of a database that was restored and reconciled.
AGENT_CHANGED, DATABASE_RESTORED, RECONCILED = "AGENT_CHANGED", "RESTORED", "RECONCILED"
#: The types of all events but reports.
EVENT_TYPES = (
    *sorted(SWITCHES),
    *(REGISTERED, DESCRIBED, DELETED, *HEALTH_EVENTS.values()),
    *(AGENT_CHANGED, DATABASE_RESTORED, RECONCILED, REDECIDED, PRUNED),
)
#: The health of clusters whose agent has been seen and does not sync any more.
SILENT = (Health.UNREACHABLE.value, Health.LOST.value)


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """What operators and the agent have done to a cluster, and the agent's last report."""

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
    agent_instance: str = ""  #: the id of its state directory; "" for an agent that sends none
    agent_host: str = ""  #: the machine that it runs on, as it says
    agent_since: datetime | None = None  #: when this process first synced
    can_bid: bool = False  #: whether its agent answers questions for bids
    syncs: int = 0  #: how many syncs were stored
    ending: Sequence[JsonObject] = ()  #: attempts that its agent was told to end, and still had at its last sync
    #: The open questions that its agent's process was told, each with the position of the answer that told it.
    asked: Mapping[str, int] = field(default_factory=dict)
    description: str | None = None  #: the digest of its description; None where it has none

    @property
    def was_deleted(self) -> bool:
        """Whether the cluster was deleted since its agent synced last: all but when and how often it did is reset."""
        return self.agent is None and (self.syncs > 0 or self.is_of_deleted)

    @property
    def has_unreported_agent(self) -> bool:
        """Whether an agent syncs of which no report is stored: it reports on change, and may have done so before."""
        return self.agent is not None and self.reported_at is None

    @property
    def is_of_deleted(self) -> bool:
        """Whether it is what `deleted` leaves: nothing else makes a cluster lost that has no agent."""
        return self.agent is None and self.health == Health.LOST.value

    def deleted(self) -> ClusterState:
        """The state of a cluster once it is deleted and pools or labels still name it, or its agent has work."""
        return ClusterState(
            name=self.name,
            admitted=self.admitted,
            last_sync_at=self.last_sync_at,
            syncs=self.syncs,
            health=Health.LOST.value,
        )

    @property
    def switches(self) -> tuple[bool, bool, bool]:
        """What operators have switched: whether it is admitted, cordoned, draining."""
        return self.admitted, self.cordoned, self.draining

    @property
    def takes_work(self) -> bool:
        """Whether nothing that operators have switched keeps new work away."""
        return self.switches == (True, False, False)


#: What a report names that tells of machines; agents leave out what these do not have.
_MACHINE_RESOURCES = frozenset({"cpu", "memory"})


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A place that runs work; never changed, so that what follows from its fields is worked out once."""

    definition: Definition
    state: ClusterState
    capacity: Amounts | None  #: None where it is unknown
    free: Amounts | None  #: as last reported
    switched_by: Mapping[str, str] = field(default_factory=dict)  #: who switched it off, by state, where that is told
    #: What its description says that it has; its digest is part of the state, so that this need not be compared.
    machine: Machine | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.definition.name

    @cached_property
    def is_expected(self) -> bool:
        """Whether neither an agent of it nor a report by hand has been seen, ever or since it was deleted."""
        return self.health is Health.EXPECTED

    @property
    def awaits_agent(self) -> bool:
        """Whether it is expected and admitted, so that only an agent is missing for it to take work."""
        return self.is_expected and self.state.admitted

    @property
    def unseen(self) -> str:
        """What no agent of a cluster that is expected has: ever been seen, or since the cluster was deleted."""
        return "has been seen since it was deleted" if self.state.was_deleted else "has ever been seen"

    @property
    def why_expected(self) -> str:
        return f"no agent of it {self.unseen}"

    @cached_property
    def enabled(self) -> bool:
        if self.state.enabled is not None:
            return self.state.enabled
        return bool(self.definition.payload.get("enabled", True))

    @cached_property
    def health(self) -> Health:
        if self.state.health == Health.EXPECTED.value and self.state.reported_at is not None:
            return Health.READY  # a report was written by hand, without an agent
        return Health(self.state.health)

    @cached_property
    def is_reachable(self) -> bool:
        return self.health in (Health.EXPECTED, Health.READY)

    @cached_property
    def is_deleted(self) -> bool:
        """Whether it was deleted, and pools or labels still name it; a cluster that was never defined is expected."""
        return self.state.is_of_deleted and self.definition.source is Source.NAMED

    @property
    def is_silent(self) -> bool:
        """Whether its agent has been seen and does not sync any more."""
        return not self.is_reachable

    @cached_property
    def is_able(self) -> bool:
        """Whether it may get work: enabled, admitted, not cordoned, and its agent is not silent."""
        return self.enabled and self.state.takes_work and self.is_reachable

    @cached_property
    def off_because(self) -> str:
        """What keeps work away from it, such as `disabled` or `cordoned,lost`; "" where nothing does."""
        states = {
            "disabled": not self.enabled,
            "draining": self.state.draining,
            "cordoned": self.state.cordoned and not self.state.draining,
            "pending": not self.state.admitted,
            "deleted" if self.is_deleted else self.health.value: not self.is_reachable,
        }
        return ",".join(state for state, applies in states.items() if applies)

    @cached_property
    def has_no_gpu(self) -> bool:
        """Whether its machines were reported without any gpu, and its definition has none either."""
        reported = self.state.report.get("capacity", {})
        return "gpu" not in (self.capacity or {}) and not _MACHINE_RESOURCES.isdisjoint(reported)

    @cached_property
    def unused(self) -> Amounts | None:
        """The free amounts of the last report; None where neither they nor the capacity are known.

        Of what it leaves out, the capacity counts, less what it says that is in use of single nodes.
        """
        if self.free is None and self.capacity is None:
            return None
        free, capacity = self.free or {}, self.capacity or {}
        nodes: Mapping[str, Mapping[str, Any]] = self.state.report.get("nodes", {})
        told = {name for node in nodes.values() for name in node or ()}  # earlier versions took nodes that are null
        if self.machine is None or (free and told <= {*free, "closed"}):
            return {**capacity, **free}
        used = used_of(self.machine, nodes)
        has = {**self.machine.totals, **capacity}
        left = {name: min(has[name], self.machine.totals[name] - amount) for name, amount in used.items()}
        return {**capacity, **left, **free}

    @cached_property
    def tells_use(self) -> bool:
        """Whether how much is in use can be known: of a cluster that is described alone nobody has said anything."""
        is_reported = not {"capacity", "free", "nodes"}.isdisjoint(self.state.report)
        return is_reported or bool(self.definition.payload.get("capacity"))

    @property
    def tells_nodes(self) -> bool:
        """Whether its description and its last report tell of single nodes."""
        return self.machine is not None and "nodes" in self.state.report

    @cached_property
    def room(self) -> Room | None:
        """What was free of its nodes at the last report; None where that is not told."""
        return Room(self.machine, self.state.report["nodes"]) if self.machine and self.tells_nodes else None

    @cached_property
    def utilization(self) -> float | None:
        """How full it was at the last report, from 0 to 1; None where that is unknown."""
        if self.capacity is None or self.unused is None or not self.tells_use:
            return None
        return utilization(self.capacity, self.unused)

    @cached_property
    def outranked_capacity(self) -> Amounts:
        """What its definition has of its capacity where the report of its agent, which counts, says otherwise."""
        reported = parse_capacity(self.state.report.get("capacity", {}))
        declared = parse_capacity(self.definition.payload.get("capacity", {}))
        return {resource: amount for resource, amount in declared.items() if reported.get(resource, amount) != amount}

    def with_state(self, state: ClusterState) -> Cluster:
        """The same cluster in another state; amounts are read again only if the report is another one."""
        if state is self.state:
            return self
        machine = self.machine if state.description == self.state.description else None
        if state.report == self.state.report and machine is self.machine:
            return replace(self, state=state)
        return build_cluster(self.definition, state, machine)

    def takes(self, demand: Amounts, *, exclusive: bool, asks_graph: bool) -> Amounts:
        """What a demand takes of it.

        Where places on its nodes are looked for too, one by one, an exclusive job takes of the sums what its nodes have
        at least: which of them it gets is not known, and their average may be more than some of them have.
        """
        of_node = self.machine.of_node if exclusive and asks_graph and self.machine and self.tells_nodes else None
        return occupied(demand, self.capacity or {}, exclusive=exclusive, of_node=of_node)

    @property
    def cost(self) -> float | None:
        return self.definition.payload.get("cost")

    @property
    def has_cluster_resources(self) -> bool:
        """Whether its agent makes the namespaces of projects."""
        return bool(self.definition.payload.get("cluster_resources"))

    @cached_property
    def properties(self) -> Mapping[str, Any]:
        """What is known of it beside its resources; its definition outranks what its agent reports."""
        return {**self.state.report.get("properties", {}), **self.definition.payload.get("properties", {})}

    @property
    def plugins(self) -> tuple[str, ...] | None:
        """The plugins its agent offers, None before it has reported any."""
        return tuple(self.state.report["plugins"]) if "plugins" in self.state.report else None


def build_cluster(definition: Definition, state: ClusterState, machine: Machine | None = None) -> Cluster:
    """A cluster of a definition and a state; the reported capacity overrides the declared one.

    Neither is more than the description has, which tells what neither says.
    """
    sizes = {**definition.payload.get("capacity", {}), **state.report.get("capacity", {})}
    capacity, free = parse_capacity(sizes), state.report.get("free")
    described = {} if machine is None else machine.totals
    if described:
        # Without any node a description is of one machine, of whose nodes it tells nothing.
        described = {name: total for name, total in described.items() if total or name != "nodes"}
        has = {resource: total for resource, total in described.items() if total}
        capacity = {**has, **_bounded(capacity, described)}
    return Cluster(
        definition=definition,
        state=state,
        capacity=capacity if capacity or sizes else None,
        free=None if free is None else _bounded(parse_capacity(free), {**described, **capacity}),
        machine=machine,
    )


def _bounded(amounts: Amounts, most: Amounts) -> dict[str, int]:
    """Some amounts, none of them above what there is at most."""
    return {resource: min(amount, most.get(resource, amount)) for resource, amount in amounts.items()}


def why_unreachable(cluster: Cluster, *, has_token: bool) -> str | None:
    """Why a cluster is silent, as far as the admin can tell; None where it is not."""
    if not cluster.is_silent:
        return None
    state = cluster.state
    agent = f"Its agent on {state.agent_host}" if state.agent_host else "Its agent"
    if cluster.is_deleted:
        return f"{agent} is refused since the cluster was deleted: define and register it again."
    if not has_token:
        return f"{agent} does not sync, and none of its tokens is valid: `rainbowctl rotate token {cluster.name}`."
    return f"{agent} does not sync: it has ended, or cannot reach the admin."
