"""Executions over HTTP."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

from flask import request
from marshmallow import Schema, ValidationError, fields, validate

from admin.api import rendering
from admin.api.operations import Operations
from admin.api.pages import key_of, number_of, token_of
from admin.api.preconditions import WriteQuery
from admin.api.registrations import IdentifierAnswer
from admin.api.rendering import context
from admin.api.schemas import NAME, PRINTABLE_LINES, Flag, Number, PageQuery, Payload, RequestSchema, Seconds
from admin.core.executions import read_spec
from admin.core.inputs import plain
from admin.core.lifecycle import Phase
from admin.core.problems import Invalid, Problem, closest, shorten, unknown_word
from admin.core.quantities import parse_duration
from admin.core.scopes import Scope, check_scope
from admin.core.selectors import SORT_FIELDS, Condition, equals, parse_filters, parse_time, typed
from admin.metrics import count_created, count_finished, count_redecided
from admin.services import executions, redecisions
from admin.services.executions import Created, Explanation
from admin.services.launches import Request, read_request
from admin.services.scopes import check_readable
from admin.store.executions import Event, Execution, ExecutionId

operations = Operations("executions")

MOST_BYTES = 4 * 1024 * 1024
_MOST_SHOWN = 1000


class IdBody(RequestSchema):
    project = fields.String(required=True, validate=NAME)
    domain = fields.String(required=True, validate=NAME)
    name = fields.String(required=True, validate=NAME)


class RequestBody(RequestSchema):
    """What to run, in Flyte's shape; the core checks the spec and the inputs."""

    project = fields.String(required=True, validate=NAME)
    domain = fields.String(required=True, validate=NAME)
    name = fields.String(validate=validate.Length(max=255))
    inputs = Payload()
    spec = Payload(required=True)
    org = fields.String(validate=validate.Equal("", error="there are no organisations here; leave it out."))


class RepeatBody(RequestSchema):
    id = fields.Nested(IdBody, required=True)
    name = fields.String(validate=validate.Length(max=255))
    overwrite_cache = Flag()
    cluster = fields.Raw(metadata={"type": "string"})
    cluster_assignment = fields.Raw(metadata={"type": "object"})
    execution_cluster_label = fields.Raw(metadata={"type": "object"})
    inputs = Payload()


class StateField(fields.String):
    """ACTIVE or ARCHIVED, also with Flyte's prefix or as its number."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        word = {0: "ACTIVE", 1: "ARCHIVED"}.get(value) if type(value) is int else value
        word = word.removeprefix("EXECUTION_") if isinstance(word, str) else word
        if word not in ("ACTIVE", "ARCHIVED"):
            raise ValidationError("is neither ACTIVE nor ARCHIVED.")
        return word


class StateBody(RequestSchema):
    state = StateField(required=True)


class CauseBody(RequestSchema):
    cause = fields.String(validate=[validate.Length(max=1000), PRINTABLE_LINES])
    claimed_by = fields.String(validate=validate.Length(max=255))


class WaitQuery(RequestSchema):
    after_event = Number(metadata={"description": "Wait until something has happened after this event."})
    wait_seconds = Seconds(load_default=0, validate=validate.Range(min=0, max=60))


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
    project = fields.String(validate=NAME)
    domain = fields.String(validate=NAME)
    created_after = Time(metadata={"type": "string", "description": "A time, or how long ago: 24h."})
    created_before = Time(metadata={"type": "string", "description": "A time, or how long ago: 24h."})
    filters = fields.String(
        validate=validate.Length(max=4000), metadata={"description": "Flyte's form: eq(phase,QUEUED)+ne(cluster,a)."}
    )


class ListQuery(SelectorFields, PageQuery):
    state = fields.String(load_default="ACTIVE", validate=validate.OneOf(["ACTIVE", "ARCHIVED", "ALL"]))
    sort_key = fields.String(data_key="sort_by.key", load_default="created_at")
    sort_direction = fields.String(
        data_key="sort_by.direction",
        load_default="DESCENDING",
        validate=validate.OneOf(["ASCENDING", "DESCENDING"]),
    )


class ManyBody(CauseBody):
    selector = fields.Nested(SelectorFields, required=True)


class ExplanationQuery(RequestSchema):
    decision = Number(least=1, metadata={"description": "An earlier decision, by its number."})


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


def _id(row: Execution) -> dict[str, str]:
    return {"project": row.project, "domain": row.domain, "name": row.name}


def _said(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if value is not None}


def _listed(row: Execution) -> dict[str, Any]:
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
    return _said(
        {
            "id": _id(row),
            "closure": _said(closure),
            "state": row.state,
            **row.launched,
            "cluster": row.cluster,
            "pool": row.pool,
            "label": row.label,
            "revision": row.revision,
            "attempt": row.attempt,
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
    return _listed(row) | _said(more)


def request_of(body: dict[str, Any]) -> Request:
    """What a body asks to run."""
    return read_request(
        project=body["project"],
        domain=body["domain"],
        name=body.get("name") or None,
        spec=body["spec"],
        inputs=body.get("inputs"),
    )


def _create(wanted: Request, *, dry_run: bool) -> dict[str, Any]:
    started = time.perf_counter()
    created = executions.create_execution(context(), wanted, dry_run=dry_run, idempotency_key=_idempotency_key())
    if created.is_new and not dry_run:
        count_created(created.execution, time.perf_counter() - started)
    return _created(created, dry_run)


def _created(created: Created, dry_run: bool) -> dict[str, Any]:
    return {
        "id": _id(created.execution),
        "created": created.is_new and not dry_run,
        "execution": shown(created.execution),
        "warnings": created.warnings,
        "dry_run": dry_run,
    }


def _idempotency_key() -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 1 <= len(key) <= 255:
        raise Invalid(Problem(field="Idempotency-Key", reason="give 1 to 255 characters."))
    return key


@operations.add(
    "POST",
    "/executions",
    summary="Create an execution",
    query=WriteQuery,
    body=RequestBody,
    answer=CreatedAnswer,
    errors=(400, 404, 409),
    headers=("Idempotency-Key",),
    most_bytes=MOST_BYTES,
)
def create_execution(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    return _create(request_of(body), dry_run=query["dry_run"])


def _repeat(word: str, mode: str, summary: str) -> None:
    @operations.add(
        "POST",
        f"/executions/{word}",
        summary=summary,
        query=WriteQuery,
        body=RepeatBody,
        answer=CreatedAnswer,
        errors=(400, 404, 409),
        headers=("Idempotency-Key",),
        most_bytes=MOST_BYTES,
    )
    def repeat(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        changes = _changes(body)
        wanted = executions.repeat_request(
            context(), ExecutionId(**body["id"]), mode=mode, name=body.get("name") or None, changes=changes
        )
        return _create(wanted, dry_run=query["dry_run"])


def _changes(body: dict[str, Any]) -> dict[str, Any]:
    """What a relaunch says anew, checked as a spec of its own."""
    said = {
        name: body[name]
        for name in ("overwrite_cache", "cluster", "cluster_assignment", "execution_cluster_label")
        if name in body
    }
    checked = read_spec({**said, "job": {"command": ["true"]}}, ())
    changes: dict[str, Any] = {name: checked[name] for name in said}
    if "inputs" in body:
        problems: list[Problem] = []
        changes["inputs"] = plain(body["inputs"], ("inputs",), problems)
        if problems:
            raise Invalid(*problems)
    return changes


_repeat("relaunch", "RELAUNCH", "Run an execution once more")
_repeat("recover", "RECOVERED", "Run an execution that did not succeed once more")


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>",
    summary="Read an execution, or wait for news of it",
    query=WaitQuery,
    answer=ExecutionAnswer,
    errors=(400, 404),
)
def get_execution(query: dict[str, Any], **key: str) -> dict[str, Any]:
    wanted = ExecutionId(**key)
    return shown(executions.get_execution(context(), wanted, query.get("after_event"), query["wait_seconds"]))


@operations.add(
    "GET", "/executions", summary="List executions of every project", query=ListQuery, answer=ExecutionsAnswer
)
def list_everywhere(query: dict[str, Any]) -> dict[str, Any]:
    return _list(query)


@operations.add(
    "GET",
    "/executions/<project>/<domain>",
    summary="List the executions of a project and domain",
    query=ListQuery,
    answer=ExecutionsAnswer,
)
def list_executions(query: dict[str, Any], **key: str) -> dict[str, Any]:
    for name in key:
        if query.get(name, key[name]) != key[name]:
            raise Invalid(Problem(field=name, reason="is not the path's; leave it out."))
    return _list({**query, **key})


_PLAIN = ("phase", "reason", "cluster", "pool", "label", "workflow", "launch_plan", "version", "mode")


def conditions_of(said: dict[str, Any]) -> list[Condition]:
    """The conditions that a selector's fields make."""
    found = [equals(name, *_values(name, said[name])) for name in (*_PLAIN, "project", "domain") if name in said]
    for name, function in (("created_after", "gte"), ("created_before", "lt")):
        if name in said:
            found.append(Condition(field="created_at", function=function, values=(said[name],)))
    return found + (parse_filters(said["filters"]) if "filters" in said else [])


def _values(name: str, text: str) -> list[Any]:
    values = [typed(name, one.strip()) for one in text.split(",")]
    if name == "phase":
        known = [phase.value for phase in Phase]
        for value in values:
            if value not in known:
                reason = unknown_word("phase", value, known)
                raise Invalid(Problem(field="phase", reason=reason, closest=closest(value, known)))
    return values


def scope_of(said: dict[str, Any]) -> Scope:
    """The project and domain of a selector, as far as it names them."""
    if said.get("project") or said.get("domain"):
        return check_scope(project=said.get("project", ""), domain=said.get("domain", ""))
    return Scope()


def _list(query: dict[str, Any]) -> dict[str, Any]:
    sort_by = query["sort_key"]
    if sort_by not in SORT_FIELDS:
        reason = unknown_word("sort key", sort_by, SORT_FIELDS)
        raise Invalid(Problem(field="sort_by.key", reason=reason, closest=closest(sort_by, SORT_FIELDS)))
    conditions = conditions_of(query)
    if query["state"] != "ALL" and not any(one.field == "state" for one in conditions):
        conditions.append(equals("state", query["state"]))
    found, last = executions.list_executions(
        context(),
        conditions,
        scope=scope_of(query),
        sort_by=sort_by,
        descending=query["sort_direction"] == "DESCENDING",
        after=_place(query.get("token"), sort_by),
        limit=query["limit"],
    )
    answer: dict[str, Any] = {"executions": [_listed(row) for row in found]}
    return answer | {"token": _token(last, sort_by)} if last is not None else answer


def _token(last: Execution, sort_by: str) -> str:
    value = getattr(last, sort_by)
    text = value.isoformat() if isinstance(value, datetime) else value or ""
    return token_of((sort_by, text, str(last.id)))


def _place(token: str | None, sort_by: str) -> tuple[Any, int] | None:
    key = key_of(token, 3)
    if key is None:
        return None
    wrong = Invalid(Problem(field="token", reason="is not a token that this list gave; leave it out to start anew."))
    if key[0] != sort_by or not (key[2].isascii() and key[2].isdecimal() and len(key[2]) < 19):
        raise wrong
    try:
        return typed(sort_by, key[1]), int(key[2])
    except Invalid:
        raise wrong from None


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>/events",
    summary="What happened to an execution, oldest first",
    query=PageQuery,
    answer=EventsAnswer,
    errors=(400, 404),
)
def list_events(query: dict[str, Any], **key: str) -> dict[str, Any]:
    above = number_of(query.get("token")) or 0
    found, last = executions.list_events(context(), ExecutionId(**key), above, query["limit"])
    answer: dict[str, Any] = {"events": [_event(one) for one in found]}
    return answer | {"token": token_of((str(last),))} if last is not None else answer


def _event(event: Event) -> dict[str, Any]:
    reason = {"code": event.reason, "message": event.message or ""} if event.reason else None
    return _said(
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


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>/explanation",
    summary="Why an execution is where it is",
    query=ExplanationQuery,
    answer=ExplanationAnswer,
    errors=(400, 404),
)
def explain(query: dict[str, Any], **key: str) -> dict[str, Any]:
    return _explanation(executions.explain(context(), ExecutionId(**key), query.get("decision")))


def _explanation(found: Explanation) -> dict[str, Any]:
    row, decision = found.execution, found.decision
    winner = next(rung for rung in found.settings["rungs"] if rung["state"] == "wins")
    return _said(
        {
            "id": _id(row),
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
            "warnings": [],
            "history": [_decision(one) for one in found.history],
        }
    )


def _decision(one: Any) -> dict[str, Any]:
    return _said(
        {
            "number": one.number,
            "decided_at": rendering.time(one.decided_at),
            "cluster": one.cluster,
            "reason": {"code": one.reason, "message": one.reason_message},
            "because": one.because,
        }
    )


@operations.add(
    "PUT",
    "/executions/<project>/<domain>/<name>",
    summary="Archive an execution, or bring it back to lists",
    body=StateBody,
    answer=ExecutionAnswer,
    errors=(400, 404),
)
def set_state(body: dict[str, Any], **key: str) -> dict[str, Any]:
    row, is_change = executions.set_state(context(), ExecutionId(**key), body["state"])
    return shown(row) | {"changed": is_change}


@operations.add(
    "DELETE",
    "/executions/<project>/<domain>/<name>",
    summary="End an execution",
    body=CauseBody,
    body_optional=True,
    answer=EndedAnswer,
    errors=(400, 404),
)
def terminate(body: dict[str, Any], **key: str) -> dict[str, Any]:
    row, is_change = executions.terminate(context(), ExecutionId(**key), *_cause(body))
    _count_ended(row, is_change)
    return _ended(row, is_change)


def _cause(body: dict[str, Any]) -> tuple[str, str]:
    return body.get("cause") or "Terminated without a cause.", body.get("claimed_by") or "anonymous"


def _count_ended(row: Execution, is_change: bool) -> None:
    if is_change:
        count_finished(row.phase, row.reason, row, context().clock())


def _ended(row: Execution, is_change: bool) -> dict[str, Any]:
    return {"id": _id(row), "phase": row.phase, "changed": is_change}


@operations.add(
    "POST",
    "/executions/terminate",
    summary="End every execution that a selector fits",
    query=WriteQuery,
    body=ManyBody,
    answer=ManyEndedAnswer,
    errors=(400,),
)
def terminate_many(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    dry_run = query["dry_run"]
    ended = executions.terminate_many(context(), _selected(body["selector"]), *_cause(body), dry_run=dry_run)
    if not dry_run:
        for row, is_change in ended:
            _count_ended(row, is_change)
    return {
        "matched": len(ended),
        "terminated": 0 if dry_run else sum(is_change for _, is_change in ended),
        "executions": [_ended(row, is_change and not dry_run) for row, is_change in ended[:_MOST_SHOWN]],
        "dry_run": dry_run,
    }


def _selected(selector: dict[str, Any]) -> list[Condition]:
    conditions = conditions_of(selector)
    if not conditions:
        raise Invalid(Problem(field="selector", reason="is empty and would mean everything; name a field."))
    with context().database.reading() as connection:
        check_readable(context(), connection, scope_of(selector))
    return conditions


@operations.add(
    "POST",
    "/executions/redecide",
    summary="Decide waiting executions again, under the settings as they are now",
    query=WriteQuery,
    body=ManyBody,
    answer=ManyRedecidedAnswer,
    errors=(400,),
)
def redecide(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    found = redecisions.redecide(context(), _selected(body["selector"]), dry_run=query["dry_run"])
    changed = [one for one in found if one.is_change]
    if not query["dry_run"]:
        count_redecided(changed)
    return {
        "matched": len(found),
        "changed": len(changed),
        "executions": [
            _said(
                {
                    "id": _id(one.execution),
                    "from": one.execution.cluster,
                    "to": one.cluster,
                    "reason": {"code": one.code, "message": shorten(one.message, 500)},
                    "changed": one.is_change,
                }
            )
            for one in [*changed, *(one for one in found if not one.is_change)][:_MOST_SHOWN]
        ],
        "dry_run": query["dry_run"],
    }
