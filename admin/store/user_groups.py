"""Groups of users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Connection, Table, Text, bindparam, delete, insert, select, update

from admin.core.changes import RowChange
from admin.core.user_groups import Memberships, UserGroup, group_of
from admin.store.database import metadata
from admin.store.sql_types import build

user_groups = Table(
    "user_groups",
    metadata,
    Column("name", Text, primary_key=True),
    Column("payload", JSON, nullable=False),
    Column("version", BigInteger, nullable=False),
)


@dataclass(frozen=True, kw_only=True)
class StoredGroup:
    """A group as it is defined."""

    name: str
    payload: dict[str, Any]
    version: int  #: number of the last revision that changed it

    @property
    def group(self) -> UserGroup:
        return group_of(self.name, self.payload)


_IS_NAMED = user_groups.c.name == bindparam("of_name")
_INSERT = insert(user_groups)
_UPDATE = update(user_groups).where(_IS_NAMED).values(payload=bindparam("payload"), version=bindparam("version"))
_DELETE = delete(user_groups).where(_IS_NAMED)


def some(connection: Connection, names: Iterable[str]) -> dict[str, StoredGroup]:
    """The groups that exist of those with some names."""
    rows = connection.execute(select(user_groups).where(user_groups.c.name.in_(list(names))))
    return {row.name: build(StoredGroup, row) for row in rows}


def page(connection: Connection, *, after: str | None, limit: int) -> list[StoredGroup]:
    """Groups by name, from after a name on."""
    query = select(user_groups).order_by(user_groups.c.name).limit(limit)
    if after is not None:
        query = query.where(user_groups.c.name > after)
    return [build(StoredGroup, row) for row in connection.execute(query)]


def every(connection: Connection) -> list[StoredGroup]:
    """All groups."""
    return [build(StoredGroup, row) for row in connection.execute(select(user_groups))]


def memberships(connection: Connection) -> Memberships:
    """Who is in which group."""
    return Memberships(stored.group for stored in every(connection))


def names(connection: Connection) -> list[str]:
    """The names of every group, for suggestions."""
    return list(connection.execute(select(user_groups.c.name)).scalars())


def write(connection: Connection, changes: Sequence[RowChange], version: int) -> None:
    """Store changed groups, and delete removed ones."""
    for change in changes:
        values = {"payload": change.after, "version": version}
        if change.after is None:
            connection.execute(_DELETE, {"of_name": change.name})
        elif change.before is None:
            connection.execute(_INSERT, {"name": change.name, **values})
        else:
            connection.execute(_UPDATE, {"of_name": change.name, **values})
