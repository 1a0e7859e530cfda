"""Executions: created, read, listed, ended, repeated and explained."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection

from admin.core import names, trails
from admin.core.executions import EXECUTION_NAME
from admin.core.lifecycle import Phase
from admin.core.placement import decisions as placement
from admin.core.placement import routes
from admin.core.placement.routes import RouteKind
from admin.core.problems import Invalid, Problem, closest, did_you_mean, shorten
from admin.core.quantities import parse_duration
from admin.core.scopes import Scope
from admin.core.selectors import Condition
from admin.errors import ExecutionExists, ExecutionNotFound, NotRecoverable
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.launches import (
    Launched,
    Placed,
    Request,
    find_launch,
    find_situation,
    looks_at_load,
    place_composed,
    place_launch,
    stored_request,
)
from admin.services.scopes import check_readable
from admin.store import decisions, executions, fleet
from admin.store.executions import Event, Execution, ExecutionId

_PAGE = 1000
#: The most urgent first.
TIERS = ("HIGH", "MEDIUM", "LOW", "UNDEFINED")
#: Letters that make no words and are not mistaken for each other.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, kw_only=True)
class Created:
    """An execution as it is, or would be, stored."""

    execution: Execution
    is_new: bool
    warnings: list[dict[str, str]]


def create_execution(
    context: Context, request: Request, *, dry_run: bool = False, idempotency_key: str | None = None
) -> Created:
    """Resolve everything, decide, and store it as one; the same request under the same name is no second execution."""
    request = replace(request, name=request.name or _generated(request, idempotency_key))
    wanted = request.named(request.name or "")
    with context.database.reading() as connection:
        there = executions.get(connection, wanted)
        if there is not None:
            return _repeated(there, request)
        launched = find_launch(context, connection, request)
        situation = find_situation(context, connection, launched.launch.scope)
        placed = place_launch(context, connection, launched.launch, wanted.name, situation)
    if dry_run:
        values = _values(context.clock(), request, launched, placed, situation.revision)
        return Created(execution=_unstored(values), is_new=True, warnings=launched.warnings)
    with context.database.writing() as connection:
        if fleet.share(connection) != situation.fleet.number or looks_at_load(placed.composed, situation.fleet):
            now = current_fleet(context, connection)
            placed = place_composed(connection, placed.composed, now, hold=True)
        values = _values(context.clock(), request, launched, placed, situation.revision)
        row_id = executions.add(connection, values)
        if row_id is not None:
            _record(connection, row_id, values, placed, situation.revision)
        stored = executions.get(connection, wanted)
    assert stored is not None
    if row_id is None:
        return _repeated(stored, request)
    return Created(execution=stored, is_new=True, warnings=launched.warnings)


def _unstored(values: Mapping[str, Any]) -> Any:
    missing = dict.fromkeys(("started_at", "finished_at", "duration", "abort_cause", "abort_principal"))
    return SimpleNamespace(**missing, **values)


def _generated(request: Request, idempotency_key: str | None) -> str:
    """A name of its own; the same one for the same key, so that a request that is sent twice runs once."""
    seed = secrets.token_bytes(16)
    if idempotency_key is not None:
        seed = hashlib.blake2b(f"{request.project}/{request.domain}/{idempotency_key}".encode()).digest()
    number = int.from_bytes(seed)
    letters = []
    for _ in range(19):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "a" + "".join(letters)


def generated_name(request: Request) -> str:
    """A name for an execution that nobody named."""
    return _generated(request, None)


def _repeated(there: Execution, request: Request) -> Created:
    if there.digest != request.digest:
        since = there.created_at.isoformat(timespec="seconds").replace("+00:00", "Z")
        raise ExecutionExists(
            f"An execution called '{there.name}' exists in {there.project}/{there.domain} since {since}, for another "
            f"request; it is {there.phase}. Nothing was started. Choose another name.",
            details=[{"field": "name", "reason": f"'{there.name}' is taken."}],
        )
    return Created(execution=there, is_new=False, warnings=[])


def _values(now: datetime, request: Request, launched: Launched, placed: Placed, revision: int) -> dict[str, Any]:
    plan, workflow = launched.plan, launched.workflow
    return {
        "project": request.project,
        "domain": request.domain,
        "name": request.name,
        "digest": request.digest,
        "request": request.body,
        "workflow": workflow.name if workflow else "",
        "launch_plan": plan.name if plan else "",
        "version": plan.version if plan else workflow.version if workflow else "",
        "launched": launched.identifiers,
        "mode": request.mode,
        "reference": request.reference,
        "phase": Phase.QUEUED.value,
        "state": "ACTIVE",
        **settled_values(placed, launched, now),
        "revision": revision,
        "attempt": 1,
        "decisions": 1,
        "events": 1,
        "created_at": now,
        "updated_at": now,
    }


def settled_values(placed: Placed, launched: Launched, created_at: datetime) -> dict[str, Any]:
    """What settings and a decision make of an execution."""
    composed = placed.composed
    route = composed.route
    return {
        **decided_values(placed.decision),
        "route_kind": route.kind.value,
        "route_name": route.name,
        "pool": route.name if route.kind is RouteKind.POOL else None,
        "label": route.name if route.kind is RouteKind.LABEL else None,
        "content": {
            "job": composed.job,
            "config": composed.config,
            "queue": composed.queue,
            "quality_of_service": composed.quality_of_service,
            "plugins": composed.plugins,
            "retry": composed.retry,
            "attributes": composed.attributes,
            "inputs": launched.launch.inputs or {},
        },
        "required_plugins": list(composed.wanted.plugins),
        "tier": TIERS.index(composed.quality_of_service.get("tier", "UNDEFINED")),
        "priority": composed.attributes.get("WORKFLOW_PRIORITY", {}).get("priority", 50),
        "queue_deadline": queue_deadline(composed.quality_of_service, created_at),
        **executions.demand_columns(composed.wanted.demand),
    }


def decided_values(decision: placement.Decision) -> dict[str, Any]:
    """What a decision makes of an execution."""
    return {"cluster": decision.cluster, "reason": decision.code, "reason_message": decision.message}


def queue_deadline(quality: Mapping[str, Any], now: datetime) -> datetime | None:
    """Until when something may wait that waits from now on; None for as long as it takes."""
    budget = quality.get("queueing_budget")
    if budget is None:
        return None
    try:
        return now + timedelta(seconds=float(parse_duration(budget)))
    except OverflowError:
        return None  # longer than time itself


def _record(connection: Connection, row_id: int, values: Mapping[str, Any], placed: Placed, revision: int) -> None:
    """The first decision with its trails, and the first event."""
    now = values["created_at"]
    add_decision(connection, row_id, 1, now, placed, revision, "created")
    event = Event(
        number=1,
        at=now,
        type="CREATED",
        phase=values["phase"],
        reason=values["reason"],
        message=values["reason_message"],
        cluster=values["cluster"],
    )
    executions.add_events(connection, [(row_id, event)])


def add_decision(
    connection: Connection, row_id: int, number: int, now: datetime, placed: Placed, revision: int, because: str
) -> None:
    """Store a decision that settings and the fleet made together."""
    settings = settings_trail(placed)
    way = placement.trail_of(placed.decision)
    bodies = {trails.digest(body): body for body in (settings, way)}
    decisions.add_trails(connection, bodies)
    row = decision_row(row_id, number, now, placed.decision, trails.digest(settings), because, revision)
    decisions.add(connection, [row])


def settings_trail(placed: Placed) -> dict[str, Any]:
    """What the settings said, the same for every execution at the same scope with the same wishes."""
    composed = placed.composed
    return {
        "settings": [trails.resolved(one) for one in composed.settings],
        "rungs": routes.as_json(composed.route),
    }


def decision_row(
    row_id: int,
    number: int,
    now: datetime,
    decision: placement.Decision,
    settings_digest: str,
    because: str,
    revision: int,
) -> dict[str, Any]:
    """A decision as it is stored; its trails must be there."""
    return {
        "execution_id": row_id,
        "number": number,
        "decided_at": now,
        **decided_values(decision),
        "because": because,
        "revision": revision,
        "settings_trail": settings_digest,
        "placement_trail": trails.digest(placement.trail_of(decision)),
        "scores": placement.scores_of(decision),
    }


def get_execution(context: Context, wanted: ExecutionId, after_event: int | None = None, wait: float = 0) -> Execution:
    """One execution; waits until something happens after an event, if asked to."""
    deadline = time.monotonic() + wait
    while True:
        with context.database.reading() as connection:
            last = executions.last_event(connection)
            found = find_execution(context, connection, wanted)
        remaining = deadline - time.monotonic()
        is_news = after_event is None or found.events > after_event
        if is_news or remaining <= 0 or context.happenings.is_closing:
            return found
        context.happenings.wait_above(last, min(remaining, 1.0))  # events of two transactions may cross


def find_execution(context: Context, connection: Connection, wanted: ExecutionId, *, lock: bool = False) -> Execution:
    """One execution; ExecutionNotFound with the nearest names where there is none."""
    check_readable(context, connection, Scope(project=wanted.project, domain=wanted.domain))
    is_name = names.matches(EXECUTION_NAME, wanted.name)
    found = executions.get(connection, wanted, lock=lock) if is_name else None
    if found is None:
        near = closest(wanted.name, executions.names_like(connection, wanted))
        place_named = f"{wanted.project}/{wanted.domain}"
        raise ExecutionNotFound(
            f"No execution is called '{shorten(wanted.name)}' in {place_named}.{did_you_mean(near)} "
            f"`rainbowctl get execution -p {wanted.project} -d {wanted.domain}` lists them.",
            details=[{"field": "name", "reason": "is unknown.", "closest": list(near)}],
        )
    return found


def list_executions(
    context: Context,
    conditions: Iterable[Condition],
    *,
    scope: Scope,
    sort_by: str,
    descending: bool,
    after: tuple[Any, int] | None,
    limit: int,
) -> tuple[list[Execution], Execution | None]:
    """Executions, and the last one shown, if there are more."""
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        found = executions.page(
            connection, conditions, sort_by=sort_by, descending=descending, after=after, limit=limit + 1
        )
    return found[:limit], found[limit - 1] if len(found) > limit else None


def list_events(context: Context, wanted: ExecutionId, above: int, limit: int) -> tuple[list[Event], int | None]:
    """What happened to an execution, oldest first, and the number to go on above, if there are more."""
    with context.database.reading() as connection:
        row = find_execution(context, connection, wanted)
        found = executions.events_of(connection, row.id, above, limit + 1)
    return found[:limit], found[limit - 1].number if len(found) > limit else None


def set_state(context: Context, wanted: ExecutionId, state: str) -> tuple[Execution, bool]:
    """Archive an execution, or bring it back to lists; answers whether that changed anything."""
    with context.database.writing() as connection:
        before = find_execution(context, connection, wanted, lock=True)
        if before.state == state:
            return before, False
        now = context.clock()
        number = before.events + 1
        executions.change(connection, before.id, {"state": state, "updated_at": now, "events": number})
        kind = "ARCHIVED" if state == "ARCHIVED" else "ACTIVATED"
        event = Event(number=number, at=now, type=kind, phase=before.phase, cluster=before.cluster)
        executions.add_events(connection, [(before.id, event)])
        after = executions.get(connection, wanted)
    assert after is not None
    return after, True


def terminate(context: Context, wanted: ExecutionId, cause: str, by: str) -> tuple[Execution, bool]:
    """End an execution; one that has ended already stays as it is."""
    with context.database.writing() as connection:
        before = find_execution(context, connection, wanted, lock=True)
        is_ended = end(connection, before, Phase.ABORTED, "TERMINATED", cause, by, context.clock())
        after = executions.get(connection, wanted)
    assert after is not None
    return after, is_ended


def terminate_many(
    context: Context, conditions: Iterable[Condition], cause: str, by: str, *, dry_run: bool
) -> list[tuple[Execution, bool]]:
    """End every execution that fits; each for itself, so that none waits for all. Finished ones are not touched."""
    wanted = [one for one in matching(context, conditions) if not Phase(one.phase).is_finished]
    if dry_run:
        return [(one, True) for one in wanted]
    return [terminate(context, executions.identity(one), cause, by) for one in wanted]


def matching(context: Context, conditions: Iterable[Condition], *, whole: bool = False) -> Iterator[Execution]:
    """Every execution that fits, oldest first, read page by page, so that any number of them may."""
    last: tuple[Any, int] | None = None
    held = list(conditions)
    while True:
        with context.database.reading() as connection:
            some = _page(connection, held, last, whole=whole)
        yield from some
        if len(some) < _PAGE:
            return
        last = some[-1].created_at, some[-1].id


def matching_in(connection: Connection, conditions: Iterable[Condition]) -> Iterator[Execution]:
    """The same, whole, in one transaction."""
    last: tuple[Any, int] | None = None
    held = list(conditions)
    while some := _page(connection, held, last, whole=True):
        yield from some
        last = some[-1].created_at, some[-1].id


def _page(
    connection: Connection, conditions: list[Condition], after: tuple[Any, int] | None, *, whole: bool
) -> list[Execution]:
    return executions.page(
        connection, conditions, sort_by="created_at", descending=False, after=after, limit=_PAGE, whole=whole
    )


def end(
    connection: Connection, row: Execution, phase: Phase, reason: str, message: str, by: str | None, now: datetime
) -> bool:
    """End an execution that this transaction holds, or have its agent end it; False where that is not possible."""
    if not Phase(row.phase).may_become(phase):
        return False
    if phase is Phase.ABORTED and row.lease_expires_at is not None:
        phase = Phase.ABORTING  # its agent ends it
        if row.phase == phase.value:
            return False
    number = row.events + 1
    values = {
        "phase": phase.value,
        "reason": reason,
        "reason_message": message,
        "updated_at": now,
        "events": number,
    }
    if phase.is_finished:
        values |= {"finished_at": now, "lease_expires_at": None}
    if phase in (Phase.ABORTING, Phase.ABORTED):
        values |= {"abort_cause": message, "abort_principal": by}
    executions.change(connection, row.id, values)
    event = Event(
        number=number,
        at=now,
        type=phase.value,
        phase=phase.value,
        reason=reason,
        message=message,
        cluster=row.cluster,
        by=by,
    )
    executions.add_events(connection, [(row.id, event)])
    return True


def repeat_request(
    context: Context, wanted: ExecutionId, *, mode: str, name: str | None, changes: Mapping[str, Any]
) -> Request:
    """The request of an execution once more, with some things changed; settings will be resolved afresh."""
    with context.database.reading() as connection:
        row = find_execution(context, connection, wanted)
    if mode == "RECOVERED" and (Phase(row.phase) is Phase.SUCCEEDED or not Phase(row.phase).is_finished):
        why = "it succeeded" if row.phase == Phase.SUCCEEDED.value else f"it is still {row.phase}"
        raise NotRecoverable(
            f"Execution '{row.name}' cannot be recovered: {why}. Only what failed, timed out or was aborted can be; "
            "relaunch runs anything again."
        )
    first = stored_request(row)
    spec, inputs = dict(first.spec), dict(first.inputs)
    for field, value in changes.items():
        if field == "inputs":
            inputs |= value
        else:
            spec[field] = value
    if changes.keys() & {"cluster", "cluster_assignment", "execution_cluster_label"}:
        for field in ("cluster", "cluster_assignment", "execution_cluster_label"):
            if field not in changes:
                spec.pop(field, None)  # another place was asked for, so the old wish is off
    if name is not None and not names.matches(EXECUTION_NAME, name):
        raise Invalid(Problem(field="name", reason=f"'{shorten(name)}' is not an execution's name."))
    return Request(
        project=row.project,
        domain=row.domain,
        name=name,
        spec=spec,
        inputs=inputs,
        mode=mode,
        reference={"project": row.project, "domain": row.domain, "name": row.name},
    )


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A decision with everything that led to it."""

    execution: Execution
    decision: Any  #: a stored decision
    settings: Mapping[str, Any]
    candidates: list[dict[str, Any]]
    strategy: str
    history: list[Any]


def explain(context: Context, wanted: ExecutionId, number: int | None = None) -> Explanation:
    """Why an execution is where it is; or was, by an earlier decision."""
    with context.database.reading() as connection:
        row = find_execution(context, connection, wanted)
        history = decisions.of(connection, row.id)
        if number is not None and not 1 <= number <= len(history):
            reason = f"there are {len(history)} decisions; give 1 to {len(history)}."
            raise Invalid(Problem(field="decision", reason=reason))
        decision = history[(number or len(history)) - 1]
        settings = decisions.trail(connection, decision.settings_trail)
        way = decisions.trail(connection, decision.placement_trail)
    candidates = placement.candidates_shown(way, decision.scores, str(wanted), decision.cluster)
    return Explanation(
        execution=row,
        decision=decision,
        settings=settings,
        candidates=candidates,
        strategy=way["strategy"],
        history=history,
    )
