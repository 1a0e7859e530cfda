"""The tables of workflows, launch plans and their activations."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import JSON, Column, ColumnElement, Index, Table, Text, UniqueConstraint, literal_column

from admin.core.changes import UNKNOWN
from admin.core.registrations import ACTIVE, Identifier
from admin.core.settings.scopes import Scope
from admin.store.database import RowId, UtcDateTime, head_table, metadata
from admin.store.keys import index_requests, is_within
from admin.store.sql_types import AnyColumn, TableColumn

PlaceKey = tuple[str, str, str]  #: a project, a domain and a name
PLACE = ("project", "domain", "name")
KEY = (*PLACE, "version")


def _columns() -> list[TableColumn]:
    return [
        Column("id", RowId, primary_key=True, autoincrement=True),
        *(Column(name, Text, nullable=False) for name in KEY),
        Column("spec", JSON, nullable=False),
        Column("digest", Text, nullable=False),
        Column("created_at", UtcDateTime, nullable=False),
        # Of what was registered before authors were recorded the author is unknown.
        Column("author", Text, nullable=False, server_default=UNKNOWN),
        Column("claimed_by", Text),
        Column("proof", Text),  # how the author was proven
        Column("message", Text),
        Column("request_id", Text),  # NULL for what was registered before it was recorded
    ]


#: Every registration and activation increments it, so that caches know when they are outdated.
registration_head = head_table("registration_head")

workflows = Table(
    "workflows", metadata, *_columns(), UniqueConstraint(*KEY), Index("ix_workflows_created_at", "created_at", "id")
)
launch_plans = Table(
    "launch_plans",
    metadata,
    *_columns(),
    Column("workflow", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    UniqueConstraint(*KEY),
    Index("ix_launch_plans_created_at", "created_at", "id"),
)
#: Every activation and deactivation of a version of a launch plan; none of before they were recorded.
launch_plan_activations = Table(
    "launch_plan_activations",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    *(Column(name, Text, nullable=False) for name in KEY),
    Column("workflow", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("replaced_by", Text),  # the version whose activation made this one inactive
    Column("created_at", UtcDateTime, nullable=False),
    Column("author", Text, nullable=False),
    Column("claimed_by", Text),
    Column("proof", Text),  # how the author was proven
    Column("message", Text),
    Column("request_id", Text),
    Index("ix_launch_plan_activations_version", *KEY, "id"),
    Index("ix_launch_plan_activations_created_at", "created_at", "id"),
)
for _table in (workflows, launch_plans, launch_plan_activations):
    index_requests(_table, _table.c.id)
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


def keys_of(identifiers: Iterable[Identifier]) -> list[tuple[str, ...]]:
    """The keys of some versions, each once."""
    return [tuple(vars(identifier)[name] for name in KEY) for identifier in set(identifiers)]


def is_registered_within(table: Table, scopes: Iterable[Scope]) -> ColumnElement[bool]:
    """Whether a workflow, a launch plan or an activation of one is at or below one of some scopes."""
    columns: dict[str, AnyColumn] = {"project": table.c.project, "domain": table.c.domain, "workflow": table.c.name}
    if table is not workflows:
        columns |= {"workflow": table.c.workflow, "launch_plan": table.c.name}
    return is_within(columns, scopes)


def is_named(table: Table, identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
    """The conditions for every version of a name."""
    return tuple(table.c[name] == vars(identifier)[name] for name in PLACE)
