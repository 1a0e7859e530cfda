"""Agents over HTTP: registration, tokens, and the one call that does everything else."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from flask import Response, current_app
from marshmallow import fields, validate

from admin.api.creations import IdBody
from admin.api.current import caller, context
from admin.api.fleet import SwitchBody
from admin.api.operations import Operations, respond
from admin.api.schemas import Flag, Number, Payload, RequestSchema, Whole
from admin.core.executions.reports import REPORTS
from admin.core.problems import Invalid, Problem
from admin.core.quantities import parse_duration
from admin.messages.agents import IssuedAnswer, RevokedAnswer, SyncAnswer, TokenAnswer, TokensAnswer
from admin.messages.fleet import ClusterAnswer, SwitchedAnswer
from admin.services import agents, fleet
from admin.services.agents import Issued, RegistrationLimiter
from admin.services.syncs import LogPiece, Report, Sync, sync
from admin.store.executions import ExecutionId
from admin.store.logs import OutputFile

operations = Operations("agents")

MOST_BYTES = 32 * 1024 * 1024
_MOST_SECONDS = 366 * 24 * 3600


class RegisterClusterBody(RequestSchema):
    secret = fields.String(required=True, validate=validate.Length(min=1, max=4096))
    description = Payload()


class RotateBody(RequestSchema):
    overlap = fields.String(load_default="10m")


class DrainBody(SwitchBody):
    deadline = fields.String(metadata={"description": "How long running work may take to finish, such as 10m."})


class Said(fields.String):
    """What an agent passes on; a character that no database can store must not keep a report from arriving."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        return super()._deserialize(value, attr, data, **kwargs).replace("\0", "\N{REPLACEMENT CHARACTER}")


class Crowd(fields.List[Any]):
    """A list that may be long: in its plainest form taken as it is, in any other read or refused by its schema."""

    def __init__(self, schema: type[RequestSchema], is_plain: Callable[[Any], bool], **kwargs: Any) -> None:
        super().__init__(fields.Nested(schema), **kwargs)
        self._is_plain = is_plain

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if type(value) is list and all(map(self._is_plain, value)):
            return value
        return super()._deserialize(value, attr, data, **kwargs)


class HeldBody(RequestSchema):
    id = fields.Nested(IdBody, required=True)
    attempt = Number(required=True, least=1, strict=True)


class OutputBody(RequestSchema):
    path = Said(required=True, validate=validate.Length(min=1, max=4096))
    content_base64 = fields.String(required=True)
    size = fields.Integer(required=True, strict=True, validate=validate.Range(min=0, max=2**62))
    truncated = Flag(load_default=False)


class EventBody(HeldBody):
    event = fields.String(required=True, validate=validate.Length(min=1, max=255))
    type = fields.String(required=True, validate=validate.OneOf(list(REPORTS)))
    at = fields.Raw(metadata={"type": "string", "description": "By the agent's clock; the admin's own counts."})
    native_id = Said(validate=validate.Length(max=255))
    nodes = fields.List(Said(validate=validate.Length(max=255)), validate=validate.Length(max=10_000))
    exit_code = fields.Integer(strict=True, validate=validate.Range(min=-(2**31), max=2**31 - 1))
    signal = fields.Integer(strict=True, validate=validate.Range(min=0, max=256))
    reason = Said(validate=validate.Length(max=64))
    message = Said(validate=validate.Length(max=4000))
    started_at = fields.Raw(metadata={"type": "string"})
    finished_at = fields.Raw(metadata={"type": "string"})
    duration = fields.Float(validate=validate.Range(min=0))
    outputs = fields.List(fields.Nested(OutputBody), validate=validate.Length(max=100))


class LogBody(HeldBody):
    stream = fields.String(required=True, validate=validate.OneOf(["stdout", "stderr"]))
    offset = Number(required=True, strict=True)
    data = fields.String(metadata={"description": "As text; the offsets count its bytes in UTF-8."})
    data_base64 = fields.String(metadata={"description": "As bytes."})


def _is_id(value: Any) -> bool:
    return type(value) is dict and value.keys() == _ID_KEYS and all(map(_is_name, value.values()))


def _is_name(value: Any) -> bool:
    return type(value) is str and _NAME.fullmatch(value) is not None


def _is_whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _is_text(most: int, least: int = 0) -> Callable[[Any], bool]:
    return lambda value: type(value) is str and least <= len(value) <= most and "\0" not in value


def _is_there(value: Any) -> bool:
    return value is not None


_ID_KEYS = {"project", "domain", "name"}
_NAME = re.compile(r"[^\x00-\x1f\x7f]{0,255}")
_is_attempt = _is_whole(1, 2**62)
_is_node = _is_text(255)
#: What the fields of an event are in their plainest form; files that it brings along are for its schema.
_PLAIN_EVENT: dict[str, Callable[[Any], bool]] = {
    "id": _is_id,
    "attempt": _is_attempt,
    "event": _is_text(255, least=1),
    "type": lambda value: type(value) is str and value in REPORTS,
    "at": _is_there,
    "native_id": _is_text(255),
    "nodes": lambda value: type(value) is list and len(value) <= 10_000 and all(map(_is_node, value)),
    "exit_code": _is_whole(-(2**31), 2**31 - 1),
    "signal": _is_whole(0, 256),
    "reason": _is_text(64),
    "message": _is_text(4000),
    "started_at": _is_there,
    "finished_at": _is_there,
    "duration": lambda value: type(value) is float and value >= 0,
}
_REQUIRED = {"id", "attempt", "event", "type"}


def is_plain_held(value: Any) -> bool:
    """Whether something is a `HeldBody` as agents write it."""
    if type(value) is not dict or value.keys() != {"id", "attempt"}:
        return False
    return _is_id(value["id"]) and _is_attempt(value["attempt"])


def is_plain_event(value: Any) -> bool:
    """Whether something is an `EventBody` as agents write it."""
    if type(value) is not dict or not _REQUIRED <= value.keys() <= _PLAIN_EVENT.keys():
        return False
    return all(_PLAIN_EVENT[name](one) for name, one in value.items())


class SyncBody(RequestSchema):
    agent = Said(required=True, validate=validate.Length(min=1, max=255))
    sequence = Number(required=True, least=1, strict=True)
    report = Payload()
    want = Whole(load_default=0, validate=validate.Range(min=0, max=1000))
    holding = Crowd(HeldBody, is_plain_held, load_default=list, validate=validate.Length(max=20_000))
    events = Crowd(EventBody, is_plain_event, load_default=list, validate=validate.Length(max=10_000))
    logs = fields.List(fields.Nested(LogBody), load_default=list, validate=validate.Length(max=10_000))
    wait_seconds = fields.Float(load_default=0, validate=validate.Range(min=0, max=60))


def _issued(issued: Issued) -> Response:
    response = respond(IssuedAnswer.from_issued(issued))
    response.headers["Cache-Control"] = "no-store"
    return response


@operations.add(
    "POST",
    "/clusters/<name>/register",
    summary="Register a cluster's agent and get its token",
    body=RegisterClusterBody,
    answer=IssuedAnswer,
    errors=(400, 401, 409, 429),
    is_open=True,
)
def register(name: str, body: dict[str, Any]) -> Response:
    attempts: RegistrationLimiter = current_app.extensions["rainbow-attempts"]
    return _issued(agents.register(context(), attempts, name, body["secret"], body.get("description")))


@operations.add("GET", "/clusters/<name>/tokens", summary="List a cluster's tokens", answer=TokensAnswer, errors=(404,))
def list_tokens(name: str) -> TokensAnswer:
    now = context().clock()
    return TokensAnswer(tokens=[TokenAnswer.from_token(token, now) for token in agents.list_tokens(context(), name)])


@operations.add(
    "POST",
    "/clusters/<name>/tokens",
    summary="Make a new token for a cluster; the older ones end after an overlap",
    body=RotateBody,
    body_optional=True,
    answer=IssuedAnswer,
    errors=(400, 404),
    for_agents=True,
)
def rotate(name: str, body: dict[str, Any]) -> Response:
    return _issued(agents.rotate(context(), name, _seconds(body["overlap"], "overlap")))


def _seconds(text: str, field: str) -> float:
    if text in ("0", "0s"):
        return 0.0
    try:
        seconds = float(parse_duration(text))
    except ValueError as error:
        raise Invalid(Problem(field=field, reason=f"'{text[:60]}' {error}.")) from None
    if seconds > _MOST_SECONDS:
        raise Invalid(Problem(field=field, reason=f"'{text[:60]}' is longer than a year."))
    return seconds


@operations.add(
    "DELETE",
    "/clusters/<name>/tokens/<prefix>",
    summary="Revoke a token at once",
    answer=RevokedAnswer,
    errors=(404,),
)
def revoke(name: str, prefix: str) -> RevokedAnswer:
    return RevokedAnswer(prefix=prefix, changed=agents.revoke(context(), name, prefix))


def _switch(word: str, summary: str, body_schema: type[RequestSchema]) -> None:
    @operations.add(
        "POST",
        f"/clusters/<name>/{word}",
        summary=summary,
        body=body_schema,
        body_optional=True,
        answer=SwitchedAnswer,
        errors=(400, 404),
    )
    def switch(name: str, body: dict[str, Any]) -> SwitchedAnswer:
        reason, claimed_by = body.get("reason"), body.get("claimed_by")
        if word == "admit":
            view, is_change = fleet.admit(context(), name, reason, claimed_by)
        else:
            deadline = None
            if "deadline" in body:
                deadline = context().clock() + timedelta(seconds=_seconds(body["deadline"], "deadline"))
            view, is_change = fleet.set_draining(context(), name, word == "drain", deadline, reason, claimed_by)
        return SwitchedAnswer(cluster=ClusterAnswer.from_view(view), changed=is_change)


_switch("admit", "Let a new cluster in that registered and waits", SwitchBody)
_switch("drain", "Give a cluster no new work, and move what it has", DrainBody)
_switch("undrain", "Give a drained cluster work again", SwitchBody)


@operations.add(
    "POST",
    "/clusters/<name>/sync",
    summary="An agent's one call: report, and get leases, cancels and questions",
    body=SyncBody,
    answer=SyncAnswer,
    errors=(400, 401, 403, 409),
    for_agents=True,
    most_bytes=MOST_BYTES,
)
def sync_cluster(name: str, body: dict[str, Any]) -> SyncAnswer:
    caller().check_agent_of(name)
    answer = sync(context(), _read(name, body))
    return SyncAnswer.from_answer(answer, context().settings.agents)


def _read(cluster: str, body: dict[str, Any]) -> Sync:
    return Sync(
        cluster=cluster,
        agent=body["agent"],
        sequence=body["sequence"],
        want=body["want"],
        report=body.get("report"),
        holding=tuple((ExecutionId(**one["id"]), one["attempt"]) for one in body["holding"]),
        events=tuple(_report(one) for one in body["events"]),
        logs=tuple(
            LogPiece(
                id=ExecutionId(**one["id"]),
                attempt=one["attempt"],
                stream=one["stream"],
                offset=one["offset"],
                data=_log_data(one),
            )
            for one in body["logs"]
        ),
        wait_seconds=body["wait_seconds"],
    )


def _log_data(one: dict[str, Any]) -> bytes:
    if ("data" in one) == ("data_base64" in one):
        raise Invalid(Problem(field="logs.data", reason="give either data or data_base64."))
    return one["data"].encode() if "data" in one else _bytes(one["data_base64"], "logs.data_base64")


def _bytes(text: str, field: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(Problem(field=field, reason="is not base64.")) from None


def _report(one: dict[str, Any]) -> Report:
    outputs = {
        file["path"]: OutputFile(
            path=file["path"],
            size=file["size"],
            truncated=file["truncated"],
            content=_bytes(file["content_base64"], "events.outputs.content_base64"),
        )
        for file in one.get("outputs", [])
    }
    return Report(
        event=one["event"],
        id=ExecutionId(**one["id"]),
        attempt=one["attempt"],
        type=one["type"],
        reason=one.get("reason"),
        message=one.get("message"),
        native_id=one.get("native_id"),
        nodes=one.get("nodes"),
        exit_code=one.get("exit_code"),
        signal=one.get("signal"),
        duration=one.get("duration"),
        outputs=list(outputs.values()),
    )
