"""Executions over HTTP."""

from __future__ import annotations

from typing import Any

from admin.api import creations
from admin.api.current import context
from admin.core.executions.selectors import SORT_FIELDS, Condition, equals
from admin.core.problems import Invalid, Problem, closest, unknown_word
from admin.messages.executions import (
    CauseBody,
    EndedAnswer,
    EventAnswer,
    EventsAnswer,
    ExecutionAnswer,
    ExecutionsAnswer,
    ExplanationAnswer,
    ExplanationQuery,
    ListedAnswer,
    ListQuery,
    LogsAnswer,
    LogsQuery,
    ManyBody,
    ManyEndedAnswer,
    ManyRedecidedAnswer,
    OutputAnswer,
    OutputsAnswer,
    StateBody,
    WaitQuery,
    execution_id,
    place_of,
    place_token,
)
from admin.messages.pages import number_of, token_of
from admin.messages.requests import (
    PageQuery,
    WriteQuery,
)
from admin.messages.selectors import conditions_of, scope_of
from admin.services import executions, redecisions
from admin.services.logs import read_log, read_outputs

operations = creations.operations  # of the same noun


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
    id = execution_id(**key)
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
    conditions = conditions_of(query, context().clock())
    if query["state"] != "ALL" and not any(condition.field == "state" for condition in conditions):
        conditions.append(equals("state", query["state"]))
    page = executions.list_executions(
        context(),
        conditions,
        scope=scope_of(query),
        sort_by=sort_by,
        descending=query["sort_direction"] == "DESCENDING",
        after=place_of(query.get("token"), sort_by, order),
        limit=query["limit"],
    )
    return ExecutionsAnswer(
        executions=[ListedAnswer.from_listed(execution) for execution in page.executions],
        token=None if page.last is None else place_token(page.last, order),
    )


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
    page = executions.list_events(context(), execution_id(**key), above, query["limit"])
    return EventsAnswer(
        events=[EventAnswer.from_event(event) for event in page.events],
        pruned=page.is_pruned or None,
        token=None if page.next_number is None else token_of((str(page.next_number),)),
    )


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
        execution_id(**key),
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
    outputs, is_pruned = read_outputs(context(), execution_id(**key))
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
    explanation = executions.explain(context(), execution_id(**key), query.get("decision"))
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
    execution, is_change = executions.set_state(context(), execution_id(**key), body["state"])
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
    execution, is_change = executions.terminate(context(), execution_id(**key), *_cause(body))
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
    conditions = conditions_of(selector, context().clock())
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
