"""Shadowed properties: those of clusters that rules reach only with their prefix, since something else has the name."""

from __future__ import annotations

from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet
from admin.core.placement.constraints.facts import PROPERTIES, TYPES
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning, WarningCode


def shadowed_properties(fleet: Fleet) -> list[Warning]:
    """A warning of each property in the definition of a cluster that is called as what rules know of every cluster."""
    return [
        Warning(
            code=WarningCode.SHADOWED_PROPERTY,
            message=f"In rules `{name}` is what Rainbow knows of the cluster itself: write `{PROPERTIES}{name}` there "
            "for this property, or give it another name.",
            kind=FleetKind.CLUSTER.value,
            scope=PLATFORM,
            field=f"properties.{name}",
            name=cluster.name,
        )
        for cluster in fleet.clusters.values()
        for name in cluster.definition.payload.get("properties") or {}
        if name in TYPES
    ]
