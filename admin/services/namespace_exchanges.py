"""Namespace exchanges: an agent fetches what it is to make of namespaces, and reports what became of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from admin.core.cluster_resources.rendering import Rendering
from admin.core.cluster_resources.states import NamespaceReport
from admin.metrics import count_objects
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.rendering_cache import Renderings
from admin.services.renderings import render_namespaces
from admin.store import cluster_resources

#: Namespaces of one answer, and about how many bytes their objects may have.
_MOST_NAMESPACES = 200
_MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class NamespaceExchange:
    """What an agent is told about the namespaces of its cluster."""

    is_enabled: bool  #: whether the cluster says `clusterResources: true`
    installation: str = ""  #: by which this admin's objects are known
    digest: str = ""  #: of all that it should have
    changed: Sequence[Rendering] = ()  #: the first of those that it does not have so
    #: The objects of these that were there when they were last reported, by namespace.
    made: Mapping[str, Sequence[str]] = field(default_factory=dict)
    kept: Sequence[str] = ()  #: namespaces that cannot be rendered now: what there is stays
    gone: Sequence[str] = ()  #: that it knows, and nothing renders any more
    has_more: bool = False
    may_prune: bool = False
    prunes_namespaces: bool = False
    refresh_seconds: float = 60.0


def exchange_namespaces(
    context: Context,
    cluster: str,
    digest: str,
    known: Mapping[str, str] | None,
    reports: Sequence[NamespaceReport],
) -> NamespaceExchange:
    """Store what an agent reports, and answer with what has changed since what it `known`, where it says that."""
    with context.database.reading() as connection:
        fleet = current_fleet(context, connection)
        is_enabled = cluster in fleet.clusters and fleet.clusters[cluster].has_cluster_resources
        if not is_enabled and not cluster_resources.is_reported(connection, cluster):
            return NamespaceExchange(is_enabled=False)
        renderings = render_namespaces(context, connection) if is_enabled else {}
        installation = cluster_resources.find_installation(connection)
    states: list[str] = []
    if reports or installation is None or not is_enabled:  # most calls only ask, and need no lock for writing
        with context.database.writing() as connection:
            if not is_enabled:
                cluster_resources.forget(connection, cluster)
                return NamespaceExchange(is_enabled=False)
            now, rendered = context.clock(), {rendering.namespace for rendering in renderings.values()}
            installation = cluster_resources.installation(connection, now)
            states = cluster_resources.store_reports(connection, cluster, reports, rendered, now) if reports else []
    count_objects(cluster, states)
    answer = _answer(context, renderings, installation, digest, known)
    if not answer.changed:
        return answer
    with context.database.reading() as connection:
        names = [rendering.namespace for rendering in answer.changed]
        known_reports = cluster_resources.reports(connection, clusters=[cluster], namespaces=names)
    return replace(answer, made={report.namespace: report.made for _, report in known_reports})


def _answer(
    context: Context, renderings: Renderings, installation: str, digest: str, known: Mapping[str, str] | None
) -> NamespaceExchange:
    settings = context.settings.cluster_resources
    current = _digest(renderings, prunes=settings.prune_namespaces)
    may_prune = not any(rendering.problems for rendering in renderings.values())
    answer = NamespaceExchange(
        is_enabled=True,
        installation=installation,
        digest=current,
        may_prune=may_prune,
        prunes_namespaces=settings.prune_namespaces,
        refresh_seconds=settings.refresh_seconds,
    )
    if digest == current or known is None:
        return answer
    names = {rendering.namespace for rendering in renderings.values()}
    differing = [
        rendering
        for rendering in renderings.values()
        if not rendering.problems and known.get(rendering.namespace) != rendering.digest
    ]
    changed, size = [], 0
    for rendering in differing[:_MOST_NAMESPACES]:
        changed.append(rendering)
        size += sum(len(str(entry.document)) for entry in rendering.objects)
        if size > _MOST_BYTES:
            break
    return replace(
        answer,
        changed=changed,
        kept=sorted(rendering.namespace for rendering in renderings.values() if rendering.problems),
        gone=sorted(known.keys() - names),
        has_more=len(changed) < len(differing),
    )


def _digest(renderings: Renderings, *, prunes: bool) -> str:
    """Changes with anything that an agent would do."""
    parts = sorted(f"{rendering.namespace} {rendering.digest}" for rendering in renderings.values())
    return hashlib.sha256("\n".join([str(prunes), *parts]).encode()).hexdigest()[:32]
