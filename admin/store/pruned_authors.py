"""Who made the rows that have no columns for it, once the revision that says so is pruned."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, insert, literal, not_, select, union_all

from admin.core.changes import PROJECT
from admin.core.cluster_groups import CLUSTER_GROUP
from admin.core.grants import GRANT
from admin.core.token_pools.definitions import TOKEN_POOL
from admin.core.use_grants import USE_GRANT
from admin.core.user_groups import GROUP
from admin.core.users import USER
from admin.store.cluster_groups import CLUSTER_GROUPS
from admin.store.grants import grants
from admin.store.projects import projects
from admin.store.revision_tables import pruned_authors, revision_changes, revisions
from admin.store.sql_types import AnySelect
from admin.store.token_tables import TOKEN_POOLS
from admin.store.use_grants import use_grants
from admin.store.user_groups import user_groups
from admin.store.users import users

#: The tables of such rows, by the kind that revisions call them.
TABLES: dict[str, Table] = {
    PROJECT: projects,
    GRANT: grants,
    USE_GRANT: use_grants,
    USER: users,
    GROUP: user_groups,
    CLUSTER_GROUP: CLUSTER_GROUPS.table,
    TOKEN_POOL: TOKEN_POOLS.table,
}
_OF_REVISIONS = [revisions.c[name] for name in ("created_at", "author", "claimed_by", "proof", "message")]


def keep(connection: Connection, last: object) -> None:
    """Keep who made the rows that are as revisions up to this one left them, before these are deleted."""
    rows = union_all(*(_made_until(last, kind) for kind in TABLES)).subquery()
    query = select(*rows.c, *_OF_REVISIONS).join(revisions, revisions.c.number == rows.c.revision)
    connection.execute(insert(pruned_authors).from_select(query.selected_columns.keys(), query))


def forget(connection: Connection) -> None:
    """Delete who made rows that have changed since, or are gone."""
    for kind in TABLES:
        is_over = not_(exists().where(_is_as_left(pruned_authors, kind)))
        connection.execute(delete(pruned_authors).where(pruned_authors.c.kind == kind, is_over))


def _made_until(last: object, kind: str) -> AnySelect:
    changes = revision_changes.c
    project = changes.project if kind == PROJECT else literal("")
    return (
        select(changes.revision, changes.kind, changes.name, project.label("project"))
        .join(TABLES[kind], _is_as_left(revision_changes, kind))
        .where(changes.kind == kind, changes.revision <= last)
    )


def _is_as_left(changed: Table, kind: str) -> ColumnElement[bool]:
    """Whether a row of this kind is the one that a change was of, and has not changed since."""
    [key] = TABLES[kind].primary_key.columns
    changed_key = changed.c.project if kind == PROJECT else changed.c.name
    return and_(key == changed_key, TABLES[kind].c.version == changed.c.revision)
