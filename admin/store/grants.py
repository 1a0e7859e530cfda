"""Grants, and the number that counts changes of rights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Table,
    Text,
    and_,
    delete,
    insert,
    or_,
    select,
    update,
)

from admin.core.changes import RowChange
from admin.core.grants import GROUP, USER, Grant, Grantee, grant_of
from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.store.database import head_table, metadata
from admin.store.keys import is_within, key_columns, scope_of
from admin.store.sql_types import AnyRow, AnySelect
from admin.store.user_groups import user_groups
from admin.store.users import users

#: Its number is raised by every change of rights, `tokens` where a token is taken away; workers keep both in memory.
grants_head = head_table("grants_head", Column("tokens", BigInteger, nullable=False, server_default="0"))

grants = Table(
    "grants",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("noun", Text, nullable=False),  # user or group
    Column("grantee", Text, nullable=False),
    *(Column(key, Text, nullable=False) for key in SCOPE_KEYS),
    Column("version", BigInteger, nullable=False),
    Index("ix_grants_grantee", "noun", "grantee"),
    Index("ix_grants_scope", *SCOPE_KEYS),
)
_columns = grants.c
_PARTS = select(_columns.role, _columns.noun, _columns.grantee, *(_columns[key] for key in Scope._fields))


@dataclass(frozen=True, kw_only=True)
class StoredGrant:
    """A grant, and the revision that gave it."""

    grant: Grant
    version: int

    @property
    def name(self) -> str:
        return self.grant.name


@dataclass(frozen=True, kw_only=True)
class GrantFilter:
    """Which grants are meant; None for any."""

    role: str | None = None
    grantees: Sequence[Grantee] | None = None
    scope: Scope | None = None  #: exactly this one
    reaching: Scope | None = None  #: those that count there
    below: Scope | None = None  #: those on it and on narrower scopes
    within: frozenset[Scope] | None = None  #: those on some scopes and on narrower ones


def some(connection: Connection, names: Iterable[str]) -> dict[str, StoredGrant]:
    """The grants that exist of those with some names."""
    rows = connection.execute(select(grants).where(_columns.name.in_(list(names))))
    return {row.name: _stored(row) for row in rows}


def page(
    connection: Connection, conditions: GrantFilter, *, after: str | None = None, limit: int | None = None
) -> list[StoredGrant]:
    """Grants by name, from after a name on."""
    query: AnySelect = select(grants).where(*_conditions(conditions)).order_by(_columns.name)
    if after is not None:
        query = query.where(_columns.name > after)
    return [_stored(row) for row in connection.execute(query if limit is None else query.limit(limit))]


def every(connection: Connection) -> list[Grant]:
    """All grants. There may be very many, so that equal roles, grantees and scopes are made once."""
    roles: dict[str, str] = {}
    grantees: dict[Grantee, Grantee] = {}
    scopes: dict[tuple[str, ...], Scope] = {}
    made: list[Grant] = []
    for role, noun, name, *keys in connection.execute(_PARTS):
        grantee, place = Grantee(noun, name), tuple(keys)
        if place not in scopes:
            scopes[place] = Scope(*keys)
        grantee = grantees.setdefault(grantee, grantee)
        made.append(Grant(role=roles.setdefault(role, role), grantee=grantee, scope=scopes[place]))
    return made


def to_unknown_groups(connection: Connection) -> list[Grant]:
    """The grants for groups that nobody has defined, by name."""
    is_unknown = and_(_columns.noun == GROUP, _columns.grantee.not_in(select(user_groups.c.name)))
    return [_stored(row).grant for row in connection.execute(select(grants).where(is_unknown).order_by(_columns.name))]


def to_unknown_users(connection: Connection) -> list[Grant]:
    """The grants for users that do not exist, by name; OpenID may prove some of them, and agents are none."""
    is_unknown = and_(_columns.noun == USER, _columns.grantee.not_in(select(users.c.name)))
    return [_stored(row).grant for row in connection.execute(select(grants).where(is_unknown).order_by(_columns.name))]


def number(connection: Connection) -> int:
    """How often rights have changed: grants, groups, use grants, cluster groups, proven groups, who is a user."""
    return int(connection.execute(select(grants_head.c.number)).scalar_one())


def bump(connection: Connection) -> None:
    """Count a change, which invalidates what workers keep."""
    connection.execute(update(grants_head).values(number=grants_head.c.number + 1))


def write(connection: Connection, changes: Sequence[RowChange], version: int) -> None:
    """Store new grants, and delete removed ones; what a grant consists of is its name, so that none is updated."""
    removed = [change.name for change in changes if change.before is not None]
    if removed:
        connection.execute(delete(grants).where(_columns.name.in_(removed)))
    given = [grant_of(change.after) for change in changes if change.after is not None]
    if given:
        connection.execute(insert(grants), [values_of(grant, version) for grant in given])


def values_of(grant: Grant, version: int) -> dict[str, object]:
    """A grant as its row."""
    noun, grantee = grant.grantee
    keys = dict(zip(SCOPE_KEYS, grant.scope.sort_key, strict=True))
    return {"name": grant.name, "role": grant.role, "noun": noun, "grantee": grantee, **keys, "version": version}


def _stored(row: AnyRow) -> StoredGrant:
    grant = Grant(role=row.role, grantee=Grantee(row.noun, row.grantee), scope=scope_of(row))
    return StoredGrant(grant=grant, version=row.version)


def _conditions(conditions: GrantFilter) -> Iterator[ColumnElement[bool]]:
    if conditions.role is not None:
        yield _columns.role == conditions.role
    if conditions.grantees is not None:
        nouns = {noun: [name for of, name in conditions.grantees if of == noun] for noun, _ in conditions.grantees}
        yield or_(*(and_(_columns.noun == noun, _columns.grantee.in_(names)) for noun, names in nouns.items()))
    if conditions.scope is not None:
        yield and_(*(_columns[key] == name for key, name in conditions.scope._asdict().items()))
    if conditions.reaching is not None:
        yield and_(*(_columns[key].in_(["", name]) for key, name in conditions.reaching._asdict().items()))
    if conditions.within is not None:
        yield is_within(key_columns(grants), conditions.within)
    if conditions.below is not None:
        yield and_(*(_columns[key] == name for key, name in conditions.below.keys().items()))
