"""Use grants: give, list and take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.changes import Expectation
from admin.core.narrowing import CLUSTER, CLUSTER_GROUP
from admin.core.provenance import Provenance
from admin.core.use_grants import USE_GRANT, Named, UseGrant
from admin.errors import UseGrantNotFound
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.use_grants import use_grant_removal, use_grant_write
from admin.services.changes import Changed, make_change
from admin.services.context import Context
from admin.services.named_rows import create_row, row_not_found
from admin.store import cluster_groups, revisions, use_grants
from admin.store.use_grants import StoredUseGrant, UseGrantFilter

#: Names that a wrong one is compared with: there may be very many.
_MOST_COMPARED = 1000
#: Use grants that an answer about something else has.
_MOST_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class UseGrantView:
    """A use grant, and the revision that gave it."""

    grant: UseGrant
    version: int
    provenance: Provenance | None  #: None where that revision is no longer kept


def list_use_grants(
    context: Context, conditions: UseGrantFilter, after: str | None, limit: int
) -> tuple[list[UseGrantView], str | None]:
    """A page of use grants by name, and the name after which the next page starts, if there is one."""
    with context.database.reading() as connection:
        stored = use_grants.page(connection, conditions, after=after, limit=limit + 1)
        views = _views(connection, stored[:limit])
    return views, stored[limit - 1].name if len(stored) > limit else None


def get_use_grant(context: Context, name: str) -> UseGrantView:
    """One use grant; UseGrantNotFound with the closest names where there is none."""
    with context.database.reading() as connection:
        stored = use_grants.some(connection, [name]) if "\0" not in name else {}
        if name not in stored:
            near = (row.name for row in use_grants.page(connection, limit=_MOST_COMPARED))
            raise row_not_found(context, connection, UseGrantNotFound, USE_GRANT, name, near)
        [view] = _views(connection, stored.values())
    return view


def create_use_grant(context: Context, grant: UseGrant, options: ChangeOptions) -> Changed:
    """Allow a use; AlreadyExists where it is allowed."""
    write = use_grant_write(grant, Expectation(absent=True))
    return create_row(context, "use-grant", write, options, remedy="There is nothing to do.")


def delete_use_grant(context: Context, name: str, expectation: Expectation, options: ChangeOptions) -> Changed:
    """Take a use grant away."""
    return make_change(context, [use_grant_removal(name, expectation)], options)


@dataclass(frozen=True, kw_only=True)
class GrantedUse:
    """The use grants by which something may be used: the first of them, and how many there are."""

    views: Sequence[UseGrantView]
    count: int


def granted_use_of(connection: Connection, target: Named) -> GrantedUse:
    """The use grants on something; those on a cluster also by the groups of clusters that have it."""
    groups = cluster_groups.members(connection) if target.noun == CLUSTER else {}
    having = sorted(name for name, members in groups.items() if target.name in members)
    conditions = [UseGrantFilter(target=at) for at in (target, *(Named(CLUSTER_GROUP, name) for name in having))]
    pages = (use_grants.page(connection, condition, limit=_MOST_SHOWN) for condition in conditions)
    first = [row for page in pages for row in page][:_MOST_SHOWN]
    count = sum(use_grants.count(connection, condition) for condition in conditions)
    return GrantedUse(views=_views(connection, first), count=count)


def _views(connection: Connection, stored: Iterable[StoredUseGrant]) -> list[UseGrantView]:
    rows = list(stored)
    made_by = revisions.provenance_of(connection, (row.version for row in rows))
    return [UseGrantView(grant=row.grant, version=row.version, provenance=made_by.get(row.version)) for row in rows]
