"""Placements: what would go elsewhere after a change, and what went where."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar

from marshmallow import fields, validate
from msgspec import UNSET, Meta, UnsetType

from admin.messages.creations import RequestBody
from admin.messages.execution_lists import matching_token, newest_token
from admin.messages.executions import ExecutionIdAnswer
from admin.messages.reading import Name
from admin.messages.requests import SCOPE_KEY, Fields, OneOf, RequestSchema, Whole, changes_field, token_field
from admin.messages.selectors import TimeField
from admin.messages.shared import Answer, Json, SeenAnswer, Time, one_of
from admin.services.placements import FleetState, Move, PlacementCounts, Simulation

_COUNTED = ["cluster", "pool", "label", "domain", "project", "phase", "reason"]


class SimulationBody(RequestSchema):
    example: ClassVar[Fields] = {
        "changes": [
            {"pool_definition": {"name": "gpu", "strategy": "cheapest", "members": [{"id": "east"}, {"id": "local"}]}}
        ],
        "since": "24h",
    }

    changes = changes_field()
    since = TimeField(required=True, metadata={"type": "string", "description": "A time, or how long ago: 24h."})
    project = fields.String(validate=SCOPE_KEY)
    domain = fields.String(validate=SCOPE_KEY)
    limit = Whole(load_default=1000, validate=validate.Range(min=1, max=10_000))
    fleet = fields.String(
        load_default=FleetState.CURRENT.value,
        validate=OneOf([state.value for state in FleetState]),
        metadata={"description": "The states of clusters to assume: of now, or those that each decision recorded."},
    )
    token = token_field()


class CountsQuery(RequestSchema):
    by = fields.String(required=True, validate=OneOf(_COUNTED))
    since = TimeField(metadata={"type": "string", "description": "A time, or how long ago: 24h."})
    project = fields.String(validate=SCOPE_KEY)
    domain = fields.String(validate=SCOPE_KEY)
    token = token_field()


class PlacementBody(RequestBody):
    """A request, and changes that are to be made before it."""

    example: ClassVar[Json] = {
        "project": "flytesnacks",
        "domain": "development",
        "name": "hello",
        "spec": {
            "job": {"command": ["python", "train.py"], "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}},
            "cluster_assignment": {"cluster_pool_name": "gpu"},
        },
    }
    changes: (
        Annotated[list[Any], Meta(min_length=1, extra_json_schema={"items": {"$ref": "#/components/schemas/Change"}})]
        | UnsetType
    ) = UNSET
    fleet: Annotated[
        bool,
        Meta(
            description="Tell of every cluster, candidate or not, whether it could run this; also where no candidate "
            "ever could, which is refused otherwise."
        ),
    ] = False
    why_not: Annotated[Name, Meta(description="A cluster: also say why it is not chosen.")] | UnsetType = UNSET
    limit: (
        Annotated[int, Meta(ge=1, le=10_000, description="The most of `not_candidates` to answer with.")] | UnsetType
    ) = UNSET


class PlaceAnswer(Answer):
    cluster: str | None = None
    reason: str
    message: str
    pool: str | None = None
    label: str | None = None
    refused: bool


class MoveAnswer(Answer):
    id: ExecutionIdAnswer
    before: PlaceAnswer
    after: PlaceAnswer

    @classmethod
    def from_move(cls, move: Move) -> MoveAnswer:
        return cls(
            id=ExecutionIdAnswer.from_execution(move.execution),
            before=PlaceAnswer.from_attributes(move.before),
            after=PlaceAnswer.from_attributes(move.after),
        )


class AssumedFleetAnswer(Answer):
    """The state of the fleet that a simulation assumed."""

    state: Annotated[str, one_of(*(state.value for state in FleetState))]
    at: Annotated[Time, Meta(description="When the fleet was as described here.")]
    generation: Annotated[int, Meta(description="The number of the fleet's last change.")]
    revision: Annotated[int, Meta(description="The last revision.")]
    clusters: Annotated[int, Meta(description="How many there are.")]
    off: Annotated[
        dict[str, str],
        Meta(
            description="Those that get no work now, each with the reason; with `recorded` that counts only where an "
            "execution's last decision did not consider the cluster."
        ),
    ]
    untold_clusters: Annotated[
        int | None, Meta(description="How many others get no work that you may not use, and are not told of here.")
    ] = None
    unseen_clusters: Annotated[
        int | None,
        Meta(description="How many others get no work and are not told of, since you may not read the fleet."),
    ] = None

    @classmethod
    def from_simulation(cls, simulation: Simulation) -> AssumedFleetAnswer:
        fleet, told = simulation.fleet, simulation.told
        off = {cluster.name: cluster.off_because for cluster in fleet.clusters.values() if not cluster.is_able}
        told_off = off if told is None else {name: reason for name, reason in off.items() if name in told}
        untold = len(off) - len(told_off)
        return cls.from_attributes(
            simulation,
            state=simulation.state.value,
            generation=fleet.generation,
            clusters=len(fleet.clusters),
            off=told_off,
            untold_clusters=(untold if simulation.is_use_closed else 0) or None,
            unseen_clusters=(0 if simulation.is_use_closed else untold) or None,
        )


class SimulationAnswer(Answer):
    since: Time
    compared: int
    moved: int
    refused: int
    executions: list[MoveAnswer]
    by_cluster: Annotated[
        dict[str, dict[str, int]],
        Meta(
            description="How many go to each cluster: `before` by what is decided today without the changes, which is "
            'not where they ran, and `after` with them; "" are those that wait or are refused.'
        ),
    ]
    by_refusal: Annotated[
        dict[str, dict[str, int]],
        Meta(description="How many of those are refused, `before` and `after`, by the reason's code."),
    ]
    fleet: AssumedFleetAnswer
    by_last_bids: Annotated[
        int | None,
        Meta(description="How many would ask their clusters; nobody was asked: the last bids of the clusters count."),
    ] = None
    not_counted: Annotated[
        str | None, Meta(description="What was pruned, and might have been compared; and that others come after these.")
    ] = None
    complete: Annotated[bool, Meta(description="Whether no executions come after those that were compared.")]
    token: Annotated[str | None, Meta(description="Where more are to be compared: ask for them, and add both.")] = None

    @classmethod
    def from_simulation(cls, simulation: Simulation, *, since: datetime, limit: int) -> SimulationAnswer:
        return cls(
            since=since,
            compared=simulation.compared,
            moved=len(simulation.moves),
            refused=sum(move.after.refused for move in simulation.moves),
            executions=[MoveAnswer.from_move(move) for move in simulation.moves[:limit]],
            by_cluster=_both(simulation.before, simulation.after),
            by_refusal=_both(simulation.refused_before, simulation.refused_after),
            fleet=AssumedFleetAnswer.from_simulation(simulation),
            by_last_bids=simulation.by_last_bids or None,
            not_counted=_not_counted(simulation, "compared", simulation.compared),
            complete=simulation.last is None,
            token=matching_token(simulation.last),
        )


def _not_counted(page: Simulation | PlacementCounts, verb: str, number: int) -> str | None:
    """What was pruned, and that there are more than one answer counts, which an older client cannot ask for."""
    more = f"These are {number:,} executions; the others are {verb} with the token." if page.last is not None else None
    return " ".join(filter(None, (page.not_counted, more))) or None


def _both(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """The numbers before and after a change, by what they count."""
    return {name: {"before": before.get(name, 0), "after": after.get(name, 0)} for name in sorted({*before, *after})}


class CountAnswer(Answer):
    value: str
    count: int


class PlacementCountsAnswer(SeenAnswer):
    by: str
    counts: list[CountAnswer]
    total: int
    since: Time | None = None
    not_counted: Annotated[
        str | None, Meta(description="What was pruned, and might have been among them; and that there are others.")
    ] = None
    token: Annotated[str | None, Meta(description="More to count: ask for the next page and add its counts.")] = None

    @classmethod
    def from_counts(cls, by: str, placed: PlacementCounts, since: datetime | None) -> PlacementCountsAnswer:
        total = sum(count for _, count in placed.counts)
        return cls(
            by=by,
            counts=[CountAnswer(value=value, count=count) for value, count in placed.counts],
            total=total,
            since=since,
            not_counted=_not_counted(placed, "counted", total),
            token=newest_token(placed.last),
        )
