"""Launches: a job to run at a scope, before any setting is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from admin.core.executions.queues import Queue
from admin.core.graph.requests import ResourceRequest
from admin.core.settings.kinds import Kinds
from admin.core.settings.platform import PlatformValues
from admin.core.settings.scopes import Scope


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A job, the scope it runs at, and the settings of its definition and its request."""

    scope: Scope
    job: Mapping[str, Any]
    inputs: Mapping[str, Any] | None = None  #: to fill in; None for an ad hoc job, which has no placeholders
    definition: Mapping[str, Any] = field(default_factory=dict)  #: the launch plan's settings
    request: Mapping[str, Any] = field(default_factory=dict)  #: the request's own settings
    project_labels: Mapping[str, str] = field(default_factory=dict)
    job_path: str = "spec.job"  #: the job's field in the request, for problems
    asked: ResourceRequest | None = None  #: of a cluster's graph, where the job does not say all of it


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The configuration that launches are resolved under."""

    kinds: Kinds
    platform: PlatformValues
    queues: tuple[Queue, ...] = ()
    queueing_budgets: Mapping[str, str] = field(default_factory=dict)  #: by tier
    task_tokens: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  #: by task type and token pool
    fenced: frozenset[str] = frozenset()  #: domains whose requests may not override where settings send them
