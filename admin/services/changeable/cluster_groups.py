"""Groups of clusters as revisions change them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import ANYTHING, Document, Expectation, RowChange, RowKey, RowWrite, read_deleted, read_named
from admin.core.cluster_groups import CLUSTER_GROUP, read_cluster_group
from admin.core.in_use import Use
from admin.core.narrowing import CLUSTER_GROUP as TARGET
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning, WarningCode
from admin.core.use_grants import Named
from admin.services.changeable.base import Changeable, read_under, row_change
from admin.services.context import Context
from admin.services.definitions import fleet_after
from admin.services.granted_uses import granted_uses
from admin.services.unknown_members import unknown_name
from admin.store import grants
from admin.store.cluster_groups import CLUSTER_GROUPS

_FIELD = "cluster_group_definition"


def cluster_group_write(name: str, payload: Payload | None, expectation: Expectation = ANYTHING) -> RowWrite:
    """Define a group of clusters; None removes it."""

    def change(_before: Payload | None) -> Payload | None:
        return None if payload is None else read_cluster_group(name, payload)

    return RowWrite(key=RowKey(CLUSTER_GROUP, name, PLATFORM), change=change, expectation=expectation)


class ChangeableClusterGroups(Changeable):
    """Groups of clusters."""

    kinds = (CLUSTER_GROUP,)
    permission = "fleet.write"

    @classmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        if document["delete"]:
            return cluster_group_write(read_deleted(document[_FIELD], _FIELD), None)
        name, payload = read_named(document[_FIELD], _FIELD)
        return cluster_group_write(name, read_under(_FIELD, lambda: read_cluster_group(name, payload)))

    @classmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        return cluster_group_write(change.name, change.after)

    @classmethod
    def stored_warnings(cls, context: Context, connection: Connection) -> Iterator[Warning]:
        groups = CLUSTER_GROUPS.every(connection)
        clusters = fleet_after(context, connection, ()).cluster_names() if groups else ()
        for group in sorted(groups, key=lambda group: group.name):
            yield from _unknown_clusters(group.name, group.payload, clusters)

    def load(self, writes: Sequence[RowWrite]) -> None:
        self._before = CLUSTER_GROUPS.some(self.connection, [write.key.name for write in writes])

    def change(self, write: RowWrite) -> RowChange:
        stored = self._before.get(write.key.name)
        return row_change(write, stored.payload if stored else None, stored.version if stored else None)

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> Iterator[Warning]:
        clusters = fleet_after(self.context, self.connection, self.draft.changes).cluster_names()
        for _write, change in rows:
            if change.after is not None:
                yield from _unknown_clusters(change.name, change.after, clusters)

    def users(self, removed: Sequence[RowChange]) -> Iterator[Use]:
        """The use grants on a group; whatever this change itself takes away does not count."""
        for name in (change.name for change in removed if change.name in self._before):
            for use in granted_uses(self.connection, Named(TARGET, name), self.draft.changes):
                reason = f"cluster group '{name}': {use.reason}"
                yield replace(use, removed=name, removed_noun="cluster-group", reason=reason)

    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        if changes:
            CLUSTER_GROUPS.write(self.connection, changes, revision)
            grants.bump(self.connection)


def _unknown_clusters(group: str, payload: Payload, clusters: Collection[str]) -> Iterator[Warning]:
    """A warning for each member of a group that is no cluster yet."""
    return (
        unknown_name(WarningCode.UNKNOWN_CLUSTER, CLUSTER_GROUP, group, "clusters", cluster, clusters)
        for cluster in payload.get("clusters", [])
        if cluster not in clusters
    )
