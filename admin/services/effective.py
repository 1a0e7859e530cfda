"""Effective attributes: what applies at a scope, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowWrite, rows_after
from admin.core.executions.own_settings import FieldEffect, field_effects, without_overridden
from admin.core.projects import project_changes
from admin.core.provenance import Provenance
from admin.core.settings.field_revisions import RowVersion
from admin.core.settings.kinds import Kind
from admin.core.settings.resolution import Resolved, Row, Step, resolve
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import unknown_names
from admin.services.change_drafts import planned_changes
from admin.services.consequences import ShownConsequence, find_consequences
from admin.services.context import Context
from admin.services.definitions import names_told_at
from admin.services.deletions import explain_deletions
from admin.services.field_provenance import FieldProvenance, find_field_provenance
from admin.services.nearest import find_nearest
from admin.services.registered_work import find_registered
from admin.services.revisions import check_number
from admin.services.scopes import applying, check_domain, check_existed, check_readable
from admin.services.unknown_names import UnknownName, find_unknown_scope
from admin.store import attributes, decision_basis, history, revisions, row_changes


@dataclass(frozen=True, kw_only=True)
class Effective:
    """The effective values of some kinds, as of one revision."""

    values: tuple[Resolved, ...]
    revision: int
    set_by: FieldProvenance | None = None  #: of the rows shown; None if not asked
    nearest: Mapping[str, Row] | None = None  #: of the kinds that no row sets, by their names; None if not asked
    nearest_warnings: Mapping[str, str] = field(default_factory=dict)  #: of those that name what is unknown, by kind
    deleted_by: Mapping[str, Provenance] | None = None  #: of rows that stood at the scope, by kind; None if not asked
    consequences: Mapping[str, ShownConsequence] | None = None  #: of values by their kinds; None if not asked
    field_effects: Mapping[str, Sequence[FieldEffect]] | None = (
        None  #: by kind, of fields not followed; None if not asked
    )
    unknown_names: Sequence[UnknownName] = ()  #: of the scope; empty if not asked


def effective_text(context: Context, scope: Scope, only: Kind | None = None) -> bytes | None:
    """What `effective_attributes` answers for every kind or one, as JSON from memory.

    None while the index cannot answer and the database must be read.
    """
    applied = applying(context, scope)
    return None if applied is None else context.effective_texts.write(scope, applied.packed, applied.revision, only)


@dataclass(frozen=True, kw_only=True)
class StaleText:
    """What `effective_attributes` answered a while ago."""

    text: bytes
    seconds: int  #: how long ago, rounded up


def stale_text(context: Context, scope: Scope, only: Kind | None = None) -> StaleText | None:
    """The last that is known of a scope while the database cannot be read; None for any other time and scope."""
    if scope.domain:
        check_domain(context, scope.domain)
    stale = context.index.stale(scope)
    if stale is None:
        context.index.catch_up()  # it may not have noticed yet that the database cannot be read
        stale = context.index.stale(scope)
    if stale is None:
        return None
    applied, seconds = stale
    if scope.project and applied.project is None:
        return None
    text = context.effective_texts.write(scope, applied.packed, applied.revision, only)
    return StaleText(text=text, seconds=ceil(seconds))


def effective_attributes(
    context: Context,
    scope: Scope,
    kinds: Iterable[Kind],
    *,
    at: int | None = None,
    proposed: Sequence[RowWrite] | None = None,
    with_provenance: bool = False,
    with_nearest: bool = False,
) -> Effective:
    """The effective value of each kind at a scope, with its trail.

    `at` reads the rows as they were at a revision, `proposed` as they would be after a change. `with_provenance` looks
    up which revisions set the fields, who made them, which deleted a row that stood at the scope, and what happens with
    values that executions of today do not follow, and whether anything has the names of the scope, `with_nearest` which
    row of today one scope over could serve where no row applies.
    """
    with context.database.reading() as connection:
        changes = None if proposed is None else planned_changes(context, connection, proposed)
        effective = effective_in(context, connection, scope, kinds, at=at, changes=changes)
        nearest = _nearest(context, connection, scope, effective.values) if with_nearest else None
        nearest_warnings = _unknown_in(context, connection, nearest) if nearest else {}
        set_by = consequences = deleted_by = effects = None
        unknown: Sequence[UnknownName] = ()
        if with_provenance:
            deleted_by = _deleted_by(connection, scope, effective)
            rows = {
                RowVersion(value.kind.name, step.scope, step.version)
                for value in effective.values
                for step in value.trail
                if step.version is not None
            }
            rows.update(RowVersion(row.kind, row.scope, row.version) for row in (nearest or {}).values())
            set_by = find_field_provenance(context, connection, rows, assumed=changes or ())
            if at is None:
                registered = find_registered(connection, [scope])[scope]
                consequences, provenance = find_consequences(
                    context, connection, effective.values, registered.definition, changes
                )
                effects = {value.kind.name: field_effects(value, registered) for value in effective.values}
                values = (without_overridden(value, effects[value.kind.name]) for value in effective.values)
                effective = replace(effective, values=tuple(values))
                set_by = replace(set_by, provenance={**set_by.provenance, **provenance})
                assumed = [change.scope for change in changes or () if change.is_attribute]
                unknown = find_unknown_scope(context, connection, scope, assumed)
    return replace(
        effective,
        set_by=set_by,
        nearest=nearest,
        nearest_warnings=nearest_warnings,
        deleted_by=deleted_by,
        consequences=consequences,
        field_effects=effects,
        unknown_names=unknown,
    )


def effective_in(
    context: Context,
    connection: Connection,
    scope: Scope,
    kinds: Iterable[Kind],
    *,
    at: int | None = None,
    changes: Sequence[RowChange] | None = None,
) -> Effective:
    """The effective value of each kind at a scope within a transaction: now, at a revision, or after changes."""
    is_created = changes is not None and project_changes(changes).get(scope.project) is not None
    check = check_readable if at is None else check_existed
    check(context, connection, Scope(domain=scope.domain) if is_created else scope)
    chosen, chain = list(kinds), frozenset(scope.chain())
    names = [kind.name for kind in chosen]
    rows: list[Row]
    if at is None:
        rows, revision = list(attributes.applying(connection, names, scope)), revisions.head(connection)
    else:
        check_number(connection, at)
        rows, revision = history.applying_at(connection, at, names, scope), at
    applying = [change for change in changes or () if change.is_attribute and change.scope in chain]
    values = []
    for kind in chosen:
        changes_of_kind = [change for change in applying if change.kind == kind.name]
        after = rows_after([row for row in rows if row.kind == kind.name], changes_of_kind)
        values.append(resolve(kind, scope, after, context.settings.platform.at(kind, scope.domain)))
    return Effective(values=tuple(values), revision=revision)


def _nearest(context: Context, connection: Connection, scope: Scope, values: Iterable[Resolved]) -> dict[str, Row]:
    """The nearest row of each kind that has no value of a row at a scope, and that may be set there."""
    missing = [
        value.kind
        for value in values
        if scope.level in value.kind.levels and (not value.value or not any(map(_is_of_row, value.trail)))
    ]
    rows = {kind.name: find_nearest(context, connection, kind, scope) for kind in missing}
    return {name: row for name, row in rows.items() if row is not None}


def _unknown_in(context: Context, connection: Connection, rows: Mapping[str, Row]) -> dict[str, str]:
    """By kind, that a row names a pool, a label or only queue tags that there are not; the first such name counts."""
    names = names_told_at(context, connection, decision_basis.read(connection))
    warnings = []
    for name, row in rows.items():
        kind = context.settings.kinds[name]
        unknown = list(unknown_names(kind, row, names))
        # One tag that a queue serves is enough.
        if unknown and len(unknown) == len(list(kind.names_in(kind.leaves(row.payload)))):
            warnings.append(unknown[0])
    return {warning.kind: warning.message for warning in explain_deletions(context, connection, warnings)}


def _deleted_by(connection: Connection, scope: Scope, effective: Effective) -> dict[str, Provenance]:
    """By kind, the revisions that deleted the rows that stood at a scope and do so no more."""
    missing = [
        value.kind.name for value in effective.values if scope.level in value.kind.levels and not _has_row(value, scope)
    ]
    deleted = {name: row_changes.deleted_at(connection, name, scope, effective.revision) for name in missing}
    return {name: provenance for name, provenance in deleted.items() if provenance is not None}


def _has_row(value: Resolved, scope: Scope) -> bool:
    return any(_is_of_row(step) and step.scope == scope for step in value.trail)


def _is_of_row(step: Step) -> bool:
    return step.version is not None
