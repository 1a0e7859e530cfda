"""Renderings: the cluster resources of every active project and domain, made of templates and effective values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.cluster_resources.namespaces import collisions
from admin.core.cluster_resources.rendering import Rendering, render
from admin.core.cluster_resources.templates import TemplateSet
from admin.core.cluster_resources.values import ExternalValues, collect_values
from admin.core.projects import ProjectState, project_changes
from admin.core.settings.builtin_kinds import CLUSTER_RESOURCE, TASK_RESOURCE
from admin.core.settings.resolution import Row, effective_value
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.rendering_cache import Renderings
from admin.store import attributes, projects, revisions
from admin.store.attributes import Filter

_KINDS = (CLUSTER_RESOURCE.name, TASK_RESOURCE.name)


def render_namespaces(context: Context, connection: Connection) -> Renderings:
    """The namespaces of all active projects as of now; those that nothing changed are not made again."""
    cache = context.rendering_cache
    templates, external = cache.templates.current(), cache.external_values.current()
    scopes = _scopes(context, connection, ())
    key = (revisions.head(connection), tuple(scopes), templates.digest, templates.problems, id(external))
    renderings = cache.find(key)
    if renderings is None:
        with cache.lock:
            renderings = cache.find(key)
            if renderings is None:
                rows = _rows(connection, ())
                renderings = _render(context, scopes, rows, templates, external)
                cache.keep(key, renderings)
    return renderings


def render_after(context: Context, connection: Connection, changes: Sequence[RowChange]) -> Renderings:
    """The namespaces as they would be after changes."""
    cache = context.rendering_cache
    templates, external = cache.templates.current(), cache.external_values.current()
    scopes = _scopes(context, connection, changes)
    return _render(context, scopes, _rows(connection, changes), templates, external)


def _scopes(context: Context, connection: Connection, changes: Iterable[RowChange]) -> list[Scope]:
    """Every active project in every domain."""
    active = set(projects.ids(connection, ProjectState.ACTIVE))
    for project_id, payload in project_changes(changes).items():
        is_active = payload is not None and payload.get("state", ProjectState.ACTIVE.value) == ProjectState.ACTIVE.value
        active = active | {project_id} if is_active else active - {project_id}
    return [Scope(domain, project) for project in sorted(active) for domain in context.settings.domain_ids()]


def _rows(connection: Connection, changes: Iterable[RowChange]) -> dict[str, Mapping[Scope, Row]]:
    """The rows of both kinds that apply to whole namespaces, by kind and scope."""
    filters = Filter(kinds=_KINDS, workflow="")
    stored = attributes.page(connection, filters, after=None, limit=10_000_000)
    by_kind: dict[str, list[Row]] = {name: [] for name in _KINDS}
    for row in stored:
        by_kind[row.kind].append(row)
    return {
        name: rows_after(rows, [change for change in changes if change.kind == name]) for name, rows in by_kind.items()
    }


def _render(
    context: Context,
    scopes: Sequence[Scope],
    rows: Mapping[str, Mapping[Scope, Row]],
    templates: TemplateSet,
    external: ExternalValues,
) -> dict[Scope, Rendering]:
    """Render what has other values than when it was rendered last."""
    settings, before = context.settings, context.rendering_cache.last()
    pattern = settings.cluster_resources.namespaces
    shared = collisions(pattern, scopes)
    renderings = {}
    for scope in scopes:
        namespace = pattern.name(scope)
        resources, tasks = (
            effective_value(kind, scope, rows[kind.name], settings.platform.at(kind, scope.domain))
            for kind in (CLUSTER_RESOURCE, TASK_RESOURCE)
        )
        values, absent = collect_values(scope, namespace, resources, tasks, external)
        problem = pattern.name_problem(scope) or shared.get(scope)
        last = before.get(scope)
        if last is not None and last.is_made_of(templates, values, absent, problem):
            renderings[scope] = last
        else:
            renderings[scope] = render(templates, scope, namespace, values, absent, problem)
    return renderings
