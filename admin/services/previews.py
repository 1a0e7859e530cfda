"""Previews: what becomes of executions if the fleet is changed, by the rules that would then decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.executions.lifecycle import Phase
from admin.core.executions.switch_outcomes import (
    MissingAgent,
    SwitchOutcome,
    of_drain,
    of_missing_agent,
    of_placement,
    of_settings,
    of_stay,
    returns_to_queue,
    returns_without_agent,
)
from admin.core.fleet.clusters import Cluster, ClusterState
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet
from admin.core.fleet.silence import silent_since
from admin.core.placement.decisions import Decision
from admin.services.affected_scopes import changed_among
from admin.services.context import Context
from admin.services.definitions import current_fleet, definitions_after, fleet_after
from admin.services.redecisions import preview
from admin.services.simulators import KeyedRequest, Simulator
from admin.store import execution_queue, executions, fleet
from admin.store.execution_lists import ListLimits
from admin.store.executions import Execution, ExecutionId, WaitingExecution

#: Executions that are read at once.
_CHUNK = 500


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
    is_complete: bool = True  #: False where there are more executions than were looked at
    notes: Sequence[str] = ()  #: sentences about clusters that are silent


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """What becomes of the executions that agents have."""

    returns: Callable[[Execution], bool]  #: whether one goes back to the queue
    outcome: Callable[[Execution, Decision | None], SwitchOutcome]  #: of one, and where it goes that goes back


def preview_switch(context: Context, connection: Connection, state: ClusterState) -> ExecutionPreview:
    """What becomes of executions if a cluster has this state; nothing is changed."""
    most, deadline = context.list_limits.previewed, state.drain_deadline
    fleet_now = _fleet_now(context, connection)
    leased = executions.leased_at(connection, [state.name], most + 1) if state.draining else []
    silent = [cluster for cluster in [fleet_now.clusters[state.name]] if cluster.is_silent]
    if silent:
        rule = _without_agents(_missing_agents(context, silent))
    else:
        rule = _Rule(
            returns=lambda execution: returns_to_queue(execution, deadline),
            outcome=lambda execution, decision: of_drain(execution, deadline, decision),
        )
    fleet_then = fleet_now.with_states({state.name: state})
    waiting = execution_queue.waiting(connection, 0, most + 1, lock=False)
    preview = _preview(connection, fleet_now, fleet_then, waiting, leased, rule, context.list_limits)
    return replace(preview, notes=_silence_notes(silent, "learns of this only when it is heard again"))


def preview_changes(context: Context, connection: Connection, changes: Sequence[RowChange]) -> ExecutionPreview:
    """What becomes of executions if rows are so changed; nothing is changed."""
    most = context.list_limits.previewed
    waiting = execution_queue.waiting(connection, 0, most + 1, lock=False) if changes else []
    fleet_preview = _preview_definitions(context, connection, changes, waiting)
    settled = {effect.id for effect in fleet_preview.effects}
    places = {(change.scope.project, change.scope.domain) for change in changes if change.is_attribute}
    staying = [
        execution
        for execution in waiting[:most]
        if execution.key not in settled and not places.isdisjoint(_places(execution))
    ]
    # Most changes are overridden where executions wait; these need not be read.
    changed = changed_among(context, connection, changes, {execution.scope for execution in staying})
    staying = [execution for execution in staying if execution.scope in changed]
    by_settings = _preview_settings(context, connection, changes, staying) if staying else ExecutionPreview()
    is_complete = fleet_preview.is_complete and by_settings.is_complete and len(waiting) <= most
    return replace(fleet_preview, effects=[*fleet_preview.effects, *by_settings.effects], is_complete=is_complete)


def _places(execution: WaitingExecution) -> Iterable[tuple[str, str]]:
    """The projects and domains, empty for any, of the scopes whose rows may apply to an execution."""
    return product(("", execution.project), ("", execution.domain))


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
    for execution, request in _requests(connection, staying):
        if now.criteria(execution, request) == then.criteria(execution, request):
            continue
        if decided == limits.decided or drawn > limits.drawn:
            return ExecutionPreview(effects=effects, is_complete=False)
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
) -> ExecutionPreview:
    changed = definitions_after(changes)
    if not changed:
        return ExecutionPreview()
    most = context.list_limits.previewed
    fleet_now, fleet_then = _fleet_now(context, connection), fleet_after(context, connection, changes)
    gone = [key for key, definition in changed.items() if definition is None]
    undefined = [name for kind, name in gone if kind is FleetKind.CLUSTER and name in fleet_now.clusters]
    clusters = [name for name in undefined if name not in fleet_then.clusters]
    groups = [(kind.noun, name) for kind, name in gone if kind is not FleetKind.CLUSTER]
    leased = {execution.id: execution for execution in executions.leased_by(connection, groups, most + 1)}
    leased |= {execution.id: execution for execution in executions.leased_at(connection, undefined, most + 1)}
    silent = [fleet_now.clusters[name] for name in undefined if fleet_now.clusters[name].is_silent]
    agents = _missing_agents(context, silent)
    agents |= _missing_agents(context, [fleet_now.clusters[name] for name in clusters], are_removed=True)
    preview = _preview(
        connection,
        fleet_now,
        fleet_then,
        waiting,
        [leased[id] for id in sorted(leased)],
        _without_agents(agents),
        context.list_limits,
    )
    moving = {effect.id for effect in preview.effects}
    staying_clusters = set(undefined) - set(clusters)
    staying = [
        ExecutionEffect(
            id=execution.key,
            phase=Phase.QUEUED.value,
            previous_cluster=execution.cluster,
            outcome=of_stay(fleet_now.clusters[execution.cluster or ""]),
        )
        for execution in waiting[:most]
        if execution.cluster in staying_clusters and execution.key not in moving
    ]
    notes = _silence_notes(silent, "what it runs is judged by the admin alone")
    return replace(preview, effects=[*preview.effects, *staying], notes=notes)


def _fleet_now(context: Context, connection: Connection) -> Fleet:
    """The fleet with the latest reports, which are not always a new generation."""
    return current_fleet(context, connection).with_states(fleet.states(connection))


def _missing_agents(
    context: Context, clusters: Sequence[Cluster], *, are_removed: bool = False
) -> dict[str | None, MissingAgent]:
    """The agents of silent or removed clusters, and when what they have is judged if they are not heard again."""
    limits, now = context.settings.agents, context.clock()
    agents: dict[str | None, MissingAgent] = {}
    for cluster in clusters:
        heard = cluster.state.last_sync_at or now
        agents[cluster.name] = MissingAgent(
            why="its agent can no longer report it" if are_removed else f"its agent is {silent_since(heard)}",
            lost_at=now if are_removed else heard + timedelta(seconds=limits.lost_seconds),
            given_up_at=heard + timedelta(seconds=limits.give_up_seconds),
            now=now,
        )
    return agents


def _without_agents(agents: Mapping[str | None, MissingAgent]) -> _Rule:
    """What becomes of executions whose agents are missing; the others go on."""
    return _Rule(
        returns=lambda execution: execution.cluster in agents and returns_without_agent(execution),
        outcome=lambda execution, decision: (
            of_missing_agent(execution, agents[execution.cluster], decision)
            if execution.cluster in agents
            else of_drain(execution, None, decision)
        ),
    )


def _silence_notes(silent: Iterable[Cluster], then: str) -> list[str]:
    return [
        f"Cluster '{cluster.name}' is {cluster.health.value}: its agent is "
        f"{silent_since(cluster.state.last_sync_at)}, and {then}."
        for cluster in silent
        if cluster.state.last_sync_at is not None
    ]


def _preview(
    connection: Connection,
    fleet_now: Fleet,
    fleet_then: Fleet,
    waiting: Sequence[WaitingExecution],
    leased: Sequence[Execution],
    rule: _Rule,
    limits: ListLimits,
) -> ExecutionPreview:
    """What another fleet does to what waits and to what agents have; only so many of each are looked at."""
    most = limits.previewed
    is_complete = len(waiting) <= most and len(leased) <= most
    waiting, leased = waiting[:most], leased[:most]
    returning = [execution for execution in leased if rule.returns(execution)]
    decided = preview(connection, fleet_then, waiting, returning, limits)
    is_complete = is_complete and decided.is_complete
    moved = [redecided for redecided in decided.changed if redecided.cluster != redecided.previous_cluster]
    # What is due to be decided again anyway is no effect of the change.
    anyway = preview(connection, fleet_now, waiting, [], limits).changed if moved else []
    due = {(redecided.id, redecided.cluster) for redecided in anyway}
    effects = [
        ExecutionEffect(
            id=redecided.id,
            phase=Phase.QUEUED.value,
            previous_cluster=redecided.previous_cluster,
            outcome=of_placement(redecided.cluster, redecided.message),
        )
        for redecided in moved
        if (redecided.id, redecided.cluster) not in due
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
    return ExecutionPreview(effects=effects, is_complete=is_complete)
