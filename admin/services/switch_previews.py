"""Switch previews: what becomes of executions if a cluster is switched, by the rules that would then decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import Connection

from admin.core.executions.attempts import seconds_until_retry, time_limit_ends_at
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST
from admin.core.fleet.clusters import ClusterState
from admin.core.placement.decisions import Decision
from admin.core.times import show_time
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.redecisions import Redecided, preview
from admin.store import executions, fleet
from admin.store.executions import Execution, ExecutionId

#: Executions that are looked at: those that wait, and those that the agent has.
_MOST = 10_000


class Fate(Enum):
    """What becomes of an execution."""

    MOVES = "MOVES"  # to another cluster
    WAITS = "WAITS"  # no cluster would take it
    RUNS_ON = "RUNS_ON"
    RUNS_AGAIN = "RUNS_AGAIN"  # it is ended at the deadline, and another attempt follows
    ENDS = "ENDS"  # it is ended at the deadline


@dataclass(frozen=True, kw_only=True)
class SwitchEffect:
    """What a switch does to one execution."""

    id: ExecutionId
    phase: str
    fate: Fate
    cluster: str | None  #: where it would be; None where none would take it
    at: datetime | None  #: when it ends, where that is known
    message: str


@dataclass(frozen=True, kw_only=True)
class SwitchPreview:
    """What a switch does to executions."""

    effects: Sequence[SwitchEffect] = ()
    is_complete: bool = True  #: False where there are more executions than were looked at


def preview_switch(context: Context, connection: Connection, state: ClusterState) -> SwitchPreview:
    """What becomes of executions if a cluster has this state; nothing is changed."""
    fleet_then = current_fleet(context, connection).with_states({**fleet.states(connection), state.name: state})
    leased = executions.leased_at(connection, state.name, _MOST + 1) if state.draining else []
    is_complete, leased = len(leased) <= _MOST, leased[:_MOST]
    returning = [execution for execution in leased if _returns(execution, state.drain_deadline)]
    then = preview(connection, fleet_then, returning, _MOST)
    decisions = {execution.key: decision for execution, decision in zip(returning, then.returned, strict=True)}
    effects = [_of_waiting(outcome) for outcome in then.changed if outcome.cluster != outcome.previous_cluster]
    effects += [_of_leased(execution, state.drain_deadline, decisions.get(execution.key)) for execution in leased]
    return SwitchPreview(effects=effects, is_complete=is_complete and then.is_complete)


def _of_waiting(outcome: Redecided) -> SwitchEffect:
    fate, message = _where(outcome.cluster, outcome.message)
    return SwitchEffect(
        id=outcome.id, phase=Phase.QUEUED.value, fate=fate, cluster=outcome.cluster, at=None, message=message
    )


def _where(cluster: str | None, reason: str) -> tuple[Fate, str]:
    return (Fate.WAITS, reason) if cluster is None else (Fate.MOVES, f"Moves to {cluster}.")


def _returns(execution: Execution, deadline: datetime | None) -> bool:
    """Whether a drain takes an execution from its cluster while it still has attempts."""
    if execution.phase == Phase.QUEUED.value:
        return True  # its agent gives it back, unless it is about to start it
    return _is_cut_short(execution, deadline) and seconds_until_retry(execution, CLUSTER_LOST) is not None


def _is_cut_short(execution: Execution, deadline: datetime | None) -> bool:
    """Whether the deadline of a drain ends an execution that its time limit would not have ended before."""
    ends_at = time_limit_ends_at(execution.started_at, execution.content)
    return deadline is not None and execution.phase != Phase.ABORTING.value and (ends_at is None or ends_at > deadline)


def _of_leased(execution: Execution, deadline: datetime | None, decision: Decision | None) -> SwitchEffect:
    """What a drain does to an execution that the agent has; `decision` places it where it returns to the queue."""
    ends_at = time_limit_ends_at(execution.started_at, execution.content)
    cluster = execution.cluster
    if execution.phase == Phase.QUEUED.value and decision is not None:
        fate, message = _where(decision.cluster, decision.message)
        cluster, ends_at = decision.cluster, None
    elif execution.phase == Phase.ABORTING.value:
        fate, message, ends_at = Fate.RUNS_ON, "It is being ended already.", None
    elif not _is_cut_short(execution, deadline):
        fate, message = Fate.RUNS_ON, "Runs on until it ends."
        if ends_at is not None:
            message = f"Runs on until it ends, at the latest at {show_time(ends_at)} by its time limit."
    else:
        ends_at = deadline
        ended = f"Is ended at {show_time(deadline)}" if deadline is not None else ""
        if decision is None:
            fate, message = Fate.ENDS, f"{ended}, unless it has ended by then; its retry allows no further attempt."
        else:
            cluster, fate = decision.cluster, Fate.RUNS_AGAIN
            then = f"runs again at {cluster}." if cluster is not None else f"waits to run again. {decision.message}"
            message = f"{ended}, unless it has ended by then, and {then}"
    return SwitchEffect(
        id=execution.key, phase=execution.phase, fate=fate, cluster=cluster, at=ends_at, message=message
    )
