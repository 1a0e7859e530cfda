"""Reconciliations: the clusters whose agents know more than a restored database, until both agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

from sqlalchemy import JSON, Column, Connection, Table, Text, delete, select, update

from admin.store.database import UtcDateTime, insert_new, metadata
from admin.store.fleet_tables import cluster_states
from admin.store.tokens import cluster_tokens

reconciliations = Table(
    "reconciliations",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("began_at", UtcDateTime, nullable=False),
    Column("synced_at", UtcDateTime),
    Column("unknown", JSON, nullable=False),
)


class UnknownAttempt(TypedDict):
    """An attempt that an agent has, of an execution that the database does not know."""

    project: str
    domain: str
    name: str
    attempt: int
    uid: str


@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """How far a cluster is reconciled with a restored database."""

    cluster: str
    began_at: datetime
    synced_at: datetime | None = None  #: None until its agent has said what it holds
    unknown: list[UnknownAttempt] = field(default_factory=list)  #: what it holds and the database does not know

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is given away or ended, because its agent has not said yet what it holds."""
        return self.synced_at is None

    @property
    def state(self) -> str:
        """What ending it means: that its agent is not waited for, or that unknown work is ended."""
        return "waiting" if self.is_waiting else "unknown_work"


@dataclass(frozen=True, kw_only=True)
class Restoration:
    """What is not reconciled yet with a restored database."""

    open: Mapping[str, Reconciliation]  #: by cluster

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is given away or ended, because an agent has not said yet what it has."""
        return bool(self.unsynced)

    @property
    def unsynced(self) -> list[str]:
        """The clusters whose agents have not said yet what they have."""
        return [name for name, reconciliation in self.open.items() if reconciliation.is_waiting]


def load(connection: Connection) -> Restoration:
    """What is not reconciled yet."""
    rows = connection.execute(_SELECT)
    return Restoration(open={row.cluster: Reconciliation(**row._mapping) for row in rows})


_SELECT = select(reconciliations).order_by(reconciliations.c.cluster)


def hold(connection: Connection, clusters: Iterable[str] | None = None) -> None:
    """Lock what is not reconciled yet until this transaction ends, all of it or that of some clusters."""
    query = select(reconciliations.c.cluster).order_by(reconciliations.c.cluster).with_for_update()
    if clusters is not None:
        query = query.where(reconciliations.c.cluster.in_(list(clusters)))
    connection.execute(query).all()


def clusters_with_agents(connection: Connection) -> list[str]:
    """The clusters that have had an agent; one that has registered may have synced after the backup."""
    synced = select(cluster_states.c.name).where(cluster_states.c.agent.is_not(None))
    query = synced.union(select(cluster_tokens.c.cluster).where(cluster_tokens.c.revoked_at.is_(None)))
    return sorted(connection.execute(query).scalars())


def begin(connection: Connection, cluster: str, now: datetime) -> None:
    """Begin with a cluster that was found to know more, and with every other one that has had an agent."""
    names = {cluster, *clusters_with_agents(connection)}
    hold(connection)
    connection.execute(update(reconciliations).values(began_at=now, synced_at=None))
    rows = [{"cluster": name, "began_at": now, "unknown": []} for name in sorted(names)]
    insert_new(connection, reconciliations, rows)


def save(connection: Connection, reconciliation: Reconciliation) -> None:
    """Store what a cluster's agent has said; nothing is left to reconcile if the database knows it all."""
    if not reconciliation.unknown:
        end(connection, [reconciliation.cluster])
        return
    is_cluster = reconciliations.c.cluster == reconciliation.cluster
    values = {"synced_at": reconciliation.synced_at, "unknown": reconciliation.unknown}
    connection.execute(update(reconciliations).where(is_cluster).values(**values))


def end(connection: Connection, clusters: Iterable[str]) -> None:
    """Count clusters as reconciled."""
    connection.execute(delete(reconciliations).where(reconciliations.c.cluster.in_(list(clusters))))
