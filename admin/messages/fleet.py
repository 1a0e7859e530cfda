"""Clusters, pools and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, cast

from marshmallow import fields, validate
from msgspec import Meta

from admin.core.executions.attempts import attempt_number
from admin.core.fleet.clusters import Health
from admin.core.fleet.definitions import FleetKind, Source
from admin.core.fleet.summaries import off_because
from admin.core.fleet.switches import BY_WORD
from admin.core.placement.capacity import GroupCapacity
from admin.core.provenance import Provenance
from admin.core.resources import format_amounts
from admin.messages.components import definition_name
from admin.messages.executions import ExecutionIdAnswer, ReasonAnswer, phase_since
from admin.messages.previews import (
    EffectCounts,
    Effects,
    IsComplete,
    Notes,
    NotExamined,
    PreviewAnswer,
    Users,
    users_of,
)
from admin.messages.requests import (
    NAME,
    PRINTABLE_LINES,
    AuthorshipFields,
    Duration,
    Fields,
    Flag,
    PageQuery,
    PayloadField,
    RequestSchema,
    WriteQuery,
)
from admin.messages.shared import Answer, Json, ProvenanceAnswer, Time, WarningAnswer, described_as, one_of
from admin.services.changes import Changed
from admin.services.fleet import MOST_EXECUTIONS, ClusterDetails, ClusterView, GroupView
from admin.services.switches import Switched, SwitchedCluster
from admin.store.executions import ListedExecution


class DeleteQuery(WriteQuery):
    force = Flag(load_default=False, metadata={"description": "Delete it although it is in use."})


class ClustersQuery(PageQuery):
    pool = fields.String(validate=NAME)
    label = fields.String(validate=NAME)


#: Clusters that one request may switch.
MOST_SWITCHED = 1000

_DEFINITION_EXAMPLES: dict[FleetKind, Fields] = {
    FleetKind.CLUSTER: {"name": "east", "cost": 3, "capacity": {"cpu": "8", "memory": "32Gi", "gpu": "2"}},
    FleetKind.POOL: {"name": "gpu", "strategy": "spill", "members": [{"id": "east"}, {"id": "local"}]},
    FleetKind.LABEL: {"name": "spare", "members": [{"id": "east", "weight": 1}, {"id": "local", "weight": 3}]},
}


def definition_body(kind: FleetKind) -> type[RequestSchema]:
    """The body that defines a cluster, pool or label."""
    noun = kind.noun
    shape: dict[str, fields.Field[Any]] = {noun: PayloadField(definition_name(noun), required=True)}
    body = cast(type[RequestSchema], AuthorshipFields.from_dict(shape, name=f"{noun.title()}Body"))
    body.example = {noun: _DEFINITION_EXAMPLES[kind]}
    return body


class SwitchBody(RequestSchema):
    example: ClassVar[Fields] = {"reason": "New disks.", "claimed_by": "ada"}

    reason = fields.String(validate=[validate.Length(max=1000), PRINTABLE_LINES])
    claimed_by = fields.String(validate=NAME)


class DrainBody(SwitchBody):
    example: ClassVar[Fields] = {"reason": "New disks.", "deadline": "10m"}

    deadline = Duration(
        metadata={"type": "string", "description": "How long running work may take to finish, such as 10m."}
    )


class SwitchesBody(DrainBody):
    """A switch of several clusters at once."""

    example: ClassVar[Fields] = {"switch": "cordon", "clusters": ["local"], "reason": "New disks."}

    switch = fields.String(required=True, validate=validate.OneOf(list(BY_WORD)))
    clusters = fields.List(
        fields.String(validate=NAME), required=True, validate=validate.Length(min=1, max=MOST_SWITCHED)
    )


class ReportBody(RequestSchema):
    """What a cluster says of itself; the core checks it."""

    example: ClassVar[Fields] = {
        "capacity": {"cpu": "8", "memory": "32Gi"},
        "free": {"cpu": "6", "memory": "20Gi"},
        "eta": "0s",
    }

    capacity = PayloadField("ClusterReport/properties/capacity")
    free = PayloadField("ClusterReport/properties/free")
    eta = fields.Raw(metadata={"type": "string"})
    plugins = fields.Raw(metadata={"type": "array", "items": {"type": "string"}})
    engine = fields.Raw(metadata={"type": "string"})
    engine_version = fields.Raw(metadata={"type": "string"})
    properties = PayloadField("ClusterReport/properties/properties")


#: By which revision or event something of the fleet came to be as it is.
StatesProvenance = Annotated[
    dict[str, ProvenanceAnswer] | None,
    Meta(
        description="Of its `definition`; of a cluster also of `disabled`, `cordoned` and `draining` while it is so, "
        "and of `deleted` where its definition is gone and pools or labels still name it."
    ),
]


def _states_provenance(provenance: Mapping[str, Provenance]) -> dict[str, ProvenanceAnswer] | None:
    return {state: ProvenanceAnswer.from_attributes(entry) for state, entry in provenance.items()} or None


class MemberAnswer(Answer):
    id: str
    weight: float
    expected: bool


#: Amounts by resource, as people write them.
AmountsAnswer = dict[str, str | int]


class GroupCapacityAnswer(Answer):
    """What the members of a pool or label have together, as far as that is known."""

    capacity: AmountsAnswer
    free: Annotated[
        AmountsAnswer,
        Meta(description="On the able members. What is reported free of a cluster that is silent does not count."),
    ]
    able: Annotated[int, Meta(description="How many members may get work and have been seen.")]
    members: int

    @classmethod
    def from_capacity(cls, capacity: GroupCapacity) -> GroupCapacityAnswer:
        total, free = format_amounts(capacity.total), format_amounts(capacity.free)
        return cls(capacity=total, free=free, able=capacity.able, members=capacity.members)


class GroupAnswer(Answer):
    """A pool or a label."""

    name: str
    members: list[MemberAnswer]
    strategy: str | None = None
    description: str | None = None
    total: GroupCapacityAnswer
    summary: Annotated[str, Meta(description="Which members take work, and why others do not.")]
    source: str
    version: int | None = None
    provenance: StatesProvenance = None

    @classmethod
    def from_view(cls, view: GroupView) -> GroupAnswer:
        group, fleet = view.group, view.fleet
        definition = group.definition
        return cls(
            name=group.name,
            members=[
                MemberAnswer(
                    id=member.cluster,
                    weight=member.weight,
                    expected=fleet.clusters[member.cluster].definition.source is Source.NAMED,
                )
                for member in group.members
            ],
            strategy=group.strategy if definition.kind is FleetKind.POOL else None,
            description=definition.payload.get("description"),
            total=GroupCapacityAnswer.from_capacity(view.capacity),
            summary=view.summary,
            source=definition.source.value,
            version=definition.version,
            provenance=_states_provenance({"definition": view.provenance} if view.provenance else {}),
        )


def _agent_version(report: Mapping[str, Any]) -> str | None:
    """The version that an agent reports among the properties, where any admin accepts it."""
    version = report.get("properties", {}).get("agent_version")
    return version if isinstance(version, str) else None


class ClusterExecutionAnswer(Answer):
    """An execution at a cluster."""

    id: ExecutionIdAnswer
    phase: str
    reason: ReasonAnswer
    attempt: int
    attempt_number: Annotated[int, Meta(description="Those that never began do not count.")]
    phase_since: Annotated[Time, Meta(description="When it came to its phase.")]
    created_at: Time
    started_at: Time | None = None
    lease_expires_at: Time | None = None

    @classmethod
    def from_execution(cls, execution: ListedExecution) -> ClusterExecutionAnswer:
        reason = ReasonAnswer(code=execution.reason, message=execution.reason_message)
        return cls.from_attributes(
            execution,
            id=ExecutionIdAnswer.from_execution(execution),
            reason=reason,
            attempt_number=attempt_number(execution),
            phase_since=phase_since(execution),
        )


class ClusterAnswer(Answer):
    name: str
    summary: Annotated[str, Meta(description="Whether it takes work, and why not, since when and by whom.")]
    takes_work: Annotated[bool, Meta(description="Whether it may get new work, and has been seen.")]
    takes_none_because: Annotated[
        list[str] | None, Meta(description="What keeps work away: `draining`, `lost`, `expected` and the like.")
    ] = None
    endpoint: str | None = None
    auth: Json | None = None
    enabled: bool
    cordoned: bool
    cordon_reason: str | None = None
    draining: bool
    drain_deadline: Time | None = None
    last_sync_at: Time | None = None
    unreachable_since: Annotated[
        Time | None, Meta(description="The last sync of an agent that is silent; absent where it was never heard.")
    ] = None
    unreachable_reason: str | None = None
    agent: Annotated[str | None, Meta(description="The process that synced last.")] = None
    agent_instance: Annotated[str | None, Meta(description="The id of its state directory.")] = None
    agent_host: Annotated[str | None, Meta(description="The machine that it runs on.")] = None
    agent_since: Annotated[Time | None, Meta(description="When this process first synced.")] = None
    agent_version: str | None = None
    leases: int
    state: Annotated[str, one_of("pending", *(health.value for health in Health))]
    cost: float | None = None
    capacity: AmountsAnswer | None = None
    reported_free: Annotated[
        AmountsAnswer | None, Meta(description="What was free by the last report; absent before there is one.")
    ] = None
    assigned: Annotated[
        AmountsAnswer | None, Meta(description="What is taken by what waits there, which no report may have yet.")
    ] = None
    free: Annotated[
        AmountsAnswer | None,
        Meta(description="What is free for new work: the two before; nothing where it takes none."),
    ] = None
    waiting: int
    running: int
    pools: list[str]
    labels: list[str]
    reported_at: Time | None = None
    engine: str | None = None
    engine_version: str | None = None
    plugins: list[str] | None = None
    eta: str | None = None
    properties: Json | None = None
    description: str | None = None
    source: str
    version: int | None = None
    provenance: StatesProvenance = None

    @classmethod
    def from_view(cls, view: ClusterView, **more: object) -> Self:
        cluster = view.cluster
        definition, state = cluster.definition, cluster.state
        payload, report = definition.payload, state.report
        reasons = off_because(cluster)
        reported_free = None if state.reported_at is None else cluster.unused
        return cls(
            name=cluster.name,
            summary=view.summary,
            takes_work=not reasons,
            takes_none_because=reasons or None,
            endpoint=payload.get("endpoint"),
            auth=payload.get("auth"),
            enabled=cluster.enabled,
            cordoned=state.cordoned,
            cordon_reason=state.cordon_reason,
            draining=state.draining,
            drain_deadline=state.drain_deadline,
            last_sync_at=state.last_sync_at,
            unreachable_since=state.last_sync_at if cluster.is_silent else None,
            unreachable_reason=view.silence,
            agent=state.agent,
            agent_instance=state.agent_instance or None,
            agent_host=state.agent_host or None,
            agent_since=state.agent_since,
            agent_version=_agent_version(report),
            leases=view.leases,
            state=cluster.health.value if state.admitted else "pending",
            cost=cluster.cost,
            capacity=None if cluster.capacity is None else format_amounts(cluster.capacity),
            reported_free=None if reported_free is None else format_amounts(reported_free),
            assigned=format_amounts({name: amount for name, amount in view.assigned.items() if amount}) or None,
            free=None if view.free is None else format_amounts(view.free),
            waiting=view.waiting,
            running=view.running,
            pools=view.pools,
            labels=view.labels,
            reported_at=state.reported_at,
            engine=report.get("engine"),
            engine_version=report.get("engine_version"),
            plugins=report.get("plugins"),
            eta=report.get("eta"),
            properties={**payload.get("properties", {}), **report.get("properties", {})} or None,
            description=payload.get("description"),
            source=definition.source.value,
            version=definition.version,
            provenance=_states_provenance(view.provenance),
            **more,
        )


class RecentWaitAnswer(Answer):
    """How long the newest executions that were placed at a cluster waited for their first start."""

    seconds: Annotated[float, Meta(description="From creation to the first start, on average.")]
    executions: Annotated[int, Meta(description="How many have started, of those that were looked at.")]
    examined: Annotated[int, Meta(description="How many were looked at: the newest hundred at most.")]


class ClusterDetailsAnswer(ClusterAnswer):
    """A cluster with its first executions, and with what the pools have that it is in."""

    leased_executions: Annotated[
        list[ClusterExecutionAnswer],
        Meta(description=f"The oldest that its agent has, up to {MOST_EXECUTIONS}; `leases` counts all."),
    ]
    next_executions: Annotated[
        list[ClusterExecutionAnswer],
        Meta(description=f"The first {MOST_EXECUTIONS} that wait and that its agent does not have, in lease order."),
    ]
    by_pool: Annotated[dict[str, GroupCapacityAnswer], Meta(description="By the pools that it is in.")]
    recent_wait: Annotated[
        RecentWaitAnswer | None, Meta(description="Absent where none of its newest executions has started.")
    ] = None

    @classmethod
    def from_details(cls, details: ClusterDetails) -> ClusterDetailsAnswer:
        wait = details.recent_wait
        return cls.from_view(
            details,
            leased_executions=[ClusterExecutionAnswer.from_execution(execution) for execution in details.leased],
            next_executions=[ClusterExecutionAnswer.from_execution(execution) for execution in details.queue],
            by_pool={name: GroupCapacityAnswer.from_capacity(pool) for name, pool in details.by_pool.items()},
            recent_wait=None if wait is None else RecentWaitAnswer(**wait._asdict()),
        )


class ClusterListAnswer(Answer):
    clusters: list[ClusterAnswer]
    token: str | None = None


class PoolListAnswer(Answer):
    pools: list[GroupAnswer]
    token: str | None = None


class LabelListAnswer(Answer):
    labels: list[GroupAnswer]
    token: str | None = None


class WrittenAnswer(Answer):
    """What a write of a definition did."""

    version: int | None = None
    revision: int
    changed: bool
    dry_run: bool
    warnings: list[WarningAnswer]
    users: Users = None
    executions: PreviewAnswer | None = None

    @classmethod
    def from_changed(cls, changed: Changed, **definition: Json | None) -> Self:
        return cls.from_attributes(
            changed,
            users=users_of(changed),
            executions=PreviewAnswer.of(changed),
            version=changed.rows[0].version,
            changed=changed.is_change,
            warnings=[WarningAnswer.from_warning(warning) for warning in changed.warnings],
            **definition,
        )


class ClusterWritten(WrittenAnswer):
    cluster: Annotated[Json | None, described_as("ClusterAnswer", "ClusterDefinition")] = None  # the latter in a plan


class PoolWritten(WrittenAnswer):
    pool: Annotated[Json | None, described_as("GroupAnswer", "PoolDefinition")] = None


class LabelWritten(WrittenAnswer):
    label: Annotated[Json | None, described_as("GroupAnswer", "LabelDefinition")] = None


class SwitchedClusterAnswer(Answer):
    """One of the clusters that were switched together."""

    cluster: ClusterAnswer
    changed: bool
    also_ended: Annotated[
        dict[str, ProvenanceAnswer] | None,
        Meta(description="What else this ends, such as a cordon apart from the drain: the event that began it."),
    ] = None

    @classmethod
    def from_cluster(cls, switched: SwitchedCluster, **more: object) -> Self:
        return cls(
            cluster=ClusterAnswer.from_view(switched.cluster),
            changed=switched.is_change,
            also_ended=_states_provenance(switched.also_ended),
            **more,
        )


class SwitchedAnswer(SwitchedClusterAnswer):
    """A cluster that was switched, or would be."""

    dry_run: bool
    effects: Effects | None = None
    counts: EffectCounts | None = None
    complete: IsComplete | None = None
    not_examined: NotExamined = None
    notes: Notes = None

    @classmethod
    def from_switched(cls, switched: Switched) -> SwitchedAnswer:
        [cluster] = switched.clusters
        return cls.from_cluster(cluster, **_preview_of(switched))


class SwitchedClustersAnswer(Answer):
    """Clusters that were switched together, or would be."""

    clusters: list[SwitchedClusterAnswer]
    changed: bool
    dry_run: bool
    effects: Effects | None = None
    counts: EffectCounts | None = None
    complete: IsComplete | None = None
    not_examined: NotExamined = None
    notes: Notes = None

    @classmethod
    def from_switched(cls, switched: Switched) -> SwitchedClustersAnswer:
        clusters = [SwitchedClusterAnswer.from_cluster(cluster) for cluster in switched.clusters]
        is_change = any(cluster.is_change for cluster in switched.clusters)
        return cls(clusters=clusters, changed=is_change, **_preview_of(switched))


def _preview_of(switched: Switched) -> dict[str, Any]:
    """What a switch does to executions, of a dry run, and what else is to be said of it."""
    if switched.preview is None:
        return {"dry_run": False, "notes": list(switched.notes) or None}
    shown = PreviewAnswer.from_preview(switched.preview)
    return {
        "dry_run": True,
        "effects": shown.effects,
        "counts": shown.counts,
        "complete": shown.complete,
        "not_examined": shown.not_examined,
        "notes": [*switched.notes, *(shown.notes or [])] or None,
    }


class ReportedAnswer(Answer):
    cluster: ClusterAnswer
