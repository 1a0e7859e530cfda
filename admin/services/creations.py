"""Creations: from requests to stored executions, decided from memory and written once, many at a time.

Memory may be outdated by a moment. The write checks the decision basis, and where that has changed, the creation is
decided again in a transaction, where nothing can change (`locked_creations`); so are those whose strategy looks at
load.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterable, Iterator
from itertools import count

from sqlalchemy.exc import SQLAlchemyError

from admin.core.creators import Creator
from admin.core.executions.quotas import FullQuota
from admin.core.identities import Identity
from admin.core.problems import Invalid
from admin.core.provenance import ANYBODY, Actor
from admin.errors import RainbowError
from admin.metrics import count_created
from admin.services.context import Context
from admin.services.creation_results import Created, Draft, Refusal, Result, repeated
from admin.services.creator_rights import note_proven_groups
from admin.services.decision_views import CachedView, NeedsTransaction, refresh
from admin.services.execution_quotas import refusals_of
from admin.services.locked_creations import create_locked
from admin.services.preparations import PlannedRun
from admin.services.refusals import explain_refusals, is_explainable
from admin.services.run_requests import CreationRequest, RunRequest
from admin.services.visibility import check_launch
from admin.store import execution_quotas, executions
from admin.store.creations import Outcome

#: Letters that form no words and are not mistaken for each other.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def create_execution(
    context: Context,
    request: CreationRequest,
    *,
    creator: Identity = ANYBODY,
    dry_run: bool = False,
    idempotency_key: str | None = None,
) -> Created:
    """Resolve, decide and store an execution; the same request under the same name creates no second one."""
    [result] = create_executions(context, [request], creator=creator, dry_run=dry_run, idempotency_key=idempotency_key)
    if isinstance(result, Exception):
        raise result
    return result


def create_executions(
    context: Context,
    requests: Iterable[CreationRequest],
    *,
    creator: Identity = ANYBODY,
    dry_run: bool = False,
    idempotency_key: str | None = None,
    places: Iterable[int] | None = None,
) -> list[Result]:
    """The same for many, each on its own: a refusal of one does not affect the others.

    Generated names follow from the key and from `places`, the positions of the requests in the caller's list.
    """
    started = time.perf_counter()
    named = list(_named(requests, creator, idempotency_key, count() if places is None else places))
    denied = _denied(context, named)
    if not dry_run:
        projects = (None if place in denied else request.run.project for place, request in enumerate(named))
        context.rate_limiter.count_creations(creator.proven_user, projects)
        note_proven_groups(context, creator)
    results, plans = _create_from_memory(context, named, denied, dry_run=dry_run)
    left = {position: request for position, request in enumerate(named) if position not in results}
    results |= create_locked(context, left, plans, dry_run=dry_run)
    if not dry_run:
        new = [result.execution for result in results.values() if isinstance(result, Created) and result.is_new]
        count_created(new, (time.perf_counter() - started) / max(1, len(named)))
    return _explained(context, [results[position] for position in range(len(named))])


def _explained(context: Context, results: list[Result]) -> list[Result]:
    """Results whose refusals say by whom the settings were made that refuse them; nothing is read without any."""
    refusals = [result for result in results if isinstance(result, Invalid)]
    if not is_explainable(refusals):
        return results
    try:
        with context.database.reading() as connection:
            explained = iter(explain_refusals(context, connection, refusals))
    except SQLAlchemyError:
        return results  # what was stored is not to be lost for it
    return [next(explained) if isinstance(result, Invalid) else result for result in results]


def _denied(context: Context, requests: list[CreationRequest]) -> dict[int, Result]:
    """Why those requests are refused, by position, that the caller may not make."""
    denied: dict[int, Result] = {}
    for position, request in enumerate(requests if context.access.is_restricted else ()):
        try:
            context.access.check("executions.create", request.run.scope)
            check_launch(context.access, request.run)
        except RainbowError as refusal:
            denied[position] = refusal
    return denied


def _create_from_memory(
    context: Context, requests: list[CreationRequest], denied: dict[int, Result], *, dry_run: bool
) -> tuple[dict[int, Result], dict[int, PlannedRun]]:
    """The results, by position, of the requests that can be decided by what is in memory; and plans of others."""
    results = dict(denied)
    plans: dict[int, PlannedRun] = {}
    if dry_run:
        tried = ((position, request) for position, request in enumerate(requests) if position not in denied)
        found = ((position, _find_repeated(context, request)) for position, request in tried)
        results |= {position: result for position, result in found if result is not None}
    for _ in range(2):  # once more after a refresh, before transactions have to lock the fleet
        view = CachedView(context)
        drafts, refusals, plans = _draft(
            view, {position: request for position, request in enumerate(requests) if position not in results}
        )
        is_current = not refusals or view.is_current()
        if is_current:
            for position, refusal in refusals.items():
                results[position] = _find_repeated(context, requests[position]) or refusal
        if dry_run:
            results |= dict(zip(drafts, _dry(context, list(drafts.values())), strict=True))
        elif drafts:
            stored, is_stale = _store(context, drafts)
            results |= stored
            is_current = is_current and not is_stale
        if is_current:
            break
        refresh(context)
    return results, plans


def _draft(
    view: CachedView, requests: dict[int, CreationRequest]
) -> tuple[dict[int, Draft], dict[int, Refusal], dict[int, PlannedRun]]:
    """Creations, refusals that hold if the view is current, and the plans of what needs a transaction."""
    drafts: dict[int, Draft] = {}
    refusals: dict[int, Refusal] = {}
    plans: dict[int, PlannedRun] = {}
    for position, request in requests.items():
        try:
            preparation = view.prepare(request)
            creation = preparation.creation(request, view.now)
            drafts[position] = Draft(request, creation, preparation.warnings(creation.cluster))
        except NeedsTransaction as needs:
            plans[position] = needs.planned
        except (Invalid, RainbowError) as refusal:
            refusals[position] = refusal
    return drafts, refusals, plans


def _dry(context: Context, drafts: list[Draft]) -> list[Result]:
    """What creations would come to; those together that a quota would have no room for."""
    limits = [draft.creation.template.quotas for draft in drafts]
    if not any(limits):
        return [draft.dry() for draft in drafts]
    with context.database.reading() as connection:
        full = execution_quotas.admit_waiting(connection, limits)
    refusals = iter(refusals_of(context, [quota for quota in full if quota is not None]))
    return [draft.dry() if quota is None else next(refusals) for draft, quota in zip(drafts, full, strict=True)]


def _store(context: Context, drafts: dict[int, Draft]) -> tuple[dict[int, Result], bool]:
    """Store creations; returns the results, and whether the basis had changed for some, which have none."""
    outcomes = context.creations.submit([draft.creation for draft in drafts.values()])
    results: dict[int, Result] = {}
    full: dict[int, FullQuota] = {}
    for (position, draft), outcome in zip(drafts.items(), outcomes, strict=True):
        result: Result | None = draft.created() if outcome is Outcome.NEW else None
        if outcome is Outcome.TAKEN or isinstance(outcome, FullQuota):
            result = _find_repeated(context, draft.request)
        if result is not None:
            results[position] = result
        elif isinstance(outcome, FullQuota):
            full[position] = outcome
    if full:
        results |= dict(zip(full, refusals_of(context, list(full.values())), strict=True))
    return results, Outcome.STALE in outcomes


def _named(
    requests: Iterable[CreationRequest], creator: Identity, idempotency_key: str | None, places: Iterable[int]
) -> Iterator[CreationRequest]:
    """The requests with their creator, and each with a name."""
    _user, _proof, use, groups = Creator.of(creator)
    for place, request in zip(places, requests, strict=False):
        key = idempotency_key if idempotency_key is None or place == 0 else f"{idempotency_key}/{place}"
        name = request.name or generated_name(request.run, key)
        author, claimed_by, proof = Actor.of_identity(creator, request.claimed_by)
        yield CreationRequest(request.run, name, claimed_by, author, proof, use, groups)


def generated_name(run: RunRequest, idempotency_key: str | None = None) -> str:
    """A random name; or one that follows from a key, so that a request that is sent twice runs once."""
    seed = secrets.token_bytes(16)
    if idempotency_key is not None:
        seed = hashlib.blake2b(f"{run.project}/{run.domain}/{idempotency_key}".encode()).digest()
    number = int.from_bytes(seed)
    letters = []
    for _ in range(19):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "a" + "".join(letters)


def _find_repeated(context: Context, request: CreationRequest) -> Result | None:
    """The result of a request whose name is taken; None where it is not."""
    with context.database.reading() as connection:
        existing = executions.get(connection, request.id)
    return None if existing is None else repeated(existing, request)
