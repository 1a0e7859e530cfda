"""Preparations: creations but for their names, shared by all equal requests at one decision basis."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial

from admin.core.creators import CreatorRights
from admin.core.executions.effective_settings import EffectiveSettings
from admin.core.executions.lifecycle import Phase
from admin.core.executions.own_settings import FieldEffect, unread_in_launch
from admin.core.executions.plans import RunPlan
from admin.core.executions.queues import queue_deadline
from admin.core.executions.quotas import waiting_limits
from admin.core.json_text import JsonObject
from admin.core.memos import Memo
from admin.core.placement.decisions import Evaluation, choose
from admin.core.placement.filters import EXPECTED
from admin.core.placement.fits import unknown_resources
from admin.core.placement.routes import RouteKind
from admin.core.settings.builtin_kinds import ENGINES
from admin.core.settings.warnings import WarningCode
from admin.core.use_grants import Usable
from admin.services.run_requests import CreationRequest, Placement, ResolvedLaunch, RunRequest
from admin.store import executions
from admin.store.creations import Creation, Template
from admin.store.decision_basis import DecisionBasis
from admin.store.registrations import Registered


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A request with every setting applied; the clusters are not evaluated."""

    resolved: ResolvedLaunch
    run_plan: RunPlan
    usable: Usable | None  #: the clusters that its creator may use; None for all
    basis: DecisionBasis


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """A resolved and evaluated request; only its name and what is drawn by it are missing."""

    resolved: ResolvedLaunch
    run_plan: RunPlan
    evaluation: Evaluation
    basis: DecisionBasis
    _templates: dict[str | None, Template] = field(default_factory=dict)  #: by queue

    def place(self, key: str) -> Placement:
        """Where the execution with a key goes."""
        return Placement(run_plan=self.run_plan, decision=choose(self.evaluation, key))

    def warnings(self, cluster: str | None) -> list[dict[str, str]]:
        """What is questionable about the request, and about the cluster that it goes to."""
        warnings = [*self.resolved.warnings, *self._unknown_capacity(cluster), *self._unread_fields(cluster)]
        if self.evaluation.code != EXPECTED.code:
            return warnings
        route = self.run_plan.route
        unseen = next(place.cluster.unseen for place in self.evaluation.candidates if place.cluster.name == cluster)
        other_way = (
            "end the execution, whose request names the cluster itself, and create it anew"
            if route.kind is RouteKind.CLUSTER
            else f"add a cluster that has one and can run it to {route}"
        )
        message = (
            f"No agent of cluster '{cluster}' {unseen}. The execution waits there until one is: start its agent, or "
            f"{other_way}."
        )
        return [*warnings, {"code": WarningCode.UNSEEN_CLUSTER.value, "message": message}]

    def _unknown_capacity(self, cluster: str | None) -> Iterator[dict[str, str]]:
        """That it is unknown whether the cluster has the gpus that the job wants."""
        workload = self.run_plan.workload
        if not workload.demand.get("gpu"):
            return
        for candidate in self.evaluation.candidates:
            if candidate.cluster.name == cluster and "gpu" in unknown_resources(candidate.cluster, workload):
                message = (
                    f"Whether cluster '{cluster}' has a gpu is not known: neither its agent nor its definition or "
                    "description says."
                )
                yield {"code": WarningCode.UNKNOWN_CAPACITY.value, "message": message}

    @cached_property
    def _unread(self) -> list[dict[str, str]]:
        """Warnings of what the request or its launch plan says and no engine of Rainbow reads."""
        effects = unread_in_launch(self.run_plan.effective.settings.values())
        return [{"code": effect.outcome.value, "message": effect.message} for effect in _by_message(effects)]

    def _unread_fields(self, cluster: str | None) -> Sequence[dict[str, str]]:
        """The same where the cluster's agent has no engine of somebody's own, which may read it."""
        if not self._unread:
            return ()
        candidates = (candidate.cluster for candidate in self.evaluation.candidates)
        engines = (candidate.state.report.get("engine") for candidate in candidates if candidate.name == cluster)
        engine = next(engines, None)
        return self._unread if engine is None or engine in ENGINES else ()

    def creation(self, request: CreationRequest, now: datetime) -> Creation:
        """The creation of a request that has a name."""
        decision = choose(self.evaluation, request.key)
        queue = self.run_plan.draw_queue(request.key)
        template = self._templates.get(queue)
        if template is None:
            template = self._templates[queue] = self._template(request.run, queue)
        deadline = queue_deadline(self.run_plan.quality_of_service, now)
        uid = secrets.token_hex(8)
        cluster, message = decision.cluster, decision.message
        creator = (request.created_by, request.claimed_by, request.created_proof, request.created_use)
        return Creation(template, request.name or "", uid, *creator, cluster, message, deadline, now)

    def plan_values(self, queue: str | None) -> JsonObject:
        """The columns that follow from settings alone, whatever the execution's name and cluster."""
        run_plan = self.run_plan
        route = run_plan.route
        return {
            "route_kind": route.kind.value,
            "route_name": route.name,
            "pool": route.pool,
            "label": route.label,
            "labels": run_plan.job.get("labels"),
            "content": {
                "job": run_plan.job,
                "config": run_plan.config,
                "queue": queue,
                "quality_of_service": run_plan.quality_of_service,
                "plugins": run_plan.plugins,
                "retry": run_plan.retry,
                "attributes": run_plan.attributes,
                "inputs": self.resolved.launch.inputs or {},
            },
            "required_plugins": list(run_plan.workload.plugins),
            "tier": run_plan.tier,
            "priority": run_plan.priority,
            **executions.demand_columns(run_plan.workload.demand),
            "exclusive": run_plan.workload.exclusive,
            "asks": run_plan.workload.asks,
            "token_pools": run_plan.token_pools,
        }

    def _template(self, run: RunRequest, queue: str | None) -> Template:
        plan, workflow = self.resolved.plan, self.resolved.workflow
        return Template(
            basis=self.basis,
            values={
                "project": run.project,
                "domain": run.domain,
                "digest": run.digest,
                "request": run.body,
                "principal": run.spec.get("metadata", {}).get("principal") or None,
                "workflow": workflow.name if workflow else "",
                "launch_plan": plan.name if plan else "",
                "version": plan.version if plan else workflow.version if workflow else "",
                "launched": self.resolved.identifiers,
                "mode": run.mode,
                "reference": run.reference,
                "phase": Phase.QUEUED.value,
                "reason": self.evaluation.code,
                "state": "ACTIVE",
                **self.plan_values(queue),
                "revision": self.basis.revision,
                "attempt": 1,
                "decisions": 1,
                "events": 1,
            },
            quotas=waiting_limits(self.run_plan.effective.quotas),
            settings=self.run_plan.effective.trail,
            placement=self.evaluation.trail,
            scores=self.evaluation.scores,
        )


def _by_message(effects: Iterable[FieldEffect]) -> Iterable[FieldEffect]:
    """One effect for each message, which is about all fields of a kind."""
    return {effect.message: effect for effect in effects}.values()


@dataclass(kw_only=True)
class CreationCache:
    """What creation need not read or compute again; a write by it checks the basis."""

    registrations: int = -1  #: the number of registrations when it was last read, -1 before
    registered: Memo[Registered] = field(default_factory=Memo)  #: by the number of registrations
    effective: Memo[EffectiveSettings] = field(default_factory=Memo)  #: by revision
    evaluations: Memo[Evaluation] = field(default_factory=Memo)  #: by the fleet's generation
    plans: Memo[PlannedRun] = field(default_factory=partial(Memo, 1024))  #: by the whole basis
    preparations: Memo[Preparation] = field(default_factory=partial(Memo, 1024))  #: by the whole basis
    rights: tuple[int, CreatorRights] | None = None  #: at a revision, or later ones
