"""Active launch plans: found by their names, by their workflows and by what their definitions say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, Text, bindparam, cast, func, or_, select, true, tuple_

from admin.core.registrations import Identifier
from admin.store.keys import KeyedQuery
from admin.store.registration_tables import IS_ACTIVE, KEY, PLACE, PlaceKey, launch_plans
from admin.store.registrations import Registered, registered_of
from admin.store.sql_types import AnyRow, build

_PLACE_COLUMNS = [launch_plans.c[name] for name in PLACE]
_KEY_COLUMNS = [launch_plans.c[name] for name in KEY]
_OF_PLACES = KeyedQuery(select(launch_plans).where(IS_ACTIVE), _PLACE_COLUMNS)
_PLACE_OF_WORKFLOW = [launch_plans.c[name] for name in ("project", "domain", "workflow")]
#: Of very many launch plans of a workflow only what they run is read, and not all of their definitions.
_RUN_BY_PLAN = [launch_plans.c.spec["workflow_id", name].as_string().label(f"run_{name}") for name in KEY]
_RUN_BY_ACTIVE = KeyedQuery(
    select(*_PLACE_OF_WORKFLOW, *_RUN_BY_PLAN).where(IS_ACTIVE).distinct().limit(bindparam("most")),
    _PLACE_OF_WORKFLOW,
)


def of_places(connection: Connection, keys: Iterable[PlaceKey]) -> dict[PlaceKey, Registered]:
    """The active launch plans among those of some projects, domains and names."""
    return {(row.project, row.domain, row.name): registered_of(row) for row in _OF_PLACES.execute(connection, keys)}


def workflows_run(connection: Connection, keys: Iterable[PlaceKey], limit: int) -> list[tuple[PlaceKey, Identifier]]:
    """The versions of workflows that the active launch plans of some projects, domains and names of workflows name.

    Each comes once with the place of the launch plans, and so many at most.
    """
    return [
        ((row.project, row.domain, row.workflow), _run_by(row))
        for row in _RUN_BY_ACTIVE.execute(connection, keys, most=limit)
    ]


def newest_ids(connection: Connection, limit: int) -> list[int]:
    """The numbers of the rows of active launch plans, those registered last first."""
    query = select(launch_plans.c.id).where(IS_ACTIVE).order_by(launch_plans.c.id.desc()).limit(limit)
    return list(connection.execute(query).scalars())


def workflows_of_rows(connection: Connection, ids: Iterable[int]) -> list[tuple[int, Identifier, Identifier]]:
    """Launch plans, by the numbers of their rows, with the version of the workflow that each runs."""
    query = select(launch_plans.c.id, *_KEY_COLUMNS, *_RUN_BY_PLAN).where(launch_plans.c.id.in_(ids))
    return [(row.id, build(Identifier, row), _run_by(row)) for row in connection.execute(query)]


def _run_by(row: AnyRow) -> Identifier:
    return Identifier(**{name: getattr(row, f"run_{name}") for name in KEY})


def containing(connection: Connection, texts: Sequence[str], after: PlaceKey | None, limit: int) -> list[Registered]:
    """Active launch plans whose definitions contain one of some texts, by project, domain and name."""
    text = cast(launch_plans.c.spec, Text)
    contains = or_(*(text.contains(part, autoescape=True) for part in texts)) if texts else true()
    query = select(launch_plans).where(IS_ACTIVE, contains).order_by(*_PLACE_COLUMNS).limit(limit)
    if after is not None:
        query = query.where(tuple_(*_PLACE_COLUMNS) > after)
    return [registered_of(row) for row in connection.execute(query)]


def naming(connection: Connection, path: tuple[str, ...], name: str, limit: int) -> list[Registered]:
    """The first active launch plans that have a name at a path of their definitions."""
    query = select(launch_plans).where(IS_ACTIVE, _has_name(path, name)).order_by(*_KEY_COLUMNS).limit(limit)
    return [registered_of(row) for row in connection.execute(query)]


def count_naming(connection: Connection, path: tuple[str, ...], name: str) -> int:
    """How many active launch plans have a name at a path of their definitions."""
    query = select(func.count()).select_from(launch_plans).where(IS_ACTIVE, _has_name(path, name))
    return int(connection.execute(query).scalar_one())


def _has_name(path: tuple[str, ...], name: str) -> ColumnElement[bool]:
    has_name: ColumnElement[bool] = launch_plans.c.spec[path].as_string() == name
    return has_name
