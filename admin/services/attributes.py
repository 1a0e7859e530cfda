"""Attributes: read, written, patched and deleted at one scope; listed over all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from admin.core.kinds import Kind, Payload
from admin.core.patches import patched
from admin.core.resolution import Resolved, resolve
from admin.core.scopes import Scope
from admin.core.warnings import Surroundings, Warning
from admin.core.writes import Expectation, judge
from admin.errors import AttributeNotFound, VersionConflict
from admin.services.context import Context
from admin.services.scopes import check_readable, check_writable
from admin.store import attributes, revisions
from admin.store.attributes import Filter, StoredAttribute
from admin.store.revisions import Authorship, RowChange


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How a write is to be done."""

    who: Authorship = field(default_factory=Authorship)
    expectation: Expectation = field(default_factory=Expectation)
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a write did, or would do."""

    kind: Kind
    scope: Scope
    before: Payload | None  #: None where there was no row
    after: Payload | None  #: None where there is none any more
    version: int | None  #: of the row as it is now stored
    changed: bool
    dry_run: bool
    warnings: tuple[Warning, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a scope has: a row of its own, or what it inherits."""

    kind: Kind
    scope: Scope
    row: StoredAttribute | None
    resolved: Resolved


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some rows of a list, and the key to go on after, if there are more."""

    rows: tuple[StoredAttribute, ...]
    next_key: tuple[str, ...] | None


def read_attribute(context: Context, kind: Kind, scope: Scope, *, exact: bool = False) -> Reading:
    """The row at a scope, or what the scope inherits; AttributeNotFound where there is neither."""
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


def put_attribute(context: Context, kind: Kind, scope: Scope, payload: Any, options: WriteOptions) -> Written:
    """Replace the whole payload at exactly one scope."""
    kind.check_level(scope.level)
    normal = kind.read(payload)
    return _write(context, kind, scope, lambda _before: normal, options)


def patch_attribute(
    context: Context, kind: Kind, scope: Scope, patch: dict[str, Any], options: WriteOptions
) -> Written:
    """Change single leaves of the row at a scope; a row with nothing left is removed."""
    kind.check_level(scope.level)

    def after(before: Payload | None) -> Payload | None:
        return patched(kind, before or {}, set_=patch["set"], unset=patch["unset"], inherit=patch["inherit"]) or None

    return _write(context, kind, scope, after, options)


def delete_attribute(context: Context, kind: Kind, scope: Scope, options: WriteOptions) -> Written:
    """Remove the row at exactly one scope, and nothing below it."""
    kind.check_level(scope.level)
    return _write(context, kind, scope, lambda _before: None, options)


def list_attributes(context: Context, wanted: Filter, after: tuple[str, ...] | None, limit: int) -> Page:
    """Rows in the order of kind, project, domain, workflow and launch plan."""
    with context.database.reading() as connection:
        rows = tuple(attributes.page(connection, wanted, after, limit + 1))
    more = len(rows) > limit
    return Page(rows=rows[:limit], next_key=attributes.page_key(rows[limit - 1]) if more else None)


def _write(
    context: Context,
    kind: Kind,
    scope: Scope,
    change: Callable[[Payload | None], Payload | None],
    options: WriteOptions,
) -> Written:
    with _transaction(context, dry_run=options.dry_run) as connection:
        check_writable(context, connection, scope)
        row = attributes.get(connection, kind.name, scope)
        _check_expectation(options.expectation, row, scope)
        before = row.payload if row else None
        after = change(before)
        warnings = _judged(context, connection, kind, scope, after)
        changed = after != before
        version = row.version if row else None
        if changed and not options.dry_run:
            written = RowChange(kind=kind.name, scope=scope, before=before, after=after)
            version = _store(context, connection, written, options)
    return Written(
        kind=kind,
        scope=scope,
        before=before,
        after=after,
        version=version,
        changed=changed,
        dry_run=options.dry_run,
        warnings=warnings,
    )


@contextmanager
def _transaction(context: Context, *, dry_run: bool) -> Iterator[Connection]:
    """A dry run goes the same way as a write, on a picture of the database that it cannot change."""
    if dry_run:
        with context.database.reading() as connection:
            yield connection
    else:
        with context.database.writing() as connection:
            revisions.lock_head(connection)
            yield connection


def _check_expectation(expectation: Expectation, row: StoredAttribute | None, scope: Scope) -> None:
    current = row.version if row else None
    if expectation.holds(current):
        return
    found = f"it is at version {current}" if current is not None else "there is no row"
    raise VersionConflict(
        f"The row at {scope} is not as expected: {found}. Read it again and repeat the change on what is there now.",
        details=[{"current_version": current}] if current is not None else [],
    )


def _judged(
    context: Context, connection: Connection, kind: Kind, scope: Scope, after: Payload | None
) -> tuple[Warning, ...]:
    if after is None:
        return ()
    settings = context.settings
    rows = attributes.touching(connection, kind.name, scope)
    around = Surroundings.of(rows, settings.platform, settings.known_names)
    return tuple(judge(kind, scope, after, around, refuse_unknown_names=settings.refuse_unknown_names))


def _store(context: Context, connection: Connection, change: RowChange, options: WriteOptions) -> int | None:
    """Write one changed row and its revision; answers the row's new version."""
    now = context.clock()
    number = revisions.append(connection, [change], options.who, now)
    if change.after is None:
        attributes.remove(connection, change.kind, change.scope)
    else:
        attributes.put(connection, change.kind, change.scope, change.after, number, options.who, now)
    return number
