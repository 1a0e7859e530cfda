"""Affected scopes: those at which changed rows apply, and which effective values change there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.settings.kinds import Kind
from admin.core.settings.resolution import Effect, effects
from admin.core.settings.scopes import Level, Scope
from admin.services.context import Context
from admin.services.known_scopes import scopes_below
from admin.store import attributes, scopes

#: Scopes below the changed ones that are looked at.
MOST_BELOW = 2000
#: Changed scopes below which is searched at once.
_CHUNK = 500


@dataclass(frozen=True, kw_only=True)
class AffectedScopes:
    """The scopes that changes affect: the changed ones, and some of the known ones below them."""

    scopes: tuple[Scope, ...]
    is_complete: bool  #: False where more are known below than were looked at


@dataclass(frozen=True, kw_only=True)
class ChangedValues:
    """The effective values that changes change, at the scopes that were looked at."""

    effects: Sequence[Effect] = ()
    examined: int = 0  #: how many scopes were looked at
    is_complete: bool = True  #: False where changes affect more scopes


def find_changed_values(
    context: Context, connection: Connection, changes: Sequence[RowChange], find: FindAffected
) -> ChangedValues:
    """The effective values that changes of attributes change: at their own scopes, and at a limited number below."""
    # Rows of one kind make a scope known at which those of another may apply, so that all are searched together.
    affected = find(frozenset(change.scope for change in changes if change.is_attribute and change.is_real))
    changed = [
        effect
        for kind, of_kind in _by_kind(context, changes)
        for effect in _effects_at(context, connection, kind, of_kind, affected.scopes)
    ]
    return ChangedValues(effects=changed, examined=len(affected.scopes), is_complete=affected.is_complete)


def changed_among(
    context: Context, connection: Connection, changes: Iterable[RowChange], scopes: Collection[Scope]
) -> set[Scope]:
    """Those of some scopes at which changes of attributes change an effective value."""
    return {
        effect.scope
        for kind, of_kind in _by_kind(context, changes)
        for effect in _effects_at(context, connection, kind, of_kind, scopes)
    }


def _by_kind(context: Context, changes: Iterable[RowChange]) -> Iterator[tuple[Kind, list[RowChange]]]:
    """The changes of attributes that are real, by their kinds."""
    real = [change for change in changes if change.is_attribute and change.is_real]
    for name in sorted({change.kind for change in real}, key=lambda name: context.settings.kinds[name].number):
        yield context.settings.kinds[name], [change for change in real if change.kind == name]


def _effects_at(
    context: Context, connection: Connection, kind: Kind, changes: Iterable[RowChange], scopes: Collection[Scope]
) -> Iterator[Effect]:
    """The effective values of a kind that changes of its rows change at some scopes."""
    before = attributes.at_scopes(connection, [kind.name], scopes)[kind.name]
    after = rows_after(before.values(), changes)
    return effects(kind, before, after, scopes, context.settings.platform)


#: Finds what changes at some scopes affect, once for the same scopes.
FindAffected = Callable[[frozenset[Scope]], AffectedScopes]


def affected_finder(context: Context, connection: Connection) -> FindAffected:
    """What finds the scopes that changes affect, by one state of the database."""
    return cache(partial(find_affected, context, connection))


def find_affected(
    context: Context, connection: Connection, changed: Collection[Scope], most: int = MOST_BELOW
) -> AffectedScopes:
    """All changed scopes, and the first known ones below them, the broadest changed scopes first."""
    own = set(changed)
    below = list(islice(_below(context, connection, own, most + 1), most + 1))
    affected = sorted(own.union(below[:most]), key=lambda scope: scope.sort_key)
    return AffectedScopes(scopes=tuple(affected), is_complete=len(below) <= most)


def _below(context: Context, connection: Connection, changed: set[Scope], limit: int) -> Iterator[Scope]:
    """The known scopes below changed ones that are not changed themselves, each once, so many of each search."""
    seen = set(changed)
    for places in _searches(context, connection, changed, limit + len(changed)):
        for place in places:
            if place not in seen:
                seen.add(place)
                yield place


def _searches(context: Context, connection: Connection, changed: set[Scope], limit: int) -> Iterator[Sequence[Scope]]:
    by_level: dict[Level, list[Scope]] = defaultdict(list)
    for scope in sorted(changed, key=lambda scope: scope.sort_key):
        by_level[scope.level].append(scope)
    for scope in by_level[Level.DOMAIN]:
        yield scopes_below(context, connection, scope, limit)
    domains = sorted(context.settings.domain_ids())
    within = [Scope(domain, scope.project) for scope in by_level[Level.PROJECT] for domain in domains]
    yield within
    for searched in (within, by_level[Level.PROJECT_DOMAIN], by_level[Level.WORKFLOW]):
        for start in range(0, len(searched), _CHUNK):
            yield scopes.below_all(connection, searched[start : start + _CHUNK], limit)
