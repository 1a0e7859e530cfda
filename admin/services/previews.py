"""Previews: what becomes of executions if the fleet is changed, by the rules that would then decide."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import product

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.creators import CreatorRights
from admin.core.executions.lifecycle import Phase
from admin.core.executions.switch_outcomes import (
    MissingAgent,
    SwitchOutcome,
    of_drain,
    of_missing_agent,
    of_placement,
    of_settings,
    returns_to_queue,
    returns_without_agent,
    within_budget,
)
from admin.core.fleet.clusters import Cluster, ClusterState
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet
from admin.core.fleet.silence import silent_since
from admin.core.fleet.summaries import off_because
from admin.core.placement.decisions import Decision
from admin.core.settings.scopes import Scope
from admin.services.affected_scopes import changed_among
from admin.services.cluster_provenance import cluster_provenance
from admin.services.context import Context
from admin.services.creator_rights import current_rights
from admin.services.definitions import definitions_after, fleet_after, latest_fleet
from admin.services.new_executions import NewExecutions, find_new_obstacles
from admin.services.planned_rights import are_rights_changed, rights_after, without_idle_rights
from admin.services.redecision_rounds import Redecided
from admin.services.redecisions import preview
from admin.services.silences import foresee_cluster_loss
from admin.services.simulators import KeyedRequest, Simulator
from admin.services.use_reach import scopes_of
from admin.store import execution_queue, executions, unfinished
from admin.store.execution_lists import ListLimits
from admin.store.executions import Execution, ExecutionId, WaitingExecution

#: Executions that are read at once.
_CHUNK = 100
#: Clusters that are switched off of which is told by whom.
_MOST_SWITCHED = 20


@dataclass(frozen=True, kw_only=True)
class ExecutionEffect:
    """What a change does to one execution."""

    id: ExecutionId
    phase: str
    previous_cluster: str | None
    outcome: SwitchOutcome


@dataclass(frozen=True, kw_only=True)
class ExecutionPreview:
    """What a change does to executions."""

    effects: Sequence[ExecutionEffect] = ()
    not_examined: int = 0  #: executions that the change may affect and that were not looked at, since they are too many
    notes: Sequence[str] = ()  #: sentences about clusters that are silent, and what goes on at those that are switched
    new_executions: NewExecutions = field(default_factory=NewExecutions)  #: of switches: where they are kept out


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """What becomes of the executions that agents have: those whose agents are missing, or which are drained."""

    agents: Mapping[str, MissingAgent]  #: by cluster
    deadlines: Mapping[str, datetime | None] = field(default_factory=dict)  #: of the clusters that are drained

    def returns(self, execution: Execution) -> bool:
        """Whether an execution goes back to the queue."""
        cluster = execution.cluster or ""
        if cluster in self.agents:
            return returns_without_agent(execution, self.agents[cluster])
        return cluster in self.deadlines and returns_to_queue(execution, self.deadlines[cluster])

    def outcome(self, execution: Execution, decision: Decision | None) -> SwitchOutcome:
        """What becomes of an execution; `decision` says where it goes that goes back."""
        cluster = execution.cluster or ""
        if cluster in self.agents:
            outcome = of_missing_agent(execution, self.agents[cluster], decision)
        else:
            outcome = of_drain(execution, self.deadlines.get(cluster), decision)
        is_queued = execution.phase == Phase.QUEUED.value
        return within_budget(outcome, execution.queue_deadline, is_leased=True) if is_queued else outcome


def preview_switches(context: Context, connection: Connection, states: Sequence[ClusterState]) -> ExecutionPreview:
    """What becomes of executions if clusters have these states, all at once; nothing is changed."""
    most = context.list_limits.previewed
    new_states = {state.name: state for state in states}
    fleet_now = latest_fleet(context, connection)
    fleet_then = fleet_now.with_states(new_states)
    draining = {state.name: state.drain_deadline for state in states if state.draining}
    silent = [cluster for state in states if (cluster := fleet_now.clusters[state.name]).is_silent]
    missing = _missing_agents(context, connection, silent)
    agents = {name: replace(agent, drained_at=draining.get(name)) for name, agent in missing.items()}
    waiting = execution_queue.waiting(connection, 0, most + 1, lock=False)
    leased = unfinished.leased_at(connection, draining, most + 1)
    described = _with_switches(context, connection, fleet_now, new_states)
    rights = current_rights(context, connection)
    preview = _preview(
        connection,
        described,
        described.with_states(new_states),
        waiting[:most],
        leased[:most],
        _Rule(agents=agents, deadlines=draining),
        context.list_limits,
        context.clock(),
        (rights, rights),
        switched=new_states,
    )
    beyond = _count_beyond(connection, waiting, leased, most, clusters=draining)
    preview = replace(preview, not_examined=preview.not_examined + beyond)
    closed = [state.name for state in states if not fleet_then.clusters[state.name].is_able]
    going_on = _notes_of_running(connection, [name for name in closed if name not in draining])
    notes = [*notes_of_silent_clusters(silent), *going_on, *_note_of_the_last(fleet_now, fleet_then)]
    return replace(preview, notes=notes, new_executions=_kept_out(context, connection, fleet_now, fleet_then, closed))


def _with_switches(context: Context, connection: Connection, present: Fleet, switched: Collection[str]) -> Fleet:
    """The fleet with who disabled, cordoned or drained clusters, and when, but for those that are to be switched."""
    others = [cluster for name, cluster in present.clusters.items() if name not in switched]
    off = [cluster for cluster in others if cluster.state.cordoned or not cluster.enabled][:_MOST_SWITCHED]
    if not off:
        return present
    now = context.clock()
    provenance = cluster_provenance(context, connection, off)
    switched_by = {
        cluster.name: {
            state: by[switch].describe(now)
            for state, switch in (("disabled", "disabled"), ("cordoned", _cordoned_by(cluster)))
            if switch in by
        }
        for cluster in off
        for by in [provenance[cluster.name]]
    }
    return present.with_switches(switched_by)


def _cordoned_by(cluster: Cluster) -> str:
    """The state whose event tells why a cluster is cordoned: a drain does that too."""
    return "draining" if cluster.state.draining else "cordoned"


def _notes_of_running(connection: Connection, clusters: Iterable[str]) -> Iterator[str]:
    """A sentence about each cluster that gets no new work and has executions, which go on there."""
    leases = unfinished.leases_by_cluster(connection)
    for name in clusters:
        number = leases.get(name, 0)
        if number:
            kept = "1 execution" if number == 1 else f"{number} executions"
            yield f"Cluster '{name}' keeps the {kept} that its agent has."


def _note_of_the_last(before: Fleet, after: Fleet) -> Iterator[str]:
    """A sentence where switches leave no cluster that takes work and has been seen."""
    able_before, able_after = (
        any(not off_because(cluster) for cluster in fleet.clusters.values()) for fleet in (before, after)
    )
    if able_before and not able_after:
        yield "No cluster takes work then: every new execution waits until one does."


def _kept_out(
    context: Context, connection: Connection, fleet_now: Fleet, fleet_then: Fleet, clusters: Sequence[str]
) -> NewExecutions:
    """Where new executions are left without a cluster once some clusters get no new work, of a limited number."""
    scopes, is_complete = scopes_of(context, connection, [("cluster", name) for name in clusters])
    return find_new_obstacles(context, connection, scopes, (fleet_now, fleet_then), is_complete=is_complete)


def preview_changes(context: Context, connection: Connection, changes: Sequence[RowChange]) -> ExecutionPreview:
    """What becomes of executions if rows are so changed; nothing is changed."""
    most = context.list_limits.previewed
    changes = without_idle_rights(context, changes)
    scopes = execution_queue.waiting_scopes(connection, most + 1) if changes else {}
    number = sum(scopes.values())
    beyond = execution_queue.count_waiting(connection) - most if number > most else 0
    places = {(change.scope.project, change.scope.domain) for change in changes if change.is_attribute}
    # Most changes are overridden where executions wait; these need not be read.
    near = {scope for scope in scopes if not places.isdisjoint(_places(scope))}
    changed = changed_among(context, connection, changes, near)
    is_fleet_changed = bool(definitions_after(changes)) or are_rights_changed(context, changes)
    waiting = execution_queue.waiting(connection, 0, most, lock=False) if changed or is_fleet_changed else []
    fleet_preview = _preview_definitions(context, connection, changes, waiting) if is_fleet_changed else _FleetPreview()
    settled, undecided = {effect.id for effect in fleet_preview.effects}, fleet_preview.undecided
    affected = (execution for execution in waiting if execution.scope in changed) if changed else ()
    staying = [execution for execution in affected if execution.id not in undecided and execution.key not in settled]
    by_settings = _preview_settings(context, connection, changes, staying) if staying else ExecutionPreview()
    effects = [*fleet_preview.effects, *by_settings.effects]
    return ExecutionPreview(
        effects=[effect for effect in effects if _may_read(context, effect)],
        not_examined=fleet_preview.not_examined + by_settings.not_examined + beyond,
        notes=fleet_preview.notes,
    )


def _may_read(context: Context, effect: ExecutionEffect) -> bool:
    """Whether the caller may read the execution that something is done to."""
    return context.access.allows("executions.read", Scope(project=effect.id.project, domain=effect.id.domain))


def _places(scope: Scope) -> Iterable[tuple[str, str]]:
    """The projects and domains, empty for any, of the scopes whose rows may apply at one where executions resolve."""
    return product(("", scope.project), ("", scope.domain))


def _preview_settings(
    context: Context, connection: Connection, changes: Sequence[RowChange], staying: Sequence[WaitingExecution]
) -> ExecutionPreview:
    """The executions that would go elsewhere if they were decided again by the settings after a change.

    Only so many are decided again; whether the settings ask for something else is found out once for equal requests.
    """
    limits = context.list_limits
    now, then = Simulator(context, connection, []), Simulator(context, connection, changes)
    effects: list[ExecutionEffect] = []
    decided = drawn = 0
    for position, (execution, request) in enumerate(_requests(connection, staying)):
        if now.criteria(execution, request) == then.criteria(execution, request):
            continue
        if decided == limits.decided or drawn > limits.drawn:
            return ExecutionPreview(effects=effects, not_examined=len(staying) - position)
        after = then.place(execution, request)
        decided, drawn = decided + 1, drawn + after.candidates
        if after.cluster != execution.cluster or after.refused:
            effects.append(
                ExecutionEffect(
                    id=execution.key,
                    phase=execution.phase,
                    previous_cluster=execution.cluster,
                    outcome=of_settings(execution.cluster, after.cluster, after.message),
                )
            )
    return ExecutionPreview(effects=effects)


def _requests(connection: Connection, staying: Sequence[WaitingExecution]) -> Iterator[tuple[Execution, KeyedRequest]]:
    """Executions with their requests, some at a time, since those that come last may not be needed."""
    for start in range(0, len(staying), _CHUNK):
        ids = [execution.id for execution in staying[start : start + _CHUNK]]
        for execution in executions.get_many(connection, ids):
            yield execution, KeyedRequest.of(execution)


def _preview_definitions(
    context: Context, connection: Connection, changes: Sequence[RowChange], waiting: Sequence[WaitingExecution]
) -> _FleetPreview:
    """What becomes of executions if clusters, pools and labels, or what creators may use, are so changed."""
    changed = definitions_after(changes)
    most = context.list_limits.previewed
    fleet_now, fleet_then = latest_fleet(context, connection), fleet_after(context, connection, changes)
    gone = [key for key, definition in changed.items() if definition is None]
    undefined = [name for kind, name in gone if kind is FleetKind.CLUSTER and name in fleet_now.clusters]
    gone_clusters = [fleet_now.clusters[name] for name in undefined if not fleet_then.has_cluster(name)]
    groups = [(kind.noun, name) for kind, name in gone if kind is not FleetKind.CLUSTER]
    by_id = {execution.id: execution for execution in unfinished.leased_by(connection, groups, most + 1)}
    by_id |= {execution.id: execution for execution in unfinished.leased_at(connection, undefined, most + 1)}
    leased = [by_id[id] for id in sorted(by_id)]
    silent = [fleet_now.clusters[name] for name in undefined if fleet_now.clusters[name].is_silent]
    agents = _missing_agents(context, connection, gone_clusters, are_removed=True)
    preview = _preview(
        connection,
        fleet_now,
        fleet_then,
        waiting,
        leased[:most],
        _Rule(agents=agents),
        context.list_limits,
        context.clock(),
        (current_rights(context, connection), rights_after(context, connection, changes)),
        undefined,
    )
    beyond = _count_beyond(connection, (), leased, most, clusters=undefined, routes=groups)
    return replace(
        preview,
        not_examined=preview.not_examined + beyond,
        notes=notes_of_silent_clusters(silent, "what it runs is judged by the admin alone"),
    )


def _effect_of(redecided: Redecided, outcome: SwitchOutcome, deadline: datetime | None) -> ExecutionEffect:
    """What a decision made again does to an execution that waits until its queueing budget is over, if it has one."""
    return ExecutionEffect(
        id=redecided.id,
        phase=Phase.QUEUED.value,
        previous_cluster=redecided.previous_cluster,
        outcome=within_budget(outcome, deadline),
    )


def _count_beyond(
    connection: Connection,
    waiting: Sequence[WaitingExecution],
    leased: Sequence[Execution],
    most: int,
    *,
    clusters: Collection[str] = (),
    routes: Collection[tuple[str, str]] = (),
) -> int:
    """How many executions wait, or are with the agents of some clusters or placed by some routes, above a limit."""
    beyond = execution_queue.count_waiting(connection) - most if len(waiting) > most else 0
    return beyond + (unfinished.count_leased(connection, clusters, routes) - most if len(leased) > most else 0)


def _missing_agents(
    context: Context, connection: Connection, clusters: Sequence[Cluster], *, are_removed: bool = False
) -> dict[str, MissingAgent]:
    """The agents of silent or removed clusters, and when what they have is judged if they are not heard again."""
    limits, now = context.settings.agents, context.clock()
    agents: dict[str, MissingAgent] = {}
    for cluster in clusters:
        heard = cluster.state.last_sync_at or now
        agents[cluster.name] = MissingAgent(
            why="its agent can no longer report it" if are_removed else f"its agent is {silent_since(heard)}",
            lost_at=now if are_removed else max(now, foresee_cluster_loss(context, connection, heard).at),
            given_up_at=max(now, heard + timedelta(seconds=limits.give_up_seconds)),
            now=now,
        )
    return agents


def notes_of_silent_clusters(
    silent: Iterable[Cluster], then: str = "learns of this only when it is heard again"
) -> list[str]:
    """A sentence about each silent cluster: since when it is so, and what that means for a change."""
    return [
        f"Cluster '{cluster.name}' is {cluster.health.value}: its agent is "
        f"{silent_since(cluster.state.last_sync_at)}, and {then}."
        for cluster in silent
        if cluster.state.last_sync_at is not None
    ]


@dataclass(frozen=True, kw_only=True)
class _FleetPreview(ExecutionPreview):
    """What another fleet does to executions."""

    undecided: frozenset[int] = frozenset()  #: the row ids of those that were not looked at


def _preview(
    connection: Connection,
    fleet_now: Fleet,
    fleet_then: Fleet,
    waiting: Sequence[WaitingExecution],
    leased: Sequence[Execution],
    rule: _Rule,
    limits: ListLimits,
    now: datetime,
    rights: tuple[CreatorRights, CreatorRights],
    undefined: Collection[str] = (),
    switched: Collection[str] | None = None,
) -> _FleetPreview:
    """What another fleet, and other `rights` than now, do to what waits and to what agents have; some are not decided.

    Of clusters that are `undefined` then, everything that waits there is told. With `switched` the fleets differ in
    what operators have switched about these clusters alone.
    """
    returning = [execution for execution in leased if rule.returns(execution)]
    rights_now, rights_then = rights
    decided = preview(connection, fleet_then, waiting, returning, limits, now, rights_then)
    noted = [redecided for redecided in decided.changed if redecided.is_noted]
    # What is due to be decided again anyway is no effect of the change.
    again = waiting
    if switched is not None:  # what stays where nothing was switched does so by both fleets
        unsettled = {execution.id for execution in decided.unsettled}
        again = [execution for execution in waiting if execution.cluster in switched or execution.id in unsettled]
    anyway = preview(connection, fleet_now, again, [], limits, now, rights_now).changed if noted else []
    due = {_decided(redecided) for redecided in anyway if redecided.previous_cluster not in undefined}
    effects = [
        _effect_of(
            redecided,
            of_placement(redecided.cluster, redecided.message, was_waiting=redecided.previous_cluster is None),
            decided.deadlines[redecided.id],
        )
        for redecided in noted
        if _decided(redecided) not in due
    ]
    decisions = {execution.id: decision for execution, decision in zip(returning, decided.returned, strict=False)}
    effects += [
        ExecutionEffect(
            id=execution.key,
            phase=execution.phase,
            previous_cluster=execution.cluster,
            outcome=rule.outcome(execution, decisions.get(execution.id)),
        )
        for execution in leased
        if execution.id in decisions or not rule.returns(execution)
    ]
    return _FleetPreview(
        effects=effects,
        not_examined=len(decided.undecided),
        undecided=frozenset(execution.id for execution in decided.undecided),
    )


def _decided(redecided: Redecided) -> tuple[ExecutionId, str | None, str]:
    """Where an execution goes, and why; one that has no cluster may wait for another reason than before."""
    return redecided.id, redecided.cluster, redecided.reason
