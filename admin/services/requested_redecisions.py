"""Requested redecisions: waiting executions that somebody has decided again, under the settings in force."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.executions.queues import queue_deadline
from admin.core.executions.selectors import Condition, equals
from admin.core.json_text import JsonObject
from admin.core.placement.decisions import ASKING, Decision
from admin.core.problems import Invalid
from admin.core.provenance import NOBODY, Actor
from admin.core.settings.scopes import Scope
from admin.errors import RainbowError
from admin.metrics import count_redecided
from admin.services.bid_rounds import Inquiry, open_rounds
from admin.services.context import Context
from admin.services.creator_rights import creator_of, current_rights, rights_of
from admin.services.deciders import differs
from admin.services.decision_views import StoredView, plan_run, prepare_planned, reason_of
from admin.services.definitions import current_fleet
from admin.services.executions import matching, matching_in, place_in_matching
from admin.services.foreseen_loads import ForeseenLoad
from admin.services.new_decisions import NewDecision, store_decisions
from admin.services.preparations import PlannedRun, Preparation
from admin.services.redecision_rounds import Redecided, RequestedRound
from admin.services.redecisions import hold_loaded, outcome_of
from admin.services.run_requests import CreationRequest, run_request_of
from admin.services.scopes import check_readable
from admin.store import decisions, execution_counts, executions, fleet
from admin.store.execution_lists import Place
from admin.store.executions import Execution, ListedExecution


class RedecidedPage(NamedTuple):
    """Executions that were decided again, or would be."""

    redecided: list[Redecided]
    not_examined: int = 0  #: how many more match that were not looked at, or at least so many
    last: Place | None = None  #: what those come after that were not decided; None where all were
    event: int | None = None  #: that tells of the round, where anything has changed so far


def redecide(
    context: Context,
    conditions: Iterable[Condition],
    *,
    scope: Scope,
    by: Actor = NOBODY,
    cause: str | None = None,
    limit: int | None = None,
    after: Place | None = None,
    event: int | None = None,
) -> RedecidedPage:
    """Decide waiting executions again under the settings in force, each in a transaction of its own.

    The oldest come first; with a limit only so many after a place, which go on with the `event` of those before.
    """
    listed = matching(context, _waiting(conditions), scope, after)
    last: Place | None = None
    if limit is not None:
        first = list(islice(listed, limit + 1))
        listed = iter(first[:limit])
        last = place_in_matching(first[limit - 1]) if len(first) > limit else None
    round_ = RequestedRound(context=context, cause=cause, by=by, event=event)
    redecided: list[Redecided] = []
    try:
        for execution in listed:
            redecided.append(_redecide(context, execution, round_))
    finally:  # what was decided before one failed is stored, and its event is to name it
        changed = [outcome for outcome in redecided if outcome.is_change]
        count_redecided(changed)
        round_.complete(changed)
    return RedecidedPage(redecided, last=last, event=round_.event)


def foresee(
    context: Context,
    conditions: Iterable[Condition],
    *,
    scope: Scope,
    limit: int | None = None,
    after: Place | None = None,
) -> RedecidedPage:
    """What `redecide` would do, by one state of the database; nothing is stored.

    Each is decided after those before it would have moved. Only so many are, which draw from so many clusters together.
    """
    limits, selected, now = context.list_limits, _waiting(conditions), context.clock()
    most = limits.decided if limit is None else min(limit, limits.decided)
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        load, rights = ForeseenLoad(connection, now), current_rights(context, connection)
        view = StoredView(context, connection, load=load)
        redecided: list[Redecided] = []
        plans: dict[Hashable, PlannedRun] = {}
        drawn = not_examined = 0
        for execution in matching_in(connection, selected, after, most + 1):
            if len(redecided) >= most or drawn >= limits.drawn:
                not_examined = max(1, _count(context, connection, selected, after) - len(redecided))
                break
            if not execution.is_unleased:
                redecided.append(outcome_of(execution, execution.reason, execution.reason_message))
                continue
            own_rights = rights_of(context, execution, rights)
            again = _decide_again(view.of_moving(execution, own_rights), execution, plans)
            redecided.append(again.outcome)
            drawn += again.drawn
            if again.outcome.is_change:
                load.move(execution, again.outcome.cluster)
    return RedecidedPage(redecided, not_examined=not_examined)


def _count(context: Context, connection: Connection, conditions: Sequence[Condition], after: Place | None) -> int:
    """How many executions match that come after a place, or at least so many."""
    if after is not None:
        conditions = [*conditions, Condition(field="created_at", function="gt", values=(after[0],))]
    counted = execution_counts.count_page(
        connection, conditions, by=["phase"], now=context.clock(), after=None, limits=context.list_limits
    )
    return sum(group.count for group in counted.groups)


def _waiting(conditions: Iterable[Condition]) -> list[Condition]:
    return [*conditions, equals("phase", Phase.QUEUED.value)]


class _Again(NamedTuple):
    """What deciding an execution again comes to."""

    outcome: Redecided
    preparation: Preparation | None = None  #: None where it is refused
    decision: Decision | None = None
    values: JsonObject | None = None
    drawn: int = 0  #: from how many clusters was drawn


def _decide_again(view: StoredView, execution: Execution, plans: dict[Hashable, PlannedRun] | None = None) -> _Again:
    """Decide an execution again; `plans` are those of equal requests that the view has resolved before."""
    user, proof, use, _groups = creator_of(execution)
    request = CreationRequest(
        run_request_of(execution), execution.name, created_by=user, created_proof=proof, created_use=use
    )
    try:
        planned = _planned(view, request, {} if plans is None else plans)
        preparation = prepare_planned(view.context, view, planned)
    except (Invalid, RainbowError) as refusal:
        return _Again(outcome_of(execution, *reason_of(refusal)))
    run_plan, decision = preparation.run_plan, preparation.place(request.key).decision
    drawn = len(decision.evaluation.able)
    values = preparation.plan_values(run_plan.draw_queue(request.key))
    values["queue_deadline"] = queue_deadline(run_plan.quality_of_service, execution.created_at)
    is_same = all(getattr(execution, name) == value for name, value in values.items())
    if is_same and not differs(execution, decision):
        outcome = outcome_of(execution, execution.reason, execution.reason_message)
        return _Again(outcome, preparation, decision, drawn=drawn)
    place = {"cluster": decision.cluster, "pool": run_plan.route.pool, "label": run_plan.route.label}
    outcome = outcome_of(execution, decision.code, decision.message, is_change=True, **place)
    return _Again(outcome, preparation, decision, values, drawn)


def _planned(view: StoredView, request: CreationRequest, plans: dict[Hashable, PlannedRun]) -> PlannedRun:
    """A request as it is resolved, which is the same for equal ones but for where each holds tokens."""
    run = request.run
    key = run.project, run.domain, run.text, view.rights(request)
    planned = plans.get(key)
    if planned is None:
        planned = plan_run(view.context, view, request)
        if planned.run_plan.token_pools is None:
            plans[key] = planned
    return planned


def _redecide(context: Context, listed: ListedExecution, round_: RequestedRound) -> Redecided:
    """Decide an execution again in a round."""
    with context.database.writing() as connection:
        fleet.share(connection)
        unlocked = executions.get(connection, listed.key)
        by_request = [unlocked] if unlocked is not None and unlocked.request["spec"].get("strategy") else []
        hold_loaded(connection, current_fleet(context, connection), by_request)
        execution = executions.get(connection, listed.key, lock=True)
        if execution is None or not execution.is_unleased:
            return outcome_of(listed, listed.reason, listed.reason_message)
        rights = rights_of(context, execution, current_rights(context, connection))
        view = StoredView(context, connection, hold=True)
        again = _decide_again(view.of_moving(execution, rights), execution)
        if again.preparation is None or again.decision is None:
            return again.outcome
        if again.decision.code == ASKING == execution.reason:  # also those that said never
            run_plan = again.preparation.run_plan
            inquiry = Inquiry(
                execution.id, run_plan.route, again.decision.evaluation, run_plan.workload.requested, asks_all=True
            )
            open_rounds(context, connection, [inquiry], context.clock())
        if again.outcome.is_change:
            _store(context, connection, execution, again, again.preparation, again.decision, round_)
    return again.outcome


def _store(
    context: Context,
    connection: Connection,
    execution: Execution,
    again: _Again,
    preparation: Preparation,
    decision: Decision,
    round_: RequestedRound,
) -> None:
    round_.announce(connection, again.outcome)
    settings, revision = preparation.run_plan.effective.trail, preparation.basis.revision
    decisions.add_trails(connection, [settings, decision.evaluation.trail])
    values = {**(again.values or {}), "revision": revision}
    because = round_.because(connection, again.outcome)
    new = NewDecision(execution, decision, settings.digest, because, revision, values, round_.by)
    store_decisions(context, connection, [new], context.clock())
