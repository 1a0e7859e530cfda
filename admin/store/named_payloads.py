"""Tables of rows that have a name, a definition and a version, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import JSON, BigInteger, Column, Connection, Table, Text, bindparam, delete, insert, select, update

from admin.core.changes import RowChange
from admin.store.database import metadata
from admin.store.sql_types import build


@dataclass(frozen=True, kw_only=True)
class StoredPayload:
    """A row as it is defined."""

    name: str
    payload: dict[str, Any]
    version: int  #: number of the last revision that changed it


Stored = TypeVar("Stored", bound=StoredPayload)


class NamedPayloads(Generic[Stored]):
    """One such table."""

    def __init__(self, table: str, stored: type[Stored]) -> None:
        self._stored = stored
        self.table = Table(
            table,
            metadata,
            Column("name", Text, primary_key=True),
            Column("payload", JSON, nullable=False),
            Column("version", BigInteger, nullable=False),
        )
        is_named = self.table.c.name == bindparam("of_name")
        self._insert = insert(self.table)
        self._update = (
            update(self.table).where(is_named).values(payload=bindparam("payload"), version=bindparam("version"))
        )
        self._delete = delete(self.table).where(is_named)
        self._some = select(self.table).where(self.table.c.name.in_(bindparam("names", expanding=True)))

    def some(self, connection: Connection, names: Iterable[str]) -> dict[str, Stored]:
        """The rows that exist of those with some names."""
        rows = connection.execute(self._some, {"names": list(names)})
        return {row.name: build(self._stored, row) for row in rows}

    def page(self, connection: Connection, *, after: str | None, limit: int) -> list[Stored]:
        """Rows by name, from after a name on."""
        query = select(self.table).order_by(self.table.c.name).limit(limit)
        if after is not None:
            query = query.where(self.table.c.name > after)
        return [build(self._stored, row) for row in connection.execute(query)]

    def every(self, connection: Connection) -> list[Stored]:
        """All rows."""
        return [build(self._stored, row) for row in connection.execute(select(self.table))]

    def names(self, connection: Connection) -> list[str]:
        """The names of all rows, for suggestions."""
        return list(connection.execute(select(self.table.c.name)).scalars())

    def write(self, connection: Connection, changes: Sequence[RowChange], version: int) -> None:
        """Store changed rows, and delete removed ones."""
        for change in changes:
            values = {"payload": change.after, "version": version}
            if change.after is None:
                connection.execute(self._delete, {"of_name": change.name})
            elif change.before is None:
                connection.execute(self._insert, {"name": change.name, **values})
            else:
                connection.execute(self._update, {"of_name": change.name, **values})
