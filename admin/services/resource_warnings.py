"""Warnings about cluster resources that no cluster takes, since none makes namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.settings.builtin_kinds import CLUSTER_RESOURCE
from admin.core.settings.resolution import Row
from admin.core.settings.warnings import Warning, WarningCode, warn
from admin.services.context import Context
from admin.services.definitions import fleet_after

#: What an execution quota bounds on all clusters that these keys of the usual templates bound in one namespace.
_QUOTAS = {"projectQuotaCpu": "cpu", "projectQuotaMemory": "memory", "projectQuotaGpu": "gpu"}
#: How rainbowctl is told a scope.
_FLAGS = {"project": "-p", "domain": "-d"}


def sets_cluster_resources(change: RowChange) -> bool:
    """Whether a change sets cluster resources."""
    return change.kind == CLUSTER_RESOURCE.name and change.after is not None and change.before != change.after


def warn_of_untaken_resources(context: Context, connection: Connection, changes: Sequence[RowChange]) -> list[Warning]:
    """A warning about each row of cluster resources that changes set while no cluster makes namespaces of them."""
    rows = [change for change in changes if sets_cluster_resources(change)]
    if not rows or not context.access.sees_fleet():
        return []
    fleet = fleet_after(context, connection, changes)
    if any(cluster.has_cluster_resources for cluster in fleet.clusters.values()):
        return []
    return list(_warnings(rows))


def _warnings(changes: Iterable[RowChange]) -> Iterator[Warning]:
    for change in changes:
        values = (change.after or {}).get("attributes", {})
        if not values:
            continue
        keys, bounds = sorted(values), {bound: values[key] for key, bound in _QUOTAS.items() if key in values}
        message = "No cluster takes it, for none says `clusterResources: true`, so that it has no effect."
        if bounds:
            message += f" An execution-quota bounds {', '.join(bounds)} on all clusters: `{_command(change, bounds)}`."
        row = Row(kind=change.kind, scope=change.scope, payload=change.after or {}, version=change.revision)
        yield warn(CLUSTER_RESOURCE, row, WarningCode.NO_NAMESPACES, f"attributes.{keys[0]}", message)


def _command(change: RowChange, bounds: Mapping[str, str | None]) -> str:
    """What sets the same as a quota; values that are no plain amounts are left to whoever types it."""
    flags = "".join(f" {flag} {name}" for key, flag in _FLAGS.items() if (name := getattr(change.scope, key)))
    leaves = [f" --set {name}={value if value and value.isalnum() else '…'}" for name, value in bounds.items()]
    return f"rainbowctl update execution-quota{flags}{''.join(leaves)}"
