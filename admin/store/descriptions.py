"""The revisions of the descriptions of clusters, each with its document and the graph that was made of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, insert, select

from admin.core.changes import ANONYMOUS
from admin.core.provenance import Provenance, acting_proof
from admin.store.fleet_tables import cluster_descriptions


class DescriptionRevision(NamedTuple):
    """A revision of a cluster's description, without its document."""

    cluster: str
    number: int  #: 1, 2, 3 … for each cluster
    at: datetime
    author: str = ANONYMOUS
    claimed_by: str | None = None
    proof: str | None = None  #: how the author was proven
    message: str | None = None
    by_agent: bool = False
    digest: str | None = None  #: None where the description was removed
    inventory: dict[str, Any] | None = None

    @property
    def provenance(self) -> Provenance:
        """Who made it, when and why."""
        return Provenance(
            author=self.author,
            claimed_by=self.claimed_by,
            at=self.at,
            message=self.message,
            proof=acting_proof(self.author, self.proof),
        )


class StoredGraph(NamedTuple):
    """What is kept of a description's content, both compressed."""

    document: bytes
    folded: bytes


_columns = cluster_descriptions.c
_SELECT = select(*(_columns[name] for name in DescriptionRevision._fields))
_OF_CLUSTER = _columns.cluster == bindparam("cluster")
_NEWEST = _SELECT.where(_OF_CLUSTER).order_by(_columns.number.desc()).limit(1)
_ONE = _SELECT.where(_OF_CLUSTER, _columns.number == bindparam("number"))
_DOCUMENT = select(_columns.document).where(_OF_CLUSTER, _columns.number == bindparam("number"))
_FOLDED_OF = select(_columns.folded).where(_columns.digest == bindparam("digest")).limit(1)


def newest(connection: Connection, cluster: str) -> DescriptionRevision | None:
    """The newest revision of a cluster's description, None where there never was one."""
    row = connection.execute(_NEWEST, {"cluster": cluster}).first()
    return None if row is None else DescriptionRevision._make(row)


def get(connection: Connection, cluster: str, number: int) -> DescriptionRevision | None:
    """One revision, None where there is none or it is no longer kept."""
    row = connection.execute(_ONE, {"cluster": cluster, "number": number}).first()
    return None if row is None else DescriptionRevision._make(row)


def page(connection: Connection, cluster: str, below: int | None, limit: int) -> list[DescriptionRevision]:
    """The revisions of a cluster's description, newest first, below a number if one is given."""
    query = _SELECT.where(_OF_CLUSTER)
    if below is not None:
        query = query.where(_columns.number < below)
    rows = connection.execute(query.order_by(_columns.number.desc()).limit(limit), {"cluster": cluster})
    return [DescriptionRevision._make(row) for row in rows]


def document(connection: Connection, cluster: str, number: int) -> bytes | None:
    """The compressed document of a revision, None of one that removed the description."""
    return connection.execute(_DOCUMENT, {"cluster": cluster, "number": number}).scalar()


def folded(connection: Connection, digests: Iterable[str]) -> dict[str, bytes]:
    """The compressed folded graphs of some descriptions, by digest."""
    found = {digest: connection.execute(_FOLDED_OF, {"digest": digest}).scalar() for digest in digests}
    return {digest: content for digest, content in found.items() if content is not None}


def add(connection: Connection, revision: DescriptionRevision, graph: StoredGraph | None) -> None:
    """Store a revision; without a graph the cluster has no description any more."""
    content = {"document": graph and graph.document, "folded": graph and graph.folded}
    connection.execute(insert(cluster_descriptions).values(**revision._asdict(), **content))
