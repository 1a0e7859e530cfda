"""Selectors: which executions a request means."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar

from marshmallow import ValidationError, fields, validate

from admin.core.executions.selectors import (
    MOST_FILTER_LENGTH,
    Condition,
    equals,
    parse_filters,
    parse_span,
    parse_time,
    parse_value,
)
from admin.core.problems import invalid
from admin.core.settings.scopes import Scope, check_scope
from admin.messages.requests import NAME, PRINTABLE_LINES, SCOPE_KEY, Fields, RequestSchema, Whole, token_field

#: A time, or how long ago.
Moment = datetime | timedelta
_NO_MOMENT = "is neither a time (RFC 3339) nor how long ago, such as 24h, 7d, 2w or 1y."
_TOO_LONG_AGO = "is too long ago."


_SCOPE_FORMS = "PROJECT, PROJECT/DOMAIN and so on, -/DOMAIN, request, platform or job."

#: How long a filter may be.
FILTER_LENGTH = validate.Length(
    max=MOST_FILTER_LENGTH,
    error="is longer than {max} characters: ask for it in parts, or join values of a field, as in value_in(name,a;b).",
)


class TimeField(fields.Field[Moment]):
    """A time in RFC 3339, or how long ago: 24h, 7d."""

    def _deserialize(self, value: object, attr: str | None, data: object, **kwargs: object) -> Moment:
        text = value if isinstance(value, str) else ""
        try:
            return parse_span(text)
        except OverflowError:
            raise ValidationError(_TOO_LONG_AGO) from None
        except ValueError:
            pass
        try:
            return parse_time(text)
        except (ValueError, OverflowError):
            raise ValidationError(_NO_MOMENT) from None


def time_of(moment: Moment, now: datetime, field: str) -> datetime:
    """The time that a moment means; Invalid for one before the calendar begins."""
    try:
        return moment if isinstance(moment, datetime) else now - moment
    except OverflowError:
        raise invalid(field, _TOO_LONG_AGO) from None


def with_times(query: Fields, now: datetime) -> Fields:
    """A query whose `after` and `before` are times."""
    return {**query, **{name: time_of(query[name], now, name) for name in ("after", "before") if name in query}}


class SelectorFields(RequestSchema):
    """Which executions; a comma stands between several values of one field."""

    phase = fields.String()
    reason = fields.String()
    cause = fields.String(metadata={"description": "Why it ended without success: LIMIT,CLUSTER_LOST."})
    cluster = fields.String(validate=NAME)
    requested_cluster = fields.String(
        validate=NAME, metadata={"description": "The cluster that its request names, wherever it is."}
    )
    pool = fields.String(validate=NAME)
    label = fields.String(validate=NAME)
    workflow = fields.String(validate=NAME)
    launch_plan = fields.String(validate=NAME)
    version = fields.String(validate=NAME)
    mode = fields.String()
    created_by = fields.String(validate=NAME)
    principal = fields.String(validate=NAME)
    abort_principal = fields.String(validate=NAME)
    origin = fields.String(
        metadata={"description": "The rung that decided where it went: request, launch-plan, project and so on."}
    )
    origin_scope = fields.String(
        validate=NAME, metadata={"description": f"The scope that said where it goes: {_SCOPE_FORMS}"}
    )
    limit_scope = fields.String(
        validate=NAME, metadata={"description": f"The scope whose limit ended it: {_SCOPE_FORMS}"}
    )
    native_id = fields.String(validate=NAME, metadata={"description": "Its name at its cluster's engine."})
    exit_code = fields.String()
    node = fields.String(validate=NAME, metadata={"description": "A node that it runs on, or ran on last."})
    revision = fields.String(metadata={"description": "The revision that its settings are of; filters take ranges."})
    silent = fields.String(metadata={"description": "true: the agent of its cluster is not heard."})
    unconfirmed = fields.String(
        metadata={"description": "true: it has ended, and nobody has confirmed that its job has."}
    )
    backoff = fields.String(metadata={"description": "true: its next attempt waits for its time."})
    on_lost = fields.String(metadata={"description": "What becomes of it if its cluster is lost: wait, fail, retry."})
    queue = fields.String(validate=NAME, metadata={"description": "The queue that it was given."})
    time_limit = fields.String(
        metadata={"description": "The longest that it may run: 1h, or none; filters take ranges."}
    )
    cpu = fields.String(metadata={"description": "How many cores it requests in all; filters take ranges."})
    memory = fields.String(metadata={"description": "How much memory it requests in all; filters take ranges."})
    gpu = fields.String(metadata={"description": "How many GPUs it requests in all; filters take ranges."})
    project = fields.String(validate=SCOPE_KEY)
    domain = fields.String(validate=SCOPE_KEY)
    created_after = TimeField(metadata={"type": "string", "description": "A time, or how long ago: 24h, 7d."})
    created_before = TimeField(metadata={"type": "string", "description": "A time, or how long ago: 24h, 7d."})
    filters = fields.String(
        validate=FILTER_LENGTH,
        metadata={"description": "Flyte's form: eq(phase,QUEUED)+eq(labels.team,ml)."},
    )


#: The fields that are conditions as they stand.
_PLAIN = [name for name in SelectorFields().fields if name not in ("created_after", "created_before", "filters")]


def conditions_of(selector: Fields, now: datetime) -> list[Condition]:
    """The conditions that a selector's fields make; the state counts where no filter names one."""
    conditions = [equals(name, *_values(name, selector[name]), asked_at=now) for name in _PLAIN if name in selector]
    for name, function in (("created_after", "gte"), ("created_before", "lt")):
        if name in selector:
            time = time_of(selector[name], now, name)
            conditions.append(Condition(field="created_at", function=function, values=(time,)))
    if "filters" in selector:
        conditions += parse_filters(selector["filters"], now)
    if selector.get("state", "ALL") != "ALL" and not any(condition.field == "state" for condition in conditions):
        conditions.append(equals("state", selector["state"]))
    return conditions


def _values(name: str, text: str) -> list[object]:
    return [parse_value(name, value.strip()) for value in text.split(",")]


def scope_of(selector: Fields) -> Scope:
    """The project and domain of a selector, as far as it names them."""
    if selector.get("project") or selector.get("domain"):
        return check_scope(project=selector.get("project", ""), domain=selector.get("domain", ""))
    return Scope()


#: Executions that one answer shows of many that were ended or decided again.
MOST_SHOWN = 1000


class CauseBody(RequestSchema):
    cause = fields.String(validate=[validate.Length(max=1000), PRINTABLE_LINES])
    claimed_by = fields.String(validate=NAME)


def _check_selector(selector: Fields) -> None:
    if not selector:
        raise ValidationError("is empty and would mean everything; name a field.")


class ManyBody(CauseBody):
    example: ClassVar[Fields] = {
        "selector": {"phase": "QUEUED", "project": "flytesnacks"},
        "cause": "The settings have changed.",
    }

    selector = fields.Nested(SelectorFields, required=True, validate=_check_selector)


class RedecideBody(ManyBody):
    limit = Whole(
        validate=validate.Range(min=1, max=1000),
        metadata={"description": "How many to decide, the oldest first; all without it. The answer has a `token`."},
    )
    token = token_field()
