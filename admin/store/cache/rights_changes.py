"""Changes of rights: how far they are known, and what has changed of users, groups and grants since."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, select

from admin.core.changes import RowChange
from admin.store import revisions, row_changes
from admin.store.grants import grants_head
from admin.store.revision_tables import revision_head
from admin.store.revision_tables import revisions as revisions_table

#: Changes that are read; after more of them everything is read again.
MOST_CHANGES = 10_000


class Version(NamedTuple):
    """How far changes of rights are known."""

    number: int  #: of changes
    revision: int  #: the last one
    made_at: datetime | None  #: when that was made; None where it is not kept


def version_of(connection: Connection, known: Version | None) -> tuple[Version, bool]:
    """The version that a transaction sees, and whether a known one has led to it.

    None has that is later, nor one of a database that was replaced by a backup since.
    """
    number, head, made_at, known_made_at = connection.execute(
        _VERSION, {"number": -1 if known is None else known.revision}
    ).one()
    version = Version(number, head, made_at)
    if known is None or number < known.number or head < known.revision:
        return version, False
    return version, known_made_at in (None, known.made_at)


def changes_since(connection: Connection, known: Version, kinds: Collection[str]) -> list[RowChange] | None:
    """The changes of rows of some kinds after a version; None where there are too many, or some were pruned."""
    if revisions.oldest(connection) > known.revision + 1:
        return None
    limit = MOST_CHANGES + 1
    above = list(row_changes.changes_above(connection, known.revision, kinds=list(kinds), limit=limit))
    return None if len(above) == limit else [change for change in above if not change.is_attribute]


# One statement, for a transaction that writes may see more with each: no number is to be older than its revision.
_VERSION = select(
    select(grants_head.c.number).scalar_subquery().label("rights"),
    revision_head.c.number,
    select(revisions_table.c.created_at)
    .where(revisions_table.c.number == revision_head.c.number)
    .scalar_subquery()
    .label("made_at"),
    revisions.MADE_AT.scalar_subquery().label("known_made_at"),
)
