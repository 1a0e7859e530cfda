"""Pools of the configuration: their members, and the fields that other keys give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from admin.core import names
from admin.core.fields.compounds import Record
from admin.core.fleet.asking import asking_problems
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.documents import DEFINITIONS, strategy_problems
from admin.core.json_text import json_string
from admin.core.placement.constraints.rules import prepared_rules, unknown_properties
from admin.core.problems import Path, Problem, dotted, unknown_problem

_MEMBERS, _SETTINGS = "poolNameClusterMap", "poolSettings"
#: The keys that give a single field of pools, and that field.
_SINGLE = {"poolStrategies": "strategy", "poolRules": "rules"}

#: Every field of a pool's definition but its members, in the spelling of the file.
POOL_SETTINGS = Record(
    fields={names.camel(name): field for name, field in DEFINITIONS[FleetKind.POOL].fields.items() if name != "members"}
)


def pool_payloads(clusters: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The definitions of the pools in the section `clusters`, by name."""
    return {
        name: {
            "members": members,
            **{field: clusters[key][name] for key, field in _SINGLE.items() if name in clusters.get(key, {})},
            **{names.snake(key): value for key, value in clusters.get(_SETTINGS, {}).get(name, {}).items()},
        }
        for name, members in clusters.get(_MEMBERS, {}).items()
    }


def pool_problems(clusters: Mapping[str, Any]) -> Iterator[Problem]:
    """Fields of no pool, fields that are given twice, and fields that contradict each other."""
    pools, settings = pool_payloads(clusters), clusters.get(_SETTINGS, {})
    for key in (*_SINGLE, _SETTINGS):
        for name in clusters.get(key, {}):
            if name not in pools:
                yield unknown_problem(f"clusters.{key}.{name}", "pool", name, pools)
    for key, field in _SINGLE.items():
        for name in clusters.get(key, {}):
            if field in settings.get(name, {}):
                reason = f"is given by clusters.{key} too: keep one of them."
                yield Problem(field=f"clusters.{_SETTINGS}.{name}.{field}", reason=reason)
    properties = {name for config in clusters.get("clusterConfigs", []) for name in config.get("properties") or ()}
    for name, payload in pools.items():
        where: Path = ("clusters", _SETTINGS, name)
        has_settings = not {"rules", "strategy"}.isdisjoint(settings.get(name, {}))
        path = (*where, "rules") if has_settings else ("clusters", "poolRules", name)
        problems = list(strategy_problems({"strategy": None, "rules": None, **payload}, path))
        if payload.get("rules") and not problems:
            problems += unknown_properties(prepared_rules(json_string(payload["rules"])), properties, path)
        yield from problems
        for field, reason in asking_problems(payload).items():
            yield Problem(field=dotted((*where, names.camel(field))), reason=reason)
