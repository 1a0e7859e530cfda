"""Executions over HTTP."""

from __future__ import annotations

from admin.api import creations
from admin.api.current import caller, context
from admin.api.writes import actor
from admin.core.executions.selectors import check_groups
from admin.core.problems import invalid
from admin.messages.comparisons import ComparisonAnswer, ExecutionComparisonQuery
from admin.messages.decisions import ExplanationAnswer, ExplanationQuery, ManyRedecidedAnswer
from admin.messages.execution_counts import ExecutionCountsAnswer, ExecutionCountsQuery
from admin.messages.execution_events import EventAnswer, EventsAnswer
from admin.messages.execution_lists import (
    ExecutionListQuery,
    ExecutionsAnswer,
    event_of_round,
    order_of,
    place_in_matching,
    place_of,
    place_token,
)
from admin.messages.executions import ExecutionAnswer, ListedAnswer, StateBody, WaitQuery, execution_id
from admin.messages.logs import LogsAnswer, LogsQuery, OutputAnswer, OutputPieceAnswer, OutputQuery, OutputsAnswer
from admin.messages.pages import number_of, number_token
from admin.messages.requests import Fields, PageQuery, WriteQuery
from admin.messages.selectors import MOST_SHOWN, RedecideBody, conditions_of, scope_of, time_of
from admin.messages.terminations import EndBody, EndedAnswer, EndManyBody, ManyEndedAnswer
from admin.messages.unknown_names import UnknownNameAnswer
from admin.services import abandonments, endings, executions, requested_redecisions, terminations
from admin.services.comparisons import compare_execution, compare_executions
from admin.services.explanations import explain, view_execution
from admin.services.logs import LogRequest, read_log, read_output, read_outputs
from admin.services.silences import NotedSilence

operations = creations.operations  # of the same noun

_PATH = "/executions/<project>/<domain>/<name>"


@operations.add("GET", _PATH, query=WaitQuery, permission="executions.read", errors=(404,), for_agents=True)
def get_execution(query: Fields, **key: str) -> ExecutionAnswer:
    """Read an execution, or wait for news of it."""
    view = view_execution(
        context(),
        execution_id(**key),
        query.get("after_event"),
        query["wait_seconds"],
        with_status=query["with_status"],
    )
    return ExecutionAnswer.from_execution(
        view.execution,
        status=view.status,
        silence=None if view.silence is None else NotedSilence(view.silence.note, view.silence.outlook),
        abort_requested_at=view.abort_requested_at,
        previous=view.previous,
    )


@operations.add(
    "GET", "/executions", query=ExecutionListQuery, shows_some=True, permission="executions.read", for_agents=True
)
def list_executions_everywhere(query: Fields) -> ExecutionsAnswer:
    """List executions of every project."""
    now = context().clock()
    order = order_of(query, now)
    listed = executions.list_executions(
        context(),
        conditions_of(query, now),
        scope=scope_of(query),
        order=order,
        after=place_of(query.get("token"), order.field, order.name),
        limit=query["limit"],
        with_origin=query["with_origin"],
        with_unknown=_may_read_names(),
    )
    return ExecutionsAnswer(
        executions=[
            ListedAnswer.from_listed(
                execution,
                listed.terms.get(execution.id),
                listed.origins.get(execution.id),
                listed.silences.get(execution.id),
                listed.abort_requests.get(execution.id),
                listed.previous.get(execution.id),
            )
            for execution in listed.page.executions
        ],
        unknown_names=UnknownNameAnswer.from_unknown(listed.unknown),
        not_counted=listed.not_counted,
        token=place_token(listed.page.last, order.name, order.asked_at),
    )


def _may_read_names() -> bool:
    """Whether the caller is told which names nothing has, as far as the caller may see them: agents are not."""
    return caller().cluster is None


@operations.add(
    "GET",
    "/execution_counts",
    query=ExecutionCountsQuery,
    shows_some=True,
    permission="executions.read",
    for_agents=True,
)
def count_executions(query: Fields) -> ExecutionCountsAnswer:
    """How many executions have each phase, reason, cause, cluster or the like."""
    by, most = check_groups(query["by"]), query.pop("limit", None)
    order = f"counts by {','.join(by)}"
    counted = executions.count_executions(
        context(),
        conditions_of(query, context().clock()),
        by=by,
        scope=scope_of(query),
        after=place_of(query.get("token"), "created_at", order),
        most=most,
        with_unknown=_may_read_names(),
    )
    return ExecutionCountsAnswer.from_counted(by, counted, place_token(counted.page.last, order))


@operations.add(
    "GET",
    "/executions/<project>/<domain>",
    query=ExecutionListQuery,
    shows_some=True,
    permission="executions.read",
    for_agents=True,
)
def list_executions(query: Fields, **key: str) -> ExecutionsAnswer:
    """List the executions of a project and domain."""
    for name in key:
        if query.get(name, key[name]) != key[name]:
            raise invalid(name, "is not the path's; leave it out.")
    return list_executions_everywhere({**query, **key})


@operations.add("GET", f"{_PATH}/events", query=PageQuery, permission="executions.read", errors=(404,), for_agents=True)
def list_execution_events(query: Fields, **key: str) -> EventsAnswer:
    """What happened to an execution, oldest first."""
    above = number_of(query.get("token")) or 0
    page = executions.list_events(context(), execution_id(**key), above, query["limit"])
    return EventsAnswer(
        events=[EventAnswer.from_event(event, page.execution) for event in page.events],
        pruned=page.is_pruned or None,
        token=number_token(page.next_number),
    )


@operations.add("GET", f"{_PATH}/logs", query=LogsQuery, permission="logs.read", errors=(404,), for_agents=True)
def get_execution_logs(query: Fields, **key: str) -> LogsAnswer:
    """What an execution printed, from an offset on; perhaps waiting for more."""
    since = time_of(query["since"], context().clock(), "since") if "since" in query else None
    request = LogRequest(**{**query, "since": since})
    return LogsAnswer.from_text(read_log(context(), execution_id(**key), request))


@operations.add("GET", f"{_PATH}/outputs", permission="logs.read", errors=(404,), for_agents=True)
def list_execution_outputs(**key: str) -> OutputsAnswer:
    """The files that an execution left."""
    outputs, is_pruned = read_outputs(context(), execution_id(**key))
    limit = context().settings.agents.output_limit_bytes
    return OutputsAnswer(
        outputs=[OutputAnswer.from_stored(output, limit) for output in outputs], pruned=is_pruned or None
    )


@operations.add(
    "GET", f"{_PATH}/outputs/content", query=OutputQuery, permission="logs.read", errors=(404,), for_agents=True
)
def get_execution_output(query: Fields, **key: str) -> OutputPieceAnswer:
    """The content of a file that an execution left, from an offset on."""
    return OutputPieceAnswer.from_piece(read_output(context(), execution_id(**key), **query))


@operations.add(
    "GET",
    f"{_PATH}/explanation",
    query=ExplanationQuery,
    permission="executions.read",
    errors=(404,),
    for_agents=True,
)
def explain_execution(query: Fields, **key: str) -> ExplanationAnswer:
    """Why an execution is where it is."""
    number, why_not = query.get("decision"), query.get("why_not")
    explanation = explain(context(), execution_id(**key), number, asker=caller().identity, why_not=why_not)
    return ExplanationAnswer.from_explanation(explanation)


@operations.add(
    "GET",
    f"{_PATH}/comparison",
    query=ExecutionComparisonQuery,
    permission="executions.read",
    errors=(404,),
    for_agents=True,
)
def compare_execution_settings(query: Fields, **key: str) -> ComparisonAnswer:
    """Where the settings of an execution differ from what they would be now, or from those of another execution."""
    id = execution_id(**key)
    if "other_name" not in query:
        return ComparisonAnswer.from_comparison(compare_execution(context(), id))
    other = execution_id(**{name: query.get(f"other_{name}", value) for name, value in key.items()})
    return ComparisonAnswer.from_comparison(compare_executions(context(), id, other))


@operations.add("PUT", _PATH, body=StateBody, permission="executions.write", errors=(404,))
def set_execution_state(body: Fields, **key: str) -> ExecutionAnswer:
    """Archive an execution, or bring it back to lists."""
    execution, is_change = executions.set_state(context(), execution_id(**key), body["state"], actor(body))
    return ExecutionAnswer.from_execution(execution, changed=is_change)


@operations.add(
    "DELETE",
    _PATH,
    query=WriteQuery,
    body=EndBody,
    body_optional=True,
    permission="executions.end",
    errors=(404, 409),
)
def terminate_execution(query: Fields, body: Fields, **key: str) -> EndedAnswer:
    """End an execution, or give it up at a silent cluster."""
    if query["dry_run"]:
        preview = terminations.preview_end(context(), execution_id(**key), give_up=body["give_up"])
        return EndedAnswer.from_preview(preview)
    end = abandonments.give_up if body["give_up"] else endings.terminate
    execution, is_change = end(context(), execution_id(**key), body.get("cause"), actor(body))
    return EndedAnswer.from_execution(execution, terminations.silent_end(context(), execution), changed=is_change)


@operations.add("POST", "/executions/terminate", query=WriteQuery, body=EndManyBody, permission="executions.end")
def terminate_executions(query: Fields, body: Fields) -> ManyEndedAnswer:
    """End every execution that a selector fits, or give up those at silent clusters."""
    end = abandonments.give_up_many if body["give_up"] else endings.terminate_many
    ended = end(
        context(),
        conditions_of(body["selector"], context().clock()),
        body.get("cause"),
        actor(body),
        scope=scope_of(body["selector"]),
        dry_run=query["dry_run"],
        limit=body.get("limit"),
    )
    silent = terminations.find_silent(context(), ended.executions[:MOST_SHOWN])
    return ManyEndedAnswer.from_ended(ended, silent, dry_run=query["dry_run"])


@operations.add("POST", "/executions/redecide", query=WriteQuery, body=RedecideBody, permission="executions.write")
def redecide_executions(query: Fields, body: Fields) -> ManyRedecidedAnswer:
    """Decide waiting executions again, under the settings as they are now."""
    conditions, scope = conditions_of(body["selector"], context().clock()), scope_of(body["selector"])
    after, limit = place_in_matching(body.get("token")), body.get("limit")
    if query["dry_run"]:
        page = requested_redecisions.foresee(context(), conditions, scope=scope, limit=limit, after=after)
    else:
        page = requested_redecisions.redecide(
            context(),
            conditions,
            scope=scope,
            by=actor(body),
            cause=body.get("cause"),
            limit=limit,
            after=after,
            event=event_of_round(body.get("token")),
        )
    return ManyRedecidedAnswer.from_redecided(page, dry_run=query["dry_run"])
