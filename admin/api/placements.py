"""Placements over HTTP: where would this run, what would move, and what went where."""

from __future__ import annotations

from msgspec import UnsetType

from admin.api.changes import MOST_BYTES
from admin.api.current import caller, context
from admin.api.operations import Operations
from admin.messages.changes import read_changes
from admin.messages.decisions import ExplanationAnswer
from admin.messages.execution_lists import place_in_matching, place_in_newest
from admin.messages.placements import (
    CountsQuery,
    PlacementBody,
    PlacementCountsAnswer,
    SimulationAnswer,
    SimulationBody,
)
from admin.messages.reading import or_none
from admin.messages.requests import Fields
from admin.messages.selectors import conditions_of, scope_of, time_of
from admin.services import placements
from admin.services.placements import FleetState

operations = Operations("placements")


@operations.add(
    "POST",
    "/placements",
    body=PlacementBody,
    errors=(404, 409),
    permission="executions.read",
    for_agents=True,
    most_bytes=MOST_BYTES,
)
def place(body: PlacementBody) -> ExplanationAnswer:
    """Where would this run? Perhaps after some changes; nothing is written."""
    proposed = None if isinstance(body.changes, UnsetType) else read_changes(context(), body.changes)
    explanation = placements.where_would(
        context(),
        body.request(),
        proposed,
        asker=caller().identity,
        fleet=body.fleet,
        limit=or_none(body.limit),
        why_not=or_none(body.why_not),
    )
    return ExplanationAnswer.from_explanation(explanation)


@operations.add(
    "POST", "/simulations", body=SimulationBody, errors=(409,), permission="executions.read", most_bytes=MOST_BYTES
)
def simulate(body: Fields) -> SimulationAnswer:
    """Which recent executions would go elsewhere after some changes; nothing is written."""
    now = context().clock()
    since = time_of(body["since"], now, "since")
    after = place_in_matching(body.pop("token", None))
    state = FleetState(body.pop("fleet"))
    conditions = conditions_of({**body, "created_after": since}, now)
    proposed = read_changes(context(), body["changes"])
    asker = caller().identity
    simulation = placements.simulate(
        context(), proposed, conditions, scope_of(body), state, asker=asker, after_place=after
    )
    return SimulationAnswer.from_simulation(simulation, since=since, limit=body["limit"])


@operations.add("GET", "/placement_counts", query=CountsQuery, shows_some=True, permission="executions.read")
def count_placements(query: Fields) -> PlacementCountsAnswer:
    """How many executions went where."""
    now = context().clock()
    since = time_of(query["since"], now, "since") if "since" in query else None
    selector = query if since is None else {**query, "created_after": since}
    after = place_in_newest(query.get("token"))
    conditions = conditions_of(selector, now)
    counts = placements.count_placements(context(), query["by"], conditions, scope_of(query), after)
    return PlacementCountsAnswer.from_counts(query["by"], counts, since)
