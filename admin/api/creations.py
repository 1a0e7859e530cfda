"""Creations over HTTP: one execution or many, anew or once more."""

from __future__ import annotations

from typing import Any

from flask import request
from marshmallow import fields, validate

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.preconditions import WriteQuery
from admin.api.schemas import (
    NAME,
    Flag,
    Payload,
    RequestSchema,
    load,
)
from admin.core.executions.spec import read_spec
from admin.core.jobs.literals import plain_values
from admin.core.json_text import json_text
from admin.core.memos import Memo
from admin.core.problems import Invalid, Problem
from admin.messages.executions import CreatedAnswer, ManyCreatedAnswer
from admin.services import creations, executions
from admin.services.creations import Refusal
from admin.services.run_requests import CreationRequest, check_name, read_request
from admin.store.executions import ExecutionId

operations = Operations("executions")

MOST_BYTES = 4 * 1024 * 1024
MOST_AT_ONCE = 1000
#: The longest spec, or request, that is remembered.
_LONGEST_REMEMBERED = 16_384


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


class Many(fields.List[Any]):
    """Whatever is in a list; it is looked at later."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.make_error("invalid")
        return value


class CreationBody(RequestBody):
    """One execution, or many."""

    project = fields.String(validate=NAME)
    domain = fields.String(validate=NAME)
    spec = Payload()
    executions = Many(
        OneOfMany(allow_none=True),
        validate=validate.Length(min=1, max=MOST_AT_ONCE, error="give {min} to {max} of them in one request."),
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


#: Requests that were read before, for they are often alike but for their names; and specs, where inputs differ too.
_requests: Memo[CreationRequest] = Memo(1024)
_specs: Memo[dict[str, Any]] = Memo(1024)


def request_of(body: dict[str, Any]) -> CreationRequest:
    """What a body asks to run."""
    project, domain, spec, inputs = body["project"], body["domain"], body["spec"], body.get("inputs")
    name = body.get("name") or None

    def read() -> CreationRequest:
        return read_request(project=project, domain=domain, name=name, spec=spec, inputs=inputs, read=_read_spec)

    text = json_text([project, domain, spec, inputs])
    if len(text) > _LONGEST_REMEMBERED:
        return read()
    known = _requests.find(text, read)
    check_name(name)
    return CreationRequest(known.run, name)


def _read_spec(spec: Any) -> dict[str, Any]:
    text = json_text(spec)
    return read_spec(spec) if len(text) > _LONGEST_REMEMBERED else _specs.find(text, lambda: read_spec(spec))


def _create(request: CreationRequest, *, dry_run: bool) -> CreatedAnswer:
    created = creations.create_execution(context(), request, dry_run=dry_run, idempotency_key=_idempotency_key())
    return CreatedAnswer.from_created(created, dry_run=dry_run)


def _create_many(bodies: list[Any], *, dry_run: bool) -> ManyCreatedAnswer:
    read = [_read(body) for body in bodies]
    requests = {place: item for place, item in enumerate(read) if isinstance(item, CreationRequest)}
    answers = iter(
        creations.create_executions(
            context(), requests.values(), dry_run=dry_run, idempotency_key=_idempotency_key(), places=requests
        )
    )
    outcomes = [next(answers) if isinstance(item, CreationRequest) else item for item in read]
    return ManyCreatedAnswer.from_outcomes(outcomes, dry_run=dry_run)


def _read(body: Any) -> CreationRequest | Refusal:
    if not isinstance(body, dict):
        return Invalid(Problem(field="", reason="is not a mapping: give one with project, domain and spec."))
    try:
        return request_of(load(_ONE, body))
    except Invalid as refusal:
        return refusal


_ONE = RequestBody()


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
    answer=(CreatedAnswer, ManyCreatedAnswer),
    errors=(400, 404, 409),
    headers=("Idempotency-Key",),
    most_bytes=MOST_BYTES,
)
def create_execution(query: dict[str, Any], body: dict[str, Any]) -> CreatedAnswer | ManyCreatedAnswer:
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
    def repeat(query: dict[str, Any], body: dict[str, Any]) -> CreatedAnswer:
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
        changes["inputs"] = plain_values(body["inputs"], ("inputs",), problems)
        if problems:
            raise Invalid(*problems)
    return changes


_repeat("relaunch", "RELAUNCH", "Run an execution once more")
_repeat("recover", "RECOVERED", "Run an execution that did not succeed once more")
