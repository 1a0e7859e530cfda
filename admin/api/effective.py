"""Effective attributes over HTTP: the merged value at a scope, where each leaf comes from, and the trail."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from admin.api.changes import MOST_BYTES, read_changes
from admin.api.current import context
from admin.api.operations import Operations
from admin.api.schemas import Change, Number, OriginAnswer, Payload, ResourceType, ScopeQuery
from admin.core.settings import trails
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import Scope, check_scope
from admin.services.effective import Effective, effective_attributes

operations = Operations("effective attributes")


class EffectiveQuery(ScopeQuery):
    resource_type = ResourceType()
    at = Number(metadata={"description": "As of this revision; today's configuration applies."})


class ProposalBody(ScopeQuery):
    resource_type = ResourceType()
    changes = fields.List(Change(allow_none=True), required=True, validate=validate.Length(min=1))


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
    errors=(400, 404),
)
def get_effective(query: dict[str, Any]) -> dict[str, Any]:
    return _answer(effective_attributes(context(), _scope(query), _kinds(query), at=query.get("at")))


@operations.add(
    "POST",
    "/effective_attributes",
    summary="What would apply at a scope if some changes were made, and why",
    body=ProposalBody,
    answer=EffectiveAnswer,
    errors=(400, 409),
    most_bytes=MOST_BYTES,
)
def get_proposed(body: dict[str, Any]) -> dict[str, Any]:
    proposed = read_changes(body["changes"])
    return _answer(effective_attributes(context(), _scope(body), _kinds(body), proposed=proposed))


def _scope(said: dict[str, Any]) -> Scope:
    return check_scope(**{key: said.get(key, "") for key in ("domain", "project", "workflow", "launch_plan")})


def _kinds(fields: dict[str, Any]) -> list[Kind]:
    kinds = context().settings.kinds
    return [kinds.find(fields["resource_type"])] if "resource_type" in fields else [*kinds]


def _answer(found: Effective) -> dict[str, Any]:
    return {"values": [trails.resolved(one) for one in found.values], "revision": found.revision}
