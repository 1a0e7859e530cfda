"""Simulators: many executions placed by one set of settings and one fleet; nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.executions.attempts import is_backing_off
from admin.core.executions.lifecycle import Phase
from admin.core.executions.placements import check_feasible, check_route
from admin.core.executions.plans import RunPlan, build_run_plan
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import JsonObject
from admin.core.placement.assessments import criteria_of
from admin.core.placement.bids import Bid
from admin.core.placement.candidates import Workload, group_of
from admin.core.placement.decisions import ASKING, Evaluation, choose, evaluate
from admin.core.placement.stored_candidates import recorded_states
from admin.core.problems import Invalid
from admin.core.resources import Amounts, subtract
from admin.core.settings import trails
from admin.core.use_grants import Usable
from admin.errors import RainbowError
from admin.services.bid_loads import BidLoads, Standing, load_beside
from admin.services.context import Context
from admin.services.creator_rights import rights_of
from admin.services.decision_views import StoredView, looks_at_load, reason_of
from admin.services.last_bids import foresee_bids
from admin.services.launches import find_launch
from admin.services.planned_rights import rights_after
from admin.services.run_requests import RunRequest, run_request_of
from admin.store import bids, decisions, execution_queue
from admin.store.executions import Execution


@dataclass(frozen=True, kw_only=True)
class SimulatedPlacement:
    """Where one execution would go, or why it would be refused."""

    cluster: str | None
    reason: str
    message: str
    pool: str | None = None
    label: str | None = None
    refused: bool = False
    candidates: int = 0  #: clusters that were drawn from

    @property
    def place(self) -> tuple[str | None, bool]:
        return self.cluster, self.refused


class KeyedRequest(NamedTuple):
    """A request of a stored execution, and a key that is the same for equal ones."""

    run: RunRequest
    key: str

    @classmethod
    def of(cls, execution: Execution) -> KeyedRequest:
        run = run_request_of(execution)
        return cls(run, trails.digest([run.project, run.domain, run.body]))


class RecordedFleet(NamedTuple):
    """The states of clusters as a decision found them."""

    digest: str
    trail: JsonObject


class Recorder:
    """Finds the states of clusters that decisions recorded; equal ones are read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._trails: dict[str, JsonObject] = {}

    def fleets(self, placed: Sequence[Execution]) -> dict[int, RecordedFleet]:
        """What the last decision of each of some executions found, by the ids of the executions."""
        keys = [(execution.id, execution.decisions) for execution in placed]
        digests = decisions.placement_trails(self._connection, keys)
        for digest in set(digests.values()) - self._trails.keys():
            self._trails[digest] = decisions.trail(self._connection, digest)
        return {id: RecordedFleet(digest, self._trails[digest]) for id, digest in digests.items()}


class Simulator:
    """Places many executions by one set of settings and one fleet."""

    def __init__(self, context: Context, connection: Connection, changes: Sequence[RowChange]) -> None:
        self._context = context
        self._view = StoredView(context, connection, proposed=changes)
        self.fleet = self._view.fleet
        self._connection = connection
        self._now = context.clock()
        self._waiting = execution_queue.taken_by_waiting(connection, self.fleet.clusters, self._now)
        self._run_plans: dict[str, RunPlan] = {}
        self._criteria: dict[str, object] = {}
        self._fleets: dict[str, Fleet] = {"": self.fleet}  #: by what says their states
        self._evaluations: dict[tuple[object, ...], Evaluation] = {}
        self._rights = rights_after(context, connection, changes)

    def place(
        self, execution: Execution, request: KeyedRequest, recorded: RecordedFleet | None = None
    ) -> SimulatedPlacement:
        """Where one execution goes, or that it would be refused; by the fleet as it was recorded if that is given."""
        digest = "" if recorded is None else recorded.digest
        if recorded is not None and digest not in self._fleets:
            self._fleets[digest] = self.fleet.with_states(recorded_states(recorded.trail, self.fleet))
        try:
            run_plan = self._run_plan(execution.name, request)
            rights = rights_of(self._context, execution, self._rights)
            check_route(
                run_plan.effective,
                self._fleets[digest],
                run_plan.workload.requested,
                may_override=rights.may_override,
                sees_fleet=self._context.access.sees_fleet,
            )
            evaluation = self._evaluate(run_plan, execution, rights.usable, digest)
            check_feasible(evaluation, run_plan.route, self._context.access.sees_fleet, asks=run_plan.workload.asks)
        except (Invalid, RainbowError) as refusal:
            reason, message = reason_of(refusal)
            return SimulatedPlacement(cluster=None, reason=reason, message=message, refused=True)
        decision = choose(evaluation, str(execution.key))
        return SimulatedPlacement(
            cluster=decision.cluster,
            reason=decision.code,
            message=decision.message,
            pool=run_plan.route.pool,
            label=run_plan.route.label,
            candidates=len(evaluation.able),
        )

    def criteria(self, execution: Execution, request: KeyedRequest) -> object:
        """What settings make of a request, as far as its place depends on it; the same for equal requests."""
        if request.key not in self._criteria:
            self._criteria[request.key] = self._find_criteria(execution, request)
        return self._criteria[request.key]

    def _find_criteria(self, execution: Execution, request: KeyedRequest) -> object:
        try:
            run_plan = self._run_plan(execution.name, request)
        except (Invalid, RainbowError) as refusal:
            return reason_of(refusal)
        group = group_of(run_plan.route, self.fleet)
        return run_plan.route.kind, run_plan.route.name, criteria_of(group, run_plan.workload)

    def _run_plan(self, name: str, request: KeyedRequest) -> RunPlan:
        run_plan = self._run_plans.get(request.key)
        if run_plan is None:
            resolved = find_launch(self._view.catalog, request.run)
            effective = self._view.effective_settings(resolved)
            run_plan = build_run_plan(resolved.launch, name, effective, self._context.settings.rules)
            self._run_plans[request.key] = run_plan
        return run_plan

    def _evaluate(self, run_plan: RunPlan, execution: Execution, usable: Usable | None, digest: str) -> Evaluation:
        """Every cluster of the route; the same for every equal demand where the strategy does not ask for load."""
        route, fleet, workload = run_plan.route, self._fleets[digest], run_plan.workload
        if usable is not None:
            workload = replace(workload, usable=usable.by(route))
        if looks_at_load(route, fleet, workload.requested):
            evaluation = evaluate(route, fleet, workload, self._loads(execution))
            return self._foresee(run_plan, execution, workload, fleet) if evaluation.code == ASKING else evaluation
        key = (digest, route.kind, route.name, criteria_of(group_of(route, fleet), workload))
        if key not in self._evaluations:
            self._evaluations[key] = evaluate(route, fleet, workload, {})
        return self._evaluations[key]

    def _foresee(self, run_plan: RunPlan, execution: Execution, workload: Workload, fleet: Fleet) -> Evaluation:
        """The clusters that would be asked, by their last bids."""
        loads, present, cluster = self._beside_bids, None, execution.cluster
        if execution.phase == Phase.QUEUED.value and cluster is not None and cluster in self.fleet.clusters:
            if execution.is_unleased:
                present = cluster
            else:
                left = subtract(loads.leased.get(cluster, {}), execution.takes_of(self.fleet.clusters[cluster]))
                loads = replace(loads, leased={**loads.leased, cluster: left})
        standing = Standing(tier=run_plan.tier, priority=run_plan.priority, id=execution.id, present=present)
        return foresee_bids(run_plan.route, fleet, workload, self._last_bids, loads, standing, self._now)

    @cached_property
    def _last_bids(self) -> dict[str, Bid]:
        return bids.last(self._connection)

    @cached_property
    def _beside_bids(self) -> BidLoads:
        clusters, known = self.fleet.clusters, self._last_bids.values()
        return load_beside(self._connection, clusters, known, self._now, singly=clusters)

    def _loads(self, execution: Execution) -> Mapping[str, Amounts]:
        """What is taken of each cluster by what waits there, without the execution itself."""
        cluster = execution.cluster
        if execution.phase != Phase.QUEUED.value or cluster is None or cluster not in self._waiting:
            return self._waiting
        if is_backing_off(execution.not_before, self._now):
            return self._waiting
        taken = execution.takes_of(self.fleet.clusters[cluster])
        return {**self._waiting, cluster: subtract(self._waiting[cluster], taken)}
