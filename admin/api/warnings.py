"""Warnings over HTTP."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields

from admin.api import rendering
from admin.api.current import context
from admin.api.operations import Operations
from admin.api.schemas import WarningAnswer
from admin.services.warnings import list_warnings

operations = Operations("warnings")


class WarningsAnswer(Schema):
    warnings = fields.List(fields.Nested(WarningAnswer), required=True)


@operations.add("GET", "/warnings", summary="List what is stored but questionable", answer=WarningsAnswer)
def get_warnings() -> dict[str, Any]:
    return {"warnings": [rendering.warning(one) for one in list_warnings(context())]}
