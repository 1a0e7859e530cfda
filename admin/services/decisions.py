"""Decisions: what settings and the fleet make of an execution, as it is stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from admin.core.executions.plans import RunPlan
from admin.core.executions.quality_of_service import queue_deadline
from admin.core.placement.decisions import Decision
from admin.core.placement.routes import RouteKind
from admin.services.launches import Placement, ResolvedLaunch
from admin.store import decisions, executions


def placement_values(placement: Placement, resolved: ResolvedLaunch, created_at: datetime) -> dict[str, Any]:
    """What settings and a decision make of an execution."""
    run_plan = placement.run_plan
    return {
        **decided_values(placement.decision),
        **run_plan_values(run_plan, resolved, run_plan.queue),
        "queue_deadline": queue_deadline(run_plan.quality_of_service, created_at),
    }


def run_plan_values(run_plan: RunPlan, resolved: ResolvedLaunch, queue: str | None) -> dict[str, Any]:
    """What settings make of an execution in a queue, whatever it is called and wherever it goes."""
    route = run_plan.route
    return {
        "route_kind": route.kind.value,
        "route_name": route.name,
        "pool": route.name if route.kind is RouteKind.POOL else None,
        "label": route.name if route.kind is RouteKind.LABEL else None,
        "content": {
            "job": run_plan.job,
            "config": run_plan.config,
            "queue": queue,
            "quality_of_service": run_plan.quality_of_service,
            "plugins": run_plan.plugins,
            "retry": run_plan.retry,
            "attributes": run_plan.attributes,
            "inputs": resolved.launch.inputs or {},
        },
        "required_plugins": list(run_plan.workload.plugins),
        "tier": run_plan.tier,
        "priority": run_plan.priority,
        **executions.demand_columns(run_plan.workload.demand),
    }


def decided_values(decision: Decision) -> dict[str, Any]:
    """What a decision makes of an execution."""
    return {"cluster": decision.cluster, "reason": decision.code, "reason_message": decision.message}


def add_decision(
    connection: Connection, row_id: int, number: int, now: datetime, placement: Placement, revision: int, because: str
) -> None:
    """Store a decision that settings and the fleet made together."""
    settings, way = placement.run_plan.effective.trail, placement.decision.evaluation.trail
    decisions.add_trails(connection, [settings, way])
    decisions.add(
        connection, [decision_row(row_id, number, now, placement.decision, settings.digest, because, revision)]
    )


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
        "placement_trail": decision.evaluation.trail.digest,
        "scores": decision.evaluation.scores,
    }
