"""New decisions of executions that wait: stored with their events, and with the questions that they begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.executions.spec import requested_strategy
from admin.core.placement.candidates import RequestedStrategy
from admin.core.placement.decisions import ASKING, Decision
from admin.core.placement.routes import Route, RouteKind
from admin.core.provenance import Actor
from admin.services.bid_rounds import Inquiry, open_rounds
from admin.services.context import Context
from admin.store import decisions, execution_events, execution_queue, executions
from admin.store.decisions import StoredDecision
from admin.store.execution_events import Event
from admin.store.executions import Execution, WaitingExecution


class NewDecision(NamedTuple):
    """A new decision of an execution, whose trails are stored."""

    execution: Execution | WaitingExecution
    decision: Decision
    settings_trail: str
    because: str
    revision: int
    values: Mapping[str, object]  #: columns that change beside those of every decision
    by: Actor | None = None  #: who asked for it, if somebody did

    @property
    def route(self) -> Route:
        """The route that it was made by."""
        kind = self.values.get("route_kind", self.execution.route_kind)
        name = self.values.get("route_name", self.execution.route_name)
        return Route(kind=RouteKind(kind), name=str(name), rungs=())


def store_decisions(context: Context, connection: Connection, new: Sequence[NewDecision], now: datetime) -> None:
    """Store decisions of locked executions, each with its event; those that ask begin a round of bids."""
    stored, changed, events = [], [], []
    for execution, decision, settings_trail, because, revision, values, by in new:
        number, event_number = execution.decisions + 1, execution.events + 1
        decided = {"cluster": decision.cluster, "reason": decision.code, "reason_message": decision.message}
        stored.append(
            StoredDecision(
                execution_id=execution.id,
                number=number,
                decided_at=now,
                cluster=decision.cluster,
                reason=decision.code,
                reason_message=decision.message,
                because=because,
                revision=revision,
                settings_trail=settings_trail,
                placement_trail=decision.evaluation.trail.digest,
                scores=decision.evaluation.scores,
            )
        )
        counted = {"updated_at": now, "decisions": number, "events": event_number}
        changed.append({"id": execution.id, **values, **decided, **counted})
        event = Event(
            number=event_number,
            at=now,
            type="DECIDED",
            phase=Phase.QUEUED.value,
            reason=decision.code,
            message=f"{decision.message} Decided again, {because}.",
            cluster=decision.cluster,
            attempt=None,
            **execution_events.columns_of(by),
        )
        events.append((execution.id, event))
    decisions.add(connection, stored)
    executions.change_many(connection, changed)
    execution_events.add_events(connection, events)
    asking = [decided for decided in new if decided.decision.code == ASKING]
    requested = _requested_strategies(connection, [decided.execution for decided in asking])
    inquiries = [
        Inquiry(decided.execution.id, decided.route, decided.decision.evaluation, requested.get(decided.execution.id))
        for decided in asking
    ]
    open_rounds(context, connection, inquiries, now)


def _requested_strategies(
    connection: Connection, asked: Sequence[Execution | WaitingExecution]
) -> dict[int, RequestedStrategy | None]:
    """The strategies that requests ask for; read only of executions that were loaded without their requests."""
    requested = {
        execution.id: requested_strategy(execution.request["spec"])
        for execution in asked
        if isinstance(execution, Execution)
    }
    waiting = [execution.id for execution in asked if execution.id not in requested]
    return {**requested, **(execution_queue.requested_strategies(connection, waiting) if waiting else {})}


def store_again(
    context: Context,
    connection: Connection,
    changes: Sequence[tuple[Execution | WaitingExecution, Decision]],
    causes: Sequence[str],
) -> None:
    """Store new decisions, each with why it was made, by the settings trails of the decisions before."""
    if not changes:
        return
    settings = decisions.settings_trails(connection, [(execution.id, execution.decisions) for execution, _ in changes])
    decisions.add_trails(connection, [decision.evaluation.trail for _, decision in changes])
    new = [
        NewDecision(execution, decision, settings[execution.id], because, execution.revision, {})
        for (execution, decision), because in zip(changes, causes, strict=True)
    ]
    store_decisions(context, connection, new, context.clock())
