"""Effective attributes: the merged value at a scope, where each leaf comes from, and the trail."""

from __future__ import annotations

from typing import Annotated

from marshmallow import fields, validate
from msgspec import Meta

from admin.core.problems import dotted
from admin.core.settings.resolution import Resolved, Step
from admin.messages.requests import (
    ChangeField,
    Number,
    ResourceType,
    ScopeQuery,
)
from admin.messages.shared import LEVELS, Answer, Json, OriginAnswer, ScopeAnswer, keys_of, one_of, origins_by_path
from admin.services.effective import Effective


class EffectiveQuery(ScopeQuery):
    resource_type = ResourceType()
    at = Number(metadata={"description": "As of this revision; today's configuration applies."})


class ProposalBody(ScopeQuery):
    resource_type = ResourceType()
    changes = fields.List(ChangeField(allow_none=True), required=True, validate=validate.Length(min=1))


class StepAnswer(ScopeAnswer):
    """What one level says of a kind, which may be nothing."""

    level: Annotated[str, one_of(*LEVELS)]
    state: Annotated[str, one_of("set", "silent")]
    value: Json | None = None
    version: Annotated[int | None, Meta(description="Of the stored row.")] = None
    key: Annotated[str | None, Meta(description="The configuration key, for the platform's own values.")] = None
    used: list[str] | None = None
    overridden: list[str] | None = None

    @classmethod
    def from_step(cls, step: Step) -> StepAnswer:
        keys = keys_of(step.scope) if not step.layer else {}
        level = step.layer or step.scope.level.value
        if step.payload is None:
            return cls(**keys, level=level, state="silent")
        return cls(
            **keys,
            level=level,
            state="set",
            value=step.payload,
            version=step.version,
            key=step.key or None,
            used=[dotted(path) for path in step.used],
            overridden=[dotted(path) for path in step.overridden],
        )


class ValueAnswer(Answer):
    resource_type: str
    value: Json
    origins: dict[str, OriginAnswer]
    unset: dict[str, OriginAnswer]
    trail: list[StepAnswer]

    @classmethod
    def from_resolved(cls, resolved: Resolved) -> ValueAnswer:
        return cls(
            resource_type=resolved.kind.name,
            value=resolved.value,
            origins=origins_by_path(resolved.origins),
            unset=origins_by_path(resolved.unset),
            trail=[StepAnswer.from_step(step) for step in resolved.trail],
        )


class EffectiveAnswer(Answer):
    values: list[ValueAnswer]
    revision: int

    @classmethod
    def from_effective(cls, effective: Effective) -> EffectiveAnswer:
        values = [ValueAnswer.from_resolved(resolved) for resolved in effective.values]
        return cls(values=values, revision=effective.revision)
