"""The registry of kinds over HTTP, so that clients learn declared ones too."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields

from admin.api.current import context
from admin.api.operations import Operations
from admin.core.settings.kinds import Kind

operations = Operations("kinds")


class KindAnswer(Schema):
    number = fields.Integer(required=True)
    name = fields.String(required=True)
    noun = fields.String(required=True)
    payload_key = fields.String(required=True)
    levels = fields.List(fields.String(), required=True)
    merge = fields.String(required=True)
    declared = fields.Boolean(required=True)
    description = fields.String(required=True)
    example = fields.Dict(required=True)
    schema = fields.Dict(required=True, metadata={"description": "JSON Schema of the payload."})


class KindsAnswer(Schema):
    kinds = fields.List(fields.Nested(KindAnswer), required=True)


@operations.add("GET", "/kinds", summary="List the kinds", answer=KindsAnswer)
def list_kinds() -> dict[str, Any]:
    return {"kinds": [as_answer(kind) for kind in context().settings.kinds]}


def as_answer(kind: Kind) -> dict[str, Any]:
    """A kind as the API shows it."""
    return {
        "number": kind.number,
        "name": kind.name,
        "noun": kind.noun,
        "payload_key": kind.payload_key,
        "levels": [level.value for level in kind.levels],
        "merge": kind.merge.value,
        "declared": kind.declared,
        "description": kind.description,
        "example": kind.example,
        "schema": kind.payload.schema(),
    }
