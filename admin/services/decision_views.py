"""Decision views: the catalog, settings and fleet that requests are decided by, from memory or a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.creators import UNLIMITED, CreatorRights, Rights
from admin.core.executions.attempts import is_backing_off
from admin.core.executions.effective_settings import EffectiveSettings, resolve_settings
from admin.core.executions.launches import Launch
from admin.core.executions.placements import able_elsewhere, check_feasible, check_route
from admin.core.executions.plans import RunPlan, build_run_plan, parameters_of
from admin.core.executions.quotas import check_fits
from admin.core.executions.spec import requested_strategy
from admin.core.executions.tokens import check_amounts, source_of
from admin.core.fleet.clusters import Cluster
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import json_text
from admin.core.narrowing import read_use
from admin.core.placement.assessments import criteria_of
from admin.core.placement.candidates import RequestedStrategy, Workload, group_of
from admin.core.placement.decisions import Evaluation, evaluate
from admin.core.placement.routes import Route
from admin.core.placement.scores import strategy_of
from admin.core.problems import Invalid
from admin.core.settings.resolution import Row, RowsByKind
from admin.core.settings.scopes import Scope
from admin.core.token_pools.claims import Claim
from admin.core.use_grants import Usable
from admin.errors import InvalidRequest, PermissionDenied, RainbowError
from admin.services.catalogs import CachedCatalog, StoredCatalog
from admin.services.context import Context
from admin.services.creator_rights import asks_for_rights, current_rights, rights_at_creation, usable_by
from admin.services.definitions import current_fleet, fleet_after
from admin.services.foreseen_loads import ForeseenLoad, move_load
from admin.services.launches import find_launch
from admin.services.preparations import PlannedRun, Preparation
from admin.services.rule_inputs import NO_INPUT, RuleInput
from admin.services.run_requests import MAX_CACHED_BYTES, CreationRequest, ResolvedLaunch
from admin.store import attributes, decision_basis, fleet, registrations, revisions
from admin.store.decision_basis import DecisionBasis
from admin.store.executions import Execution, WaitingExecution
from admin.store.token_pools import KnownPools, known_pools


class NeedsTransaction(Exception):
    """A decision depends on what waits at clusters, which only a transaction can tell."""

    def __init__(self, planned: PlannedRun) -> None:
        super().__init__()
        self.planned = planned


def prepare(
    context: Context, view: DecisionView, request: CreationRequest, *, must_be_feasible: bool = True
) -> Preparation:
    """Resolve a request and evaluate the clusters, by what a view says; an error where that refuses it.

    Unless it must be feasible, also where no cluster of its route could ever run it.
    """
    return prepare_planned(context, view, plan_run(context, view, request), must_be_feasible=must_be_feasible)


def plan_run(context: Context, view: DecisionView, request: CreationRequest) -> PlannedRun:
    """Resolve a request by what a view says; an error where that refuses it."""
    resolved = find_launch(view.catalog, request.run)
    effective = view.effective_settings(resolved)
    run_plan = build_run_plan(resolved.launch, request.name or "", effective, context.settings.rules)
    check_fits(effective.quotas, run_plan.workload.demand, resolved.launch.job_path)
    if run_plan.token_pools is not None:
        check_tokens(context, view, run_plan, resolved.launch)
    usable, may_override = view.rights(request)
    check_route(
        effective,
        view.fleet,
        run_plan.workload.requested,
        may_override=may_override,
        sees_fleet=context.access.sees_fleet,
    )
    if usable is not None:
        _check_token(request, usable, run_plan.route, view.fleet)
        workload = replace(run_plan.workload, usable=usable.by(run_plan.route))
        run_plan = replace(run_plan, workload=workload)
    return PlannedRun(resolved=resolved, run_plan=run_plan, usable=usable, basis=view.basis)


def prepare_planned(
    context: Context, view: DecisionView, planned: PlannedRun, *, must_be_feasible: bool = True
) -> Preparation:
    """Evaluate the clusters for a request that is planned; an error where none could ever run it, if one must."""
    run_plan = planned.run_plan
    evaluation = view.evaluate(run_plan)
    if must_be_feasible:
        check_feasible(
            evaluation,
            run_plan.route,
            context.access.sees_fleet,
            partial(able_elsewhere, run_plan.effective, view.fleet, run_plan.workload, planned.usable),
            asks=run_plan.workload.asks,
        )
    return Preparation(resolved=planned.resolved, run_plan=run_plan, evaluation=evaluation, basis=planned.basis)


def check_tokens(context: Context, view: DecisionView, run_plan: RunPlan, launch: Launch) -> None:
    """Refuse a job that needs tokens of an unknown pool, or more than it can ever get; without a backend nothing."""
    if context.settings.resource_manager.grants_everything:
        return
    amounts = run_plan.job["token_pools"]
    known = view.token_pools(Claim(token="", amounts=amounts, place=launch.scope, execution=run_plan.workload.key))
    check_amounts(amounts, known.terms, known.names, source_of(launch, context.settings.rules, run_plan.job))


def _check_token(request: CreationRequest, usable: Usable, route: Route, fleet: Fleet) -> None:
    """Refuse a route that leads to none of the clusters that the token of the creator is for."""
    if usable.within is None:
        return
    group = group_of(route, fleet)
    members = fleet.clusters.keys() if group is None else {member.cluster for member in group.members}
    if usable.within.isdisjoint(members):
        names = ", ".join(name for _noun, name in read_use(request.created_use) or ())
        raise PermissionDenied(
            f"The token of user {request.created_by} is for {names} alone, and {route} leads to none of them. Name one "
            "of them, or use another token.",
            details=[{"field": "cluster", "reason": f"must be one of {names}."}],
        )


class CachedView:
    """What this process has in memory, which may be outdated: a write by it checks the basis."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cache = context.creation_cache
        # The basis first: whatever is read after it is at least as new, and the write finds out if it is newer.
        cached, revision = context.fleet_cache.last, context.index.current()
        if cached is None or revision is None or self._cache.registrations < 0:
            with context.database.reading() as connection:
                cached = cached or current_fleet(context, connection)
                revision = revisions.head(connection) if revision is None else revision
                if self._cache.registrations < 0:
                    self._cache.registrations = registrations.number(connection)
        self.fleet = cached
        self.basis = DecisionBasis(
            revision=revision, registrations=self._cache.registrations, fleet=self.fleet.generation
        )
        self.catalog = CachedCatalog(context, self.basis)
        self.now = context.clock()

    def _find_rights(self) -> CreatorRights:
        """What creators may use; each change of that is a revision, so that it is read once for each."""
        known, revision = self._cache.rights, self.basis.revision
        if known is None or known[0] != revision:
            with self._context.database.reading() as connection:
                known = self._cache.rights = revision, current_rights(self._context, connection)
        return known[1]

    def rights(self, request: CreationRequest) -> Rights:
        """What the creator of a request may."""
        known = self._find_rights() if asks_for_rights(self._context, request.creator) else None
        return rights_at_creation(self._context, request, known)

    def prepare(self, request: CreationRequest) -> Preparation:
        """The preparation of a request, the same for all equal requests at one basis."""
        run = request.run
        if len(run.text) > MAX_CACHED_BYTES:
            return self._prepare(plan_run(self._context, self, request))
        key = (run.project, run.domain, run.text, self.rights(request))

        def prepare_new() -> Preparation:
            planned = self._cache.plans.find(key, lambda: plan_run(self._context, self, request), self.basis)
            return self._prepare(planned)

        return self._cache.preparations.find(key, prepare_new, self.basis)

    def _prepare(self, planned: PlannedRun) -> Preparation:
        run_plan = planned.run_plan
        if loaded_clusters(run_plan.route, self.fleet, run_plan.workload.requested):
            raise NeedsTransaction(planned)
        return prepare_planned(self._context, self, planned)

    def token_pools(self, claim: Claim) -> KnownPools:
        """The token pools, and what bounds a claim in its own; each change of either is a revision."""
        with self._context.database.reading() as connection:
            return known_pools(connection, claim)

    def effective_settings(self, resolved: ResolvedLaunch) -> EffectiveSettings:
        launch = resolved.launch
        key = (launch.scope, resolved.plan, json_text(launch.request, sort_keys=True))

        def resolve() -> EffectiveSettings:
            return resolve_settings(launch, self._rows(launch.scope), self._context.settings.rules)

        return self._cache.effective.find(key, resolve, self.basis.revision)

    def _rows(self, scope: Scope) -> RowsByKind:
        applying = self._context.index.applying(scope)
        if applying is not None:
            return applying.rows(self._context.settings.kinds)
        with self._context.database.reading() as connection:
            return _applying_rows(self._context, connection, scope)

    def evaluate(self, run_plan: RunPlan) -> Evaluation:
        route, workload = run_plan.route, run_plan.workload
        key = (route.kind, route.name, criteria_of(group_of(route, self.fleet), workload))
        return self._cache.evaluations.find(key, lambda: evaluate(route, self.fleet, workload, {}), self.basis.fleet)

    def is_current(self) -> bool:
        """Whether the database is still at the basis of this view."""
        with self._context.database.reading() as connection:
            return decision_basis.read(connection) == self.basis


class StoredView:
    """What a transaction sees, as proposed changes would leave it.

    With `hold` the fleet, and the load that counts, stay the same until it ends. With `load` that is what counts.
    """

    def __init__(
        self,
        context: Context,
        connection: Connection,
        *,
        hold: bool = False,
        proposed: Sequence[RowChange] = (),
        load: ForeseenLoad | None = None,
        rights: Callable[[CreationRequest], Rights] = lambda request: UNLIMITED,
    ) -> None:
        self.context = context
        self.rights = rights  #: what the creator of a request may
        self._connection = connection
        self._hold = hold
        self._load = load
        self._proposed: dict[Scope, list[RowChange]] = {}  #: of attributes, by scope: most apply at few others
        for change in proposed:
            if change.is_attribute:
                self._proposed.setdefault(change.scope, []).append(change)
        self._rows: dict[Scope, RowsByKind] = {}  #: as the proposed changes leave them
        self._moving: Execution | None = None
        self._held: frozenset[str] = frozenset()  #: clusters whose load stays as it was read
        self._evaluations: dict[tuple[object, ...], Evaluation] = {}  #: of those that do not look at load
        self.basis = decision_basis.read(connection, share=hold)
        self.fleet = fleet_after(context, connection, proposed)
        self.catalog = StoredCatalog(context, connection, proposed)

    def of_moving(self, execution: Execution, rights: Rights) -> StoredView:
        """The same for an execution that is to move, which takes its demand along from where it waits."""
        view = copy(self)
        view._moving, view.rights = execution, lambda _request: rights
        return view

    def token_pools(self, claim: Claim) -> KnownPools:
        """The token pools, and what bounds a claim in its own."""
        return known_pools(self._connection, claim)

    def effective_settings(self, resolved: ResolvedLaunch) -> EffectiveSettings:
        launch = resolved.launch
        rows = self._rows.get(launch.scope)
        if rows is None:
            rows = _applying_rows(self.context, self._connection, launch.scope)
            for place in launch.scope.chain():
                for change in self._proposed.get(place, ()):
                    if change.kind in rows:
                        rows[change.kind] = rows_after(rows[change.kind].values(), [change])
            self._rows[launch.scope] = rows
        return resolve_settings(launch, rows, self.context.settings.rules)

    def hold_loads(self, plans: Iterable[RunPlan]) -> ForeseenLoad:
        """The load that counts for some plans, read once for all; more may be counted there.

        Their clusters are held together, since one after the other would not be in the order of locks.
        """
        load = self._load = self._load or ForeseenLoad(self._connection, self.context.clock())
        places = {
            (run_plan.route.kind, run_plan.route.name, run_plan.workload.requested): run_plan.route
            for run_plan in plans
        }
        clusters: dict[str, Cluster] = {}
        for (_kind, _name, requested), route in places.items():
            clusters |= loaded_clusters(route, self.fleet, requested)
        if clusters:
            if self._hold:  # so that no other transaction counts on the same room, and nothing is reported
                fleet.hold(self._connection, clusters)
            if any(requested is not None for *_, requested in places):
                self.fleet = self._with_latest(clusters)
            load.of({name: self.fleet.clusters[name] for name in clusters})
            self._held = frozenset(clusters)
        return load

    def _with_latest(self, clusters: Iterable[str]) -> Fleet:
        """The fleet with the latest reports of some clusters: that of load alone is no new generation everywhere."""
        return self.fleet.with_states(fleet.states(self._connection, clusters))

    def evaluate(self, run_plan: RunPlan) -> Evaluation:
        now, requested = self.context.clock(), run_plan.workload.requested
        clusters = loaded_clusters(run_plan.route, self.fleet, requested)
        if not clusters:
            return self._evaluation(run_plan.route, run_plan.workload)
        fleet_now = self.fleet
        if not clusters.keys() <= self._held:
            if self._hold:
                fleet.hold(self._connection, clusters)
            if requested is not None:
                fleet_now = self._with_latest(clusters)
        waiting = (self._load or ForeseenLoad(self._connection, now)).of(clusters)
        if self._moving is not None and not is_backing_off(self._moving.not_before, now):
            move_load(waiting, clusters, self._moving, None)
        return evaluate(run_plan.route, fleet_now, run_plan.workload, waiting)

    def _evaluation(self, route: Route, workload: Workload) -> Evaluation:
        """The evaluation of a route that is the same for all that are alike, whatever the load."""
        key = (route.kind, route.name, criteria_of(group_of(route, self.fleet), workload))
        if key not in self._evaluations:
            self._evaluations[key] = evaluate(route, self.fleet, workload, {})
        return self._evaluations[key]


#: What a request is decided by, all of it at one basis.
DecisionView = CachedView | StoredView


def _applying_rows(context: Context, connection: Connection, scope: Scope) -> dict[str, dict[Scope, Row]]:
    """The stored attributes at a scope and at every broader one, by kind."""
    rows: dict[str, dict[Scope, Row]] = {kind.name: {} for kind in context.settings.kinds}
    for row in attributes.applying(connection, list(rows), scope):
        rows[row.kind][row.scope] = row
    return rows


def loaded_clusters(route: Route, fleet_now: Fleet, requested: RequestedStrategy | None = None) -> dict[str, Cluster]:
    """The clusters that a route leads to, if its strategy, or the one that is requested, looks at their load."""
    group = group_of(route, fleet_now)
    if group is None or not looks_at_load(route, fleet_now, requested):
        return {}
    return {member.cluster: fleet_now.clusters[member.cluster] for member in group.members}


def looks_at_load(route: Route, fleet_now: Fleet, requested: RequestedStrategy | None = None) -> bool:
    """Whether the load of the clusters that a route leads to counts."""
    group = group_of(route, fleet_now)
    return group is not None and strategy_of(group, requested).looks_at_load


def workload_of(
    execution: Execution | WaitingExecution, rights: CreatorRights | None, rule_input: RuleInput = NO_INPUT
) -> Workload:
    """What is to be placed of an execution; by the rights that its creator has now.

    Of one that waits, `rule_input` is what its request says of a strategy, and what rules look at of its job.
    """
    if isinstance(execution, Execution):
        scope = Scope(execution.domain, execution.project, execution.workflow, execution.launch_plan)
        job = parameters_of(execution.content["job"], scope, execution.priority)
        rule_input = RuleInput(requested_strategy(execution.request["spec"]), job)
    return Workload(
        key=str(execution.key),
        demand=execution.demand,
        exclusive=execution.exclusive,
        asks=execution.asks,
        plugins=tuple(execution.required_plugins),
        declined=tuple(execution.avoid),
        usable=usable_by(execution, rights),
        requested=rule_input.requested,
        job=rule_input.job,
    )


def reason_of(refusal: Invalid | RainbowError) -> tuple[str, str]:
    """The name and the message of an error by which a preparation was refused."""
    if isinstance(refusal, RainbowError):
        return refusal.name, refusal.message
    return getattr(refusal, "error", InvalidRequest.name), str(refusal)


def refresh(context: Context) -> None:
    """Bring what this process has in memory up to date with the database."""
    with context.database.reading() as connection:
        context.creation_cache.registrations = registrations.number(connection)
        current_fleet(context, connection)
    context.index.catch_up()
