"""How executions, their events and their explanations stand in answers."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from admin.api import rendering
from admin.api.registrations import IdentifierAnswer
from admin.api.schemas import ErrorDetail, Payload
from admin.core.executions.lifecycle import Phase
from admin.core.executions.spec import request_warnings
from admin.services.executions import Explanation
from admin.store.executions import Event, Execution


class ExecutionIdAnswer(Schema):
    project = fields.String(required=True)
    domain = fields.String(required=True)
    name = fields.String(required=True)


class ReasonAnswer(Schema):
    code = fields.String(required=True)
    message = fields.String(required=True)


class ClosureAnswer(Schema):
    phase = fields.String(required=True, validate=validate.OneOf([phase.value for phase in Phase]))
    reason = fields.Nested(ReasonAnswer, required=True)
    created_at = fields.DateTime(required=True)
    updated_at = fields.DateTime(required=True)
    started_at = fields.DateTime()
    finished_at = fields.DateTime()
    duration = fields.Float()
    abort_metadata = fields.Dict()


class ListedAnswer(Schema):
    id = fields.Nested(ExecutionIdAnswer, required=True)
    closure = fields.Nested(ClosureAnswer, required=True)
    state = fields.String(required=True)
    workflow = fields.Nested(IdentifierAnswer)
    launch_plan = fields.Nested(IdentifierAnswer)
    cluster = fields.String()
    pool = fields.String()
    label = fields.String()
    revision = fields.Integer(required=True)
    attempt = fields.Integer(required=True)
    native_id = fields.String()
    nodes = fields.List(fields.String())
    exit_code = fields.Integer()
    lease_expires_at = fields.DateTime(metadata={"description": "Until when its agent need not be heard."})
    decisions = fields.Integer(required=True)
    events = fields.Integer(required=True)
    mode = fields.String(required=True)
    reference_execution = fields.Nested(ExecutionIdAnswer)


class ExecutionAnswer(ListedAnswer):
    spec = Payload(required=True)
    inputs = Payload(required=True)
    job = Payload(required=True)
    config = Payload(required=True)
    queue = fields.String()
    quality_of_service = fields.Dict()
    plugins = fields.Dict()
    attributes = fields.Dict(required=True)
    changed = fields.Boolean()


class NoticeAnswer(Schema):
    code = fields.String(required=True)
    message = fields.String(required=True)


class CreatedAnswer(Schema):
    id = fields.Nested(ExecutionIdAnswer, required=True)
    created = fields.Boolean(required=True)
    execution = fields.Nested(ExecutionAnswer, required=True)
    warnings = fields.List(fields.Nested(NoticeAnswer), required=True)
    dry_run = fields.Boolean(required=True)


class OneError(Schema):
    status = fields.Integer(required=True)
    code = fields.Integer(required=True)
    error = fields.String(required=True)
    message = fields.String(required=True)
    details = fields.List(fields.Nested(ErrorDetail), required=True)


class OneResult(Schema):
    """One of many that were to be created: its id and place, or an error."""

    id = fields.Nested(ExecutionIdAnswer)
    created = fields.Boolean()
    phase = fields.String()
    cluster = fields.String()
    reason = fields.Nested(ReasonAnswer)
    warnings = fields.List(fields.Nested(NoticeAnswer))
    error = fields.Nested(OneError)


class CreationsAnswer(Schema):
    """One execution; or the results of many, in their order, and how many were created, repeated and failed."""

    dry_run = fields.Boolean(required=True)
    created = fields.Raw(required=True, metadata={"type": ["boolean", "integer"]})
    id = fields.Nested(ExecutionIdAnswer)
    execution = fields.Nested(ExecutionAnswer)
    warnings = fields.List(fields.Nested(NoticeAnswer))
    results = fields.List(fields.Nested(OneResult))
    repeated = fields.Integer()
    failed = fields.Integer()


class ExecutionsAnswer(Schema):
    executions = fields.List(fields.Nested(ListedAnswer), required=True)
    token = fields.String()


class EventAnswer(Schema):
    number = fields.Integer(required=True)
    at = fields.DateTime(required=True)
    type = fields.String(required=True)
    phase = fields.String(required=True)
    reason = fields.Nested(ReasonAnswer)
    cluster = fields.String()
    by = fields.String()


class EventsAnswer(Schema):
    events = fields.List(fields.Nested(EventAnswer), required=True)
    pruned = fields.Boolean(metadata={"description": "Some before these are no longer kept."})
    token = fields.String()


class EndedAnswer(Schema):
    id = fields.Nested(ExecutionIdAnswer, required=True)
    phase = fields.String(required=True)
    changed = fields.Boolean(required=True)


class ManyEndedAnswer(Schema):
    matched = fields.Integer(required=True)
    terminated = fields.Integer(required=True)
    executions = fields.List(fields.Nested(EndedAnswer), required=True)
    dry_run = fields.Boolean(required=True)


class RedecidedAnswer(Schema):
    id = fields.Nested(ExecutionIdAnswer, required=True)
    from_ = fields.String(data_key="from", allow_none=True)
    to = fields.String(allow_none=True)
    reason = fields.Nested(ReasonAnswer, required=True)
    changed = fields.Boolean(required=True)


class ManyRedecidedAnswer(Schema):
    matched = fields.Integer(required=True)
    changed = fields.Integer(required=True)
    executions = fields.List(fields.Nested(RedecidedAnswer), required=True)
    dry_run = fields.Boolean(required=True)


class LogsAnswer(Schema):
    attempt = fields.Integer(required=True)
    stream = fields.String(required=True)
    offset = fields.Integer(required=True)
    data = fields.String(required=True)
    next_offset = fields.Integer(required=True)
    complete = fields.Boolean(required=True, metadata={"description": "It has ended, and there is no more."})
    truncated = fields.Boolean(required=True, metadata={"description": "It printed more than is kept."})
    pruned = fields.Boolean(metadata={"description": "It ended so long ago that what it printed is no longer kept."})


class OutputAnswer(Schema):
    path = fields.String(required=True)
    size = fields.Integer(required=True)
    truncated = fields.Boolean(required=True)
    attempt = fields.Integer(required=True)
    content_base64 = fields.String(required=True)


class OutputsAnswer(Schema):
    outputs = fields.List(fields.Nested(OutputAnswer), required=True)
    pruned = fields.Boolean(metadata={"description": "It ended so long ago that what it left is no longer kept."})


class ExplanationAnswer(Schema):
    id = fields.Nested(ExecutionIdAnswer, required=True)
    cluster = fields.String()
    reason = fields.Nested(ReasonAnswer, required=True)
    pool = fields.String()
    label = fields.String()
    strategy = fields.String(required=True)
    revision = fields.Integer(required=True)
    decided_at = fields.DateTime()
    decision = fields.Integer()
    because = fields.String()
    rungs = fields.List(fields.Dict(), required=True)
    candidates = fields.List(fields.Dict(), required=True)
    settings = fields.List(fields.Dict(), required=True)
    job = Payload(required=True)
    queue = fields.String()
    warnings = fields.List(fields.Nested(NoticeAnswer), required=True)
    history = fields.List(fields.Dict())


def id_of(row: Execution) -> dict[str, str]:
    return {"project": row.project, "domain": row.domain, "name": row.name}


def said(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if value is not None}


def listed(row: Execution) -> dict[str, Any]:
    lease = getattr(row, "lease_expires_at", None)
    closure = {
        "phase": row.phase,
        "reason": {"code": row.reason, "message": row.reason_message},
        "created_at": rendering.time(row.created_at),
        "updated_at": rendering.time(row.updated_at),
        "started_at": rendering.time(row.started_at) if row.started_at else None,
        "finished_at": rendering.time(row.finished_at) if row.finished_at else None,
        "duration": row.duration,
    }
    if row.abort_cause is not None:
        closure["abort_metadata"] = {"cause": row.abort_cause, "principal": row.abort_principal}
    return said(
        {
            "id": id_of(row),
            "closure": said(closure),
            "state": row.state,
            **row.launched,
            "cluster": row.cluster,
            "pool": row.pool,
            "label": row.label,
            "revision": row.revision,
            "attempt": row.attempt,
            "native_id": getattr(row, "native_id", None),
            "nodes": getattr(row, "nodes", None),
            "exit_code": getattr(row, "exit_code", None),
            "lease_expires_at": rendering.time(lease) if lease else None,
            "decisions": row.decisions,
            "events": row.events,
            "mode": row.mode,
            "reference_execution": row.reference,
        }
    )


def shown(row: Execution) -> dict[str, Any]:
    """An execution as it stands in answers."""
    content = row.content
    quality = dict(content["quality_of_service"])
    if row.queue_deadline is not None:
        quality["queue_deadline"] = rendering.time(row.queue_deadline)
    more = {
        "spec": row.request["spec"],
        "inputs": content["inputs"],
        "job": content["job"],
        "config": content["config"],
        "queue": content["queue"],
        "quality_of_service": quality or None,
        "plugins": content["plugins"],
        "attributes": content["attributes"],
    }
    return listed(row) | said(more)


def event_of(event: Event) -> dict[str, Any]:
    reason = {"code": event.reason, "message": event.message or ""} if event.reason else None
    return said(
        {
            "number": event.number,
            "at": rendering.time(event.at),
            "type": event.type,
            "phase": event.phase,
            "reason": reason,
            "cluster": event.cluster,
            "by": event.by,
        }
    )


def explanation_of(found: Explanation) -> dict[str, Any]:
    row, decision = found.execution, found.decision
    winner = next(rung for rung in found.settings["rungs"] if rung["state"] == "wins")
    return said(
        {
            "id": id_of(row),
            "cluster": decision.cluster,
            "reason": {"code": decision.reason, "message": decision.reason_message},
            "pool": winner["name"] if winner["kind"] == "pool" else None,
            "label": winner["name"] if winner["kind"] == "label" else None,
            "strategy": found.strategy,
            "revision": decision.revision,
            "decided_at": rendering.time(decision.decided_at),
            "decision": decision.number,
            "because": decision.because,
            "rungs": found.settings["rungs"],
            "candidates": found.candidates,
            "settings": found.settings["settings"],
            "job": row.content["job"],
            "queue": row.content["queue"],
            "warnings": request_warnings(row.request["spec"]),
            "history": [_decision(one) for one in found.history],
        }
    )


def _decision(one: Any) -> dict[str, Any]:
    return said(
        {
            "number": one.number,
            "decided_at": rendering.time(one.decided_at),
            "cluster": one.cluster,
            "reason": {"code": one.reason, "message": one.reason_message},
            "because": one.because,
        }
    )
