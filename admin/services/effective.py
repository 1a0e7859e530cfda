"""Effective attributes: what applies at a scope, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from admin.core.changes import RowChange, RowWrite, rows_after
from admin.core.projects import project_changes
from admin.core.settings.kinds import Kind
from admin.core.settings.resolution import Resolved, Row, resolve
from admin.core.settings.scopes import Scope
from admin.services.changeable.base import ChangeOptions, Mode
from admin.services.changes import make_change
from admin.services.context import Context
from admin.services.revisions import check_number
from admin.services.scopes import applying, check_existed, check_readable
from admin.store import attributes, history, revisions


@dataclass(frozen=True, kw_only=True)
class Effective:
    """The effective values of some kinds, as of one revision."""

    values: tuple[Resolved, ...]
    revision: int


def effective_text(context: Context, scope: Scope, only: Kind | None = None) -> bytes | None:
    """What `effective_attributes` says, of every kind or of one, as JSON and from memory.

    None where the database must be asked.
    """
    known = applying(context, scope)
    return None if known is None else context.effective_texts.write(scope, known.said, known.revision, only)


def effective_attributes(
    context: Context,
    scope: Scope,
    kinds: Iterable[Kind],
    *,
    at: int | None = None,
    proposed: Sequence[RowWrite] | None = None,
) -> Effective:
    """What each kind comes to at a scope, with the trail that led there.

    `at` asks for the rows as they were at a revision; `proposed` as they would be after a change.
    """
    wanted = list(kinds)
    names = [kind.name for kind in wanted]
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
    changes = [] if proposed is None else _proposed(context, scope, proposed)
    by_kind = {
        name: rows_after([row for row in rows if row.kind == name], [one for one in changes if one.kind == name])
        for name in names
    }
    return Effective(values=_resolved(context, scope, wanted, by_kind), revision=revision)


def _resolved(
    context: Context, scope: Scope, kinds: list[Kind], rows: Mapping[str, Mapping[Scope, Row]]
) -> tuple[Resolved, ...]:
    platform = context.settings.platform
    return tuple(resolve(kind, scope, rows.get(kind.name, {}), platform.at(kind, scope.domain)) for kind in kinds)


def _proposed(context: Context, scope: Scope, proposed: Sequence[RowWrite]) -> list[RowChange]:
    """What a change would do to rows, checked as a whole but not made."""
    planned = make_change(context, proposed, ChangeOptions(mode=Mode.DRY_RUN))
    changes = [row.change for row in planned.rows]
    is_created = project_changes(changes).get(scope.project) is not None
    with context.database.reading() as connection:
        check_readable(context, connection, Scope(domain=scope.domain) if is_created else scope)
    return changes
