"""Placements over HTTP: where would this run, what would move, and what went where."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from admin.api.changes import MOST_BYTES, read_changes
from admin.api.creations import RequestBody, request_of
from admin.api.current import context
from admin.api.execution_answers import ExecutionIdAnswer, ExplanationAnswer
from admin.api.operations import Operations
from admin.api.rendering import time
from admin.api.schemas import NAME, Change, RequestSchema, Whole
from admin.api.selectors import GIVEN, Time, conditions_of, scope_of
from admin.core.placement.routes import RouteKind
from admin.services import placements
from admin.services.placements import SimulatedPlacement

operations = Operations("placements")

_COUNTED = ["cluster", "pool", "label", "domain", "project", "phase", "reason"]


class PlacementBody(RequestBody):
    changes = fields.List(Change(allow_none=True), validate=validate.Length(min=1))


class SimulationBody(RequestSchema):
    changes = fields.List(Change(allow_none=True), required=True, validate=validate.Length(min=1))
    since = Time(required=True, metadata={"type": "string", "description": "A time, or how long ago: 24h."})
    project = fields.String(validate=[*NAME, GIVEN])
    domain = fields.String(validate=[*NAME, GIVEN])
    limit = Whole(load_default=1000, validate=validate.Range(min=1, max=10_000))


class CountsQuery(RequestSchema):
    by = fields.String(required=True, validate=validate.OneOf(_COUNTED))
    since = Time(metadata={"type": "string", "description": "A time, or how long ago: 24h."})
    project = fields.String(validate=[*NAME, GIVEN])
    domain = fields.String(validate=[*NAME, GIVEN])


class PlaceAnswer(Schema):
    cluster = fields.String()
    reason = fields.String(required=True)
    message = fields.String(required=True)
    pool = fields.String()
    label = fields.String()
    refused = fields.Boolean(required=True)


class MoveAnswer(Schema):
    id = fields.Nested(ExecutionIdAnswer, required=True)
    before = fields.Nested(PlaceAnswer, required=True)
    after = fields.Nested(PlaceAnswer, required=True)


class SimulationAnswer(Schema):
    since = fields.DateTime(required=True)
    compared = fields.Integer(required=True)
    moved = fields.Integer(required=True)
    refused = fields.Integer(required=True)
    executions = fields.List(fields.Nested(MoveAnswer), required=True)
    by_cluster = fields.Dict(required=True)


class CountAnswer(Schema):
    value = fields.String(required=True)
    count = fields.Integer(required=True)


class PlacementCountsAnswer(Schema):
    by = fields.String(required=True)
    since = fields.DateTime()
    counts = fields.List(fields.Nested(CountAnswer), required=True)
    total = fields.Integer(required=True)


@operations.add(
    "POST",
    "/placements",
    for_agents=True,
    summary="Where would this run? Perhaps after some changes; nothing is written",
    body=PlacementBody,
    answer=ExplanationAnswer,
    errors=(400, 404, 409),
    most_bytes=MOST_BYTES,
)
def where_would(body: dict[str, Any]) -> dict[str, Any]:
    proposed = read_changes(body["changes"]) if "changes" in body else None
    found = placements.where_would(context(), request_of(body), proposed)
    run_plan, decision = found.placement.run_plan, found.placement.decision
    route = run_plan.route
    answer: dict[str, Any] = {
        "id": found.id._asdict(),
        "cluster": decision.cluster,
        "reason": {"code": decision.code, "message": decision.message},
        "pool": route.name if route.kind is RouteKind.POOL else None,
        "label": route.name if route.kind is RouteKind.LABEL else None,
        "strategy": decision.evaluation.strategy,
        "revision": found.revision,
        "rungs": found.rungs,
        "candidates": found.candidates,
        "settings": found.settings,
        "job": run_plan.job,
        "queue": run_plan.queue,
        "warnings": found.warnings,
    }
    return {name: value for name, value in answer.items() if value is not None}


@operations.add(
    "POST",
    "/simulations",
    summary="Which recent executions would go elsewhere after some changes; nothing is written",
    body=SimulationBody,
    answer=SimulationAnswer,
    errors=(400, 409),
    most_bytes=MOST_BYTES,
)
def simulate(body: dict[str, Any]) -> dict[str, Any]:
    conditions = conditions_of({**body, "created_after": body["since"]})
    found = placements.simulate(context(), read_changes(body["changes"]), conditions, scope_of(body))
    return {
        "since": time(body["since"]),
        "compared": found.compared,
        "moved": len(found.moves),
        "refused": sum(move.after.refused for move in found.moves),
        "executions": [
            {
                "id": {"project": row.project, "domain": row.domain, "name": row.name},
                "before": _place(move.before),
                "after": _place(move.after),
            }
            for move in found.moves[: body["limit"]]
            for row in [move.execution]
        ],
        "by_cluster": {
            name: {"before": found.before[name], "after": found.after[name]}
            for name in sorted({*found.before, *found.after})
        },
    }


def _place(answer: SimulatedPlacement) -> dict[str, Any]:
    return {name: value for name, value in vars(answer).items() if value is not None}


@operations.add(
    "GET",
    "/placement_counts",
    summary="How many executions went where",
    query=CountsQuery,
    answer=PlacementCountsAnswer,
)
def count_placements(query: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {name: query[name] for name in ("project", "domain") if name in query}
    if "since" in query:
        said["created_after"] = query["since"]
    found = placements.count_placements(context(), query["by"], conditions_of(said), scope_of(query))
    answer: dict[str, Any] = {
        "by": query["by"],
        "counts": [{"value": value, "count": count} for value, count in found],
        "total": sum(count for _, count in found),
    }
    return answer | {"since": time(query["since"])} if "since" in query else answer
