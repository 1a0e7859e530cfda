"""Removals: where executions would be refused, or wait, if a pool, label, cluster, queue or queue tag went away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from admin.core.executions.launches import Rules
from admin.core.executions.spec import target_of
from admin.core.fleet.fleet import Fleet
from admin.core.placement.routes import Route, Target, find_route
from admin.core.settings.builtin_kinds import EXECUTION_QUEUE
from admin.core.settings.resolution import RowsByKind, effective_value
from admin.core.settings.scopes import Scope

#: What is removed by its name, as queries call it.
NOUNS = ("pool", "label", "cluster", "queue", "queue_tag")


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Something that would no longer be there."""

    noun: str
    name: str
    fleet: Fleet
    rules: Rules

    def refuses(self, scope: Scope, rows: RowsByKind, definition: Mapping[str, Any]) -> bool:
        """Whether an execution at a scope, which asks for nothing itself, would be refused.

        `definition` are the settings of the launch plan at the scope.
        """
        if self.noun in ("queue", "queue_tag"):
            return self._leaves_no_queue(scope, rows)
        if self.noun not in NOUNS:
            return False
        route = self.route(scope, rows, definition)
        if self.noun == "pool":
            return route.pool == self.name
        # A cluster's own name is a label, unless one of that name is defined. Pools and labels keep a cluster that has
        # gone as one that is expected to register.
        other = self.fleet.clusters if self.noun == "label" else self.fleet.labels
        return route.label == self.name and self.name not in other

    def waits(self, scope: Scope, rows: RowsByKind, definition: Mapping[str, Any]) -> bool:
        """Whether an execution at a scope would wait, since a cluster is the only one of its pool or label."""
        if self.noun != "cluster":
            return False
        route = self.route(scope, rows, definition)
        group = self.fleet.pools.get(route.pool or "") or self.fleet.labels.get(route.label or "")
        return group is not None and {member.cluster for member in group.members} == {self.name}

    def route(self, scope: Scope, rows: RowsByKind, definition: Mapping[str, Any]) -> Route:
        """Where an execution at a scope goes that asks for nothing itself."""
        target, platform = target_of(definition), self.rules.platform
        return find_route(request=Target(), definition=target, scope=scope, rows=rows, platform=platform)

    def _leaves_no_queue(self, scope: Scope, rows: RowsByKind) -> bool:
        platform = self.rules.platform.at(EXECUTION_QUEUE, scope.domain)
        tags = effective_value(EXECUTION_QUEUE, scope, rows.get(EXECUTION_QUEUE.name, {}), platform).value.get("tags")
        queues = [queue for queue in self.rules.queues if (self.noun, self.name) != ("queue", queue.name)]
        served = {tag for queue in queues for tag in queue.tags if (self.noun, self.name) != ("queue_tag", tag)}
        return bool(tags) and served.isdisjoint(tags or ())
