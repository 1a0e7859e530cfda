"""Effective settings: what every kind resolves to for a launch, and where they send it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from admin.core.executions.launches import Launch, Rules
from admin.core.executions.quotas import QuotaLimit, limits_at
from admin.core.executions.spec import SETTINGS, target_of
from admin.core.placement import routes
from admin.core.placement.routes import REQUEST, Route, Target, find_route
from admin.core.settings import builtin_kinds as kinds
from admin.core.settings import trails
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import Layer, Resolved, RowsByKind, overlay, resolve


class MapLayers(NamedTuple):
    """What settings do to one of a job's maps: its labels, annotations or environment."""

    below: dict[str, str]  #: entries that the job's own override
    above: dict[str, str]  #: entries of the request and the launch plan, which override the job's own
    unset: set[str]  #: keys of the job's own that are removed


@dataclass(frozen=True, kw_only=True)
class EffectiveSettings:
    """The settings of a launch, whatever its name and its job."""

    settings: Mapping[str, Resolved]  #: every kind but quotas, with its trail
    route: Route
    fence: Route | None  #: the route without the request, in a domain whose requests may not override it
    quotas: tuple[QuotaLimit, ...] = ()  #: that bound its executions, as of now: these are not fixed at creation

    @cached_property
    def trail(self) -> trails.Trail:
        """Every kind's trail and the route's, as they are stored."""
        settings = [trails.resolved(resolved) for resolved in self.settings.values()]
        return trails.Trail.of({"settings": settings, "rungs": routes.as_json(self.route)})

    @property
    def config(self) -> Resolved:
        return self.settings[kinds.WORKFLOW_EXECUTION_CONFIG.name]

    @cached_property
    def job_maps(self) -> dict[str, MapLayers]:
        """What the execution config does to each of a job's maps."""
        maps: dict[str, MapLayers] = {}
        leaves = self.config.kind.leaves(self.config.value)
        for name, part in (("labels", "labels"), ("annotations", "annotations"), ("environment", "envs")):
            below: dict[str, str] = {}
            above: dict[str, str] = {}
            for path, origin in self.config.origins.items():
                if path[0] == part:
                    leaf, layer = leaves[path], above if origin.layer else below
                    layer[path[-1]] = str(leaf["value"] if isinstance(leaf, dict) else leaf)
            unset = {path[-1] for path, origin in self.config.unset.items() if path[0] == part and origin.layer}
            maps[name] = MapLayers(below, above, unset)
        return maps

    @cached_property
    def lease_attributes(self) -> dict[str, Any]:
        """Effective values that a lease carries to the agent unchanged."""
        return {
            name: resolved.value
            for name, resolved in self.settings.items()
            if resolved.value and (resolved.kind.declared or name == kinds.CLUSTER_RESOURCE.name)
        }


def versions_in(trail: Mapping[str, Any]) -> set[int]:
    """The versions of the rows that settings and their route follow from, of a trail of them as it is stored."""
    steps = itertools.chain(trail["rungs"], *(setting["trail"] for setting in trail["settings"]))
    return {step["version"] for step in steps if step.get("version")}


def resolve_settings(launch: Launch, rows: RowsByKind, rules: Rules) -> EffectiveSettings:
    """Resolve every kind at a launch's scope, under its definition and its request."""
    platform = rules.platform.at(kinds.EXECUTION_QUOTA, launch.scope.domain)
    return EffectiveSettings(
        settings={kind.name: _resolve(kind, launch, rows, rules.platform) for kind in rules.kinds if not kind.is_quota},
        quotas=limits_at(launch.scope, rows.get(kinds.EXECUTION_QUOTA.name, {}), platform),
        route=_route(launch, target_of(launch.request), rows, rules),
        fence=_route(launch, Target(), rows, rules) if launch.scope.domain in rules.fenced else None,
    )


def _resolve(kind: Kind, launch: Launch, rows: RowsByKind, platform: PlatformValues) -> Resolved:
    resolved = resolve(kind, launch.scope, rows.get(kind.name, {}), platform.at(kind, launch.scope.domain))
    layers = [
        Layer(name=name, payload=payload)
        for name, settings in (("launch-plan-definition", launch.definition), (REQUEST, launch.request))
        if (payload := payload_of(kind, settings))
    ]
    return overlay(resolved, layers) if layers else resolved


def payload_of(kind: Kind, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a request or a definition says of one kind."""
    if kind.name == kinds.WORKFLOW_EXECUTION_CONFIG.name:
        return {name: settings[name] for name in kind.payload.fields if name in settings}
    return dict(settings.get(kind.payload_key, {})) if kind.payload_key in SETTINGS else {}


def _route(launch: Launch, request: Target, rows: RowsByKind, rules: Rules) -> Route:
    definition = target_of(launch.definition)
    return find_route(request=request, definition=definition, scope=launch.scope, rows=rows, platform=rules.platform)
