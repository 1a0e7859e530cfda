"""Placements over HTTP: where would this run, what would move, and what went where."""

from __future__ import annotations

from typing import Any

from marshmallow import fields, validate
from msgspec import UnsetType

from admin.api.changes import MOST_BYTES, read_changes
from admin.api.current import context
from admin.api.operations import Operations
from admin.api.schemas import NAME, Change, RequestSchema, Whole
from admin.api.selectors import GIVEN, Time, conditions_of, scope_of
from admin.messages.executions import ExplanationAnswer
from admin.messages.placements import PlacementBody, PlacementCountsAnswer, SimulationAnswer
from admin.services import placements

operations = Operations("placements")

_COUNTED = ["cluster", "pool", "label", "domain", "project", "phase", "reason"]


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
def where_would(body: PlacementBody) -> ExplanationAnswer:
    proposed = None if isinstance(body.changes, UnsetType) else read_changes(body.changes)
    return ExplanationAnswer.from_preview(placements.where_would(context(), body.request(), proposed))


@operations.add(
    "POST",
    "/simulations",
    summary="Which recent executions would go elsewhere after some changes; nothing is written",
    body=SimulationBody,
    answer=SimulationAnswer,
    errors=(400, 409),
    most_bytes=MOST_BYTES,
)
def simulate(body: dict[str, Any]) -> SimulationAnswer:
    conditions = conditions_of({**body, "created_after": body["since"]})
    simulation = placements.simulate(context(), read_changes(body["changes"]), conditions, scope_of(body))
    return SimulationAnswer.from_simulation(simulation, since=body["since"], limit=body["limit"])


@operations.add(
    "GET",
    "/placement_counts",
    summary="How many executions went where",
    query=CountsQuery,
    answer=PlacementCountsAnswer,
)
def count_placements(query: dict[str, Any]) -> PlacementCountsAnswer:
    selector: dict[str, Any] = {name: query[name] for name in ("project", "domain") if name in query}
    if "since" in query:
        selector["created_after"] = query["since"]
    counts = placements.count_placements(context(), query["by"], conditions_of(selector), scope_of(query))
    return PlacementCountsAnswer.from_counts(query["by"], counts, query.get("since"))
