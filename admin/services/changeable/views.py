"""Settings views: the rows, projects and names that a change of attributes is checked against.

A view reads memory or a transaction; `tests/integration/test_change_commits.py` compares the two. While a transaction
holds the head of the revisions, every other writer waits. So a change of attributes is drafted from memory before that,
by `EarlySettings`, and the draft is used if `KnownSettings` has all that it read unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowKey
from admin.core.projects import Project
from admin.core.settings.kinds import NameList
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import KnownNames
from admin.core.token_pools.definitions import TOKEN_POOL
from admin.services.context import Context
from admin.services.definitions import fleet_after, names_key, names_known, names_known_at, names_version
from admin.store import attributes, projects
from admin.store.decision_basis import DecisionBasis
from admin.store.revisions import NewRevision

Place = tuple[str, Scope]  #: of a row: the name of its kind, and its scope


class NotInMemory(Exception):
    """A draft that has no transaction needs what is not in memory."""


class SettingsView(Protocol):
    """The state before a change."""

    def exactly(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        """The rows at some places."""

    def touching(self, kind: str, scopes: Collection[Scope]) -> Collection[Row]:
        """The rows that changes of a kind at some scopes are checked against: those that apply.

        For a project as a whole also those of every domain, which its own rows override.
        """

    def projects(self, project_ids: Collection[str]) -> Mapping[str, Project]:
        """The projects that exist of those with some ids."""

    def names_known(self, changes: Sequence[RowChange], readable: frozenset[Scope] | None = None) -> KnownNames:
        """The names that rows may use without a warning once some changes are made.

        Of what is registered only those at and below `readable` scopes, where these are given.
        """


class StoredSettings:
    """What a transaction sees."""

    def __init__(self, context: Context, connection: Connection) -> None:
        self._context = context
        self._connection = connection

    def exactly(self, places: Sequence[Place]) -> dict[Place, Row]:
        return {(row.kind, row.scope): row for row in attributes.exactly(self._connection, places)}

    def touching(self, kind: str, scopes: Collection[Scope]) -> Collection[Row]:
        chains = _chains(scopes)
        rows = attributes.exactly(self._connection, [(kind, scope) for scope in chains])
        if _has_project(scopes):
            rows += attributes.of_domains(self._connection, kind)
        return {row.scope: row for row in rows}.values()

    def projects(self, project_ids: Collection[str]) -> dict[str, Project]:
        return projects.get_many(self._connection, project_ids) if project_ids else {}

    def names_known(self, changes: Sequence[RowChange], readable: frozenset[Scope] | None = None) -> KnownNames:
        fleet = fleet_after(self._context, self._connection, changes)
        names = names_known(self._context, self._connection, fleet, readable)
        pools = {change.name: change.after for change in changes if change.kind == TOKEN_POOL}
        present = {name for name, definition in pools.items() if definition is not None}
        return {**names, NameList.TOKEN_POOL: (names[NameList.TOKEN_POOL] - pools.keys()) | present}


class EarlySettings:
    """What is in memory while no transaction holds the head of the revisions, and a record of what was read of it.

    For changes of attributes alone. Different reads may see different revisions: then one has changed what was read.
    """

    def __init__(self, context: Context, mark: int) -> None:
        """The mark must be that of the index, from before anything is read."""
        self.mark = mark
        self.places: set[Place] = set()
        self.kinds: set[str] = set()  #: those whose rows of every domain were read
        self.names_version: Hashable = None  #: that of the names that were read
        self._context = context

    def depends_on(self, key: RowKey) -> bool:
        """Whether a row may be among what was read; everything may depend on rows of other nouns."""
        is_read_broadly = key.kind in self.kinds and not key.scope.project
        return not key.is_attribute or is_read_broadly or (key.kind, key.scope) in self.places

    def exactly(self, places: Sequence[Place]) -> dict[Place, Row]:
        self.places.update(places)
        return {(row.kind, row.scope): row for kind, scope in places for row in self._context.index.rows(kind, [scope])}

    def touching(self, kind: str, scopes: Collection[Scope]) -> Collection[Row]:
        chains = _chains(scopes)
        self.places.update((kind, scope) for scope in chains)
        if _has_project(scopes):
            self.kinds.add(kind)
            chains.update(self._context.index.domains())
        return self._context.index.rows(kind, chains)

    def projects(self, project_ids: Collection[str]) -> dict[str, Project]:
        cached = {project_id: self._context.index.known_project(project_id) for project_id in project_ids}
        projects = {project_id: project for project_id, project in cached.items() if project is not None}
        if len(projects) < len(cached):
            raise NotInMemory
        return projects

    def names_known(self, changes: Sequence[RowChange], readable: frozenset[Scope] | None = None) -> KnownNames:
        self.names_version, names = self._context.known_names.latest(names_key(readable))
        if names is None:
            raise NotInMemory
        return names


class KnownSettings:
    """What is in memory while a transaction holds the head of the revisions, and what it is about to store.

    For changes of attributes alone: nothing else that is about to be stored is seen.
    """

    def __init__(self, context: Context, connection: Connection, basis: DecisionBasis) -> None:
        """The index must be as of the head, and the basis be the transaction's."""
        self._context = context
        self._connection = connection
        self._basis = basis
        self._new: dict[Place, Row | None] = {}  #: None for rows that go
        self._kinds_of_domains: set[str] = set()  #: those of new rows that belong to no project

    def add(self, revision: NewRevision) -> None:
        """See the changes of a revision that is about to be stored."""
        for change in revision.changes:
            place, payload = (change.kind, change.scope), change.after
            self._new[place] = None
            if not change.scope.project:
                self._kinds_of_domains.add(change.kind)
            if payload is not None:
                row = Row(kind=change.kind, scope=change.scope, payload=payload, version=revision.number)
                self._new[place] = row

    def agrees_with(self, early: EarlySettings) -> bool:
        """Whether it has everything as it was read before."""
        if early.names_version != names_version(self._basis):
            return False
        changed = self._context.index.changed_since(early.mark)
        if changed is None or any(early.depends_on(key) for key in changed):
            return False
        return self._new.keys().isdisjoint(early.places) and self._kinds_of_domains.isdisjoint(early.kinds)

    def exactly(self, places: Sequence[Place]) -> dict[Place, Row]:
        return {(row.kind, row.scope): row for kind, scope in places for row in self._rows(kind, [scope])}

    def touching(self, kind: str, scopes: Collection[Scope]) -> Collection[Row]:
        chains = _chains(scopes)
        if _has_project(scopes):
            chains.update(self._context.index.domains())
            chains.update(place for name, place in self._new if name == kind and not place.project)
        return self._rows(kind, chains)

    def _rows(self, kind: str, scopes: Collection[Scope]) -> list[Row]:
        rows: dict[Scope, Row | None] = {row.scope: row for row in self._context.index.rows(kind, scopes)}
        rows |= {scope: self._new[kind, scope] for scope in scopes if (kind, scope) in self._new}
        return [row for row in rows.values() if row is not None]

    def projects(self, project_ids: Collection[str]) -> dict[str, Project]:
        index = self._context.index
        cached = {project_id: index.known_project(project_id) for project_id in project_ids}
        # Another replica may have created a configured project, which no revision records.
        missing = [project_id for project_id, project in cached.items() if project is None]
        stored = projects.get_many(self._connection, missing) if missing else {}
        return stored | {project_id: project for project_id, project in cached.items() if project is not None}

    def names_known(self, changes: Sequence[RowChange], readable: frozenset[Scope] | None = None) -> KnownNames:
        return names_known_at(self._context, self._connection, self._basis, readable)


def _has_project(scopes: Iterable[Scope]) -> bool:
    """Whether one of some scopes is a project as a whole."""
    return any(scope.project and not scope.domain for scope in scopes)


def _chains(scopes: Iterable[Scope]) -> set[Scope]:
    """The scopes whose rows apply at some scopes."""
    return {place for scope in scopes for place in scope.chain()}
