"""Cluster resources: the Kubernetes objects of one namespace, and where each value in them comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from admin.core.cluster_resources.rendering import Rendering
from admin.core.cluster_resources.states import NamespaceReport, worst
from admin.core.fleet.definitions import FleetKind
from admin.core.problems import invalid
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.fleet import not_found
from admin.services.renderings import render_namespaces, told_problems
from admin.services.scopes import check_active, check_domain, find_project
from admin.store import cluster_resources, revisions
from admin.store.cluster_resources import NamespaceEvent

#: Events of one answer.
_MOST_EVENTS = 100


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
        renderings = render_namespaces(context, connection)
        revision = revisions.head(connection)
    rendering = replace(renderings[scope], problems=told_problems(context, renderings[scope], renderings))
    chosen = clusters if cluster is None else (cluster,)
    return RenderedNamespace(rendering=rendering, clusters=chosen, revision=revision)


@dataclass(frozen=True, kw_only=True)
class ClusterNamespace:
    """What became of a namespace on one cluster."""

    cluster: str
    report: NamespaceReport | None  #: None where its agent has told nothing yet
    is_current: bool  #: whether what it reported is of what is rendered now

    @property
    def state(self) -> str:
        """In one word: `pending` until what is rendered now was applied."""
        if self.report is None or not self.is_current:
            return "pending"
        return worst(self.report.objects).value


@dataclass(frozen=True, kw_only=True)
class NamespaceState:
    """A namespace, whether it can be rendered, and what became of it on each cluster."""

    scope: Scope
    namespace: str
    problems: tuple[str, ...]
    clusters: tuple[ClusterNamespace, ...]
    orphaned_on: str = ""  #: the cluster on which something of it is left, though nothing renders it any more

    @property
    def page_key(self) -> tuple[str, str, str, str]:
        """Its place in lists."""
        return self.scope.project, self.scope.domain, self.namespace, self.orphaned_on


@dataclass(frozen=True, kw_only=True)
class NamespaceStates:
    """Some namespaces, and what happened to their objects."""

    namespaces: tuple[NamespaceState, ...]
    count: int  #: how many there are in all
    next_key: tuple[str, ...] | None  #: after which the next page begins; None after the last
    events: tuple[NamespaceEvent, ...]  #: newest first; of one project and domain only


def list_namespaces(
    context: Context,
    project: str | None,
    domain: str | None,
    cluster: str | None,
    *,
    failing: bool,
    after: tuple[str, ...] | None = None,
    limit: int = 1000,
) -> NamespaceStates:
    """The namespaces of a project, a domain or all that the caller may see; `failing`: where something is wrong.

    So many at most, of those whose keys come `after` that of the page before.
    """
    if domain is not None:
        check_domain(context, domain)
    with context.database.reading() as connection:
        if project is not None:
            find_project(context, connection, project)
        clusters = applying_clusters(context, connection)
        if cluster is not None and cluster not in clusters:
            _refuse_cluster(context, connection, cluster)
        chosen = clusters if cluster is None else (cluster,)
        all_renderings = render_namespaces(context, connection)
        renderings = [
            rendering
            for scope, rendering in all_renderings.items()
            if project in (None, scope.project) and domain in (None, scope.domain) and _may_read(context, scope)
        ]
        known = cluster_resources.reports(connection, clusters=chosen, project=project, domain=domain)
        events: list[NamespaceEvent] = []
        if project is not None and domain is not None and _may_read(context, Scope(domain, project)):
            events = cluster_resources.events(connection, project, domain, chosen, _MOST_EVENTS)
    reports = {(name, report.namespace): report for name, report in known}
    rendered = {rendering.namespace for rendering in all_renderings.values()}
    orphans = [(name, report) for name, report in known if report.namespace not in rendered]
    states = [
        *(
            _state(rendering, told_problems(context, rendering, all_renderings), chosen, reports)
            for rendering in renderings
        ),
        *(_orphan(name, report) for name, report in orphans if _may_read(context, report.scope)),
    ]
    if failing:
        states = [state for state in states if state.problems or not all(map(_is_well, state.clusters))]
    states.sort(key=lambda state: state.page_key)
    remaining = [state for state in states if after is None or state.page_key > after]
    page = tuple(remaining[:limit])
    next_key = page[-1].page_key if len(remaining) > len(page) else None
    return NamespaceStates(namespaces=page, count=len(states), next_key=next_key, events=tuple(events))


def _may_read(context: Context, scope: Scope) -> bool:
    return context.access.allows("attributes.read", scope)


def _state(
    rendering: Rendering,
    problems: tuple[str, ...],
    clusters: Sequence[str],
    reports: Mapping[tuple[str, str], NamespaceReport],
) -> NamespaceState:
    reported = [(name, reports.get((name, rendering.namespace))) for name in clusters]
    return NamespaceState(
        scope=rendering.scope,
        namespace=rendering.namespace,
        problems=problems,
        clusters=tuple(
            ClusterNamespace(
                cluster=name, report=report, is_current=report is not None and report.digest == rendering.digest
            )
            for name, report in reported
        ),
    )


def _orphan(cluster: str, report: NamespaceReport) -> NamespaceState:
    """A namespace of which something is left on a cluster, though nothing renders it any more."""
    entry = ClusterNamespace(cluster=cluster, report=report, is_current=True)
    return NamespaceState(
        scope=report.scope, namespace=report.namespace, problems=(), clusters=(entry,), orphaned_on=cluster
    )


def _is_well(entry: ClusterNamespace) -> bool:
    return entry.report is not None and entry.is_current and entry.report.is_well


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
