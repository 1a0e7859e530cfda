"""Renderings: the cluster resources of every active project and domain, made of templates and effective values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from admin.core.changes import PROJECT, RowChange, rows_after
from admin.core.cluster_resources.namespaces import collisions
from admin.core.cluster_resources.rendering import Rendering, render
from admin.core.cluster_resources.templates import TemplateSet
from admin.core.cluster_resources.values import ExternalValues, collect_values
from admin.core.projects import ProjectState, active_after
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
    scopes = _scopes(context, connection)
    key = (revisions.head(connection), tuple(scopes), templates.digest, templates.problems, external)
    renderings = cache.find(key)
    if renderings is None:
        with cache.lock:
            renderings = cache.find(key)
            if renderings is None:
                rows = _rows(connection)
                renderings = _render(context, scopes, rows, templates, external)
                cache.keep(key, renderings)
    return renderings


def changes_renderings(changes: Iterable[RowChange]) -> bool:
    """Whether changes may make any namespace otherwise."""
    return any(_is_of_namespaces(change) or change.kind == PROJECT for change in changes)


def _is_of_namespaces(change: RowChange) -> bool:
    return change.is_attribute and change.kind in _KINDS and not change.scope.workflow


def render_namespaces_after(context: Context, connection: Connection, changes: Sequence[RowChange]) -> Renderings:
    """The namespaces as changes would leave them; those that they do not concern are those of now."""
    cache = context.rendering_cache
    stored = _rows(connection)
    rows = {
        kind: rows_after(
            stored[kind].values(),
            [change for change in changes if _is_of_namespaces(change) and change.kind == kind],
        )
        for kind in _KINDS
    }
    scopes = _scopes_of(context, active_after(projects.ids(connection, ProjectState.ACTIVE), changes))
    return _render(context, scopes, rows, cache.templates.current(), cache.external_values.current())


def told_problems(context: Context, rendering: Rendering, renderings: Renderings) -> tuple[str, ...]:
    """What is wrong with a namespace, without the projects that the caller may not know of."""
    if not (context.access.is_restricted and rendering.name_problem):
        return rendering.problems
    sharing = [other.scope for other in renderings.values() if other.namespace == rendering.namespace]
    pattern = context.settings.cluster_resources.namespaces
    told = collisions(pattern, sharing, context.access.knows).get(rendering.scope, rendering.name_problem)
    return tuple(told if problem == rendering.name_problem else problem for problem in rendering.problems)


def _scopes(context: Context, connection: Connection) -> list[Scope]:
    """Every active project in every domain."""
    return _scopes_of(context, projects.ids(connection, ProjectState.ACTIVE))


def _scopes_of(context: Context, active: Iterable[str]) -> list[Scope]:
    return [Scope(domain, project) for project in sorted(active) for domain in context.settings.domain_ids()]


def _rows(connection: Connection) -> dict[str, dict[Scope, Row]]:
    """The rows of both kinds that apply to whole namespaces, by kind and scope."""
    filters = Filter(kinds=_KINDS, workflow="")
    by_kind: dict[str, dict[Scope, Row]] = {name: {} for name in _KINDS}
    for row in attributes.page(connection, filters, after=None, limit=10_000_000):
        by_kind[row.kind][row.scope] = row
    return by_kind


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
