"""Users, and whether there are any."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Table,
    Text,
    delete,
    exists,
    insert,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from admin.core.changes import RowChange
from admin.core.users import User
from admin.store.database import Database, UtcDateTime, metadata
from admin.store.dialects.postgresql import answering_soon
from admin.store.sql_types import build

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("service_account", Boolean, nullable=False),
    Column("description", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("version", BigInteger, nullable=False),
)

#: How long another replica may go on without asking for tokens after the first user was created.
CACHE_SECONDS = 1.0


def some(connection: Connection, user_names: Iterable[str]) -> dict[str, User]:
    """The users that exist of those with some names, by name."""
    query = select(users).where(users.c.name.in_(list(user_names)))
    return {row.name: build(User, row) for row in connection.execute(query)}


def page(
    connection: Connection,
    *conditions: ColumnElement[bool],
    service_account: bool | None = None,
    after: str | None = None,
    limit: int,
) -> list[User]:
    """Users that fit some conditions by name, from after a name on; or only people or service accounts of them."""
    query = select(users).order_by(users.c.name).where(*conditions).limit(limit)
    if service_account is not None:
        query = query.where(users.c.service_account.is_(service_account))
    if after is not None:
        query = query.where(users.c.name > after)
    return [build(User, row) for row in connection.execute(query)]


def names(connection: Connection) -> list[str]:
    """The names of all users, for suggestions."""
    return list(connection.execute(select(users.c.name)).scalars())


def write(connection: Connection, changes: Iterable[RowChange], version: int, now: datetime) -> None:
    """Store changed users, and delete removed ones."""
    for change in changes:
        is_user = users.c.name == change.name
        if change.after is None:
            connection.execute(delete(users).where(is_user))
            continue
        fields = {"service_account": change.after.get("service_account", False)}
        values = {**fields, "description": change.after.get("description"), "updated_at": now, "version": version}
        if change.before is None:
            connection.execute(insert(users).values(name=change.name, created_at=now, **values))
        else:
            connection.execute(update(users).where(is_user).values(**values))


_ANY = select(exists().select_from(users))


def is_any(connection: Connection) -> bool:
    """Whether there are users."""
    return bool(connection.execute(_ANY).scalar_one())


class UserPresence:
    """Whether there are users, as it was within the last second; every request asks for it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._reading = threading.Lock()
        self._known: bool | None = None
        self._read_at = 0.0

    def is_any(self, database: Database) -> bool:
        """Whether there are users; what was known last while the database cannot be read."""
        known = self._known
        if known is not None and self._monotonic() - self._read_at < CACHE_SECONDS:
            return known
        if not self._reading.acquire(blocking=known is None):
            return bool(known)  # another request asks the database
        try:
            known = self._known
            if known is None or self._monotonic() - self._read_at >= CACHE_SECONDS:
                known = self._known = self._read(database, known)
                self._read_at = self._monotonic()
            return known
        finally:
            self._reading.release()

    def forget(self) -> None:
        """Ask the database the next time, after users have changed."""
        self._known = None

    def _read(self, database: Database, known: bool | None) -> bool:
        try:
            with database.reading() as connection, answering_soon(connection):
                return is_any(connection)
        except SQLAlchemyError:
            if known is None:
                raise
            return known
