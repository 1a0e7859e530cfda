"""Effective attributes: what applies at a scope, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from admin.core.kinds import Kind
from admin.core.resolution import Resolved, Row, resolve
from admin.core.scopes import Scope
from admin.services.context import Context
from admin.services.scopes import check_readable
from admin.store import attributes, revisions


@dataclass(frozen=True, kw_only=True)
class Effective:
    """The effective values of some kinds, as of one revision."""

    values: tuple[Resolved, ...]
    revision: int


def effective_attributes(context: Context, scope: Scope, kinds: Iterable[Kind]) -> Effective:
    """What each kind comes to at a scope, with the trail that led there."""
    wanted = list(kinds)
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        revision = revisions.head(connection)
        rows = attributes.applying(connection, [kind.name for kind in wanted], scope)
    by_kind: dict[str, dict[Scope, Row]] = {kind.name: {} for kind in wanted}
    for row in rows:
        by_kind[row.kind][row.scope] = row
    platform = context.settings.platform
    values = [resolve(kind, scope, by_kind[kind.name], platform.at(kind, scope.domain)) for kind in wanted]
    return Effective(values=tuple(values), revision=revision)
