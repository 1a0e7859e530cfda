"""Decisions: what settings and the fleet make of an execution, as it is stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from admin.core.executions.plans import RunPlan
from admin.core.executions.queues import queue_deadline
from admin.core.placement.decisions import Decision
from admin.services.run_requests import Placement, ResolvedLaunch
from admin.store import decisions, executions
from admin.store.decisions import StoredDecision


def placement_values(placement: Placement, resolved: ResolvedLaunch, created_at: datetime) -> dict[str, Any]:
    """The columns that follow from settings and a decision."""
    run_plan = placement.run_plan
    return {
        **decided_values(placement.decision),
        **run_plan_values(run_plan, resolved, run_plan.queue),
        "queue_deadline": queue_deadline(run_plan.quality_of_service, created_at),
    }


def run_plan_values(run_plan: RunPlan, resolved: ResolvedLaunch, queue: str | None) -> dict[str, Any]:
    """The columns that follow from settings alone, whatever the execution's name and cluster."""
    route = run_plan.route
    return {
        "route_kind": route.kind.value,
        "route_name": route.name,
        "pool": route.pool,
        "label": route.label,
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


def decided_values(decision: Decision) -> dict[str, str | None]:
    """The columns that follow from a decision alone."""
    return {"cluster": decision.cluster, "reason": decision.code, "reason_message": decision.message}


def add_decision(
    connection: Connection,
    execution_id: int,
    number: int,
    now: datetime,
    placement: Placement,
    revision: int,
    because: str,
) -> None:
    """Store a decision with both its trails."""
    settings, evaluation = placement.run_plan.effective.trail, placement.decision.evaluation.trail
    decisions.add_trails(connection, [settings, evaluation])
    decision = stored_decision(execution_id, number, now, placement.decision, settings.digest, because, revision)
    decisions.add(connection, [decision])


def stored_decision(
    execution_id: int,
    number: int,
    now: datetime,
    decision: Decision,
    settings_trail: str,
    because: str,
    revision: int,
) -> StoredDecision:
    """A decision as it is stored; its trails must be stored too."""
    return StoredDecision(
        execution_id=execution_id,
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
