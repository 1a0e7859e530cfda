"""Cluster resources: the Kubernetes objects of one namespace, and where each value in them comes from."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.cluster_resources.rendering import Rendering
from admin.core.fleet.definitions import FleetKind
from admin.core.problems import invalid
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.fleet import not_found
from admin.services.renderings import render_namespaces
from admin.services.scopes import check_active, check_domain, find_project
from admin.store import revisions


@dataclass(frozen=True, kw_only=True)
class RenderedNamespace:
    """What the templates make of one project and domain, as of a revision."""

    rendering: Rendering
    clusters: tuple[str, ...]  #: whose agents make it, as far as the caller may know of them
    revision: int


def render_namespace(context: Context, scope: Scope, cluster: str | None = None) -> RenderedNamespace:
    """The objects of the namespace of a project and domain; of a cluster, that must be one whose agent makes them."""
    check_domain(context, scope.domain)
    with context.database.reading() as connection:
        check_active(find_project(context, connection, scope.project))
        clusters = applying_clusters(context, connection)
        if cluster is not None and cluster not in clusters:
            _refuse_cluster(context, connection, cluster)
        rendering = render_namespaces(context, connection)[scope]
        revision = revisions.head(connection)
    chosen = clusters if cluster is None else (cluster,)
    return RenderedNamespace(rendering=rendering, clusters=chosen, revision=revision)


def applying_clusters(context: Context, connection: Connection) -> tuple[str, ...]:
    """The clusters whose agents make namespaces, as far as the caller may know of the fleet."""
    if not context.access.sees_fleet():
        return ()
    clusters = current_fleet(context, connection).clusters
    return tuple(sorted(name for name, cluster in clusters.items() if cluster.has_cluster_resources))


def _refuse_cluster(context: Context, connection: Connection, name: str) -> None:
    fleet = current_fleet(context, connection)
    if not context.access.sees_fleet() or name not in fleet.clusters:
        raise not_found(context, connection, FleetKind.CLUSTER, name)
    reason = f"'{name}' makes no namespaces: say `rainbowctl update cluster {name} --clusterResources` first."
    raise invalid("cluster", reason)
