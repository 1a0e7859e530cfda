"""Switch previews: what becomes of executions if a cluster is switched, by the rules that would then decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.executions.switch_outcomes import SwitchOutcome, of_drain, of_placement, returns_to_queue
from admin.core.fleet.clusters import ClusterState
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.redecisions import preview
from admin.store import executions, fleet
from admin.store.executions import ExecutionId


@dataclass(frozen=True, kw_only=True)
class SwitchEffect:
    """What a switch does to one execution."""

    id: ExecutionId
    phase: str
    outcome: SwitchOutcome


@dataclass(frozen=True, kw_only=True)
class SwitchPreview:
    """What a switch does to executions."""

    effects: Sequence[SwitchEffect] = ()
    is_complete: bool = True  #: False where there are more executions than were looked at


def preview_switch(context: Context, connection: Connection, state: ClusterState) -> SwitchPreview:
    """What becomes of executions if a cluster has this state; nothing is changed."""
    most, deadline = context.list_limits.previewed, state.drain_deadline
    fleet_now = current_fleet(context, connection).with_states(fleet.states(connection))
    fleet_then = fleet_now.with_states({state.name: state})
    leased = executions.leased_at(connection, state.name, most + 1) if state.draining else []
    is_complete, leased = len(leased) <= most, leased[:most]
    returning = [execution for execution in leased if returns_to_queue(execution, deadline)]
    decided = preview(connection, fleet_then, returning, most)
    # What is due to be decided again anyway is no effect of the switch.
    due = {(waiting.id, waiting.cluster) for waiting in preview(connection, fleet_now, [], most).changed}
    effects = [
        SwitchEffect(id=waiting.id, phase=Phase.QUEUED.value, outcome=of_placement(waiting.cluster, waiting.message))
        for waiting in decided.changed
        if waiting.cluster != waiting.previous_cluster and (waiting.id, waiting.cluster) not in due
    ]
    decisions = {execution.id: decision for execution, decision in zip(returning, decided.returned, strict=True)}
    effects += [
        SwitchEffect(
            id=execution.key,
            phase=execution.phase,
            outcome=of_drain(execution, deadline, decisions.get(execution.id)),
        )
        for execution in leased
    ]
    return SwitchPreview(effects=effects, is_complete=is_complete and decided.is_complete)
