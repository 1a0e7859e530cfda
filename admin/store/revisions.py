"""Revisions: every change, numbered in commit order, never edited."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    insert,
    select,
    update,
)

from admin.core.scopes import Scope
from admin.store.database import UtcDateTime, metadata

#: One row that every writer locks first, so that numbers have no gaps and follow the order of commits.
revision_head = Table(
    "revision_head",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("number", BigInteger, nullable=False),
)

revisions = Table(
    "revisions",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("author", Text, nullable=False),
    Column("claimed_by", Text),
    Column("message", Text),
    Column("request_id", Text),
)

revision_changes = Table(
    "revision_changes",
    metadata,
    Column("revision", BigInteger, ForeignKey("revisions.number"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("launch_plan", Text, nullable=False),
    Column("before", JSON(none_as_null=True)),
    Column("after", JSON(none_as_null=True)),
    Index("ix_revision_changes_scope", "project", "domain", "workflow", "launch_plan", "kind"),
)


@dataclass(frozen=True, kw_only=True)
class Authorship:
    """Who changes something, and why."""

    author: str = "anonymous"
    claimed_by: str | None = None  #: unverified
    message: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """One row before and after; None where there is no row."""

    kind: str
    scope: Scope
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def head(connection: Connection) -> int:
    """The number of the last revision, 0 before the first."""
    return int(connection.execute(select(revision_head.c.number)).scalar_one())


def lock_head(connection: Connection) -> int:
    """The number of the last revision; no other writer gets further until this transaction ends."""
    return int(connection.execute(select(revision_head.c.number).with_for_update()).scalar_one())


def append(connection: Connection, changes: list[RowChange], who: Authorship, now: datetime) -> int:
    """Record a change of one or more rows as the next revision. The head must be locked."""
    number = head(connection) + 1
    connection.execute(update(revision_head).values(number=number))
    connection.execute(
        insert(revisions).values(
            number=number,
            created_at=now,
            author=who.author,
            claimed_by=who.claimed_by,
            message=who.message,
            request_id=who.request_id,
        )
    )
    connection.execute(
        insert(revision_changes),
        [
            {
                "revision": number,
                "ordinal": ordinal,
                "kind": change.kind,
                "domain": change.scope.domain,
                "project": change.scope.project,
                "workflow": change.scope.workflow,
                "launch_plan": change.scope.launch_plan,
                "before": change.before,
                "after": change.after,
            }
            for ordinal, change in enumerate(changes)
        ],
    )
    return number
