"""Workflows and launch plans: registered once under a version, never edited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Table, func, select, update

from admin.core.json_text import JsonObject
from admin.core.provenance import Provenance, acting_proof
from admin.core.registrations import Identifier
from admin.core.settings.scopes import Scope
from admin.store.database import insert_new
from admin.store.keys import KeyedQuery
from admin.store.registration_tables import (
    KEY,
    PLACE,
    PlaceKey,
    is_named,
    is_registered_within,
    keys_of,
    launch_plans,
    registration_head,
    workflows,
)
from admin.store.sql_types import AnyRow, build

_KEY_COLUMNS = [workflows.c[name] for name in KEY]
_PLACE_COLUMNS = [workflows.c[name] for name in PLACE]
_NEWEST_OF = KeyedQuery(select(func.max(workflows.c.id)).group_by(*_PLACE_COLUMNS), _PLACE_COLUMNS)
_SPECS_OF, _JOBS_OF = (
    KeyedQuery(select(*_KEY_COLUMNS, part.label("part")), _KEY_COLUMNS)
    for part in (workflows.c.spec, workflows.c.spec["job"])
)


@dataclass(frozen=True, kw_only=True)
class Registered:
    """One version of a workflow or of a launch plan."""

    id: Identifier
    spec: JsonObject
    digest: str
    created_at: datetime
    author: str  #: `unknown` for what was registered before authors were recorded
    claimed_by: str | None = None  #: unverified
    proof: str | None = None  #: how the author was proven
    message: str | None = None
    request_id: str | None = None
    workflow: str = ""  #: the name of a launch plan's workflow
    state: str = ""  #: of a launch plan
    updated_at: datetime | None = None
    row_id: int = 0
    expected_inputs: JsonObject | None = None  #: of a launch plan, where they were looked up
    state_set_by: Provenance | None = None  #: who set its state, where that was looked up and recorded

    @property
    def registered_by(self) -> Provenance:
        """Who registered it, when and why."""
        return Provenance(
            author=self.author,
            claimed_by=self.claimed_by,
            at=self.created_at,
            message=self.message,
            proof=acting_proof(self.author, self.proof),
        )


@dataclass(frozen=True, kw_only=True)
class RegisteredFilter:
    """Which versions a list contains; None for any."""

    project: str
    domain: str
    name: str | None = None  #: lists every version of this name; without it the newest of each
    workflow: str | None = None
    search: str | None = None  #: what names have in them
    state: str | None = None


def add(connection: Connection, table: Table, new: Registered) -> bool:
    """Store a version unless it exists; returns whether it was new."""
    names = ("spec", "digest", "created_at", "author", "claimed_by", "proof", "message", "request_id")
    values = {**vars(new.id), **{name: getattr(new, name) for name in names}}
    if table is launch_plans:
        values |= {"workflow": new.workflow, "state": new.state, "updated_at": new.updated_at}
    is_new = insert_new(connection, table, [values]) == 1
    if is_new:
        bump_number(connection)
    return is_new


def get(connection: Connection, table: Table, identifier: Identifier) -> Registered | None:
    """One version."""
    query = select(table).where(*is_named(table, identifier), table.c.version == identifier.version)
    row = connection.execute(query).one_or_none()
    return None if row is None else registered_of(row)


def latest(connection: Connection, table: Table, identifier: Identifier, state: str | None = None) -> Registered | None:
    """The version that was registered last; with `state` the last of those in it."""
    query = select(table).where(*is_named(table, identifier)).order_by(table.c.id.desc()).limit(1)
    if state is not None:
        query = query.where(table.c.state == state)
    row = connection.execute(query).one_or_none()
    return None if row is None else registered_of(row)


def page(
    connection: Connection, table: Table, filters: RegisteredFilter, after: tuple[str, int] | None, limit: int
) -> list[Registered]:
    """The newest version of each name by name, or every version of one name, newest first."""
    conditions = [table.c.project == filters.project, table.c.domain == filters.domain]
    if filters.workflow is not None:
        conditions.append(table.c.workflow == filters.workflow)
    if filters.search is not None:
        conditions.append(func.lower(table.c.name).contains(filters.search.lower(), autoescape=True))
    if filters.state is not None:
        conditions.append(table.c.state == filters.state)
    query = select(table).limit(limit)
    if filters.name is not None:
        query = query.where(*conditions, table.c.name == filters.name).order_by(table.c.id.desc())
        if after is not None:
            query = query.where(table.c.id < after[1])
    else:
        newest = select(func.max(table.c.id)).where(*conditions).group_by(table.c.name)
        query = query.where(table.c.id.in_(newest)).order_by(table.c.name)
        if after is not None:
            query = query.where(table.c.name > after[0])
    return [registered_of(row) for row in connection.execute(query)]


def names(connection: Connection, table: Table, project: str, domain: str) -> list[str]:
    """Every name, for suggestions."""
    query = select(table.c.name).where(table.c.project == project, table.c.domain == domain).distinct()
    return list(connection.execute(query).scalars())


def has_project(connection: Connection, project: str) -> bool:
    """Whether something is registered in a project."""
    queries = (select(table.c.id).where(table.c.project == project).limit(1) for table in (workflows, launch_plans))
    return any(connection.execute(query).first() is not None for query in queries)


def all_names(connection: Connection, table: Table, readable: frozenset[Scope] | None = None) -> list[str]:
    """Every name in any project, once; or only those at and below some scopes."""
    query = select(table.c.name).distinct()
    if readable is not None:
        query = query.where(is_registered_within(table, readable))
    return list(connection.execute(query).scalars())


def versions(connection: Connection, table: Table, identifier: Identifier) -> list[str]:
    """Every version of a name, newest first, for suggestions."""
    query = select(table.c.version).where(*is_named(table, identifier)).order_by(table.c.id.desc()).limit(1000)
    return list(connection.execute(query).scalars())


def number(connection: Connection) -> int:
    """How often something has been registered or activated."""
    return int(connection.execute(select(registration_head.c.number)).scalar_one())


def bump_number(connection: Connection) -> None:
    """Count a registration or activation."""
    connection.execute(update(registration_head).values(number=registration_head.c.number + 1))


def newest_workflows(connection: Connection, keys: Iterable[PlaceKey]) -> dict[PlaceKey, Identifier]:
    """The versions of workflows of some projects, domains and names that were registered last."""
    ids = [row[0] for row in _NEWEST_OF.execute(connection, keys)]
    rows = connection.execute(select(*_KEY_COLUMNS).where(workflows.c.id.in_(ids))) if ids else ()
    return {(row.project, row.domain, row.name): build(Identifier, row) for row in rows}


def workflow_specs(connection: Connection, identifiers: Iterable[Identifier]) -> dict[Identifier, JsonObject]:
    """The specs of some versions of workflows."""
    return _parts(connection, _SPECS_OF, identifiers)


def workflow_jobs(connection: Connection, identifiers: Iterable[Identifier]) -> dict[Identifier, JsonObject]:
    """The jobs of some versions of workflows."""
    return _parts(connection, _JOBS_OF, identifiers)


def _parts(
    connection: Connection, query: KeyedQuery, identifiers: Iterable[Identifier]
) -> dict[Identifier, JsonObject]:
    keys = keys_of(identifiers)
    return {build(Identifier, row): row.part for row in query.execute(connection, keys)} if keys else {}


def registered_of(row: AnyRow) -> Registered:
    """A version from its row."""
    return build(Registered, row, id=build(Identifier, row), row_id=row.id)
