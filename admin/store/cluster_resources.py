"""Cluster resources: what agents last reported of namespaces, what happened to objects, and whose these are."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import JSON, Boolean, Column, Connection, Index, Table, Text, delete, exists, insert, select

from admin.core.cluster_resources.states import NamespaceReport, ObjectReport, ObjectState, news
from admin.core.settings.scopes import Scope
from admin.store.database import RowId, UtcDateTime, insert_new, metadata
from admin.store.sql_types import AnyRow

installations = Table(
    "installations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
)

_SELECT_INSTALLATION = select(installations.c.id).order_by(installations.c.created_at, installations.c.id).limit(1)

namespace_reports = Table(
    "namespace_reports",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("is_there", Boolean, nullable=False),
    Column("objects", JSON, nullable=False),
    Column("reported_at", UtcDateTime, nullable=False),
    Index("ix_namespace_reports_scope", "project", "domain"),
)

#: No foreign keys: what happened is kept when a cluster or project goes, until retention deletes it.
namespace_events = Table(
    "namespace_events",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("cluster", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("object", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Index("ix_namespace_events_scope", "project", "domain", "id"),
    Index("ix_namespace_events_at", "at"),
)


@dataclass(frozen=True, kw_only=True)
class NamespaceEvent:
    """Something that became of an object."""

    cluster: str
    namespace: str
    object: str
    state: str
    message: str
    at: datetime


def find_installation(connection: Connection) -> str | None:
    """The id of this admin's database, by which its objects are known; None where it has none yet."""
    id = connection.execute(_SELECT_INSTALLATION).scalar()
    return None if id is None else str(id)


def installation(connection: Connection, now: datetime) -> str:
    """The same, made where there is none."""
    if find_installation(connection) is None:
        insert_new(connection, installations, [{"id": uuid.uuid4().hex, "created_at": now}])
    return str(connection.execute(_SELECT_INSTALLATION).scalar_one())


def reports(
    connection: Connection,
    *,
    clusters: Iterable[str] | None = None,
    project: str | None = None,
    domain: str | None = None,
    namespaces: Iterable[str] | None = None,
) -> list[tuple[str, NamespaceReport]]:
    """What is known of namespaces, each with its cluster."""
    table = namespace_reports.c
    query = select(namespace_reports).order_by(table.project, table.domain, table.cluster)
    if clusters is not None:
        query = query.where(table.cluster.in_(list(clusters)))
    if project is not None:
        query = query.where(table.project == project)
    if domain is not None:
        query = query.where(table.domain == domain)
    if namespaces is not None:
        query = query.where(table.namespace.in_(list(namespaces)))
    return [(row.cluster, _report(row)) for row in connection.execute(query)]


def those_there(connection: Connection, cluster: str, namespaces: Iterable[str]) -> set[tuple[str, Scope]]:
    """Those of some namespaces that are on a cluster, each with the project and domain that it was made for."""
    table = namespace_reports.c
    query = select(table.namespace, table.project, table.domain).where(
        table.cluster == cluster, table.is_there, table.namespace.in_(list(namespaces))
    )
    return {(row.namespace, Scope(row.domain, row.project)) for row in connection.execute(query)}


def is_reported(connection: Connection, cluster: str) -> bool:
    """Whether anything is known of the namespaces of a cluster."""
    return bool(connection.execute(select(exists().where(namespace_reports.c.cluster == cluster))).scalar())


def forget(connection: Connection, cluster: str) -> None:
    """Forget what was reported of a cluster that makes no namespaces any more; what happened is kept."""
    connection.execute(delete(namespace_reports).where(namespace_reports.c.cluster == cluster))


def store_reports(
    connection: Connection, cluster: str, new: Sequence[NamespaceReport], rendered: Collection[str], now: datetime
) -> list[str]:
    """Store what an agent reports, and what is new in it as events; the states of these.

    A namespace that is neither `rendered` any more nor has anything left of ours is forgotten.
    """
    names = [report.namespace for report in new]
    before = {known.namespace: known for _, known in reports(connection, clusters=[cluster], namespaces=names)}
    reported = (namespace_reports.c.cluster == cluster, namespace_reports.c.namespace.in_(names))
    connection.execute(delete(namespace_reports).where(*reported))
    rows = [
        {
            "cluster": cluster,
            "namespace": report.namespace,
            "project": report.project,
            "domain": report.domain,
            "digest": report.digest,
            "is_there": report.exists,
            "objects": [
                {"object": entry.object, "state": entry.state.value, "message": entry.message}
                for entry in report.objects
            ],
            "reported_at": now,
        }
        for report in new
        if report.namespace in rendered or report.has_left
    ]
    events = [
        {
            **{name: getattr(report, name) for name in ("namespace", "project", "domain")},
            "cluster": cluster,
            "object": entry.object,
            "state": entry.state.value,
            "message": entry.message,
            "at": now,
        }
        for report in new
        for entry in news(before.get(report.namespace), report)
    ]
    if rows:
        connection.execute(insert(namespace_reports), rows)
    if events:
        connection.execute(insert(namespace_events), events)
    return [str(event["state"]) for event in events]


def events(
    connection: Connection, project: str, domain: str, clusters: Iterable[str], limit: int
) -> list[NamespaceEvent]:
    """What happened to the objects of a project and domain, newest first."""
    table = namespace_events.c
    query = (
        select(namespace_events)
        .where(table.project == project, table.domain == domain, table.cluster.in_(list(clusters)))
        .order_by(table.id.desc())
        .limit(limit)
    )
    return list(_events(connection.execute(query)))


def _events(rows: Iterable[AnyRow]) -> Iterator[NamespaceEvent]:
    for row in rows:
        yield NamespaceEvent(
            cluster=row.cluster,
            namespace=row.namespace,
            object=row.object,
            state=row.state,
            message=row.message,
            at=row.at,
        )


def _report(row: AnyRow) -> NamespaceReport:
    return NamespaceReport(
        namespace=row.namespace,
        project=row.project,
        domain=row.domain,
        digest=row.digest,
        exists=row.is_there,
        objects=tuple(
            ObjectReport(object=entry["object"], state=ObjectState(entry["state"]), message=entry["message"])
            for entry in row.objects
        ),
        reported_at=row.reported_at,
    )
