"""Workflows and launch plans: registered once under a version, never edited."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    Index,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    cast,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    update,
)

from admin.core.changes import UNKNOWN, Authorship
from admin.core.json_text import JsonObject
from admin.core.provenance import Provenance
from admin.core.registrations import ACTIVE, INACTIVE, Identifier
from admin.store.database import RowId, UtcDateTime, head_table, insert_new, metadata
from admin.store.keys import KeyedQuery, is_by, within
from admin.store.sql_types import AnyRow, TableColumn, build

_KEY = ("project", "domain", "name", "version")


def _columns() -> list[TableColumn]:
    return [
        Column("id", RowId, primary_key=True, autoincrement=True),
        *(Column(name, Text, nullable=False) for name in _KEY),
        Column("spec", JSON, nullable=False),
        Column("digest", Text, nullable=False),
        Column("created_at", UtcDateTime, nullable=False),
        # Of what was registered before authors were recorded the author is unknown.
        Column("author", Text, nullable=False, server_default=UNKNOWN),
        Column("claimed_by", Text),
        Column("message", Text),
    ]


#: Every registration and activation increments it, so that caches know when they are outdated.
registration_head = head_table("registration_head")

workflows = Table(
    "workflows", metadata, *_columns(), UniqueConstraint(*_KEY), Index("ix_workflows_created_at", "created_at", "id")
)
launch_plans = Table(
    "launch_plans",
    metadata,
    *_columns(),
    Column("workflow", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    UniqueConstraint(*_KEY),
    Index("ix_launch_plans_created_at", "created_at", "id"),
)
#: Every activation and deactivation of a version of a launch plan; none of before they were recorded.
activations = Table(
    "launch_plan_activations",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    *(Column(name, Text, nullable=False) for name in _KEY),
    Column("workflow", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("replaced_by", Text),  # the version whose activation made this one inactive
    Column("created_at", UtcDateTime, nullable=False),
    Column("author", Text, nullable=False),
    Column("claimed_by", Text),
    Column("message", Text),
    Index("ix_launch_plan_activations_version", *_KEY, "id"),
    Index("ix_launch_plan_activations_created_at", "created_at", "id"),
)
#: The condition of the indexes of active launch plans; no parameter, for a database must know that it is the same.
IS_ACTIVE = launch_plans.c.state == literal_column(f"'{ACTIVE}'")
for _name, _columns_of_index in (
    ("ix_launch_plans_active", ("project", "domain", "name")),
    ("ix_launch_plans_active_workflow", ("project", "domain", "workflow", "name")),
):
    Index(
        _name,
        *(launch_plans.c[column] for column in _columns_of_index),
        postgresql_where=IS_ACTIVE,
        sqlite_where=IS_ACTIVE,
    )


PlaceKey = tuple[str, str, str]  #: a project, a domain and a name
_NAMED = ("project", "domain", "name")
_ACTIVE_OF = KeyedQuery(select(launch_plans).where(IS_ACTIVE), [launch_plans.c[name] for name in _NAMED])
_PLACE_OF_WORKFLOW = [launch_plans.c[name] for name in ("project", "domain", "workflow")]
#: Of very many launch plans of a workflow only what they run is read, and not all of their definitions.
_RUN_BY_PLAN = [launch_plans.c.spec["workflow_id", name].as_string().label(f"run_{name}") for name in _KEY]
_RUN_BY_ACTIVE = KeyedQuery(
    select(*_PLACE_OF_WORKFLOW, *_RUN_BY_PLAN).where(IS_ACTIVE).distinct().limit(bindparam("most")),
    _PLACE_OF_WORKFLOW,
)
_JOBS_OF = KeyedQuery(
    select(*(workflows.c[name] for name in _KEY), workflows.c.spec["job"].label("job")),
    [workflows.c[name] for name in _KEY],
)
#: Of very many workflows only what they ask for is read, and not all of their jobs.
_RESOURCES = select(*(workflows.c[name] for name in _KEY), workflows.c.spec["job", "resources"].label("resources"))
_RESOURCES_OF = KeyedQuery(_RESOURCES, [workflows.c[name] for name in _KEY])
_LAST_ACTIVATION_OF = KeyedQuery(
    select(func.max(activations.c.id)).group_by(*(activations.c[name] for name in _KEY)),
    [activations.c[name] for name in _KEY],
)
_NEWEST_OF = KeyedQuery(
    select(func.max(workflows.c.id)).group_by(*(workflows.c[name] for name in _NAMED)),
    [workflows.c[name] for name in _NAMED],
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
    message: str | None = None
    workflow: str = ""  #: the name of a launch plan's workflow
    state: str = ""  #: of a launch plan
    updated_at: datetime | None = None
    row_id: int = 0
    expected_inputs: JsonObject | None = None  #: of a launch plan, where they were looked up
    state_set_by: Provenance | None = None  #: who set its state, where that was looked up and recorded


@dataclass(frozen=True, kw_only=True)
class RegisteredFilter:
    """Which versions a list contains; None for any."""

    project: str
    domain: str
    name: str | None = None  #: lists every version of this name; without it the newest of each
    workflow: str | None = None
    state: str | None = None


def add(connection: Connection, table: Table, new: Registered) -> bool:
    """Store a version unless it exists; returns whether it was new."""
    names = ("spec", "digest", "created_at", "author", "claimed_by", "message")
    values = {**vars(new.id), **{name: getattr(new, name) for name in names}}
    if table is launch_plans:
        values |= {"workflow": new.workflow, "state": new.state, "updated_at": new.updated_at}
    is_new = insert_new(connection, table, [values]) == 1
    if is_new:
        _bump_number(connection)
    return is_new


def get(connection: Connection, table: Table, identifier: Identifier) -> Registered | None:
    """One version."""
    query = select(table).where(*_named(table, identifier), table.c.version == identifier.version)
    row = connection.execute(query).one_or_none()
    return None if row is None else _registered(row)


def latest(connection: Connection, table: Table, identifier: Identifier, state: str | None = None) -> Registered | None:
    """The version that was registered last; with `state` the last of those in it."""
    query = select(table).where(*_named(table, identifier)).order_by(table.c.id.desc()).limit(1)
    if state is not None:
        query = query.where(table.c.state == state)
    row = connection.execute(query).one_or_none()
    return None if row is None else _registered(row)


def page(
    connection: Connection, table: Table, filters: RegisteredFilter, after: tuple[str, int] | None, limit: int
) -> list[Registered]:
    """The newest version of each name by name, or every version of one name, newest first."""
    conditions = [table.c.project == filters.project, table.c.domain == filters.domain]
    if filters.workflow is not None:
        conditions.append(table.c.workflow == filters.workflow)
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
    return [_registered(row) for row in connection.execute(query)]


@dataclass(frozen=True, kw_only=True)
class Registration:
    """That a version was registered, or made active or inactive: by whom, when and why."""

    table: str  #: the name of its table
    number: int  #: of its row
    id: Identifier
    workflow: str | None  #: the name of a launch plan's workflow
    at: datetime
    author: str
    claimed_by: str | None
    message: str | None
    state: str | None = None  #: that a launch plan's version was given
    replaced_by: str | None = None  #: the version whose activation made this one inactive


@dataclass(frozen=True, kw_only=True)
class RegistrationFilter:
    """Which registrations a list contains; None for any."""

    domain: str | None = None
    project: str | None = None
    workflow: str | None = None  #: of a workflow, and of its launch plans
    launch_plan: str | None = None
    actor: str | None = None  #: the author, verified or claimed
    after: datetime | None = None
    before: datetime | None = None


def registered(
    connection: Connection, table: Table, filters: RegistrationFilter, below: int | None, limit: int
) -> list[Registration]:
    """The registrations of workflows or launch plans, or activations, newest first, below a number if one is given."""
    is_plan = table is not workflows
    if filters.launch_plan is not None and not is_plan:
        return []
    names = [*_KEY, "id", "created_at", "author", "claimed_by", "message", *(["workflow"] if is_plan else [])]
    names += ["state", "replaced_by"] if table is activations else []
    query = select(*(table.c[name] for name in names)).where(*_timeline_conditions(table, filters))
    if below is not None:
        query = query.where(table.c.id < below)
    rows = connection.execute(query.order_by(table.c.id.desc()).limit(limit))
    return [
        Registration(
            table=table.name,
            number=row.id,
            id=build(Identifier, row),
            workflow=row.workflow if is_plan else None,
            at=row.created_at,
            author=row.author,
            claimed_by=row.claimed_by,
            message=row.message,
            **({"state": row.state, "replaced_by": row.replaced_by} if table is activations else {}),
        )
        for row in rows
    ]


def _timeline_conditions(table: Table, filters: RegistrationFilter) -> Iterator[ColumnElement[bool]]:
    names = {"project": filters.project, "domain": filters.domain, "name": filters.workflow}
    if table is not workflows:
        names |= {"name": filters.launch_plan, "workflow": filters.workflow}
    yield from (table.c[column] == name for column, name in names.items() if name is not None)
    if filters.actor is not None:
        yield is_by(filters.actor, table.c.author, table.c.claimed_by)
    yield from within(table.c.id, table.c.created_at, filters.after, filters.before)


def newest_names(connection: Connection, limit: int) -> set[str]:
    """Who made the newest registrations and activations: the authors and the names that callers gave."""
    queries = (
        select(table.c.author, table.c.claimed_by).order_by(table.c.id.desc()).limit(limit)
        for table in (workflows, launch_plans, activations)
    )
    return {name for query in queries for names in connection.execute(query) for name in names if name}


def workflow_specs(connection: Connection, identifiers: Iterable[Identifier]) -> dict[Identifier, JsonObject]:
    """The specs of some versions of workflows."""
    keys = [tuple(vars(identifier)[name] for name in _KEY) for identifier in set(identifiers)]
    columns = [workflows.c[name] for name in _KEY]
    rows = connection.execute(select(*columns, workflows.c.spec).where(tuple_(*columns).in_(keys))) if keys else ()
    return {build(Identifier, row): row.spec for row in rows}


def names(connection: Connection, table: Table, project: str, domain: str) -> list[str]:
    """Every name, for suggestions."""
    query = select(table.c.name).where(table.c.project == project, table.c.domain == domain).distinct()
    return list(connection.execute(query).scalars())


def has_project(connection: Connection, project: str) -> bool:
    """Whether something is registered in a project."""
    queries = (select(table.c.id).where(table.c.project == project).limit(1) for table in (workflows, launch_plans))
    return any(connection.execute(query).first() is not None for query in queries)


def all_names(connection: Connection, table: Table) -> list[str]:
    """Every name in any project, once."""
    return list(connection.execute(select(table.c.name).distinct()).scalars())


def number(connection: Connection) -> int:
    """How often something has been registered or activated."""
    return int(connection.execute(select(registration_head.c.number)).scalar_one())


def _bump_number(connection: Connection) -> None:
    connection.execute(update(registration_head).values(number=registration_head.c.number + 1))


def versions(connection: Connection, table: Table, identifier: Identifier) -> list[str]:
    """Every version of a name, newest first, for suggestions."""
    query = select(table.c.version).where(*_named(table, identifier)).order_by(table.c.id.desc()).limit(1000)
    return list(connection.execute(query).scalars())


def set_state(
    connection: Connection, identifier: Identifier, state: str, now: datetime, authorship: Authorship
) -> None:
    """Activate or deactivate a launch plan's version; at most one version of a name is active."""
    named = _named(launch_plans, identifier)
    is_this = launch_plans.c.version == identifier.version
    if state == ACTIVE:
        others = (*named, launch_plans.c.state == ACTIVE, ~is_this)
        _record_activations(connection, others, INACTIVE, now, authorship, replaced_by=identifier.version)
        connection.execute(update(launch_plans).where(*others).values(state=INACTIVE, updated_at=now))
    # A version that was registered as active has its author already.
    _record_activations(connection, (*named, is_this, launch_plans.c.state != state), state, now, authorship)
    connection.execute(update(launch_plans).where(*named, is_this).values(state=state, updated_at=now))
    _bump_number(connection)


def _record_activations(
    connection: Connection,
    conditions: Iterable[ColumnElement[bool]],
    state: str,
    now: datetime,
    authorship: Authorship,
    replaced_by: str | None = None,
) -> None:
    """Record who gives some versions of launch plans a state."""
    values = {
        "state": state,
        "replaced_by": replaced_by,
        "created_at": now,
        "author": authorship.author,
        "claimed_by": authorship.claimed_by,
        "message": authorship.message,
    }
    versions = connection.execute(select(*(launch_plans.c[name] for name in (*_KEY, "workflow"))).where(*conditions))
    rows = [{**row._asdict(), **values} for row in versions]
    if rows:
        connection.execute(insert(activations), rows)


def last_activations(connection: Connection, identifiers: Iterable[Identifier]) -> dict[Identifier, Provenance]:
    """Who gave some versions of launch plans their state, as far as that was recorded."""
    keys = [tuple(vars(identifier)[name] for name in _KEY) for identifier in set(identifiers)]
    ids = [row[0] for row in _LAST_ACTIVATION_OF.execute(connection, keys)] if keys else []
    rows = connection.execute(select(activations).where(activations.c.id.in_(ids))) if ids else ()
    return {
        build(Identifier, row): Provenance(
            author=row.author, claimed_by=row.claimed_by, at=row.created_at, message=row.message
        )
        for row in rows
    }


def active_plans_of(connection: Connection, keys: Iterable[PlaceKey]) -> dict[PlaceKey, Registered]:
    """The active launch plans among those of some projects, domains and names."""
    return {(row.project, row.domain, row.name): _registered(row) for row in _ACTIVE_OF.execute(connection, keys)}


def workflows_of_active_plans(
    connection: Connection, keys: Iterable[PlaceKey], limit: int
) -> list[tuple[PlaceKey, Identifier]]:
    """The versions of workflows that the active launch plans of some projects, domains and names of workflows name.

    Each comes once with the place of the launch plans, and so many at most.
    """
    return [
        ((row.project, row.domain, row.workflow), _run_by(row))
        for row in _RUN_BY_ACTIVE.execute(connection, keys, most=limit)
    ]


def newest_workflows(connection: Connection, keys: Iterable[PlaceKey]) -> dict[PlaceKey, Identifier]:
    """The versions of workflows of some projects, domains and names that were registered last."""
    ids = [row[0] for row in _NEWEST_OF.execute(connection, keys)]
    columns = [workflows.c[name] for name in _KEY]
    rows = connection.execute(select(*columns).where(workflows.c.id.in_(ids))) if ids else ()
    return {(row.project, row.domain, row.name): build(Identifier, row) for row in rows}


def workflow_jobs(connection: Connection, identifiers: Iterable[Identifier]) -> dict[Identifier, JsonObject]:
    """The jobs of some versions of workflows."""
    keys = [tuple(vars(identifier)[name] for name in _KEY) for identifier in set(identifiers)]
    return {build(Identifier, row): row.job for row in _JOBS_OF.execute(connection, keys)} if keys else {}


def newest_ids(connection: Connection, limit: int) -> list[int]:
    """The numbers of the rows with the newest version of each workflow, those registered last first."""
    newest = func.max(workflows.c.id)
    query = select(newest).group_by(*(workflows.c[name] for name in _NAMED)).order_by(newest.desc()).limit(limit)
    return list(connection.execute(query).scalars())


def active_ids(connection: Connection, limit: int) -> list[int]:
    """The numbers of the rows of active launch plans, those registered last first."""
    query = select(launch_plans.c.id).where(IS_ACTIVE).order_by(launch_plans.c.id.desc()).limit(limit)
    return list(connection.execute(query).scalars())


def inactive_ids(connection: Connection, limit: int) -> list[int]:
    """The numbers of the rows with the newest version of each launch plan of which none is active, newest first."""
    newest = func.max(launch_plans.c.id)
    active = launch_plans.alias("active")
    is_active = exists().where(
        active.c.state == literal_column(f"'{ACTIVE}'"),
        *(active.c[name] == launch_plans.c[name] for name in _NAMED),
    )
    grouped = select(newest).where(~is_active).group_by(*(launch_plans.c[name] for name in _NAMED))
    return list(connection.execute(grouped.order_by(newest.desc()).limit(limit)).scalars())


def resources_of_rows(connection: Connection, ids: Iterable[int]) -> list[tuple[int, Identifier, JsonObject]]:
    """What the jobs of workflows ask for, by the numbers of their rows."""
    rows = connection.execute(_RESOURCES.add_columns(workflows.c.id).where(workflows.c.id.in_(ids)))
    return [(row.id, build(Identifier, row), row.resources or {}) for row in rows]


def resources_of(connection: Connection, identifiers: Collection[Identifier]) -> dict[Identifier, JsonObject]:
    """What the jobs of some versions of workflows ask for."""
    keys = [tuple(vars(identifier)[name] for name in _KEY) for identifier in identifiers]
    rows = _RESOURCES_OF.execute(connection, keys) if keys else ()
    return {build(Identifier, row): row.resources or {} for row in rows}


def workflows_of_plans(connection: Connection, ids: Iterable[int]) -> list[tuple[int, Identifier, Identifier]]:
    """Launch plans, by the numbers of their rows, with the version of the workflow that each runs."""
    columns = (launch_plans.c[name] for name in ("id", *_KEY))
    query = select(*columns, *_RUN_BY_PLAN).where(launch_plans.c.id.in_(ids))
    return [(row.id, build(Identifier, row), _run_by(row)) for row in connection.execute(query)]


def _run_by(row: AnyRow) -> Identifier:
    return Identifier(**{name: getattr(row, f"run_{name}") for name in _KEY})


def active_plans_containing(
    connection: Connection, texts: Sequence[str], after: PlaceKey | None, limit: int
) -> list[Registered]:
    """Active launch plans whose definitions contain one of some texts, by project, domain and name."""
    named = [launch_plans.c[name] for name in _NAMED]
    text = cast(launch_plans.c.spec, Text)
    contains = or_(*(text.contains(part, autoescape=True) for part in texts)) if texts else true()
    query = select(launch_plans).where(IS_ACTIVE, contains).order_by(*named).limit(limit)
    if after is not None:
        query = query.where(tuple_(*named) > after)
    return [_registered(row) for row in connection.execute(query)]


def active_plans_naming(connection: Connection, path: tuple[str, ...], name: str, limit: int) -> list[Identifier]:
    """The first active launch plans that have a name at a path of their definitions."""
    key = [launch_plans.c[column] for column in ("project", "domain", "name", "version")]
    query = select(*key).where(IS_ACTIVE, _has_name(path, name)).order_by(*key).limit(limit)
    return [build(Identifier, row) for row in connection.execute(query)]


def count_active_plans_naming(connection: Connection, path: tuple[str, ...], name: str) -> int:
    """How many active launch plans have a name at a path of their definitions."""
    query = select(func.count()).select_from(launch_plans).where(IS_ACTIVE, _has_name(path, name))
    return int(connection.execute(query).scalar_one())


def _has_name(path: tuple[str, ...], name: str) -> ColumnElement[bool]:
    spec: Any = launch_plans.c.spec  # the operators of JSON have no types
    has_name: ColumnElement[bool] = spec[path].as_string() == name
    return has_name


def _named(table: Table, identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
    return table.c.project == identifier.project, table.c.domain == identifier.domain, table.c.name == identifier.name


def _registered(row: AnyRow) -> Registered:
    return build(Registered, row, id=build(Identifier, row), row_id=row.id)
