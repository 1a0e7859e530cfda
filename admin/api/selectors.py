"""Selectors over HTTP: which executions a request means."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from marshmallow import ValidationError, fields, validate

from admin.api.current import context
from admin.api.schemas import NAME, RequestSchema
from admin.core.executions.selectors import Condition, equals, parse_filters, parse_time, parse_value
from admin.core.quantities import parse_duration
from admin.core.settings.scopes import Scope, check_scope


class Time(fields.Field[datetime]):
    """A time in RFC 3339, or how long ago: 24h."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> datetime:
        return read_time(value)


def read_time(value: Any) -> datetime:
    """A time in RFC 3339, or as long ago as a duration says."""
    if not isinstance(value, str):
        raise ValidationError("is neither a time (RFC 3339) nor a duration such as 24h.")
    try:
        return context().clock() - timedelta(seconds=float(parse_duration(value)))
    except (ValueError, OverflowError):
        pass
    try:
        return parse_time(value)
    except (ValueError, OverflowError):
        raise ValidationError("is neither a time (RFC 3339) nor a duration such as 24h.") from None


GIVEN = validate.Length(min=1, error="is empty; leave it out for any.")


class SelectorFields(RequestSchema):
    """Which executions; a comma stands between several values of one field."""

    phase = fields.String()
    reason = fields.String()
    cluster = fields.String(validate=NAME)
    pool = fields.String(validate=NAME)
    label = fields.String(validate=NAME)
    workflow = fields.String(validate=NAME)
    launch_plan = fields.String(validate=NAME)
    version = fields.String(validate=NAME)
    mode = fields.String()
    project = fields.String(validate=[*NAME, GIVEN])
    domain = fields.String(validate=[*NAME, GIVEN])
    created_after = Time(metadata={"type": "string", "description": "A time, or how long ago: 24h."})
    created_before = Time(metadata={"type": "string", "description": "A time, or how long ago: 24h."})
    filters = fields.String(
        validate=validate.Length(max=4000), metadata={"description": "Flyte's form: eq(phase,QUEUED)+ne(cluster,a)."}
    )


_PLAIN = ("phase", "reason", "cluster", "pool", "label", "workflow", "launch_plan", "version", "mode")


def conditions_of(said: dict[str, Any]) -> list[Condition]:
    """The conditions that a selector's fields make."""
    found = [equals(name, *_values(name, said[name])) for name in (*_PLAIN, "project", "domain") if name in said]
    for name, function in (("created_after", "gte"), ("created_before", "lt")):
        if name in said:
            found.append(Condition(field="created_at", function=function, values=(said[name],)))
    return found + (parse_filters(said["filters"]) if "filters" in said else [])


def _values(name: str, text: str) -> list[Any]:
    return [parse_value(name, one.strip()) for one in text.split(",")]


def scope_of(said: dict[str, Any]) -> Scope:
    """The project and domain of a selector, as far as it names them."""
    if said.get("project") or said.get("domain"):
        return check_scope(project=said.get("project", ""), domain=said.get("domain", ""))
    return Scope()
