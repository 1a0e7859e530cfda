"""Preparations: creations but for their names, shared by all equal requests at one decision basis."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from admin.core.executions.lifecycle import Phase
from admin.core.executions.plans import RunPlan
from admin.core.executions.queues import queue_deadline
from admin.core.placement.decisions import Evaluation, choose
from admin.services.decisions import run_plan_values
from admin.services.run_requests import CreationRequest, ResolvedLaunch, RunRequest
from admin.store.creations import Creation, Template
from admin.store.decision_basis import DecisionBasis


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """A resolved and evaluated request; only its name and what is drawn by it are missing."""

    resolved: ResolvedLaunch
    run_plan: RunPlan
    evaluation: Evaluation
    basis: DecisionBasis
    _templates: dict[str | None, Template] = field(default_factory=dict)  #: by queue

    @property
    def warnings(self) -> list[dict[str, str]]:
        return self.resolved.warnings

    def creation(self, request: CreationRequest, now: datetime) -> Creation:
        """The creation of a request that has a name."""
        decision = choose(self.evaluation, request.key)
        queue = self.run_plan.draw_queue(request.key)
        template = self._templates.get(queue)
        if template is None:
            template = self._templates[queue] = self._template(request.run, queue)
        deadline = queue_deadline(self.run_plan.quality_of_service, now)
        return Creation(template, request.name or "", decision.cluster, decision.message, deadline, now)

    def _template(self, run: RunRequest, queue: str | None) -> Template:
        plan, workflow = self.resolved.plan, self.resolved.workflow
        return Template(
            basis=self.basis,
            values={
                "project": run.project,
                "domain": run.domain,
                "digest": run.digest,
                "request": run.body,
                "workflow": workflow.name if workflow else "",
                "launch_plan": plan.name if plan else "",
                "version": plan.version if plan else workflow.version if workflow else "",
                "launched": self.resolved.identifiers,
                "mode": run.mode,
                "reference": run.reference,
                "phase": Phase.QUEUED.value,
                "reason": self.evaluation.code,
                "state": "ACTIVE",
                **run_plan_values(self.run_plan, self.resolved, queue),
                "revision": self.basis.revision,
                "attempt": 1,
                "decisions": 1,
                "events": 1,
            },
            settings=self.run_plan.effective.trail,
            placement=self.evaluation.trail,
            scores=self.evaluation.scores,
        )
