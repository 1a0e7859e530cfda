"""Use grants, and the groups that proofs of identities named last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from admin.core.changes import RowChange
from admin.core.use_grants import Named, UseGrant, use_grant_of
from admin.store.database import metadata
from admin.store.grants import bump, number
from admin.store.sql_types import AnyRow

use_grants = Table(
    "use_grants",
    metadata,
    Column("name", Text, primary_key=True),
    Column("target_noun", Text, nullable=False),  # cluster, cluster_group, pool or label
    Column("target", Text, nullable=False),
    Column("noun", Text, nullable=False),  # user, group or project
    Column("grantee", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Index("ix_use_grants_target", "target_noun", "target"),
    Index("ix_use_grants_grantee", "noun", "grantee"),
)
_columns = use_grants.c

#: The groups that a user's newest OpenID token named: what a decision long after the request goes by.
proven_groups = Table(
    "proven_groups",
    metadata,
    Column("name", Text, primary_key=True),
    Column("groups", JSON, nullable=False),  # a `ProvenGroups`; a list of names is one of which no time is known
    Column("number", BigInteger, nullable=False),  # of changes of rights, with this one
    Index("ix_proven_groups_number", "number"),
)


@dataclass(frozen=True, kw_only=True)
class StoredUseGrant:
    """A use grant, and the revision that gave it."""

    grant: UseGrant
    version: int

    @property
    def name(self) -> str:
        return self.grant.name


@dataclass(frozen=True, kw_only=True)
class UseGrantFilter:
    """Which use grants are meant; None for any."""

    target: Named | None = None
    grantee: Named | None = None


def some(connection: Connection, names: Iterable[str]) -> dict[str, StoredUseGrant]:
    """The use grants that exist of those with some names."""
    rows = connection.execute(select(use_grants).where(_columns.name.in_(list(names))))
    return {row.name: _stored(row) for row in rows}


def page(
    connection: Connection,
    conditions: UseGrantFilter | None = None,
    *,
    after: str | None = None,
    limit: int | None = None,
) -> list[StoredUseGrant]:
    """Use grants by name, from after a name on."""
    query = select(use_grants).where(*_conditions(conditions or UseGrantFilter())).order_by(_columns.name)
    if after is not None:
        query = query.where(_columns.name > after)
    return [_stored(row) for row in connection.execute(query if limit is None else query.limit(limit))]


def count(connection: Connection, conditions: UseGrantFilter) -> int:
    """How many use grants are meant."""
    return int(connection.execute(select(func.count()).where(*_conditions(conditions))).scalar_one())


def every(connection: Connection) -> list[UseGrant]:
    """All use grants."""
    return [_stored(row).grant for row in connection.execute(select(use_grants))]


def write(connection: Connection, changes: Sequence[RowChange], version: int) -> None:
    """Store new use grants, and delete removed ones; none is updated, since its name is what it consists of."""
    removed = [change.name for change in changes if change.before is not None]
    if removed:
        connection.execute(delete(use_grants).where(_columns.name.in_(removed)))
    given = [use_grant_of(change.after) for change in changes if change.after is not None]
    if given:
        connection.execute(insert(use_grants), [_values(grant, version) for grant in given])


def groups_of_proofs(connection: Connection, after: int = -1) -> dict[str, frozenset[str]]:
    """The groups that the last proof of each user named; only what is new after a number of changes of rights."""
    query = select(proven_groups.c.name, proven_groups.c.groups).where(proven_groups.c.number > after)
    return {row.name: _proven(row.groups).groups for row in connection.execute(query)}


class ProvenGroups(NamedTuple):
    """The groups that a proof names, and when that was issued, in seconds since the epoch."""

    groups: frozenset[str] = frozenset()
    issued_at: float | None = None

    def is_outdated_by(self, later: ProvenGroups) -> bool:
        """Whether another proof names other groups, and is not known to be older."""
        are_dated = self.issued_at is not None and later.issued_at is not None
        is_older = are_dated and (later.issued_at or 0) <= (self.issued_at or 0)
        return later.groups != self.groups and not is_older


def note_groups(connection: Connection, user: str, proven: ProvenGroups) -> ProvenGroups:
    """Store the groups that a proof names, which is a change of rights where they are others than before.

    Returns those that count from now on: of two proofs the one that was issued later, whichever comes last.
    """
    is_user = proven_groups.c.name == user
    row = connection.execute(select(proven_groups.c.groups).where(is_user)).one_or_none()
    stored = ProvenGroups() if row is None else _proven(row.groups)
    if not stored.is_outdated_by(proven):
        return stored
    bump(connection)  # others who store groups wait here
    named = {"names": sorted(proven.groups), "issued_at": proven.issued_at}
    values = {"groups": named, "number": number(connection)}
    if not connection.execute(update(proven_groups).where(is_user).values(values)).rowcount:
        connection.execute(insert(proven_groups).values(name=user, **values))
    return proven


def _proven(stored: Mapping[str, Any] | Sequence[str]) -> ProvenGroups:
    if isinstance(stored, Mapping):
        return ProvenGroups(frozenset(stored["names"]), stored["issued_at"])
    return ProvenGroups(frozenset(stored))


def _values(grant: UseGrant, version: int) -> dict[str, object]:
    (target_noun, target), (noun, grantee) = grant.target, grant.grantee
    keys = {"target_noun": target_noun, "target": target, "noun": noun, "grantee": grantee}
    return {"name": grant.name, **keys, "version": version}


def _stored(row: AnyRow) -> StoredUseGrant:
    grant = UseGrant(target=Named(row.target_noun, row.target), grantee=Named(row.noun, row.grantee))
    return StoredUseGrant(grant=grant, version=row.version)


def _conditions(conditions: UseGrantFilter) -> Iterator[ColumnElement[bool]]:
    if conditions.target is not None:
        yield _columns.target_noun == conditions.target.noun
        yield _columns.target == conditions.target.name
    if conditions.grantee is not None:
        yield _columns.noun == conditions.grantee.noun
        yield _columns.grantee == conditions.grantee.name
