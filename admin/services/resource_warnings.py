"""Warnings about cluster resources that no cluster takes, to those who may know of the fleet."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.cluster_resources.untaken import makes_namespaces, untaken_warnings
from admin.core.settings.builtin_kinds import CLUSTER_RESOURCE
from admin.core.settings.resolution import Row
from admin.core.settings.warnings import Warning
from admin.services.context import Context
from admin.services.definitions import current_fleet, fleet_after


def sets_cluster_resources(change: RowChange) -> bool:
    """Whether a change sets cluster resources."""
    return change.kind == CLUSTER_RESOURCE.name and change.after is not None and change.before != change.after


def warn_of_untaken_resources(context: Context, connection: Connection, changes: Sequence[RowChange]) -> list[Warning]:
    """A warning about each row of cluster resources that changes set while no cluster makes namespaces of them."""
    rows = [
        Row(kind=change.kind, scope=change.scope, payload=change.after or {}, version=change.revision)
        for change in changes
        if sets_cluster_resources(change)
    ]
    if not rows or not context.access.sees_fleet() or makes_namespaces(fleet_after(context, connection, changes)):
        return []
    return [warning for row in rows for warning in untaken_warnings(row)]


def is_told_untaken(context: Context, connection: Connection, kind: str) -> bool:
    """Whether no cluster takes the rows of a kind now, and the caller may know it."""
    is_asked = kind == CLUSTER_RESOURCE.name and context.access.sees_fleet()
    return is_asked and not makes_namespaces(current_fleet(context, connection))
