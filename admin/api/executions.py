"""Executions over HTTP."""

from __future__ import annotations

import base64
import time
from datetime import datetime
from typing import Any

from flask import request
from marshmallow import ValidationError, fields, validate

from admin.api.execution_answers import (
    CreatedAnswer,
    CreationsAnswer,
    EndedAnswer,
    EventsAnswer,
    ExecutionAnswer,
    ExecutionsAnswer,
    ExplanationAnswer,
    LogsAnswer,
    ManyEndedAnswer,
    ManyRedecidedAnswer,
    OutputsAnswer,
    event_of,
    explanation_of,
    id_of,
    listed,
    said,
    shown,
)
from admin.api.operations import Operations
from admin.api.pages import key_of, number_of, token_of
from admin.api.preconditions import WriteQuery
from admin.api.rendering import context
from admin.api.schemas import (
    NAME,
    PRINTABLE_LINES,
    Flag,
    Number,
    PageQuery,
    Payload,
    RequestSchema,
    Seconds,
    Whole,
    load,
)
from admin.api.selectors import SelectorFields, conditions_of, scope_of
from admin.core.executions import read_spec
from admin.core.inputs import plain
from admin.core.json_text import json_text
from admin.core.lifecycle import Phase
from admin.core.problems import Invalid, Problem, closest, shorten, unknown_word
from admin.core.selectors import SORT_FIELDS, Condition, equals, typed
from admin.errors import InvalidRequest
from admin.metrics import count_created, count_finished, count_redecided
from admin.services import creations, executions, redecisions
from admin.services.creations import Created, Refusal
from admin.services.launches import Request, read_request
from admin.services.logs import read_log, read_outputs
from admin.services.scopes import check_readable
from admin.store.execution_lists import Place
from admin.store.executions import Execution, ExecutionId

operations = Operations("executions")

MOST_BYTES = 4 * 1024 * 1024
MOST_AT_ONCE = 1000
_MOST_SHOWN = 1000
#: Specs that are remembered, and their size.
_MOST_SPECS, _LONGEST_SPEC = 1024, 16_384


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


class OneOfMany(fields.Raw):
    """One of many; each is checked and answered for itself."""


class CreationBody(RequestBody):
    """One execution, or many."""

    project = fields.String(validate=NAME)
    domain = fields.String(validate=NAME)
    spec = Payload()
    executions = fields.List(
        OneOfMany(allow_none=True),
        validate=validate.Length(min=1, max=MOST_AT_ONCE),
        metadata={"description": f"Up to {MOST_AT_ONCE} bodies as for one, in place of all other fields."},
    )


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
    claimed_by = fields.String(validate=NAME)


class WaitQuery(RequestSchema):
    after_event = Number(metadata={"description": "Wait until something has happened after this event."})
    wait_seconds = Seconds(load_default=0, validate=validate.Range(min=0, max=60))


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


def request_of(body: dict[str, Any]) -> Request:
    """What a body asks to run."""
    return read_request(
        project=body["project"],
        domain=body["domain"],
        name=body.get("name") or None,
        spec=body["spec"],
        inputs=body.get("inputs"),
        read=_specs.read,
    )


def _create(wanted: Request, *, dry_run: bool) -> dict[str, Any]:
    started = time.perf_counter()
    created = creations.create_execution(context(), wanted, dry_run=dry_run, idempotency_key=_idempotency_key())
    if created.is_new and not dry_run:
        count_created(created.execution, time.perf_counter() - started)
    return _created(created, dry_run)


def _create_many(bodies: list[Any], *, dry_run: bool) -> dict[str, Any]:
    started = time.perf_counter()
    read = [_read(body) for body in bodies]
    wanted = {place: one for place, one in enumerate(read) if isinstance(one, Request)}
    answers = creations.create_executions(
        context(), wanted.values(), dry_run=dry_run, idempotency_key=_idempotency_key(), places=wanted
    )
    following = iter(answers)
    found = [next(following) if isinstance(one, Request) else one for one in read]
    new = [one for one in found if isinstance(one, Created) and one.is_new]
    seconds = (time.perf_counter() - started) / len(bodies)
    for one in new if not dry_run else ():
        count_created(one.execution, seconds)
    return {
        "results": [_result(one) for one in found],
        "created": len(new),
        "repeated": sum(isinstance(one, Created) for one in found) - len(new),
        "failed": sum(isinstance(one, Exception) for one in found),
        "dry_run": dry_run,
    }


class _Specs:
    """Specs that were read before. They are often alike, and always the same once they are read."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, Any]] = {}

    def read(self, spec: Any) -> dict[str, Any]:
        text = json_text(spec)
        found = self._known.get(text)
        if found is None:
            found = read_spec(spec)
            if len(text) <= _LONGEST_SPEC:
                if len(self._known) >= _MOST_SPECS:
                    self._known.clear()
                self._known[text] = found
        return found


_specs = _Specs()


def _read(body: Any) -> Request | Refusal:
    if not isinstance(body, dict):
        return Invalid(Problem(field="", reason="is not a mapping."))
    try:
        return request_of(load(_ONE, body))
    except Invalid as refusal:
        return refusal


def _result(found: Created | Refusal) -> dict[str, Any]:
    if isinstance(found, Created):
        row = found.execution
        return said(
            {
                "id": id_of(row),
                "created": found.is_new,
                "phase": row.phase,
                "cluster": row.cluster,
                "reason": {"code": row.reason, "message": row.reason_message},
                "warnings": found.warnings,
            }
        )
    error = InvalidRequest.of(found) if isinstance(found, Invalid) else found
    return {
        "error": {
            "status": error.status,
            "code": error.code,
            "error": error.name,
            "message": error.message,
            "details": error.details,
        }
    }


_ONE = RequestBody()


def _created(created: Created, dry_run: bool) -> dict[str, Any]:
    return {
        "id": id_of(created.execution),
        "created": created.is_new,
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
    for_agents=True,
    summary="Create an execution, or many",
    query=WriteQuery,
    body=CreationBody,
    answer=CreationsAnswer,
    errors=(400, 404, 409),
    headers=("Idempotency-Key",),
    most_bytes=MOST_BYTES,
)
def create_execution(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    if "executions" not in body:
        missing = [name for name in ("project", "domain", "spec") if name not in body]
        if missing:
            raise Invalid(*(Problem(field=name, reason="is missing.") for name in missing))
        return _create(request_of(body), dry_run=query["dry_run"])
    for name in body.keys() - {"executions"}:
        raise Invalid(Problem(field=name, reason="stands beside executions; put it into each of them."))
    return _create_many(body["executions"], dry_run=query["dry_run"])


def _repeat(word: str, mode: str, summary: str) -> None:
    @operations.add(
        "POST",
        f"/executions/{word}",
        for_agents=True,
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
    changes: dict[str, Any] = {name: checked[name] for name in said if name in checked}
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
    for_agents=True,
    summary="Read an execution, or wait for news of it",
    query=WaitQuery,
    answer=ExecutionAnswer,
    errors=(400, 404),
)
def get_execution(query: dict[str, Any], **key: str) -> dict[str, Any]:
    wanted = ExecutionId(**key)
    return shown(executions.get_execution(context(), wanted, query.get("after_event"), query["wait_seconds"]))


@operations.add(
    "GET",
    "/executions",
    for_agents=True,
    summary="List executions of every project",
    query=ListQuery,
    answer=ExecutionsAnswer,
)
def list_everywhere(query: dict[str, Any]) -> dict[str, Any]:
    return _list(query)


@operations.add(
    "GET",
    "/executions/<project>/<domain>",
    for_agents=True,
    summary="List the executions of a project and domain",
    query=ListQuery,
    answer=ExecutionsAnswer,
)
def list_executions(query: dict[str, Any], **key: str) -> dict[str, Any]:
    for name in key:
        if query.get(name, key[name]) != key[name]:
            raise Invalid(Problem(field=name, reason="is not the path's; leave it out."))
    return _list({**query, **key})


def _list(query: dict[str, Any]) -> dict[str, Any]:
    sort_by = query["sort_key"]
    if sort_by not in SORT_FIELDS:
        reason = unknown_word("sort key", sort_by, SORT_FIELDS)
        raise Invalid(Problem(field="sort_by.key", reason=reason, closest=closest(sort_by, SORT_FIELDS)))
    order = f"{sort_by} {query['sort_direction']}"
    conditions = conditions_of(query)
    if query["state"] != "ALL" and not any(one.field == "state" for one in conditions):
        conditions.append(equals("state", query["state"]))
    found = executions.list_executions(
        context(),
        conditions,
        scope=scope_of(query),
        sort_by=sort_by,
        descending=query["sort_direction"] == "DESCENDING",
        after=_place(query.get("token"), sort_by, order),
        limit=query["limit"],
    )
    answer: dict[str, Any] = {"executions": [listed(row) for row in found.executions]}
    return answer if found.last is None else answer | {"token": _token(found.last, order)}


def _token(last: Place, order: str) -> str:
    value, row_id = last
    text = value.isoformat() if isinstance(value, datetime) else value
    return token_of((order, text, str(row_id)))


def _place(token: str | None, sort_by: str, order: str) -> Place | None:
    key = key_of(token, 3)
    if key is None:
        return None
    wrong = Invalid(Problem(field="token", reason="is not a token that this list gave; leave it out to start anew."))
    if key[0] != order or not (key[2].isascii() and key[2].isdecimal() and len(key[2]) < 19):
        raise wrong
    try:
        return typed(sort_by, key[1]), int(key[2])
    except Invalid:
        raise wrong from None


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>/events",
    for_agents=True,
    summary="What happened to an execution, oldest first",
    query=PageQuery,
    answer=EventsAnswer,
    errors=(400, 404),
)
def list_events(query: dict[str, Any], **key: str) -> dict[str, Any]:
    above = number_of(query.get("token")) or 0
    page = executions.list_events(context(), ExecutionId(**key), above, query["limit"])
    token = None if page.next_number is None else token_of((str(page.next_number),))
    return said({"events": [event_of(one) for one in page.events], "pruned": page.is_pruned or None, "token": token})


class LogsQuery(RequestSchema):
    attempt = Number(least=1, metadata={"description": "The last one, if not given."})
    stream = fields.String(load_default="stdout", validate=validate.OneOf(["stdout", "stderr"]))
    offset = Number(load_default=0)
    limit = Whole(load_default=65_536, validate=validate.Range(min=1, max=1024 * 1024))
    wait_seconds = Seconds(load_default=0, validate=validate.Range(min=0, max=60))


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>/logs",
    for_agents=True,
    summary="What an execution printed, from an offset on; perhaps waiting for more",
    query=LogsQuery,
    answer=LogsAnswer,
    errors=(400, 404),
)
def read_logs(query: dict[str, Any], **key: str) -> dict[str, Any]:
    found = read_log(
        context(),
        ExecutionId(**key),
        attempt=query.get("attempt"),
        stream=query["stream"],
        offset=query["offset"],
        limit=query["limit"],
        wait=query["wait_seconds"],
    )
    return said(vars(found))


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>/outputs",
    for_agents=True,
    summary="The small files that an execution left",
    answer=OutputsAnswer,
    errors=(400, 404),
)
def list_outputs(**key: str) -> dict[str, Any]:
    found, is_pruned = read_outputs(context(), ExecutionId(**key))
    outputs = [
        {
            "path": one.path,
            "size": one.size,
            "truncated": one.truncated,
            "attempt": one.attempt,
            "content_base64": base64.b64encode(one.content).decode(),
        }
        for one in found
    ]
    return said({"outputs": outputs, "pruned": is_pruned or None})


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>/explanation",
    for_agents=True,
    summary="Why an execution is where it is",
    query=ExplanationQuery,
    answer=ExplanationAnswer,
    errors=(400, 404),
)
def explain(query: dict[str, Any], **key: str) -> dict[str, Any]:
    return explanation_of(executions.explain(context(), ExecutionId(**key), query.get("decision")))


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
    if is_change and Phase(row.phase).is_finished:
        count_finished(row.phase, row.reason, row, context().clock())


def _ended(row: Execution, is_change: bool) -> dict[str, Any]:
    return {"id": id_of(row), "phase": row.phase, "changed": is_change}


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
            said(
                {
                    "id": id_of(one.execution),
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
