"""Clusters: what they have, what they run, and the reports of their state."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from marshmallow import fields
from marshmallow.validate import Length, OneOf
from msgspec import Meta

from admin.core.executions.attempts import attempts_begun
from admin.core.executions.lifecycle import Phase, phase_began_at
from admin.core.fleet.clusters import ClusterState, Health, eta_of
from admin.core.fleet.report_checks import doubts_of
from admin.core.fleet.summaries import off_because, taken_up
from admin.core.resources import format_amounts
from admin.core.settings.warnings import WarningCode
from admin.messages.bids import BidRecordAnswer
from admin.messages.definitions import DefinitionsPageQuery
from admin.messages.effective import FieldEffectAnswer
from admin.messages.executions import ExecutionIdAnswer, ReasonAnswer
from admin.messages.groups import AmountsAnswer, GroupCapacityAnswer
from admin.messages.requests import NAME, Fields, Flag, PayloadField, RequestSchema
from admin.messages.shared import (
    Answer,
    Json,
    NoticeAnswer,
    ProvenanceAnswer,
    StatesProvenance,
    Time,
    VersionPruned,
    is_pruned,
    one_of,
)
from admin.services.description_views import DescriptionView
from admin.services.fleet import MOST_EXECUTIONS, ClusterDetails, ClusterView, Outlook
from admin.store.executions import ListedExecution

#: What the state of a cluster is, before what operators have decided about it.
STATES = ("pending", *(health.value for health in Health))
#: The states into which operators switch clusters.
_SWITCHED = ("disabled", "cordoned", "draining")
_MOST_SEARCHED = 253


class ClustersQuery(DefinitionsPageQuery):
    pool = fields.String(validate=NAME)
    label = fields.String(validate=NAME)
    search = fields.String(
        load_default="", validate=Length(max=_MOST_SEARCHED), metadata={"description": "A part of the name."}
    )
    state = fields.String(
        validate=OneOf((*STATES, *_SWITCHED)),
        metadata={"description": "Only those in this state, be it by their agents or because of an operator."},
    )
    takes_work = Flag(metadata={"description": "Only those that may get new work, or may not."})


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
    problem = fields.Raw(metadata={"type": "string"})
    properties = PayloadField("ClusterReport/properties/properties")
    nodes = PayloadField("ClusterReport/properties/nodes")
    waits_for = fields.Raw(metadata={"type": "string"})
    queued = PayloadField("ClusterReport/properties/queued")


def _agent_version(state: ClusterState) -> str | None:
    """The version that an agent reports among the properties, where any admin accepts it."""
    version = state.report.get("properties", {}).get("agent_version")
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
    not_before: Annotated[Time | None, Meta(description="When its next attempt may start.")] = None
    ends_by: Annotated[
        Time | None, Meta(description="When its time limit or a drain ends it at the latest, where it runs.")
    ] = None
    outlook: Annotated[str | None, Meta(description="What becomes of it, where it runs.")] = None

    @classmethod
    def from_execution(cls, execution: ListedExecution, outlook: Outlook | None = None) -> ClusterExecutionAnswer:
        reason = ReasonAnswer(code=execution.reason, message=execution.reason_message)
        return cls.from_attributes(
            execution,
            id=ExecutionIdAnswer.from_execution(execution),
            reason=reason,
            attempt_number=attempts_begun(execution),
            phase_since=phase_began_at(execution),
            not_before=execution.not_before if execution.phase == Phase.QUEUED.value else None,
            ends_by=outlook and outlook.ends_by,
            outlook=outlook and outlook.message,
        )


#: Fields of a cluster's answer that its state, definition and last report have by the same names.
_OF_STATE = (
    *("cordoned", "cordon_reason", "draining", "drain_deadline"),
    *("last_sync_at", "agent", "agent_since", "reported_at"),
)
_OF_DEFINITION = ("endpoint", "auth", "description", "cluster_resources")
_OF_REPORT = ("engine", "engine_version", "plugins", "problem", "waits_for")


class ClusterAnswer(Answer):
    name: str
    summary: Annotated[str, Meta(description="Whether it takes work, and why not, since when and by whom.")]
    takes_work: Annotated[bool, Meta(description="Whether it may get new work, and has been seen.")]
    takes_none_because: Annotated[
        list[str] | None, Meta(description="What keeps work away: `draining`, `lost`, `expected` and the like.")
    ] = None
    full: Annotated[
        list[str] | None, Meta(description="The resources of which nothing is free, where it takes work.")
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
    state: Annotated[str, one_of(*STATES)]
    cost: float | None = None
    cluster_resources: Annotated[
        bool | None, Meta(description="Whether its agent makes the namespaces of projects from templates.")
    ] = None
    capacity: AmountsAnswer | None = None
    reported_free: Annotated[
        AmountsAnswer | None, Meta(description="What was free by the last report; absent before there is one.")
    ] = None
    assigned: Annotated[
        AmountsAnswer | None,
        Meta(
            description="What is taken by what waits there, which no report may have yet; before the first report, by "
            "what runs there too."
        ),
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
    problem: Annotated[
        str | None, Meta(description="Why its agent cannot use its engine now, and takes nothing new meanwhile.")
    ] = None
    eta: Annotated[
        str | None, Meta(description="How long new work would wait to start; absent where no slot is free for it.")
    ] = None
    waits_for: Annotated[
        str | None, Meta(description="Why its agent does not start what it has, and takes nothing more.")
    ] = None
    bids: Annotated[
        BidRecordAnswer | None, Meta(description="How good its bids were; absent where none has been compared.")
    ] = None
    properties: Json | None = None
    description: str | None = None
    source: str
    version: int | None = None
    provenance: StatesProvenance = None
    version_pruned: VersionPruned = None

    @classmethod
    def from_view(cls, view: ClusterView, **more: object) -> Self:
        cluster = view.cluster
        definition, state = cluster.definition, cluster.state
        payload, report = definition.payload, state.report
        reasons = off_because(cluster)
        reported_free = None if state.reported_at is None else cluster.unused
        return cls.from_attributes(
            view,
            **{name: getattr(state, name) for name in _OF_STATE},
            **{name: payload.get(name) for name in _OF_DEFINITION},
            **{name: report.get(name) for name in _OF_REPORT},
            eta=eta_of(report, view.free),
            name=cluster.name,
            takes_work=not reasons,
            takes_none_because=reasons or None,
            full=(taken_up(cluster.capacity, view.free) or None) if not reasons else None,
            enabled=cluster.enabled,
            unreachable_since=state.last_sync_at if cluster.is_silent else None,
            unreachable_reason=view.silence,
            agent_instance=state.agent_instance or None,
            agent_host=state.agent_host or None,
            agent_version=_agent_version(state),
            state=cluster.health.value if state.admitted else "pending",
            cost=cluster.cost,
            capacity=None if cluster.capacity is None else format_amounts(cluster.capacity),
            reported_free=None if reported_free is None else format_amounts(reported_free),
            assigned=format_amounts({name: amount for name, amount in view.assigned.items() if amount}) or None,
            free=None if view.free is None else format_amounts(view.free),
            bids=view.bid_record and BidRecordAnswer.from_record(view.bid_record),
            properties={**payload.get("properties", {}), **report.get("properties", {})} or None,
            source=definition.source.value,
            version=definition.version,
            provenance=ProvenanceAnswer.by_state(view.provenance),
            version_pruned=is_pruned(definition.version, view.provenance.get("definition")),
            **more,
        )


class RecentWaitAnswer(Answer):
    """How long the newest executions that were placed at a cluster waited for their first start."""

    seconds: Annotated[float, Meta(description="From creation to the first start, on average.")]
    executions: Annotated[int, Meta(description="How many started there first, of those that were looked at.")]
    examined: Annotated[int, Meta(description="How many were looked at: the newest hundred at most.")]


class ClusterDescribedAnswer(Answer):
    """The newest revision of a cluster's description."""

    revision: int
    at: Time
    author: str
    by_agent: Annotated[bool, Meta(description="Whether the cluster's agent sent it.")]
    removed: Annotated[bool | None, Meta(description="Whether the description was removed by it.")] = None
    differences: Annotated[list[str], Meta(description="In what it differs from the revision before.")]

    @classmethod
    def from_view(cls, view: DescriptionView) -> ClusterDescribedAnswer:
        revision = view.revision
        return cls.from_attributes(
            revision,
            revision=revision.number,
            removed=revision.digest is None or None,
            differences=list(view.differences),
        )


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
    waiting_for_it: Annotated[
        list[ClusterExecutionAnswer],
        Meta(description=f"The first {MOST_EXECUTIONS} that wait without a cluster and whose requests name this one."),
    ]
    by_pool: Annotated[dict[str, GroupCapacityAnswer], Meta(description="By the pools that it is in.")]
    report_warnings: Annotated[
        list[str] | None, Meta(description="What its last report says that cannot be so, and does not count.")
    ] = None
    recent_wait: Annotated[
        RecentWaitAnswer | None, Meta(description="Absent where none of its newest executions started there first.")
    ] = None
    ignored_settings: Annotated[
        dict[str, list[FieldEffectAnswer]] | None,
        Meta(
            description="By kind, the fields of settings that its engine does nothing with; absent before its agent "
            "has reported its engine, and of an engine of your own."
        ),
    ] = None
    lost_at: Annotated[
        Time | None, Meta(description="When it counts as lost if its agent stays silent; absent once it does.")
    ] = None
    when_lost: Annotated[
        str | None, Meta(description="The same in words, and what becomes of its executions then.")
    ] = None

    described: Annotated[
        ClusterDescribedAnswer | None, Meta(description="Absent where there never was a description.")
    ] = None

    @classmethod
    def from_details(cls, details: ClusterDetails) -> ClusterDetailsAnswer:
        wait = details.recent_wait
        return cls.from_view(
            details,
            leased_executions=[
                ClusterExecutionAnswer.from_execution(execution, details.outlooks.get(execution.id))
                for execution in details.leased
            ],
            next_executions=[ClusterExecutionAnswer.from_execution(execution) for execution in details.queue],
            waiting_for_it=[ClusterExecutionAnswer.from_execution(execution) for execution in details.waiting_for],
            by_pool={name: GroupCapacityAnswer.from_capacity(pool) for name, pool in details.by_pool.items()},
            report_warnings=doubts_of(details.cluster) or None,
            recent_wait=None if wait is None else RecentWaitAnswer(**wait._asdict()),
            ignored_settings=FieldEffectAnswer.by_kind(details.ignored_settings or {}),
            described=details.described and ClusterDescribedAnswer.from_view(details.described),
            lost_at=details.loss and details.loss.at,
            when_lost=details.loss and details.loss.message,
        )


class ClusterCountsAnswer(Answer):
    """Of the clusters that a pool, label and search fit, whatever state is asked for."""

    clusters: Annotated[int, Meta(description="How many there are.")]
    takes_work: int
    states: Annotated[
        dict[str, int], Meta(description="By state; one that is `ready` may be `cordoned` too, and is in both.")
    ]


class ClusterListAnswer(Answer):
    clusters: list[ClusterAnswer]
    token: str | None = None
    counts: ClusterCountsAnswer | None = None


class ReportedAnswer(Answer):
    cluster: ClusterAnswer
    warnings: Annotated[list[NoticeAnswer], Meta(description="What the report says that cannot be so.")]

    @classmethod
    def from_view(cls, view: ClusterView) -> ReportedAnswer:
        code = WarningCode.DOUBTFUL_REPORT.value
        warnings = [NoticeAnswer(code=code, message=message) for message in doubts_of(view.cluster)]
        return cls(cluster=ClusterAnswer.from_view(view), warnings=warnings)
