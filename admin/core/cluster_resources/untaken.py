"""Cluster resources that no cluster takes, since none makes namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from admin.core.fleet.fleet import Fleet
from admin.core.settings.builtin_kinds import CLUSTER_RESOURCE
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import Warning, WarningCode, warn

#: What an execution quota bounds on all clusters that these keys of the usual templates bound in one namespace.
_QUOTAS = {"projectQuotaCpu": "cpu", "projectQuotaMemory": "memory", "projectQuotaGpu": "gpu"}
#: How rainbowctl is told a scope.
_FLAGS = {"project": "-p", "domain": "-d"}


def makes_namespaces(fleet: Fleet) -> bool:
    """Whether a cluster takes cluster resources."""
    return any(cluster.has_cluster_resources for cluster in fleet.clusters.values())


def untaken_warnings(row: Row) -> list[Warning]:
    """The warning about a row of cluster resources that no cluster takes."""
    values = row.payload.get("attributes", {})
    if not values:
        return []
    message = describe_untaken(row.scope, values)
    return [warn(CLUSTER_RESOURCE, row, WarningCode.NO_NAMESPACES, f"attributes.{min(values)}", message)]


def describe_untaken(scope: Scope, values: Mapping[str, str | None]) -> str:
    """That no cluster takes some values at a scope, and what bounds the same on all clusters."""
    message = "No cluster takes it, for none says `clusterResources: true`, so that it has no effect."
    bounds = {bound: values[key] for key, bound in _QUOTAS.items() if key in values}
    if not bounds:
        return message
    command = " ".join(_command(scope, bounds))
    return f"{message} An execution-quota bounds {', '.join(bounds)} on all clusters: `{command}`."


def _command(scope: Scope, bounds: Mapping[str, str | None]) -> Iterable[str]:
    """What sets the same as a quota; values that are no plain amounts are left to whoever types it."""
    yield "rainbowctl update execution-quota"
    yield from (f"{flag} {name}" for key, flag in _FLAGS.items() if (name := getattr(scope, key)))
    yield from (f"--set {name}={value if value and value.isalnum() else '…'}" for name, value in bounds.items())
