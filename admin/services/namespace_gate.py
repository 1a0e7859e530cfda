"""The gate of namespaces: an execution waits until the agent of its cluster has made the namespace of its project."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from admin.core.executions.admissions import NAMESPACE_NOT_READY, Refusal
from admin.core.settings.scopes import Scope
from admin.services.definitions import current_fleet
from admin.services.exchanges import Exchange
from admin.store import cluster_resources
from admin.store.leases import LeasedExecution
from admin.store.offers import Needs

#: When to ask again: agents report a namespace within seconds after they have made it.
_RETRY_SECONDS = 2.0


class NamespaceGate:
    """The namespaces that some executions need and their clusters do not have yet."""

    def __init__(self, missing: dict[tuple[str, Scope], str]) -> None:
        self._missing = missing  #: the names of namespaces, by cluster and scope

    @classmethod
    def open(
        cls, waiting: Sequence[tuple[Exchange, LeasedExecution | Needs]], connection: Connection
    ) -> NamespaceGate | None:
        """Find what is missing; None where nothing is."""
        if not waiting:
            return None
        context = waiting[0][0].context
        fleet = current_fleet(context, connection)
        pattern = context.settings.cluster_resources.namespaces
        wanted: dict[str, dict[Scope, str]] = {}
        for exchange, lease in waiting:
            cluster = fleet.clusters.get(exchange.request.cluster)
            if cluster is not None and cluster.has_cluster_resources:
                scope = Scope(lease.domain, lease.project)
                wanted.setdefault(cluster.name, {})[scope] = pattern.name(scope)
        missing: dict[tuple[str, Scope], str] = {}
        for name, namespaces in wanted.items():
            # By their scopes: where the names of two are the same, the namespace is of one of them alone.
            there = cluster_resources.those_there(connection, name, set(namespaces.values()))
            missing |= {
                (name, scope): namespace for scope, namespace in namespaces.items() if (namespace, scope) not in there
            }
        return cls(missing) if missing else None

    def concerns(self, lease: LeasedExecution) -> bool:
        return _place(lease) in self._missing

    def share(self, lease: LeasedExecution) -> float | None:
        """None: projects share no namespace."""
        return None

    def refuse(self, lease: LeasedExecution) -> Refusal | None:
        message = (
            f"Its namespace {self._missing[_place(lease)]} is not on cluster '{lease.cluster}' yet: `rainbowctl get "
            f"cluster-resources -p {lease.project} -d {lease.domain}` shows what became of it."
        )
        return Refusal(code=NAMESPACE_NOT_READY, message=message, retry_seconds=_RETRY_SECONDS)

    def admit(self, lease: LeasedExecution) -> None:
        """Nothing: what it concerns is refused."""

    def leave(self, lease: LeasedExecution) -> None:
        """Nothing: one that is not asked for has no place."""

    def extend(self, exchange: Exchange, leases: Sequence[LeasedExecution]) -> None:
        """Nothing: what is missing was found for all that was foreseen."""

    def close(self) -> None:
        """Nothing: namespaces are made by agents."""


def _place(lease: LeasedExecution) -> tuple[str, Scope]:
    return lease.cluster or "", Scope(lease.domain, lease.project)
