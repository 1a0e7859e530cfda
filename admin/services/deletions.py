"""Deletions: by which revisions clusters, pools, labels and users were deleted that something still names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.definitions import FleetKind, Source
from admin.core.provenance import Provenance
from admin.core.settings.warnings import Warning, explain_deletion
from admin.core.users import USER
from admin.services.context import Context
from admin.store import row_changes

#: Names that are looked up for one answer, each by a query of its own; of the others it is not said.
_MOST_NAMES = 100


def explain_deletions(context: Context, connection: Connection, warnings: Sequence[Warning]) -> list[Warning]:
    """Warnings that say of a missing definition by which revision it was deleted, where it was and that is kept.

    Only to callers who may know the fleet, and of users to who may read those.
    """
    is_told = {True: context.access.allows("users.read"), False: context.access.sees_fleet()}
    named = dict.fromkeys(warning.missing for warning in warnings if warning.missing is not None)
    missing = [place for place in named if is_told[USER in place[0]]]
    deleted = {place: _find_deletion(connection, *place) for place in missing[:_MOST_NAMES]}
    now = context.clock()
    explained = []
    for warning in warnings:
        deletion = deleted.get(warning.missing) if warning.missing is not None else None
        explained.append(warning if deletion is None else explain_deletion(warning, *deletion, now))
    return explained


def _find_deletion(connection: Connection, kinds: Sequence[str], name: str) -> tuple[str, Provenance] | None:
    """The kind of a definition that had a name, and the revision that deleted it; the first kind counts."""
    for kind in kinds:
        deleted_by = row_changes.deleted_by(connection, kind, [name]).get(name)
        if deleted_by is not None:
            return kind, deleted_by
    return None


def deleted_clusters(connection: Connection, clusters: Iterable[Cluster]) -> dict[str, Provenance]:
    """The revisions that deleted clusters which pools or labels still name."""
    undeclared = [cluster.name for cluster in clusters if cluster.definition.source is Source.NAMED]
    return row_changes.deleted_by(connection, FleetKind.CLUSTER.value, undeclared[:_MOST_NAMES])


def deleted_cluster(connection: Connection, name: str) -> Provenance | None:
    """The revision by which a cluster was deleted; None where it was not, or that is not known."""
    return row_changes.deleted_by(connection, FleetKind.CLUSTER.value, [name]).get(name)
