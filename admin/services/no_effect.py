"""Rows without effect: a page of those that affect no execution, of a limited number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from sqlalchemy import Connection

from admin.core.executions.no_effect import Circumstances, no_effect, overridden_leaves, tighter_above
from admin.core.executions.own_settings import RegisteredWork
from admin.core.fleet.fleet import Fleet, Group
from admin.core.problems import Path
from admin.core.projects import ProjectState
from admin.core.settings.builtin_kinds import CLUSTER_ASSIGNMENT, EXECUTION_CLUSTER_LABEL
from admin.core.settings.field_revisions import RowVersion
from admin.core.settings.kinds import Kind, NameList
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Level, Scope
from admin.core.settings.warnings import KnownNames, Warning, WarningCode
from admin.core.token_pools.definitions import TOKENS_OFF
from admin.services.changeable.attributes import undeclared
from admin.services.changeable.grants import ChangeableGrants
from admin.services.changeable.use_grants import ChangeableUseGrants
from admin.services.context import Context
from admin.services.definitions import current_fleet, names_told_at, told_names
from admin.services.deletions import explain_deletions
from admin.services.field_provenance import MOST_ROWS, FieldProvenance, find_field_provenance
from admin.services.quota_warnings import loose_leaves
from admin.services.registered_work import find_registered
from admin.services.resource_warnings import is_told_untaken
from admin.services.row_warnings import EXAMINED, examine_rows
from admin.services.scopes import check_readable
from admin.services.visibility import seen_warnings
from admin.store import attributes, decision_basis, projects
from admin.store.attributes import Filter

#: Projects that are read at once.
_CHUNK = 500
#: Grants without effect that are told; `get warnings` has all of them.
_MOST_GRANTS = 100


@dataclass(frozen=True, kw_only=True)
class NoEffectPage:
    """The reasons why some rows have no effect, as of one revision."""

    warnings: tuple[Warning, ...]
    revision: int
    examined: int  #: rows that this page has looked at
    next_key: tuple[str, ...] | None  #: the row after which the next page begins; None for the last page
    set_by: FieldProvenance  #: of the rows


def list_no_effect(
    context: Context, conditions: Filter, after: tuple[str, ...] | None, limit: int, examined: int = EXAMINED
) -> NoEffectPage:
    """The rows without effect, and of others the fields without, of a limited number of rows from after a key on."""
    settings = context.settings
    conditions = replace(conditions, within=context.access.scopes("attributes.read"))
    with context.database.reading() as connection:
        check_readable(context, connection, Scope(domain=conditions.domain or "", project=conditions.project or ""))
        basis = decision_basis.read(connection)
        reasons = _Reasons(context, connection, names_told_at(context, connection, basis))
        warnings: list[Warning] = []
        if after is None and conditions.is_everything and len(conditions.kinds) == len(list(settings.kinds)):
            in_use = attributes.kinds_in_use(connection)
            warnings += [undeclared(name) for name in in_use if name not in settings.kinds]
            warnings += _idle_grants(context, connection)
        page = examine_rows(
            connection, conditions, after, reasons.of_all, limit=limit, examined=examined, first=warnings
        )
        warnings = explain_deletions(context, connection, page.warnings)
        rows = {RowVersion(entry.kind, entry.scope, entry.version) for entry in warnings if entry.version}
        set_by = find_field_provenance(context, connection, rows, most_rows=max(limit, MOST_ROWS))
    return NoEffectPage(
        warnings=tuple(warnings),
        revision=basis.revision,
        examined=page.examined,
        next_key=page.last,
        set_by=set_by,
    )


def _idle_grants(context: Context, connection: Connection) -> list[Warning]:
    """The first grants and use grants to users and groups that do not exist, which OpenID may prove otherwise."""
    if context.settings.openid is not None:
        return []
    stored = (
        warning
        for noun in (ChangeableGrants, ChangeableUseGrants)
        for warning in noun.stored_warnings(context, connection)
    )
    idle = [warning for warning in stored if warning.code in (WarningCode.UNKNOWN_USER, WarningCode.UNKNOWN_GROUP)]
    return seen_warnings(context.access, idle)[:_MOST_GRANTS]


class _Reasons:
    """Finds out why rows have no effect, many at a time."""

    def __init__(self, context: Context, connection: Connection, names: KnownNames) -> None:
        self._context = context
        self._connection = connection
        self._known = names
        self._empty = told_names(context.access, _empty_groups(current_fleet(context, connection)))

    def of_all(self, rows: Iterable[Row]) -> Iterator[tuple[Row, list[Warning]]]:
        """Rows that are sorted by kind, each with every reason why it has no effect."""
        for name, rows_of_kind in groupby(rows, key=lambda row: row.kind):
            yield from self._of_kind(self._context.settings.kinds[name], list(rows_of_kind))

    def _of_kind(self, kind: Kind, rows: Sequence[Row]) -> Iterator[tuple[Row, list[Warning]]]:
        archived = projects.archived_among(self._connection, {row.scope.project for row in rows} - {""})
        pools = self._pools(kind, rows)
        overridden = self._overridden_leaves(kind, rows)
        scopes = [row.scope for row in rows]
        quotas = attributes.applying_to(self._connection, [kind.name], scopes) if kind.is_quota else []
        by_scope = {quota.scope: quota for quota in quotas}
        loose = loose_leaves(self._context, self._connection, rows)
        is_untaken = is_told_untaken(self._context, self._connection, kind.name)
        registered = find_registered(self._connection, {row.scope for row in rows if row.scope.workflow})
        for row in rows:
            work = registered.get(row.scope, RegisteredWork())
            around = Circumstances(
                known=self._known,
                empty=self._empty,
                is_archived=row.scope.project in archived,
                is_untaken=is_untaken,
                pool=pools.get(row.scope),
                overridden=overridden.get(row.scope, ()),
                tighter=tighter_above(kind, row, by_scope),
                loose=loose.get(row.scope, {}),
                tokens_off=TOKENS_OFF if self._context.settings.resource_manager.grants_everything else "",
                definition=work.definition,
                jobs=list(work.jobs.values()),
            )
            yield row, no_effect(kind, row, around)

    def _pools(self, kind: Kind, rows: Iterable[Row]) -> dict[Scope, str | None]:
        """The pools that are set at the scopes of labels."""
        if kind.name != EXECUTION_CLUSTER_LABEL.name:
            return {}
        keys = [(CLUSTER_ASSIGNMENT.name, row.scope) for row in rows]
        return {row.scope: row.payload["cluster_pool_name"] for row in attributes.exactly(self._connection, keys)}

    def _overridden_leaves(self, kind: Kind, rows: Iterable[Row]) -> Mapping[Scope, Sequence[Path]]:
        """The leaves of domains' and projects' rows that are overridden everywhere."""
        by_level = {level: [row for row in rows if row.scope.level is level] for level in (Level.DOMAIN, Level.PROJECT)}
        domains = self._context.settings.domain_ids()
        below = {row.scope: [Scope(domain, row.scope.project) for domain in domains] for row in by_level[Level.PROJECT]}
        over = self._deciding(kind, [place for places in below.values() for place in places])
        overridden = {
            row.scope: overridden_leaves(kind, row, ([over.get(place)] for place in below[row.scope]))
            for row in by_level[Level.PROJECT]
        }
        for row in by_level[Level.DOMAIN]:
            overridden[row.scope] = overridden_leaves(kind, row, self._over_domain(kind, row.scope))
        return overridden

    def _over_domain(self, kind: Kind, scope: Scope) -> Iterator[Sequence[Row | None]]:
        """What overrides a domain's row in each of the projects; most often the first ones answer."""
        last: str | None = None
        while True:
            active = projects.page(self._connection, state=ProjectState.ACTIVE, after=last, limit=_CHUNK)
            places = [(Scope(project=project.id), Scope(scope.domain, project.id)) for project in active]
            rows = self._deciding(kind, [place for pair in places for place in pair])
            yield from ([rows.get(place) for place in pair] for pair in places)
            if len(active) < _CHUNK:
                return
            last = active[-1].id

    def _deciding(self, kind: Kind, scopes: Sequence[Scope]) -> dict[Scope, Row]:
        """The rows at some scopes that decide what broader rows of a kind say: of pools and labels those of both."""
        other = _DECIDED_TOGETHER.get(kind.name)
        rows: dict[Scope, Row] = {}
        if other is not None:
            stored = attributes.exactly(self._connection, [(other.name, scope) for scope in scopes])
            # One that is unset cancels rows of its own kind alone.
            rows = {row.scope: row for row in stored if None not in other.leaves(row.payload).values()}
        own = attributes.exactly(self._connection, [(kind.name, scope) for scope in scopes])
        return {**rows, **{row.scope: row for row in own}}


#: Of two kinds of which the most specific row decides, whichever it is of, the other one.
_DECIDED_TOGETHER = {
    EXECUTION_CLUSTER_LABEL.name: CLUSTER_ASSIGNMENT,
    CLUSTER_ASSIGNMENT.name: EXECUTION_CLUSTER_LABEL,
}


def _empty_groups(fleet: Fleet) -> KnownNames:
    """The pools and labels without a member that can be chosen."""
    labels = {name: fleet.label(name) for name in fleet.label_names()}
    return {
        name_list: frozenset(name for name, group in groups.items() if group and not _has_choice(group, fleet))
        for name_list, groups in ((NameList.POOL, fleet.pools), (NameList.LABEL, labels))
    }


def _has_choice(group: Group, fleet: Fleet) -> bool:
    return any(member.weight > 0 and fleet.clusters[member.cluster].enabled for member in group.members)
