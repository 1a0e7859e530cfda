"""Effective attributes: the merged value at a scope, where each leaf comes from, and the trail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from msgspec import Meta

from admin.core.executions.consequences import ConsequenceCode
from admin.core.executions.own_settings import FIELD_OUTCOMES, FieldEffect
from admin.core.settings import trails
from admin.core.settings.field_revisions import with_revisions
from admin.core.settings.kinds import Kind
from admin.core.settings.nearest import update_command
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.messages.requests import Fields, Flag, Number, ResourceType, ScopeQuery, changes_field
from admin.messages.shared import (
    LEVELS,
    Answer,
    Json,
    OriginAnswer,
    ProvenanceAnswer,
    Revisions,
    ScopeAnswer,
    SetBefore,
    described_as,
    one_of,
)
from admin.messages.unknown_names import UnknownNameAnswer, UnknownNames
from admin.services.consequences import ShownConsequence
from admin.services.effective import Effective


class EffectiveQuery(ScopeQuery):
    resource_type = ResourceType()
    at = Number(metadata={"description": "As of this revision; today's configuration applies."})
    provenance = Flag(
        load_default=False, metadata={"description": "With the revisions that the values were set by: who, when, why."}
    )
    nearest = Flag(
        load_default=False,
        metadata={"description": "With the nearest row one scope over, for each kind that no row sets here or above."},
    )


class ProposalBody(ScopeQuery):
    example: ClassVar[Fields] = {
        "project": "flytesnacks",
        "domain": "development",
        "resource_type": "TASK_RESOURCE",
        "changes": [
            {"resource_type": "TASK_RESOURCE", "domain": "development", "payload": {"limits": {"memory": "8Gi"}}}
        ],
    }

    resource_type = ResourceType()
    changes = changes_field()


# `admin.core.settings.trails` writes effective values, for they are also stored so; these messages describe them.
class StepAnswer(ScopeAnswer):
    """What one level says of a kind, which may be nothing."""

    level: Annotated[str, one_of(*LEVELS)]
    state: Annotated[str, one_of("set", "silent")]
    value: Json | None = None
    version: Annotated[int | None, Meta(description="Of the stored row.")] = None
    key: Annotated[str | None, Meta(description="The configuration key, for the platform's own values.")] = None
    used: list[str] | None = None
    overridden: list[str] | None = None
    revisions: Annotated[
        dict[str, int] | None, Meta(description="Which revisions set its fields; with provenance, as far as known.")
    ] = None
    set_before: SetBefore = None
    assumed: Annotated[list[str] | None, Meta(description="The fields that the proposed changes would set.")] = None


class ValueAnswer(Answer):
    resource_type: str
    value: Json
    origins: dict[str, OriginAnswer]
    unset: dict[str, OriginAnswer]
    trail: list[StepAnswer]


class NearestAnswer(ScopeAnswer):
    """A row one scope over from one at which nothing applies."""

    level: Annotated[str, one_of(*LEVELS)]
    version: int
    value: Json
    command: Annotated[str, Meta(description="Sets the same at the scope that was asked about.")]
    warning: Annotated[str | None, Meta(description="That it names something unknown: better not set the same.")] = None

    @classmethod
    def from_row(cls, kind: Kind, scope: Scope, row: Row, warning: str | None) -> NearestAnswer:
        command, level = update_command(kind, scope, row), row.scope.level.value
        return cls.from_attributes(row, level=level, value=row.payload, command=command, warning=warning)


class ConsequenceAnswer(Answer):
    """What happens with a value that executions do not follow."""

    outcome: Annotated[str, one_of(*(code.value for code in ConsequenceCode))]
    message: str
    noun: Annotated[str | None, Meta(description="Of what outranks it: pool or label.")] = None
    name: Annotated[str | None, Meta(description="Of the pool or label that outranks it.")] = None
    origin: Annotated[OriginAnswer | None, Meta(description="Where that is set.")] = None

    @classmethod
    def from_consequence(cls, consequence: ShownConsequence) -> ConsequenceAnswer:
        origin = None if consequence.origin is None else OriginAnswer(**consequence.origin)
        return cls.from_attributes(consequence, outcome=consequence.outcome.value, origin=origin)


class FieldEffectAnswer(Answer):
    """What happens with a field that executions do not follow."""

    field: str
    outcome: Annotated[str, one_of(*(code.value for code in FIELD_OUTCOMES), ConsequenceCode.OUTRANKED.value)]
    effect: Annotated[str, Meta(description="What wins, in a few words.")]
    message: Annotated[str, Meta(description="Why, in a sentence about all fields of one reason.")]
    value: Annotated[Any, Meta(description="What executions get instead, where that is one value.")] = None

    @classmethod
    def from_effect(cls, effect: FieldEffect) -> Self:
        return cls.from_attributes(effect, outcome=effect.outcome.value)

    @classmethod
    def by_kind(cls, effects: Mapping[str, Sequence[FieldEffect]]) -> dict[str, list[Self]] | None:
        """Those of each kind that has some; None where there are none."""
        answers = {
            kind: [cls.from_effect(effect) for effect in of_kind] for kind, of_kind in effects.items() if of_kind
        }
        return answers or None


class EffectiveAnswer(Answer):
    values: list[Annotated[Json, described_as("ValueAnswer")]]
    revision: int
    revisions: Revisions = None
    nearest: Annotated[
        dict[str, NearestAnswer] | None,
        Meta(description="By the kinds that no row sets here or above; if it was asked for."),
    ] = None
    deleted_by: Annotated[
        dict[str, ProvenanceAnswer] | None,
        Meta(description="By kind, which revision deleted the row that stood here, if it is kept; with provenance."),
    ] = None
    consequences: Annotated[
        dict[str, ConsequenceAnswer] | None,
        Meta(description="By the kinds whose values executions do not follow now; in answers with provenance."),
    ] = None
    field_effects: Annotated[
        dict[str, list[FieldEffectAnswer]] | None,
        Meta(
            description="By kind, the fields that executions do not follow: the launch plan or the workflow's job says "
            "them itself, they are above a limit, or no engine of Rainbow reads them; in answers with provenance."
        ),
    ] = None
    unknown_names: UnknownNames = None

    @classmethod
    def from_effective(cls, effective: Effective) -> EffectiveAnswer:
        set_by, nearest, consequences = effective.set_by, effective.nearest, effective.consequences
        values = [trails.resolved(value) for value in effective.values]
        resolved = {value.kind.name: value for value in effective.values}
        return cls(
            values=values if set_by is None else [with_revisions(value, set_by.fields) for value in values],
            revision=effective.revision,
            revisions=None if set_by is None else ProvenanceAnswer.by_number(set_by.provenance),
            nearest=None
            if nearest is None
            else {
                name: NearestAnswer.from_row(
                    resolved[name].kind, resolved[name].scope, row, effective.nearest_warnings.get(name)
                )
                for name, row in nearest.items()
            },
            deleted_by={name: ProvenanceAnswer.from_attributes(entry) for name, entry in effective.deleted_by.items()}
            if effective.deleted_by
            else None,
            consequences={name: ConsequenceAnswer.from_consequence(entry) for name, entry in consequences.items()}
            if consequences
            else None,
            field_effects=FieldEffectAnswer.by_kind(effective.field_effects or {}),
            unknown_names=UnknownNameAnswer.from_unknown(effective.unknown_names),
        )
