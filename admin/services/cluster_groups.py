"""Groups of clusters: define, list and delete them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.changes import Expectation
from admin.core.cluster_groups import CLUSTER_GROUP
from admin.core.provenance import Provenance
from admin.core.settings.kinds import Payload
from admin.errors import ClusterGroupNotFound
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.cluster_groups import cluster_group_write
from admin.services.changes import Changed, make_change
from admin.services.context import Context
from admin.services.named_rows import create_row, row_not_found
from admin.store import revisions
from admin.store.cluster_groups import CLUSTER_GROUPS
from admin.store.named_payloads import StoredPayload


@dataclass(frozen=True, kw_only=True)
class ClusterGroupView:
    """A group of clusters, and the revision that defined it."""

    group: StoredPayload
    provenance: Provenance | None  #: None where that revision is no longer kept


def list_cluster_groups(context: Context, after: str | None, limit: int) -> tuple[list[ClusterGroupView], str | None]:
    """A page of groups by name, and the name after which the next page starts, if there is one."""
    with context.database.reading() as connection:
        groups = CLUSTER_GROUPS.page(connection, after=after, limit=limit + 1)
        views = _views(connection, groups[:limit])
    return views, groups[limit - 1].name if len(groups) > limit else None


def get_cluster_group(context: Context, name: str) -> ClusterGroupView:
    """One group; ClusterGroupNotFound with the closest names where there is none."""
    with context.database.reading() as connection:
        groups = CLUSTER_GROUPS.some(connection, [name])
        if name not in groups:
            names = CLUSTER_GROUPS.names(connection)
            raise row_not_found(context, connection, ClusterGroupNotFound, CLUSTER_GROUP, name, names)
        [view] = _views(connection, [groups[name]])
    return view


def create_cluster_group(context: Context, name: str, payload: Payload, options: ChangeOptions) -> Changed:
    """Define a group; AlreadyExists where the name is taken."""
    write = cluster_group_write(name, payload, Expectation(absent=True))
    return create_row(context, "cluster-group", write, options)


def put_cluster_group(
    context: Context, name: str, payload: Payload | None, expectation: Expectation, options: ChangeOptions
) -> Changed:
    """Define a group anew, or remove it; InUse where a use grant names it and force is not set."""
    return make_change(context, [cluster_group_write(name, payload, expectation)], options)


def _views(connection: Connection, groups: Sequence[StoredPayload]) -> list[ClusterGroupView]:
    made_by = revisions.provenance_of(connection, (group.version for group in groups))
    return [ClusterGroupView(group=group, provenance=made_by.get(group.version)) for group in groups]
