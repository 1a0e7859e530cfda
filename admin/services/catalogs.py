"""Catalogs: the projects, workflows and launch plans that a launch may name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.jobs.registrations import Identifier
from admin.core.projects import Project, from_payload, project_after, project_changes
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.registrations import find_launch_plan, find_workflow
from admin.services.scopes import check_domain, check_readable, unknown_project
from admin.store import projects, registrations
from admin.store.registrations import Registered


class Catalog(Protocol):
    """Where a launch finds what it names; an error where it is not there."""

    def project(self, scope: Scope) -> Project: ...

    def workflow(self, wanted: Identifier) -> Registered: ...

    def launch_plan(self, wanted: Identifier) -> Registered: ...


class StoredCatalog:
    """What a transaction sees; projects as some changes would leave them."""

    def __init__(self, context: Context, connection: Connection, proposed: Iterable[RowChange] = ()) -> None:
        self._context = context
        self._connection = connection
        self._proposed = project_changes(proposed)

    def project(self, scope: Scope) -> Project:
        stored = projects.get(self._connection, scope.project)
        payload = self._proposed.get(scope.project)
        if payload is not None:
            check_domain(self._context, scope.domain)
            return project_after(stored, scope.project, from_payload(payload), self._context.clock())
        check_readable(self._context, self._connection, scope)
        if stored is None:
            raise unknown_project(scope.project, projects.ids(self._connection))
        return stored

    def workflow(self, wanted: Identifier) -> Registered:
        return find_workflow(self._context, self._connection, wanted)

    def launch_plan(self, wanted: Identifier) -> Registered:
        return find_launch_plan(self._context, self._connection, wanted)


class CachedCatalog:
    """What this process remembers, and the database where it does not."""

    def __init__(self, context: Context, number: int) -> None:
        self._context = context
        self._number = number  #: of registrations, what its answers are true at

    def project(self, scope: Scope) -> Project:
        check_domain(self._context, scope.domain)
        known = self._context.index.project(scope.project)
        if known is not None:
            return known
        with self._context.database.reading() as connection:
            return StoredCatalog(self._context, connection).project(scope)

    def workflow(self, wanted: Identifier) -> Registered:
        return self._remembered(find_workflow, wanted)

    def launch_plan(self, wanted: Identifier) -> Registered:
        return self._remembered(find_launch_plan, wanted)

    def _remembered(
        self, find: Callable[[Context, Connection, Identifier], Registered], wanted: Identifier
    ) -> Registered:
        def read() -> Registered:
            with self._context.database.reading() as connection:
                return find(self._context, connection, wanted)

        return self._context.creation_cache.registered.find((find, wanted), read, self._number)


def known_registrations(context: Context) -> int:
    """How often something had been registered, as far as this process knows."""
    cache = context.creation_cache
    if cache.registrations < 0:
        with context.database.reading() as connection:
            cache.registrations = registrations.number(connection)
    return cache.registrations
