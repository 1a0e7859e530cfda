"""Decisions: what settings and the fleet make of an execution, as it is stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from admin.core.executions import Composed, queue_deadline
from admin.core.placement.decisions import Decision
from admin.core.placement.routes import RouteKind
from admin.services.launches import Launched, Placed
from admin.store import decisions, executions


def settled_values(placed: Placed, launched: Launched, created_at: datetime) -> dict[str, Any]:
    """What settings and a decision make of an execution."""
    composed = placed.composed
    return {
        **decided_values(placed.decision),
        **composed_values(composed, launched, composed.queue),
        "queue_deadline": queue_deadline(composed.quality_of_service, created_at),
    }


def composed_values(composed: Composed, launched: Launched, queue: str | None) -> dict[str, Any]:
    """What settings make of an execution in a queue, whatever it is called and wherever it goes."""
    route = composed.route
    return {
        "route_kind": route.kind.value,
        "route_name": route.name,
        "pool": route.name if route.kind is RouteKind.POOL else None,
        "label": route.name if route.kind is RouteKind.LABEL else None,
        "content": {
            "job": composed.job,
            "config": composed.config,
            "queue": queue,
            "quality_of_service": composed.quality_of_service,
            "plugins": composed.plugins,
            "retry": composed.retry,
            "attributes": composed.attributes,
            "inputs": launched.launch.inputs or {},
        },
        "required_plugins": list(composed.wanted.plugins),
        "tier": composed.tier,
        "priority": composed.priority,
        **executions.demand_columns(composed.wanted.demand),
    }


def decided_values(decision: Decision) -> dict[str, Any]:
    """What a decision makes of an execution."""
    return {"cluster": decision.cluster, "reason": decision.code, "reason_message": decision.message}


def add_decision(
    connection: Connection, row_id: int, number: int, now: datetime, placed: Placed, revision: int, because: str
) -> None:
    """Store a decision that settings and the fleet made together."""
    settings, way = placed.composed.settled.trail, placed.decision.judgement.trail
    decisions.add_trails(connection, [settings, way])
    decisions.add(connection, [decision_row(row_id, number, now, placed.decision, settings.digest, because, revision)])


def decision_row(
    row_id: int,
    number: int,
    now: datetime,
    decision: Decision,
    settings_digest: str,
    because: str,
    revision: int,
) -> dict[str, Any]:
    """A decision as it is stored; its trails must be there."""
    return {
        "execution_id": row_id,
        "number": number,
        "decided_at": now,
        **decided_values(decision),
        "because": because,
        "revision": revision,
        "settings_trail": settings_digest,
        "placement_trail": decision.judgement.trail.digest,
        "scores": decision.judgement.scores,
    }
