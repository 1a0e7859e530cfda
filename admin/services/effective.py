"""Effective attributes: what applies at a scope, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from admin.core.changes import RowChange, RowWrite, rows_after
from admin.core.projects import project_changes
from admin.core.provenance import Provenance
from admin.core.settings.kinds import Kind
from admin.core.settings.resolution import Resolved, Row, resolve
from admin.core.settings.scopes import Scope
from admin.services.change_drafts import planned_changes
from admin.services.context import Context
from admin.services.nearest import find_nearest
from admin.services.revisions import check_number
from admin.services.scopes import applying, check_domain, check_existed, check_readable
from admin.store import attributes, history, revisions


@dataclass(frozen=True, kw_only=True)
class Effective:
    """The effective values of some kinds, as of one revision."""

    values: tuple[Resolved, ...]
    revision: int
    provenance: Mapping[int, Provenance] | None = None  #: of the rows that apply, by their versions; None if not asked
    nearest: Mapping[str, Row] | None = None  #: of the kinds without a value, by their names; None if not asked


def effective_text(context: Context, scope: Scope, only: Kind | None = None) -> bytes | None:
    """What `effective_attributes` answers for every kind or one, as JSON from memory.

    None while the index cannot answer and the database must be read.
    """
    known = applying(context, scope)
    return None if known is None else context.effective_texts.write(scope, known.packed, known.revision, only)


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
    known, seconds = stale
    if scope.project and known.project is None:
        return None
    text = context.effective_texts.write(scope, known.packed, known.revision, only)
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
    up who made the revisions that the rows are of, `with_nearest` which row of today one scope over could serve where
    no value applies.
    """
    chosen = list(kinds)
    names = [kind.name for kind in chosen]
    with context.database.reading() as connection:
        if proposed is None:
            (check_readable if at is None else check_existed)(context, connection, scope)
        revision = revisions.head(connection)
        rows: list[Row]
        if at is None:
            rows = list(attributes.applying(connection, names, scope))
        else:
            check_number(connection, at)
            rows, revision = history.applying_at(connection, at, names, scope), at
        provenance = revisions.provenance_of(connection, (row.version for row in rows)) if with_provenance else None
    changes = [] if proposed is None else _proposed(context, scope, proposed)
    platform = context.settings.platform
    values = []
    for kind in chosen:
        changes_of_kind = [change for change in changes if change.kind == kind.name]
        after = rows_after([row for row in rows if row.kind == kind.name], changes_of_kind)
        values.append(resolve(kind, scope, after, platform.at(kind, scope.domain)))
    nearest = _nearest(context, scope, values) if with_nearest else None
    return Effective(values=tuple(values), revision=revision, provenance=provenance, nearest=nearest)


def _nearest(context: Context, scope: Scope, values: Iterable[Resolved]) -> dict[str, Row]:
    """The nearest row of each kind that has no value at a scope, and may be set there."""
    missing = [value.kind for value in values if not value.value and scope.level in value.kind.levels]
    with context.database.reading() as connection:
        rows = {kind.name: find_nearest(context, connection, kind, scope) for kind in missing}
    return {name: row for name, row in rows.items() if row is not None}


def _proposed(context: Context, scope: Scope, proposed: Sequence[RowWrite]) -> list[RowChange]:
    """The changes that writes would make, where they leave the scope readable."""
    changes = planned_changes(context, proposed)
    is_created = project_changes(changes).get(scope.project) is not None
    with context.database.reading() as connection:
        check_readable(context, connection, Scope(domain=scope.domain) if is_created else scope)
    return changes
