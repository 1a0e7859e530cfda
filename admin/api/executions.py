"""Executions over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from marshmallow import ValidationError, fields, validate

from admin.api import creations
from admin.api.current import context
from admin.api.preconditions import WriteQuery
from admin.api.schemas import (
    NAME,
    PRINTABLE_LINES,
    Number,
    PageQuery,
    RequestSchema,
    Seconds,
    Whole,
)
from admin.api.selectors import SelectorFields, conditions_of, scope_of
from admin.core.executions.selectors import SORT_FIELDS, Condition, equals, parse_value
from admin.core.problems import Invalid, Problem, closest, unknown_word
from admin.messages.executions import (
    EndedAnswer,
    EventAnswer,
    EventsAnswer,
    ExecutionAnswer,
    ExecutionsAnswer,
    ExplanationAnswer,
    ListedAnswer,
    LogsAnswer,
    ManyEndedAnswer,
    ManyRedecidedAnswer,
    OutputAnswer,
    OutputsAnswer,
)
from admin.messages.pages import key_of, number_of, token_of
from admin.services import executions, redecisions
from admin.services.logs import read_log, read_outputs
from admin.store.execution_lists import Place
from admin.store.executions import ExecutionId

operations = creations.operations  # of the same noun


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


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>",
    for_agents=True,
    summary="Read an execution, or wait for news of it",
    query=WaitQuery,
    answer=ExecutionAnswer,
    errors=(400, 404),
)
def get_execution(query: dict[str, Any], **key: str) -> ExecutionAnswer:
    id = ExecutionId(**key)
    execution = executions.get_execution(context(), id, query.get("after_event"), query["wait_seconds"])
    return ExecutionAnswer.from_execution(execution)


@operations.add(
    "GET",
    "/executions",
    for_agents=True,
    summary="List executions of every project",
    query=ListQuery,
    answer=ExecutionsAnswer,
)
def list_everywhere(query: dict[str, Any]) -> ExecutionsAnswer:
    return _list(query)


@operations.add(
    "GET",
    "/executions/<project>/<domain>",
    for_agents=True,
    summary="List the executions of a project and domain",
    query=ListQuery,
    answer=ExecutionsAnswer,
)
def list_executions(query: dict[str, Any], **key: str) -> ExecutionsAnswer:
    for name in key:
        if query.get(name, key[name]) != key[name]:
            raise Invalid(Problem(field=name, reason="is not the path's; leave it out."))
    return _list({**query, **key})


def _list(query: dict[str, Any]) -> ExecutionsAnswer:
    sort_by = query["sort_key"]
    if sort_by not in SORT_FIELDS:
        reason = unknown_word("sort key", sort_by, SORT_FIELDS)
        raise Invalid(Problem(field="sort_by.key", reason=reason, closest=closest(sort_by, SORT_FIELDS)))
    order = f"{sort_by} {query['sort_direction']}"
    conditions = conditions_of(query)
    if query["state"] != "ALL" and not any(condition.field == "state" for condition in conditions):
        conditions.append(equals("state", query["state"]))
    page = executions.list_executions(
        context(),
        conditions,
        scope=scope_of(query),
        sort_by=sort_by,
        descending=query["sort_direction"] == "DESCENDING",
        after=_place(query.get("token"), sort_by, order),
        limit=query["limit"],
    )
    return ExecutionsAnswer(
        executions=[ListedAnswer.from_listed(execution) for execution in page.executions],
        token=None if page.last is None else _token(page.last, order),
    )


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
        return parse_value(sort_by, key[1]), int(key[2])
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
def list_events(query: dict[str, Any], **key: str) -> EventsAnswer:
    above = number_of(query.get("token")) or 0
    page = executions.list_events(context(), ExecutionId(**key), above, query["limit"])
    return EventsAnswer(
        events=[EventAnswer.from_event(event) for event in page.events],
        pruned=page.is_pruned or None,
        token=None if page.next_number is None else token_of((str(page.next_number),)),
    )


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
def read_logs(query: dict[str, Any], **key: str) -> LogsAnswer:
    text = read_log(
        context(),
        ExecutionId(**key),
        attempt=query.get("attempt"),
        stream=query["stream"],
        offset=query["offset"],
        limit=query["limit"],
        wait=query["wait_seconds"],
    )
    return LogsAnswer.from_text(text)


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>/outputs",
    for_agents=True,
    summary="The small files that an execution left",
    answer=OutputsAnswer,
    errors=(400, 404),
)
def list_outputs(**key: str) -> OutputsAnswer:
    outputs, is_pruned = read_outputs(context(), ExecutionId(**key))
    return OutputsAnswer(outputs=[OutputAnswer.from_output(output) for output in outputs], pruned=is_pruned or None)


@operations.add(
    "GET",
    "/executions/<project>/<domain>/<name>/explanation",
    for_agents=True,
    summary="Why an execution is where it is",
    query=ExplanationQuery,
    answer=ExplanationAnswer,
    errors=(400, 404),
)
def explain(query: dict[str, Any], **key: str) -> ExplanationAnswer:
    explanation = executions.explain(context(), ExecutionId(**key), query.get("decision"))
    return ExplanationAnswer.from_explanation(explanation)


@operations.add(
    "PUT",
    "/executions/<project>/<domain>/<name>",
    summary="Archive an execution, or bring it back to lists",
    body=StateBody,
    answer=ExecutionAnswer,
    errors=(400, 404),
)
def set_state(body: dict[str, Any], **key: str) -> ExecutionAnswer:
    execution, is_change = executions.set_state(context(), ExecutionId(**key), body["state"])
    return ExecutionAnswer.from_execution(execution, changed=is_change)


@operations.add(
    "DELETE",
    "/executions/<project>/<domain>/<name>",
    summary="End an execution",
    body=CauseBody,
    body_optional=True,
    answer=EndedAnswer,
    errors=(400, 404),
)
def terminate(body: dict[str, Any], **key: str) -> EndedAnswer:
    execution, is_change = executions.terminate(context(), ExecutionId(**key), *_cause(body))
    return EndedAnswer.from_execution(execution, changed=is_change)


def _cause(body: dict[str, Any]) -> tuple[str, str]:
    return body.get("cause") or "Terminated without a cause.", body.get("claimed_by") or "anonymous"


@operations.add(
    "POST",
    "/executions/terminate",
    summary="End every execution that a selector fits",
    query=WriteQuery,
    body=ManyBody,
    answer=ManyEndedAnswer,
    errors=(400,),
)
def terminate_many(query: dict[str, Any], body: dict[str, Any]) -> ManyEndedAnswer:
    dry_run = query["dry_run"]
    ended = executions.terminate_many(
        context(), _selected(body["selector"]), *_cause(body), scope=scope_of(body["selector"]), dry_run=dry_run
    )
    return ManyEndedAnswer.from_ended(ended, dry_run=dry_run)


def _selected(selector: dict[str, Any]) -> list[Condition]:
    conditions = conditions_of(selector)
    if not conditions:
        raise Invalid(Problem(field="selector", reason="is empty and would mean everything; name a field."))
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
def redecide(query: dict[str, Any], body: dict[str, Any]) -> ManyRedecidedAnswer:
    redecided = redecisions.redecide(
        context(), _selected(body["selector"]), scope=scope_of(body["selector"]), dry_run=query["dry_run"]
    )
    return ManyRedecidedAnswer.from_redecided(redecided, dry_run=query["dry_run"])
