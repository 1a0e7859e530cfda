"""Warnings: everything that is questionable now, in what is stored and about the admin itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from sqlalchemy import Connection

from admin.core.cluster_resources.untaken import untaken_warnings
from admin.core.executions.lifecycle import Phase
from admin.core.fleet.fleet import expected_warnings
from admin.core.settings.builtin_kinds import TASK_RESOURCE
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import KnownNames, Surroundings, Warning, warnings_of
from admin.services.capped_defaults import find_capped_in_domains
from admin.services.changeable.attributes import undeclared
from admin.services.changeable.registry import NOUNS
from admin.services.clocks import clock_warnings
from admin.services.context import Context
from admin.services.definitions import current_fleet, names_told_at
from admin.services.deletions import explain_deletions
from admin.services.quota_warnings import warn_of_quotas
from admin.services.reconciliations import restoration_warnings
from admin.services.refused_workflows import Refusals
from admin.services.resource_warnings import is_told_untaken
from admin.services.row_warnings import EXAMINED, START, examine_rows
from admin.services.visibility import seen_warnings
from admin.services.warning_provenance import with_setters
from admin.store import attributes, decision_basis, execution_queue, unfinished
from admin.store.attributes import Filter


@dataclass(frozen=True, kw_only=True)
class WarningPage:
    """Some of the warnings that are true now."""

    warnings: list[Warning]
    next_key: tuple[str, ...] | None  #: what the next page begins after; None for the last page


def list_warnings(
    context: Context,
    after: tuple[str, ...] | None = None,
    limit: int | None = None,
    examined: int = EXAMINED,
    where: Filter | None = None,
) -> WarningPage:
    """Warnings, those about the admin first, then by noun, kind and scope; without a limit every one.

    With `where` only those about the rows of a list.

    A key is that of the row that was looked at last; before all rows "", and how many others came before.
    """
    with context.database.reading() as connection:
        first: list[Warning] = []
        if where is None and (after is None or (after != START and not after[0])):
            start = 0 if after is None else int(after[1])
            others = seen_warnings(context.access, _about_others(context, connection))
            first = others[start:] if limit is None else others[start : start + limit]
            if start + len(first) < len(others):
                first = with_setters(context, connection, explain_deletions(context, connection, first), limit)
                return WarningPage(warnings=first, next_key=("", str(start + len(first)), "", "", ""))
            after = None
        most = None if limit is None else examined
        page = _about_rows(context, connection, after, limit, most, first, where)
        explained = explain_deletions(context, connection, page.warnings)
        # A page that has a row's own warnings together may be longer than its limit.
        most_rows = max(limit, len(explained)) if limit else None
        return replace(page, warnings=with_setters(context, connection, explained, most_rows))


def stored_warnings(context: Context) -> list[Warning]:
    """Every warning about what is stored, by noun, kind and scope."""
    with context.database.reading() as connection:
        about_definitions = list(_about_definitions(context, connection))
        return _about_rows(context, connection, None, None, None, about_definitions).warnings


def admin_warnings(context: Context, connection: Connection) -> list[Warning]:
    """What is wrong with the admin or its database, and keeps it from doing something."""
    return [*restoration_warnings(connection), *clock_warnings(context, connection)]


def _about_others(context: Context, connection: Connection) -> Iterator[Warning]:
    """The warnings that are not about attributes."""
    yield from admin_warnings(context, connection)
    counts = unfinished.counts_by_cluster(connection)
    waiting = {name: count for (name, phase), count in counts.items() if phase == Phase.QUEUED.value}
    fleet_now = current_fleet(context, connection)
    expected = [name for name, cluster in fleet_now.clusters.items() if cluster.is_expected and waiting.get(name)]
    yield from expected_warnings(fleet_now, waiting, execution_queue.count_naming(connection, expected))
    yield from _about_definitions(context, connection)


def _about_definitions(context: Context, connection: Connection) -> Iterator[Warning]:
    """The warnings about what belongs to no kind of attributes that is declared."""
    for noun in NOUNS:
        yield from noun.stored_warnings(context, connection)
    yield from (undeclared(name) for name in attributes.kinds_in_use(connection) if name not in context.settings.kinds)


def _about_rows(
    context: Context,
    connection: Connection,
    after: tuple[str, ...] | None,
    limit: int | None,
    examined: int | None,
    first: list[Warning],
    where: Filter | None = None,
) -> WarningPage:
    """The warnings about attributes, after some others."""
    basis = decision_basis.read(connection)
    defined_names = names_told_at(context, connection, basis)
    refusals = Refusals(context, connection, basis.registrations)

    def find(rows: Iterable[Row]) -> Iterator[tuple[Row, list[Warning]]]:
        for name, rows_of_kind in groupby(rows, key=lambda row: row.kind):
            yield from _of_kind(context, connection, name, list(rows_of_kind), defined_names, refusals)

    within = context.access.scopes("attributes.read")
    listed = where or Filter(kinds=tuple(kind.name for kind in context.settings.kinds))
    conditions = replace(listed, within=within)
    page = examine_rows(connection, conditions, after, find, limit=limit, examined=examined, first=first)
    return WarningPage(warnings=page.warnings, next_key=page.last)


def _of_kind(
    context: Context, connection: Connection, name: str, rows: list[Row], defined_names: KnownNames, refusals: Refusals
) -> Iterator[tuple[Row, list[Warning]]]:
    """Rows of one kind, each with its warnings."""
    settings = context.settings
    own = {row.scope for row in rows}
    broader = {place for scope in own for place in scope.chain()} - own
    applying = attributes.exactly(connection, [(name, place) for place in broader])
    surrounding = [*rows, *applying, *attributes.of_domains(connection, name)]
    variables = context.rendering_cache.templates.variables()
    around = Surroundings.of(surrounding, settings.platform, defined_names, variables=variables)
    others: dict[Scope, list[Warning]] = defaultdict(list)
    if name == TASK_RESOURCE.name:
        capped = find_capped_in_domains(context, connection, rows, around.rows)
        for warning in (*capped, *refusals.warnings(rows)):
            others[warning.scope].append(warning)
    elif is_told_untaken(context, connection, name):
        others |= {row.scope: untaken_warnings(row) for row in rows}
    for warning in warn_of_quotas(context, connection, rows):
        others[warning.scope].append(warning)
    for row in rows:
        yield row, [*warnings_of(settings.kinds[name], row, around), *others[row.scope]]
