"""Comparisons: what applies at two scopes, revisions or executions, or at an execution and today, leaf by leaf."""

from __future__ import annotations

from typing import Annotated, Any

from marshmallow import ValidationError, fields, validates_schema
from msgspec import Meta

from admin.core.executions.comparisons import PARTS, FactPair
from admin.core.executions.own_settings import FieldEffect
from admin.core.settings.comparisons import Leaf, LeafPair
from admin.messages.effective import FieldEffectAnswer
from admin.messages.executions import ExecutionIdAnswer, ReasonAnswer
from admin.messages.requests import SCOPE_KEY, Fields, Number, RequestSchema, ResourceType, ScopeQuery
from admin.messages.shared import Answer, Json, ProvenanceAnswer, Revisions, ScopeAnswer, Time, described_as, one_of
from admin.services.comparisons import Comparison, FieldEffects, Placed, Side


class ComparisonQuery(ScopeQuery):
    """Two scopes; a key of the other one that is left out is that of the first."""

    resource_type = ResourceType()
    at = Number(metadata={"description": "The first as of this revision; today's configuration applies."})
    other_domain = fields.String(validate=SCOPE_KEY)
    other_project = fields.String(validate=SCOPE_KEY)
    other_workflow = fields.String(validate=SCOPE_KEY)
    other_launch_plan = fields.String(validate=SCOPE_KEY)
    other_at = Number(metadata={"description": "The other as of this revision."})


class ExecutionComparisonQuery(RequestSchema):
    """Another execution; where its project or domain is left out, it is that of the first."""

    other_project = fields.String(validate=SCOPE_KEY)
    other_domain = fields.String(validate=SCOPE_KEY)
    other_name = fields.String(
        validate=SCOPE_KEY, metadata={"description": "Without it, the other is what the same request would get now."}
    )

    @validates_schema
    def _check(self, query: Fields, **_: object) -> None:
        if "other_name" not in query and query:
            raise ValidationError("goes with other_name, the name of the other execution.", next(iter(query)))


class PlacedAnswer(Answer):
    """Where an execution was placed by its last decision, and why."""

    cluster: str | None = None
    pool: str | None = None
    label: str | None = None
    strategy: str
    rule: Annotated[str, Meta(description="Which rung decided, and over which others, in words.")]
    origin: Annotated[Json, Meta(description="The rung that decided; `revisions` has that of its version.")]
    reason: ReasonAnswer
    decision: int
    decided_at: Time

    @classmethod
    def from_placed(cls, placed: Placed) -> PlacedAnswer:
        return cls.from_attributes(placed, reason=ReasonAnswer(code=placed.reason, message=placed.message))


class ComparedAnswer(ScopeAnswer):
    revision: int
    execution: Annotated[ExecutionIdAnswer | None, Meta(description="As it was decided.")] = None
    placed: Annotated[PlacedAnswer | None, Meta(description="Where the execution was placed, and why.")] = None

    @classmethod
    def from_side(cls, side: Side) -> ComparedAnswer:
        execution = side.execution and ExecutionIdAnswer.from_execution(side.execution)
        placed = None if side.placed is None else PlacedAnswer.from_placed(side.placed)
        return cls(**side.scope.keys(), revision=side.revision, execution=execution, placed=placed)


class LeafAnswer(Answer):
    """A field on one side; absent where no level says anything, unset where one takes its value away."""

    state: Annotated[str, one_of("set", "unset", "absent")]
    value: Any = None
    origin: Annotated[dict[str, Any] | None, described_as("OriginAnswer")] = None
    effect: Annotated[
        FieldEffectAnswer | None,
        Meta(
            description="Where executions do not follow it: the launch plan or the workflow's job, as registered now, "
            "or of an execution its own job says it itself, or it is above a limit."
        ),
    ] = None

    @classmethod
    def from_leaf(cls, leaf: Leaf, effect: FieldEffect | None) -> LeafAnswer:
        return cls(
            state=leaf.state,
            value=leaf.value,
            origin=None if leaf.origin is None else dict(leaf.origin),
            effect=None if effect is None else FieldEffectAnswer.from_effect(effect),
        )


class DifferenceAnswer(Answer):
    resource_type: str
    field: str
    first: LeafAnswer
    second: LeafAnswer

    @classmethod
    def from_pair(cls, pair: LeafPair, first: FieldEffects, second: FieldEffects) -> DifferenceAnswer:
        key = pair.kind, pair.path
        return cls(
            resource_type=pair.kind,
            field=pair.path,
            first=LeafAnswer.from_leaf(pair.first, first.get(key)),
            second=LeafAnswer.from_leaf(pair.second, second.get(key)),
        )


class FactAnswer(Answer):
    """A fact of two executions or clusters; a side that has none is left out."""

    part: Annotated[str, Meta(description=f"What it is about; of executions {', '.join(PARTS)}.")]
    field: str
    equal: bool
    first: Any = None
    second: Any = None

    @classmethod
    def from_pair(cls, pair: FactPair) -> FactAnswer:
        return cls(**pair.fact._asdict(), equal=pair.is_equal, first=pair.first, second=pair.second)


class ComparisonAnswer(Answer):
    message: Annotated[
        str | None, Meta(description="Of two executions: how they stand, and what differs between them.")
    ] = None
    facts: Annotated[
        list[FactAnswer] | None,
        Meta(description="Of two executions: what they are, how they were placed and how they ended."),
    ] = None
    first: ComparedAnswer
    second: ComparedAnswer
    differences: list[DifferenceAnswer]
    equal: Annotated[int, Meta(description="Fields with the same value on both sides.")]
    revisions: Revisions = None

    @classmethod
    def from_comparison(cls, comparison: Comparison) -> ComparisonAnswer:
        facts, effects = comparison.facts, (comparison.first.effects, comparison.second.effects)
        return cls(
            message=comparison.message,
            facts=None if facts is None else [FactAnswer.from_pair(pair) for pair in facts],
            first=ComparedAnswer.from_side(comparison.first),
            second=ComparedAnswer.from_side(comparison.second),
            differences=[DifferenceAnswer.from_pair(pair, *effects) for pair in comparison.differences],
            equal=comparison.equal,
            revisions=ProvenanceAnswer.by_number(comparison.provenance),
        )
