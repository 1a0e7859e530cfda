"""Attributes: read, write, patch and delete at one scope; list over all."""

from __future__ import annotations

from dataclasses import dataclass, replace

from admin.core.changes import Expectation, RowWrite
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.patches import apply_patch
from admin.core.settings.resolution import Resolved, Row, resolve
from admin.core.settings.scopes import Scope
from admin.errors import AttributeNotFound
from admin.services.changeable.attributes import attribute_write
from admin.services.changeable.base import ChangeOptions, Policy
from admin.services.changes import Changed, apply_changes
from admin.services.context import Context
from admin.services.revisions import check_number
from admin.services.scopes import check_existed, check_readable
from admin.store import attributes, history
from admin.store.attributes import Filter, StoredAttribute


@dataclass(frozen=True, kw_only=True)
class Patch:
    """Which leaves of a row to change; the paths are dotted."""

    set: Payload
    unset: list[str]  #: have no value here
    inherit: list[str]  #: leave to broader scopes


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a scope has: a row of its own, or what it inherits."""

    kind: Kind
    scope: Scope
    row: StoredAttribute | None
    resolved: Resolved


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of rows, and the key after which the next page starts, if there is one."""

    rows: tuple[Row, ...]
    next_key: tuple[str, ...] | None


def read_attribute(context: Context, kind: Kind, scope: Scope, *, exact: bool = False) -> Reading:
    """The row at a scope, or what the scope inherits; AttributeNotFound where nothing is set."""
    kind.check_level(scope.level)
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        rows = {row.scope: row for row in attributes.applying(connection, [kind.name], scope)}
    row = rows.get(scope)
    resolved = resolve(kind, scope, rows, context.settings.platform.at(kind, scope.domain))
    if row is None and (exact or not resolved.value):
        where = f"at {scope}" + ("" if exact else " or above")
        raise AttributeNotFound(f"No {kind.noun} is set {where}. Set one with `rainbowctl update {kind.noun}`.")
    return Reading(kind=kind, scope=scope, row=row, resolved=resolved)


def put_attribute(
    context: Context, kind: Kind, scope: Scope, payload: object, expectation: Expectation, options: ChangeOptions
) -> Changed:
    """Replace the whole payload at exactly one scope."""
    kind.check_level(scope.level)
    normal = kind.read(payload)
    return _write(context, attribute_write(kind, scope, lambda _before: normal, expectation), options)


def patch_attribute(
    context: Context, kind: Kind, scope: Scope, patch: Patch, expectation: Expectation, options: ChangeOptions
) -> Changed:
    """Change single leaves of the row at a scope; a row with nothing left is removed."""
    kind.check_level(scope.level)

    def after(before: Payload | None) -> Payload | None:
        return apply_patch(kind, before or {}, set_=patch.set, unset=patch.unset, inherit=patch.inherit) or None

    return _write(context, attribute_write(kind, scope, after, expectation), options)


def delete_attribute(
    context: Context, kind: Kind, scope: Scope, expectation: Expectation, options: ChangeOptions
) -> Changed:
    """Remove the row at exactly one scope, and nothing below it."""
    kind.check_level(scope.level)
    return _write(context, attribute_write(kind, scope, lambda _before: None, expectation), options)


def _write(context: Context, write: RowWrite, options: ChangeOptions) -> Changed:
    return apply_changes(context, [write], replace(options, policy=Policy.EDIT))


def list_attributes(
    context: Context, conditions: Filter, after: tuple[str, ...] | None, limit: int, at: int | None = None
) -> Page:
    """Rows in the order of kind, project, domain, workflow and launch plan; `at` a revision if one is named."""
    rows: tuple[Row, ...]
    with context.database.reading() as connection:
        check_existed(context, connection, Scope(domain=conditions.domain or "", project=conditions.project or ""))
        if at is None:
            rows = tuple(attributes.page(connection, conditions, after, limit + 1))
        else:
            check_number(connection, at)
            past = [row for row in history.every_at(connection, at, list(conditions.kinds)) if conditions.has(row)]
            past.sort(key=attributes.page_key)
            rows = tuple(row for row in past if after is None or attributes.page_key(row) > after)[: limit + 1]
    more = len(rows) > limit
    return Page(rows=rows[:limit], next_key=attributes.page_key(rows[limit - 1]) if more else None)
