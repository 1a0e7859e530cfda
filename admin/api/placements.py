"""Placements over HTTP: where would this run, what would move, and what went where."""

from __future__ import annotations

from typing import Any

from msgspec import UnsetType

from admin.api.changes import MOST_BYTES
from admin.api.current import context
from admin.api.operations import Operations
from admin.messages.changes import read_changes
from admin.messages.executions import ExplanationAnswer
from admin.messages.placements import (
    CountsQuery,
    PlacementBody,
    PlacementCountsAnswer,
    SimulationAnswer,
    SimulationBody,
)
from admin.messages.selectors import conditions_of, scope_of, time_of
from admin.services import placements

operations = Operations("placements")


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
    proposed = None if isinstance(body.changes, UnsetType) else read_changes(context(), body.changes)
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
    since = time_of(body["since"], context().clock(), "since")
    conditions = conditions_of({**body, "created_after": since}, since)
    simulation = placements.simulate(context(), read_changes(context(), body["changes"]), conditions, scope_of(body))
    return SimulationAnswer.from_simulation(simulation, since=since, limit=body["limit"])


@operations.add(
    "GET",
    "/placement_counts",
    summary="How many executions went where",
    query=CountsQuery,
    answer=PlacementCountsAnswer,
)
def count_placements(query: dict[str, Any]) -> PlacementCountsAnswer:
    now = context().clock()
    since = time_of(query["since"], now, "since") if "since" in query else None
    selector: dict[str, Any] = {name: query[name] for name in ("project", "domain") if name in query}
    if since is not None:
        selector["created_after"] = since
    counts = placements.count_placements(context(), query["by"], conditions_of(selector, now), scope_of(query))
    return PlacementCountsAnswer.from_counts(query["by"], counts, since)
