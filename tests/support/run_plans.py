"""Launches and their run plans, for tests of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.configuration import load_settings
from admin.core.executions.effective_settings import resolve_settings
from admin.core.executions.launches import Launch, Rules
from admin.core.executions.plans import RunPlan, build_run_plan
from admin.core.executions.queues import Queue
from admin.core.settings.kinds import Kinds
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope

SCOPE = Scope(project="p", domain="d", workflow="w", launch_plan="l")
QUEUES = (Queue(name="fast", tags=("critical", "gpu")), Queue(name="slow", tags=("batch",)))

#: Payloads by kind and scope.
Attributes = Mapping[tuple[str, Scope], dict[str, Any]]


def default_kinds() -> Kinds:
    return load_settings().kinds


def rules(*fenced: str, platform: PlatformValues | None = None, kinds: Kinds | None = None) -> Rules:
    return Rules(
        kinds=kinds or default_kinds(),
        platform=platform or PlatformValues(),
        queues=QUEUES,
        queueing_budgets={"HIGH": "60s"},
        fenced=frozenset(fenced),
    )


def rows_of(attributes: Attributes) -> dict[str, dict[Scope, Row]]:
    rows: dict[str, dict[Scope, Row]] = {}
    for (kind, scope), payload in attributes.items():
        rows.setdefault(kind, {})[scope] = Row(kind=kind, scope=scope, payload=payload, version=5)
    return rows


def run_plan(
    attributes: Attributes | None = None, under: Rules | None = None, name: str = "e", **fields: Any
) -> RunPlan:
    """The run plan of a launch with these attributes stored."""
    launch = Launch(**{"scope": SCOPE, "job": {"command": ["run"]}, **fields})
    under = under or rules()
    return build_run_plan(launch, name, resolve_settings(launch, rows_of(attributes or {}), under), under)


def pool(name: str | None) -> dict[str, Any]:
    return {"cluster_assignment": {"cluster_pool_name": name}}


def label(name: str) -> dict[str, Any]:
    return {"execution_cluster_label": {"value": name}}
