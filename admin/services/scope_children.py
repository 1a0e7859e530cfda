"""The scopes right below another, by pages: what a tree of them is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.settings.scopes import PLATFORM, Level, Scope
from admin.services.context import Context
from admin.services.scopes import check_readable
from admin.store import scope_children
from admin.store.scope_children import CHILD_KEYS, Marks

_READ = "attributes.read"


@dataclass(frozen=True, kw_only=True)
class ScopeChild:
    """A scope right below another, and what is set there."""

    scope: Scope
    marks: Marks


@dataclass(frozen=True, kw_only=True)
class ScopeChildren:
    """A page of them."""

    scopes: tuple[ScopeChild, ...]
    next_name: str | None  #: after which the next page begins; None for the last page


def list_children(context: Context, scope: Scope, *, after: str | None, search: str, limit: int) -> ScopeChildren:
    """The known scopes right below one that the caller may see something of, by name.

    Below the platform these are the domains, all on the first page, and the projects. A search is for names that
    contain some text.
    """
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        if scope.level is Level.LAUNCH_PLAN:
            return ScopeChildren(scopes=(), next_name=None)
        children: list[ScopeChild] = []
        if scope.level is Level.PLATFORM and after is None:
            children += _children(context, connection, scope, "domain", _domains(context, "", search))
        key = CHILD_KEYS[scope.level]
        names = _names(context, connection, scope, after or "", search, limit + 1)
        children += _children(context, connection, scope, key, names[:limit])
        return ScopeChildren(scopes=tuple(children), next_name=names[limit - 1] if len(names) > limit else None)


def _domains(context: Context, after: str, search: str) -> list[str]:
    return sorted(domain for domain in context.settings.domain_ids() if domain > after and search.lower() in domain)


def _names(context: Context, connection: Connection, scope: Scope, after: str, search: str, limit: int) -> list[str]:
    match scope.level:
        case Level.PLATFORM | Level.DOMAIN:
            return scope_children.project_names(connection, after, search, limit, context.access.projects)
        case Level.PROJECT:
            return _domains(context, after, search)[:limit]
    return scope_children.names_below(connection, scope, after, search, limit, _seen_names(context, scope))


def _seen_names(context: Context, scope: Scope) -> set[str] | None:
    """The names right below a scope of which the caller may see something; None for all.

    Others are not even read: the token of the next page has the last name that was.
    """
    granted = context.access.scopes(_READ)
    if granted is None or not granted.isdisjoint((PLATFORM, *scope.chain())):
        return None
    return {getattr(place, CHILD_KEYS[scope.level]) for place in granted if scope in place.chain()}


def _children(
    context: Context, connection: Connection, scope: Scope, key: str, names: Iterable[str]
) -> list[ScopeChild]:
    scopes = {name: scope._replace(**{key: name}) for name in names}
    seen = {name: child for name, child in scopes.items() if context.access.allows_some(_READ, child)}
    within = context.access.scopes(_READ)
    marks = scope_children.marks(connection, scope, key, list(seen), within) if seen else {}
    return [ScopeChild(scope=child, marks=marks.get(name, Marks())) for name, child in seen.items()]
