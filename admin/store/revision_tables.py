"""The tables of revisions and of what they change, and the columns and conditions that queries share."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Integer, Table, Text, text

from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.store.database import UtcDateTime, head_table, metadata
from admin.store.keys import index_requests, scope_columns

#: Every writer locks it first, so that numbers have no gaps and follow the order of commits.
revision_head = head_table("revision_head")

revisions = Table(
    "revisions",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("author", Text, nullable=False),
    Column("claimed_by", Text),
    Column("proof", Text),  # how the author was proven; NULL where nobody asked
    Column("message", Text),
    Column("request_id", Text),
    Column("undone", BigInteger),  # of several the newest
    Column("also_undone", JSON(none_as_null=True)),  # a list of the others, oldest first
    Column("restored", BigInteger),
    Index("ix_revisions_created_at", "created_at", "number"),
    Index("ix_revisions_author", "author", "number"),
)

index_requests(revisions, revisions.c.number)
#: Most revisions have no claimed author.
IS_CLAIMED = text("claimed_by IS NOT NULL")
Index(
    "ix_revisions_claimed_by",
    revisions.c.claimed_by,
    revisions.c.number,
    postgresql_where=IS_CLAIMED,
    sqlite_where=IS_CLAIMED,
)
#: Rollbacks are few; other writes do not change this index.
IS_ROLLBACK = text("(undone IS NOT NULL OR restored IS NOT NULL)")
Index("ix_revisions_rollbacks", revisions.c.number, postgresql_where=IS_ROLLBACK, sqlite_where=IS_ROLLBACK)

revision_changes = Table(
    "revision_changes",
    metadata,
    Column("revision", BigInteger, ForeignKey("revisions.number"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False, server_default=""),  # of what belongs to no scope: pools, labels, clusters
    *(Column(name, Text, nullable=False) for name in Scope._fields),
    Column("before", JSON(none_as_null=True)),
    Column("after", JSON(none_as_null=True)),
    Column("before_version", BigInteger),
    Index("ix_revision_changes_scope", *SCOPE_KEYS, "kind", "revision"),
    Index("ix_revision_changes_kind", "kind", "revision"),
)
_changes = revision_changes.c
#: Rows with a name are few; writes of attributes, which are many, do not change this index.
IS_NAMED = text("name <> ''")
Index(
    "ix_revision_changes_name",
    _changes.kind,
    _changes.name,
    _changes.revision,
    postgresql_where=IS_NAMED,
    sqlite_where=IS_NAMED,
)
#: The clusters that were or are members of the pools and labels whose members a revision changed.
member_changes = Table(
    "member_changes",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", Text, primary_key=True),
    Index("ix_member_changes_cluster", "cluster", "revision"),
)
#: Who made revisions that retention deleted: an entry for each row that is as one of them left it, and has no columns
#: for its author.
pruned_authors = Table(
    "pruned_authors",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),  # empty for a project
    Column("project", Text, primary_key=True),  # empty for all others
    Column("created_at", UtcDateTime, nullable=False),
    Column("author", Text, nullable=False),
    Column("claimed_by", Text),
    Column("proof", Text),
    Column("message", Text),
)
#: The columns that tell which row a change is of.
ROW_SCOPE = scope_columns(revision_changes)
ROW_KEY = (_changes.kind, _changes.name, *ROW_SCOPE)
