"""Creations that are decided while the fleet is locked, many in one transaction.

Those are the ones whose strategy looks at load or asks, and the ones that memory was too old for. Each counts on what
the ones before it take, though all of them are stored together at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice

from sqlalchemy import Connection

from admin.core.executions.quotas import OF_WAITING, FullQuota, Usage, waiting_limits
from admin.core.placement.decisions import ASKING
from admin.core.problems import Invalid
from admin.core.settings.trails import Trail
from admin.errors import RainbowError
from admin.services.bid_rounds import Inquiry, open_rounds
from admin.services.context import Context
from admin.services.creation_results import Draft, Result, repeated
from admin.services.creator_rights import asks_for_rights, current_rights, rights_at_creation
from admin.services.decision_views import StoredView, plan_run, prepare_planned
from admin.services.execution_quotas import refusals_of
from admin.services.preparations import PlannedRun, Preparation
from admin.services.run_requests import CreationRequest
from admin.store import creations, execution_quotas, executions
from admin.store.creations import Creation
from admin.store.executions import ExecutionId

#: Creations in one transaction, for whose time reports of their clusters wait.
_MOST_AT_ONCE = 64


def create_locked(
    context: Context, requests: Mapping[int, CreationRequest], plans: Mapping[int, PlannedRun], *, dry_run: bool
) -> dict[int, Result]:
    """The results of requests of one creator, by position; again for those that settings have changed for meanwhile.

    `plans` were made from memory, and count as far as their basis still holds.
    """
    results: dict[int, Result] = {}
    left = dict(requests)
    while left:
        # The second of two with one name finds the first one stored.
        first = {request.id: position for position, request in reversed(left.items())}
        chosen = (position for position, request in left.items() if first[request.id] == position)
        # A dry run keeps nobody waiting, and the next transaction would not see what it found.
        most = None if dry_run else _MOST_AT_ONCE
        some = {position: left[position] for position in islice(chosen, most)}
        results |= _create_some(context, some, plans, dry_run=dry_run)
        left = {position: request for position, request in left.items() if position not in results}
    return results


def _create_some(
    context: Context, requests: Mapping[int, CreationRequest], plans: Mapping[int, PlannedRun], *, dry_run: bool
) -> dict[int, Result]:
    """The results of some requests with different names in one transaction; none where it cannot be told yet."""
    with context.database.transaction(dry_run=dry_run) as connection:
        existing = executions.find(connection, [request.id for request in requests.values()])
        results = {
            position: repeated(existing[request.id], request)
            for position, request in requests.items()
            if request.id in existing
        }
        new = {position: request for position, request in requests.items() if position not in results}
        if not new:
            return results
        creator = next(iter(new.values())).creator
        known = current_rights(context, connection) if asks_for_rights(context, creator) else None
        rights = partial(rights_at_creation, context, rights=known)
        batch = _Batch(context, connection, StoredView(context, connection, hold=not dry_run, rights=rights))
        results |= batch.plan(new, plans)
        results |= batch.prepare()
        if dry_run:
            results |= {position: draft.dry() for position, draft in batch.drafts.items()}
        else:
            stored = batch.store()
            results |= {
                position: draft.created() for position, draft in batch.drafts.items() if draft.request.id in stored
            }
            if len(stored) < len(batch.drafts):
                return results  # what was not stored leaves room for others
    if batch.full:
        results |= dict(zip(batch.full, refusals_of(context, list(batch.full.values())), strict=True))
    return results


class _Batch:
    """Requests that are decided one after the other by one view, and stored together."""

    def __init__(self, context: Context, connection: Connection, view: StoredView) -> None:
        self._context = context
        self._connection = connection
        self._view = view
        self._planned: dict[int, tuple[CreationRequest, PlannedRun]] = {}
        self._prepared: dict[int, Preparation] = {}
        self.drafts: dict[int, Draft] = {}
        self.full: dict[int, FullQuota] = {}  #: what has no room for those that are not among the drafts

    def plan(self, requests: Mapping[int, CreationRequest], plans: Mapping[int, PlannedRun]) -> dict[int, Result]:
        """Resolve requests, equal ones once; returns the refusals."""
        refusals: dict[int, Result] = {}
        by_text: dict[tuple[str, str, bytes], PlannedRun] = {}
        for position, request in requests.items():
            planned = plans.get(position)
            if planned is None or planned.basis != self._view.basis:
                key = (request.run.project, request.run.domain, request.run.text)
                try:
                    planned = by_text.get(key) or plan_run(self._context, self._view, request)
                except (Invalid, RainbowError) as refusal:
                    refusals[position] = refusal
                    continue
                by_text[key] = planned
            self._planned[position] = request, planned
        return refusals

    def prepare(self) -> dict[int, Result]:
        """Decide where each goes, after those before it; returns the refusals."""
        refusals: dict[int, Result] = {}
        plans = [planned.run_plan for _, planned in self._planned.values()]
        load = self._view.hold_loads(plans)
        limits = (waiting_limits(run_plan.effective.quotas) for run_plan in plans)
        tally = execution_quotas.tally_waiting(self._connection, {limit for own in limits for limit in own})
        now = self._context.clock()
        # What was found out by a plan at a load, which is the same for equal requests until something is assigned.
        found: dict[int, tuple[int, Preparation]] = {}
        assigned = 0
        for position, (request, planned) in self._planned.items():
            at, preparation = found.get(id(planned), (-1, None))
            if preparation is None or at != assigned:
                try:
                    preparation = prepare_planned(self._context, self._view, planned)
                except (Invalid, RainbowError) as refusal:
                    refusals[position] = refusal
                    continue
                found[id(planned)] = assigned, preparation
            creation = preparation.creation(request, now)
            full = tally.admit(creation.template.quotas, Usage(waiting=1), OF_WAITING)
            if full is not None:
                self.full[position] = full
                continue
            if creation.cluster is not None and load.count(creation.cluster, planned.run_plan.workload):
                assigned += 1
            self.drafts[position] = Draft(request, creation, preparation.warnings(creation.cluster))
            self._prepared[position] = preparation
        return refusals

    def store(self) -> set[ExecutionId]:
        """Store what is decided, with the questions that it begins; returns what is stored.

        That is nothing where settings have changed meanwhile, and not what somebody else has taken the name of.
        """
        drafted = [draft.creation for draft in self.drafts.values()]
        _, created = creations.store(self._connection, drafted, self._view.basis, _trails(drafted))
        stored = {creation.key for creation in created}
        asking = {
            draft.request.id: self._prepared[position]
            for position, draft in self.drafts.items()
            if self._prepared[position].evaluation.code == ASKING and draft.request.id in stored
        }
        if asking:
            ids = executions.ids(self._connection, asking)
            open_rounds(
                self._context,
                self._connection,
                [_inquiry(ids[key], preparation) for key, preparation in asking.items()],
                drafted[0].created_at,
            )
        return stored


def _trails(drafted: Iterable[Creation]) -> dict[str, Trail]:
    """The trails of creations by their digests, in this order."""
    trails = {digest: trail for creation in drafted for digest, trail in creation.template.trails.items()}
    return dict(sorted(trails.items()))


def _inquiry(execution_id: int, preparation: Preparation) -> Inquiry:
    run_plan = preparation.run_plan
    return Inquiry(execution_id, run_plan.route, preparation.evaluation, run_plan.workload.requested, is_new=True)
