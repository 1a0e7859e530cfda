"""Catalogs: the projects, workflows and launch plans that a launch may name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.projects import Project, from_payload, project_after, project_changes
from admin.core.registrations import Identifier
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.registrations import find_launch_plan, find_workflow
from admin.services.scopes import check_domain, find_project
from admin.store import projects
from admin.store.decision_basis import DecisionBasis
from admin.store.registrations import Registered


class StoredCatalog:
    """What a transaction sees; projects as proposed changes would leave them."""

    def __init__(self, context: Context, connection: Connection, proposed: Iterable[RowChange] = ()) -> None:
        self._context = context
        self._connection = connection
        self._proposed = project_changes(proposed)

    def project(self, scope: Scope) -> Project:
        check_domain(self._context, scope.domain)
        payload = self._proposed.get(scope.project)
        if payload is None:
            return find_project(self._context, self._connection, scope.project)
        stored = projects.get(self._connection, scope.project)
        return project_after(stored, scope.project, from_payload(payload), self._context.clock())

    def workflow(self, identifier: Identifier) -> Registered:
        return find_workflow(self._context, self._connection, identifier)

    def launch_plan(self, identifier: Identifier) -> Registered:
        return find_launch_plan(self._context, self._connection, identifier)


class CachedCatalog:
    """What this process has in memory at a basis, and the database for the rest."""

    def __init__(self, context: Context, basis: DecisionBasis) -> None:
        self._context = context
        self._basis = basis

    def project(self, scope: Scope) -> Project:
        check_domain(self._context, scope.domain)
        project = self._context.index.project(scope.project)
        if project is not None:
            return project
        with self._context.database.reading() as connection:
            return StoredCatalog(self._context, connection).project(scope)

    def workflow(self, identifier: Identifier) -> Registered:
        return self._cached(find_workflow, identifier)

    def launch_plan(self, identifier: Identifier) -> Registered:
        return self._cached(find_launch_plan, identifier)

    def _cached(
        self, find: Callable[[Context, Connection, Identifier], Registered], identifier: Identifier
    ) -> Registered:
        def read() -> Registered:
            with self._context.database.reading() as connection:
                return find(self._context, connection, identifier)

        return self._context.creation_cache.registered.find((find, identifier), read, self._basis.registrations)


#: Finds what a launch names; an error where it is unknown.
Catalog = StoredCatalog | CachedCatalog
