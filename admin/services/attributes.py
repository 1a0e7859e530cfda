"""Attributes: read and written at one scope, listed over all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy.exc import SQLAlchemyError

from admin.core.changes import Expectation
from admin.core.provenance import Provenance
from admin.core.settings.field_revisions import RowVersion
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.resolution import EffectiveValue, Row, effective_value, resolve
from admin.core.settings.scopes import Scope
from admin.errors import AttributeNotFound
from admin.services.changeable.attributes import attribute_write, write_permission
from admin.services.changeable.base import ChangeOptions, Policy
from admin.services.changes import Changed, apply_changes
from admin.services.consequences import ShownConsequence, find_consequences
from admin.services.context import Context
from admin.services.effective import Effective, effective_attributes
from admin.services.field_provenance import FieldProvenance, find_field_provenance, find_row_provenance
from admin.services.registered_work import plan_settings
from admin.services.revisions import check_number
from admin.services.scopes import applying, check_existed, check_readable
from admin.store import attributes, history, row_changes
from admin.store.attributes import Filter, StoredAttribute


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a scope has: a row of its own, or what it inherits."""

    kind: Kind
    scope: Scope
    row: StoredAttribute | None
    inherited: EffectiveValue | None  #: where it has no row
    set_by: FieldProvenance | None = None  #: of the row, or of those that it inherits from; None if not asked
    deleted_by: Provenance | None = None  #: of the row that stood here, where there is none any more; if asked
    consequence: ShownConsequence | None = None  #: of the value, where executions do not follow it; if asked


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of rows, and the key after which the next page starts, if there is one."""

    rows: tuple[Row, ...]
    provenance: Mapping[int, Provenance]  #: of their versions, as far as known
    next_key: tuple[str, ...] | None


def read_attribute(
    context: Context, kind: Kind, scope: Scope, *, exact: bool = False, with_provenance: bool = False
) -> Reading:
    """The row at a scope, or what the scope inherits; AttributeNotFound where nothing is set.

    `with_provenance` looks up which revisions set the fields, or deleted the row, and who made them, and what happens
    with a value that executions do not follow.
    """
    kind.check_level(scope.level)
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        rows = {row.scope: row for row in attributes.applying(connection, [kind.name], scope)}
        is_looked_up = with_provenance and scope not in rows
        deleted_by = row_changes.deleted_at(connection, kind.name, scope) if is_looked_up else None
        reading = _reading(context, kind, scope, rows, exact=exact, deleted_by=deleted_by)
        if not with_provenance:
            return reading
        shown = [row for row in rows.values() if reading.row is None or row is reading.row]
        versions = [RowVersion(row.kind, row.scope, row.version) for row in shown]
        value = resolve(kind, scope, rows, context.settings.platform.at(kind, scope.domain))
        definition = plan_settings(connection, [scope]).get(scope, {})
        consequences, made_by = find_consequences(context, connection, [value], definition, None)
        set_by = find_field_provenance(context, connection, versions)
        set_by = replace(set_by, provenance={**set_by.provenance, **made_by})
        return replace(reading, set_by=set_by, consequence=consequences.get(kind.name))


def known_attribute(context: Context, kind: Kind, scope: Scope) -> Reading | None:
    """The same from memory; None while the index cannot answer and the database must be read."""
    kind.check_level(scope.level)
    applied = applying(context, scope)
    return None if applied is None else _reading(context, kind, scope, applied.rows([kind])[kind.name], exact=False)


def _reading(
    context: Context,
    kind: Kind,
    scope: Scope,
    rows: Mapping[Scope, StoredAttribute],
    *,
    exact: bool,
    deleted_by: Provenance | None = None,
) -> Reading:
    """What a scope has, of the rows of a kind that apply there; `deleted_by` is of the row that stood there."""
    row = rows.get(scope)
    if row is not None:
        return Reading(kind=kind, scope=scope, row=row, inherited=None)
    inherited = effective_value(kind, scope, rows, context.settings.platform.at(kind, scope.domain))
    if exact or not inherited.value:
        where = f"at {scope}" + ("" if exact else " or above")
        message = f"No {kind.noun} is set {where}."
        details = []
        if deleted_by is not None:
            message += f" The row that stood at {scope} was deleted by {deleted_by.describe(context.clock())}."
            details = [{"resource_type": kind.name, **scope.keys(), "provenance": deleted_by.as_json()}]
        raise AttributeNotFound(f"{message} Set one with `rainbowctl update {kind.noun}`.", details=details)
    return Reading(kind=kind, scope=scope, row=None, inherited=inherited, deleted_by=deleted_by)


def write_attribute(
    context: Context,
    kind: Kind,
    scope: Scope,
    change: Callable[[Payload | None], Payload | None],
    expectation: Expectation,
    options: ChangeOptions,
) -> Changed:
    """Change the payload at exactly one scope, and nothing below it; a row with nothing left is removed."""
    options.access.check(write_permission(kind), scope)  # before anything is told, also where nothing changes
    kind.check_level(scope.level)
    write = attribute_write(kind, scope, change, expectation)
    return apply_changes(context, [write], replace(options, policy=Policy.EDIT))


def delete_attribute(
    context: Context, kind: Kind, scope: Scope, expectation: Expectation, options: ChangeOptions
) -> tuple[Changed, Effective | None]:
    """Delete the row at exactly one scope, and tell what applies there afterwards; None where that cannot be read."""
    changed = write_attribute(context, kind, scope, _nothing, expectation, options)
    proposed = [attribute_write(kind, scope, _nothing)] if changed.dry_run else None
    try:
        return changed, effective_attributes(context, scope, [kind], proposed=proposed, with_provenance=True)
    except SQLAlchemyError:
        return changed, None  # the row is deleted all the same


def _nothing(_before: Payload | None) -> None:
    """What is left of a row that is deleted."""


def list_attributes(
    context: Context, conditions: Filter, after: tuple[str, ...] | None, limit: int, at: int | None = None
) -> Page:
    """Rows in the order of kind, project, domain, workflow and launch plan; `at` a revision if one is named."""
    rows: tuple[Row, ...]
    conditions = replace(conditions, within=context.access.scopes("attributes.read"))
    with context.database.reading() as connection:
        check_existed(context, connection, Scope(domain=conditions.domain or "", project=conditions.project or ""))
        if at is None:
            rows = tuple(attributes.page(connection, conditions, after, limit + 1))
        else:
            check_number(connection, at)
            past = [row for row in history.every_at(connection, at, list(conditions.kinds)) if conditions.has(row)]
            past.sort(key=attributes.page_key)
            rows = tuple(row for row in past if after is None or attributes.page_key(row) > after)[: limit + 1]
        shown, more = rows[:limit], len(rows) > limit
        provenance = find_row_provenance(connection, shown)
    return Page(rows=shown, provenance=provenance, next_key=attributes.page_key(shown[-1]) if more else None)
