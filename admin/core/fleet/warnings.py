"""Warnings about the fleet: clusters that nobody declared, and definitions that configuration overrides."""

from __future__ import annotations

from admin.core.fleet.definitions import Definition, Source
from admin.core.fleet.fleet import Fleet
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning, WarningCode


def fleet_warnings(fleet: Fleet) -> list[Warning]:
    """Every warning about the definitions of a fleet."""
    undeclared = [
        _warn(
            WarningCode.EXPECTED_CLUSTER,
            group.definition,
            f"Nobody has declared cluster '{member.cluster}'; it counts as a cluster that is expected to register.",
        )
        for group in [*fleet.pools.values(), *fleet.labels.values()]
        for member in group.members
        if fleet.clusters[member.cluster].definition.source is Source.EXPECTED
    ]
    return undeclared + [
        _warn(
            WarningCode.SHADOWED_DEFINITION,
            definition,
            f"Configuration declares the {definition.kind.noun} '{definition.name}' too, and wins. Delete one.",
        )
        for definition in fleet.shadowed
    ]


def _warn(code: WarningCode, definition: Definition, message: str) -> Warning:
    return Warning(
        code=code, message=message, kind=definition.kind.value, scope=PLATFORM, field="members", name=definition.name
    )
