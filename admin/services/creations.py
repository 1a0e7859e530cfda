"""Creations: from a request to a stored execution, decided from memory and written once, many at a time.

What memory says may be old by a moment. The write itself finds out, and then everything is done again inside one
transaction, where nothing can change. So it is where a choice depends on what waits at clusters.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import count
from typing import NamedTuple, cast

from sqlalchemy import Connection

from admin.core.executions.effective_settings import EffectiveSettings, resolve_settings
from admin.core.executions.lifecycle import Phase
from admin.core.executions.placements import check_feasible, check_route
from admin.core.executions.plans import RunPlan, build_run_plan
from admin.core.executions.quality_of_service import queue_deadline
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import json_text
from admin.core.placement.decisions import Evaluation, choose, evaluate
from admin.core.problems import Invalid
from admin.errors import ExecutionExists, RainbowError
from admin.services.catalogs import CachedCatalog, StoredCatalog, known_registrations
from admin.services.context import Context
from admin.services.decisions import run_plan_values
from admin.services.definitions import current_fleet
from admin.services.launches import (
    CreationRequest,
    ResolvedLaunch,
    RunRequest,
    find_launch,
    find_situation,
    looks_at_load,
    place_launch,
)
from admin.store import creations, executions, revisions
from admin.store.creations import Creation, DecisionBasis, Outcome, Template
from admin.store.executions import Execution

#: Letters that make no words and are not mistaken for each other.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
#: Requests are remembered up to this size.
_LONGEST_REMEMBERED = 16_384

Refusal = Invalid | RainbowError


class Created(NamedTuple):
    """An execution as it is, or would be, stored."""

    execution: Execution
    is_new: bool
    warnings: list[dict[str, str]]


class _Draft(NamedTuple):
    """A creation in the making."""

    request: CreationRequest
    creation: Creation
    warnings: list[dict[str, str]]

    def created(self) -> Created:
        return Created(execution=cast(Execution, _Row(self.creation)), is_new=True, warnings=self.warnings)


def create_execution(
    context: Context, request: CreationRequest, *, dry_run: bool = False, idempotency_key: str | None = None
) -> Created:
    """Resolve everything, decide, and store it as one; the same request under the same name is no second execution."""
    [found] = create_executions(context, [request], dry_run=dry_run, idempotency_key=idempotency_key)
    if isinstance(found, Exception):
        raise found
    return found


def create_executions(
    context: Context,
    requests: Iterable[CreationRequest],
    *,
    dry_run: bool = False,
    idempotency_key: str | None = None,
    places: Iterable[int] | None = None,
) -> list[Created | Refusal]:
    """The same for many, each for itself: what is wrong with one does not keep the others.

    `places` are those that names are made from, where there were more requests than could be read.
    """
    wanted = list(_named(requests, idempotency_key, count() if places is None else places))
    found: dict[int, Created | Refusal] = {}
    for _ in range(2):  # what is found to be old is looked up once more before all is held still
        drafts, refusals = _drafts(context, wanted, found, dry_run=dry_run)
        is_true = not refusals or _is_true(context)
        for index, refusal in refusals.items() if is_true else ():
            found[index] = _again(context, wanted[index]) or refusal
        if dry_run:
            found |= {index: draft.created() for index, draft in drafts.items()}
        elif drafts:
            is_true = _stored(context, drafts, found) and is_true
        if is_true:
            break
        _recall(context)
    return [
        found[index] if index in found else _in_transaction(context, request, dry_run=dry_run)
        for index, request in enumerate(wanted)
    ]


def _drafts(
    context: Context, wanted: list[CreationRequest], found: dict[int, Created | Refusal], *, dry_run: bool
) -> tuple[dict[int, _Draft], dict[int, Refusal]]:
    """Creations as memory has them, and what it would refuse."""
    drafts: dict[int, _Draft] = {}
    refusals: dict[int, Refusal] = {}
    # The numbers come first: whatever is looked up after them is as new, and the write finds out if it is newer.
    fleet = _fleet(context)
    heads = DecisionBasis(revision=_revision(context), registrations=known_registrations(context), fleet=fleet.number)
    now = context.clock()
    for index, request in enumerate(wanted):
        if index in found:
            continue
        try:
            there = _there(context, request) if dry_run else None
            if there is not None:
                found[index] = _repeated(there, request)
            else:
                drafts[index] = _pattern_of(context, request, fleet, heads).draft(request, now)
        except _NeedsTransaction:
            continue
        except (Invalid, RainbowError) as refusal:
            refusals[index] = refusal
    return drafts, refusals


def _stored(context: Context, drafts: dict[int, _Draft], found: dict[int, Created | Refusal]) -> bool:
    """Store creations; False where memory was old for some of them, which are not found yet."""
    outcomes = context.creations.submit([draft.creation for draft in drafts.values()])
    for (index, draft), outcome in zip(drafts.items(), outcomes, strict=True):
        answer: Created | Refusal | None = draft.created() if outcome is Outcome.NEW else None
        if outcome is Outcome.TAKEN:
            answer = _again(context, draft.request)
        if answer is not None:
            found[index] = answer
    return Outcome.STALE not in outcomes


class _NeedsTransaction(Exception):
    """Memory cannot say where something goes."""


@dataclass(frozen=True, kw_only=True)
class _Pattern:
    """A creation but for its name: the same for all that ask for the same at one moment."""

    resolved: ResolvedLaunch
    run_plan: RunPlan
    evaluation: Evaluation
    heads: DecisionBasis
    templates: dict[str | None, Template] = field(default_factory=dict)  #: by queue

    def draft(self, request: CreationRequest, now: datetime) -> _Draft:
        key = request.key
        decision = choose(self.evaluation, key)
        queue = self.run_plan.draw_queue(key)
        template = self.templates.get(queue)
        if template is None:
            template = self.templates[queue] = self._template(request.run, queue)
        deadline = queue_deadline(self.run_plan.quality_of_service, now)
        creation = Creation(template, request.name or "", decision.cluster, decision.message, deadline, now)
        return _Draft(request, creation, self.resolved.warnings)

    def _template(self, asked: RunRequest, queue: str | None) -> Template:
        plan, workflow = self.resolved.plan, self.resolved.workflow
        return Template(
            heads=self.heads,
            values={
                "project": asked.project,
                "domain": asked.domain,
                "digest": asked.digest,
                "request": asked.body,
                "workflow": workflow.name if workflow else "",
                "launch_plan": plan.name if plan else "",
                "version": plan.version if plan else workflow.version if workflow else "",
                "launched": self.resolved.identifiers,
                "mode": asked.mode,
                "reference": asked.reference,
                "phase": Phase.QUEUED.value,
                "reason": self.evaluation.code,
                "state": "ACTIVE",
                **run_plan_values(self.run_plan, self.resolved, queue),
                "revision": self.heads.revision,
                "attempt": 1,
                "decisions": 1,
                "events": 1,
            },
            settings=self.run_plan.effective.trail,
            placement=self.evaluation.trail,
            scores=self.evaluation.scores,
        )


def _pattern_of(context: Context, request: CreationRequest, fleet: Fleet, heads: DecisionBasis) -> _Pattern:
    """The pattern of a request, which is the same as long as nothing has changed that it was made from."""
    asked = request.run
    if len(asked.text) > _LONGEST_REMEMBERED:
        return _pattern(context, request, fleet, heads)
    key = (asked.project, asked.domain, asked.text)
    made = partial(_pattern, context, request, fleet, heads)
    found: _Pattern = context.creation_cache.patterns.find(key, made, heads)
    return found


def _revision(context: Context) -> int:
    known = context.index.current()
    if known is not None:
        return known
    with context.database.reading() as connection:
        return revisions.head(connection)


def _pattern(context: Context, request: CreationRequest, fleet: Fleet, heads: DecisionBasis) -> _Pattern:
    resolved = find_launch(CachedCatalog(context, heads.registrations), request.run)
    effective = _settled(context, resolved, heads.revision)
    run_plan = build_run_plan(resolved.launch, request.name or "", effective, context.settings.rules)
    check_route(effective, fleet)
    if looks_at_load(run_plan, fleet):
        raise _NeedsTransaction
    return _Pattern(
        resolved=resolved,
        run_plan=run_plan,
        evaluation=_evaluate(context, run_plan, fleet),
        heads=heads,
    )


def _settled(context: Context, resolved: ResolvedLaunch, revision: int) -> EffectiveSettings:
    """What settings say at a scope."""
    launch = resolved.launch

    def made() -> EffectiveSettings:
        known = context.index.applying(launch.scope)
        if known is not None:
            return resolve_settings(launch, known.rows(context.settings.kinds), context.settings.rules)
        with context.database.reading() as connection:
            rows = find_situation(context, connection, launch.scope).rows
        return resolve_settings(launch, rows, context.settings.rules)

    wishes = (launch.scope, resolved.plan, json_text(launch.request, sort_keys=True))
    return context.creation_cache.effective.find(wishes, made, revision)


def _fleet(context: Context) -> Fleet:
    known = context.fleet_cache.last
    if known is not None:
        return known
    with context.database.reading() as connection:
        return current_fleet(context, connection)


def _evaluate(context: Context, run_plan: RunPlan, fleet: Fleet) -> Evaluation:
    route, workload = run_plan.route, run_plan.workload
    want = (route.kind, route.name, tuple(workload.demand.items()), workload.plugins)
    evaluation = context.creation_cache.evaluations.find(
        want, lambda: evaluate(route, fleet, workload, {}), fleet.number
    )
    check_feasible(evaluation)
    return evaluation


def _in_transaction(context: Context, request: CreationRequest, *, dry_run: bool) -> Created | Refusal:
    """A creation as the database has it, while the fleet is held still; again if settings have changed meanwhile."""
    while True:
        try:
            with context.database.reading() if dry_run else context.database.writing() as connection:
                there = executions.get(connection, request.id)
                if there is not None:
                    return _repeated(there, request)
                draft = _drafted_in(context, connection, request, hold=not dry_run)
                one = draft.creation
                if dry_run:
                    return draft.created()
                _, stored = creations.store(connection, [one], one.template.heads, one.template.trails)
            if stored:
                return draft.created()
        except (Invalid, RainbowError) as refusal:
            return refusal


def _drafted_in(context: Context, connection: Connection, request: CreationRequest, *, hold: bool) -> _Draft:
    heads = creations.heads(connection, share=hold)
    resolved = find_launch(StoredCatalog(context, connection), request.run)
    situation = find_situation(context, connection, resolved.launch.scope)
    placement = place_launch(context, connection, resolved.launch, request.name or "", situation, hold=hold)
    evaluation = placement.decision.evaluation
    pattern = _Pattern(resolved=resolved, run_plan=placement.run_plan, evaluation=evaluation, heads=heads)
    return pattern.draft(request, context.clock())


def _is_true(context: Context) -> bool:
    """Whether what is remembered is how things are."""
    known = context.fleet_cache.last
    remembered = (context.index.revision, context.creation_cache.registrations, known.number if known else None)
    with context.database.reading() as connection:
        return creations.heads(connection) == remembered


def _recall(context: Context) -> None:
    """Bring what is remembered up to date."""
    with context.database.reading() as connection:
        context.creation_cache.registrations = creations.heads(connection).registrations
        current_fleet(context, connection)
    context.index.catch_up()


def _named(
    requests: Iterable[CreationRequest], idempotency_key: str | None, places: Iterable[int]
) -> Iterator[CreationRequest]:
    for place, request in zip(places, requests, strict=False):
        key = idempotency_key if idempotency_key is None or place == 0 else f"{idempotency_key}/{place}"
        yield request if request.name else request._replace(name=generated_name(request.run, key))


def generated_name(asked: RunRequest, idempotency_key: str | None = None) -> str:
    """A name of its own; the same one for the same key, so that a request that is sent twice runs once."""
    seed = secrets.token_bytes(16)
    if idempotency_key is not None:
        seed = hashlib.blake2b(f"{asked.project}/{asked.domain}/{idempotency_key}".encode()).digest()
    number = int.from_bytes(seed)
    letters = []
    for _ in range(19):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "a" + "".join(letters)


def _there(context: Context, request: CreationRequest) -> Execution | None:
    with context.database.reading() as connection:
        return executions.get(connection, request.id)


def _again(context: Context, request: CreationRequest) -> Created | Refusal | None:
    """The answer to a request whose name is taken; None where it is not."""
    there = _there(context, request)
    if there is None:
        return None
    try:
        return _repeated(there, request)
    except ExecutionExists as refusal:
        return refusal


def _repeated(there: Execution, request: CreationRequest) -> Created:
    if there.digest != request.run.digest:
        since = there.created_at.isoformat(timespec="seconds").replace("+00:00", "Z")
        raise ExecutionExists(
            f"An execution called '{there.name}' exists in {there.project}/{there.domain} since {since}, for another "
            f"request; it is {there.phase}. Nothing was started. Choose another name.",
            details=[{"field": "name", "reason": f"'{there.name}' is taken."}],
        )
    return Created(execution=there, is_new=False, warnings=[])


class _Row:
    """An execution as its row would be read."""

    started_at = finished_at = duration = abort_cause = abort_principal = None

    def __init__(self, creation: Creation) -> None:
        self.__dict__ = creation.values
