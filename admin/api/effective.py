"""Effective attributes over HTTP: the merged value at a scope, where each leaf comes from, and the trail."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from admin.api import rendering
from admin.api.operations import Operations
from admin.api.rendering import context
from admin.api.schemas import OriginAnswer, Payload, ResourceType, ScopeQuery
from admin.core.scopes import check_scope
from admin.services.effective import effective_attributes

operations = Operations("effective attributes")


class EffectiveQuery(ScopeQuery):
    resource_type = ResourceType()


class StepAnswer(OriginAnswer):
    state = fields.String(required=True, validate=validate.OneOf(["set", "silent"]))
    value = Payload()
    used = fields.List(fields.String())
    overridden = fields.List(fields.String())


class ValueAnswer(Schema):
    resource_type = fields.String(required=True)
    value = Payload(required=True)
    origins = fields.Dict(keys=fields.String(), values=fields.Nested(OriginAnswer), required=True)
    unset = fields.Dict(keys=fields.String(), values=fields.Nested(OriginAnswer), required=True)
    trail = fields.List(fields.Nested(StepAnswer), required=True)


class EffectiveAnswer(Schema):
    values = fields.List(fields.Nested(ValueAnswer), required=True)
    revision = fields.Integer(required=True)


@operations.add(
    "GET",
    "/effective_attributes",
    summary="What applies at a scope, and why",
    query=EffectiveQuery,
    answer=EffectiveAnswer,
)
def get_effective(query: dict[str, Any]) -> dict[str, Any]:
    kinds = context().settings.kinds
    scope = check_scope(**{key: query.get(key, "") for key in ("domain", "project", "workflow", "launch_plan")})
    wanted = [kinds.find(query["resource_type"])] if "resource_type" in query else list(kinds)
    found = effective_attributes(context(), scope, wanted)
    return {"values": [rendering.resolved(one) for one in found.values], "revision": found.revision}
