"""Capped defaults: where a default is above the limit that applies beside it, so that executions get the limit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Connection

from admin.core.changes import UNSTORED, RowChange, rows_after
from admin.core.projects import project_changes
from admin.core.settings.builtin_kinds import TASK_RESOURCE
from admin.core.settings.kinds import Kind
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Level, Scope
from admin.core.settings.warnings import Warning, WarningCode, excesses_at, only_relieves, warn, warn_of_excess
from admin.services.context import Context
from admin.store import attributes
from admin.store.attributes import Filter

#: Rows below changed ones that are looked at.
MOST_ROWS = 5000
#: Warnings about them that are given; the others are counted.
MOST_WARNINGS = 20


def caps_below(changes: Iterable[RowChange]) -> bool:
    """Whether changes may cap defaults at scopes below them."""
    return any(
        _is_of_resources(change)
        and change.scope.level is not Level.LAUNCH_PLAN
        and not only_relieves(change.before or {}, change.after or {})
        for change in changes
    )


def find_capped_below(context: Context, connection: Connection, changes: Sequence[RowChange]) -> list[Warning]:
    """A warning about each default that changes leave above its limit, and that was not so before.

    Rows that the changes write have their warnings already, and so have the scopes that only inherit the same.
    """
    written = [change for change in changes if _is_of_resources(change)]
    if not caps_below(written):
        return []
    kind, platform = context.settings.kinds[TASK_RESOURCE.name], context.settings.platform
    removed = {project for project, payload in project_changes(changes).items() if payload is None}
    changed = {change.scope for change in written if change.scope.project not in removed}
    rows = _rows_below(connection, changed)
    places = _places([*changed, *rows], context.settings.domain_ids())
    affected = {place for place in places if not changed.isdisjoint(place.chain())}
    missing = {place for scope in affected for place in scope.chain()} - rows.keys()
    around = [*rows.values(), *attributes.exactly(connection, [(kind.name, place) for place in missing])]
    before = rows_after(around, [change.reverse() for change in written])
    after = rows_after(around, written)
    checked = {change.scope for change in changes if change.kind == kind.name}.intersection(after)
    told = {excess.cause for scope in checked for excess in excesses_at(kind, scope, after, platform)}
    warnings: list[Warning] = []
    for scope in sorted(affected, key=lambda scope: (scope.level.specificity, scope.sort_key)):
        capped = [excess for excess in excesses_at(kind, scope, after, platform) if excess.cause not in told]
        previous = {excess.amounts for excess in excesses_at(kind, scope, before, platform)} if capped else set()
        new = [excess for excess in capped if excess.amounts not in previous]
        told.update(excess.cause for excess in new)
        warnings += [warn_of_excess(kind, _row_at(kind, scope, after), excess) for excess in new]
    others = len(warnings) - MOST_WARNINGS
    if others <= 0:
        return warnings
    message = f"{others} more defaults below are above the limit that applies beside them: executions get the limit."
    row = _row_at(kind, written[0].scope, after)
    return [*warnings[:MOST_WARNINGS], warn(kind, row, WarningCode.DEFAULT_CAPPED, "defaults", message)]


def find_capped_in_domains(
    context: Context, connection: Connection, rows: Iterable[Row], around: Mapping[Scope, Row]
) -> Iterator[Warning]:
    """A warning about each default that is above its limit in a domain of a project, where only the project has a row.

    `around` has the rows of all domains; the others are at scopes that have rows of their own.
    """
    kind, settings = context.settings.kinds[TASK_RESOURCE.name], context.settings
    by_project = {row.scope: row for row in rows if row.scope.level is Level.PROJECT}
    domains = settings.domain_ids()
    places = {Scope(domain, row.scope.project): row for row in by_project.values() for domain in domains}
    own = {row.scope for row in attributes.exactly(connection, [(kind.name, place) for place in places])}
    told = {
        (scope, excess.cause) for scope in by_project for excess in excesses_at(kind, scope, around, settings.platform)
    }
    for place, row in places.items():
        if place in own:
            continue
        for excess in excesses_at(kind, place, around, settings.platform):
            is_of_project = row.scope in (excess.default_origin.scope, excess.limit_origin.scope)
            if is_of_project and (row.scope, excess.cause) not in told:
                told.add((row.scope, excess.cause))
                yield warn_of_excess(kind, row, excess)


def _is_of_resources(change: RowChange) -> bool:
    return change.kind == TASK_RESOURCE.name and change.is_real


def _rows_below(connection: Connection, changed: Collection[Scope]) -> dict[Scope, Row]:
    """The first rows at and below changed scopes, by their scopes; with a domain's also those of projects."""
    rows: list[Row] = []
    if any(scope.level is Level.DOMAIN for scope in changed):
        rows += attributes.page(connection, Filter(kinds=(TASK_RESOURCE.name,)), after=None, limit=MOST_ROWS)
    in_projects = [scope for scope in changed if scope.project and scope.level is not Level.LAUNCH_PLAN]
    rows += attributes.below(connection, TASK_RESOURCE.name, in_projects, MOST_ROWS)
    return {row.scope: row for row in rows}


def _places(scopes: Iterable[Scope], domains: Iterable[str]) -> Iterator[Scope]:
    """Some scopes, and of a project as a whole each of its domains."""
    for scope in scopes:
        yield scope
        if scope.level is Level.PROJECT:
            yield from (Scope(domain, scope.project) for domain in domains)


def _row_at(kind: Kind, scope: Scope, rows: Mapping[Scope, Row]) -> Row:
    """The row that a warning about a scope is about: its own, or else that of its project."""
    row = rows.get(scope) or rows.get(Scope(project=scope.project))
    return row or Row(kind=kind.name, scope=scope, payload={}, version=UNSTORED)
