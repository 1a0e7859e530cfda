"""Clusters, pools and labels as revisions change them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.audit import CLUSTER_TARGET
from admin.core.changes import (
    ANYTHING,
    Document,
    Expectation,
    LastChange,
    RowChange,
    RowKey,
    RowWrite,
    read_deleted,
    read_named,
)
from admin.core.fleet.clusters import DELETED
from admin.core.fleet.definitions import FleetKind, Source
from admin.core.fleet.documents import in_terms_of, read_definition
from admin.core.fleet.fleet import fleet_warnings
from admin.core.in_use import Use
from admin.core.json_text import json_string
from admin.core.placement.constraints.rules import prepared_rules, unknown_properties
from admin.core.placement.constraints.shadowed import shadowed_properties
from admin.core.problems import raise_problems
from admin.core.provenance import Actor
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning
from admin.services.changeable.base import Changeable, read_under, row_change
from admin.services.context import Context
from admin.services.definitions import (
    check_managed,
    current_fleet,
    definitions_after,
    fleet_after,
    fleet_of,
    users_of,
)
from admin.store import bids, cluster_events, fleet, unfinished
from admin.store.cluster_events import ClusterEvent
from admin.store.tokens import CLUSTER_TOKENS


def definition_write(
    context: Context, kind: FleetKind, name: str, payload: Payload | None, expectation: Expectation = ANYTHING
) -> RowWrite:
    """Define a cluster, pool or label; None removes it."""

    def change(before: Payload | None) -> Payload | None:
        if before is None or payload is not None:
            check_managed(context, kind, name)
        return None if payload is None else read_definition(kind, name, payload)

    return RowWrite(key=RowKey(kind.value, name, PLATFORM), change=change, expectation=expectation)


class ChangeableFleet(Changeable):
    """Clusters, pools and labels."""

    kinds = tuple(kind.value for kind in FleetKind)
    permission = "fleet.write"

    @classmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        fleet_kind = FleetKind(kind)
        field = f"{fleet_kind.noun}_definition"
        if document["delete"]:
            return definition_write(context, fleet_kind, read_deleted(document[field], field), None)
        name, payload = read_named(document[field], field)
        normal = read_under(field, lambda: read_definition(fleet_kind, name, payload))
        return definition_write(context, fleet_kind, name, normal)

    @classmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        return definition_write(context, FleetKind(change.kind), change.name, change.after)

    @classmethod
    def stored_warnings(cls, context: Context, connection: Connection) -> list[Warning]:
        fleet_now = current_fleet(context, connection)
        return [*fleet_warnings(fleet_now), *shadowed_properties(fleet_now)]

    def load(self, writes: Sequence[RowWrite]) -> None:
        keys = [(FleetKind(write.key.kind), write.key.name) for write in writes]
        self._before = fleet.get_definitions(self.connection, keys)

    def change(self, write: RowWrite) -> RowChange:
        kind = FleetKind(write.key.kind)
        definition = self._before.get((kind, write.key.name))
        if definition is None:
            return row_change(write, None, None)
        change = row_change(write, definition.payload, definition.version)
        if change.after is None:
            return change
        return replace(change, after=in_terms_of(kind, definition.payload, change.after))

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> list[Warning]:
        after = fleet_of(self.context, self.connection, definitions_after(self.draft.changes))
        self._check_rules(rows)
        written = {(change.kind, change.name) for _, change in rows}
        warnings = [*fleet_warnings(after), *shadowed_properties(after)]
        return [warning for warning in warnings if (warning.kind, warning.name) in written]

    def _check_rules(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> None:
        """Refuse rules that name a property which no cluster of the fleet has once all changes are made."""
        for write, change in rows:
            rules = None if change.after is None else change.after.get("rules")
            if rules is None:
                continue
            after = fleet_after(self.context, self.connection, self.draft.changes)
            with self.draft.collecting_problems(write):
                raise_problems(
                    list(unknown_properties(prepared_rules(json_string(rules)), after.properties, ("rules",)))
                )

    def users(self, removed: Sequence[RowChange]) -> Iterator[Use]:
        """Whatever this change itself stops using a definition does not count."""
        keys = [(FleetKind(change.kind), change.name) for change in removed]
        removed_definitions = [self._before[key] for key in keys if key in self._before]
        if not removed_definitions:
            return
        changes = self.draft.changes
        after = fleet_after(self.context, self.connection, changes)
        for definition in removed_definitions:
            for use in users_of(self.context, self.connection, definition, after, changes):
                noun, name = definition.kind.noun, definition.name
                yield replace(use, removed=name, removed_noun=noun, reason=f"{noun} '{name}': {use.reason}")

    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        authorship = self.draft.options.authorship
        last_change = LastChange(now, authorship.author, authorship.claimed_by)
        fleet.write(self.connection, list(changes), revision, last_change)
        self._forget_clusters(changes, revision, now)

    def _forget_clusters(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        """Delete the state of removed clusters, so that a new one of the same name starts without it.

        Work that an agent still holds is given away like that of a lost cluster, when its leases end; what pools or
        labels still name counts as lost too, so that it gets no new work.
        """
        of_clusters = [change for change in changes if change.kind == FleetKind.CLUSTER.value]
        self._renew({change.name for change in of_clusters if change.before is None})
        removed = {change.name for change in of_clusters if change.after is None}
        if not removed:
            return
        clusters = fleet_after(self.context, self.connection, changes).clusters
        removed -= {name for name in removed & clusters.keys() if clusters[name].definition.source is not Source.NAMED}
        named = removed & clusters.keys()
        owners = CLUSTER_TOKENS.with_live(self.connection, removed, now)
        self.draft.without_tokens += [f"{CLUSTER_TARGET}{name}" for name in sorted(owners)]
        CLUSTER_TOKENS.revoke_all(self.connection, removed, now)
        self.context.token_cache.forget()
        lost = named | (removed & unfinished.leases_by_cluster(self.connection).keys())
        fleet.forget(self.connection, removed - lost)
        fleet.lose(self.connection, lost)
        bids.forget_records(self.connection, removed)
        authorship = self.draft.options.authorship
        actor = Actor(authorship.author, authorship.claimed_by, authorship.proof)
        event = ClusterEvent(
            at=now,
            type=DELETED,
            reason=authorship.message,
            revision=revision,
            request_id=authorship.request_id,
        ).by(actor)
        cluster_events.add_events(self.connection, (replace(event, cluster=name) for name in sorted(removed)))

    def _renew(self, created: Collection[str]) -> None:
        """Expect the agents of clusters that were deleted and are defined again, but for those with leases left."""
        states = fleet.states(self.connection, created) if created else {}
        deleted = {name for name, state in states.items() if state.is_of_deleted}
        if deleted:
            fleet.renew(self.connection, deleted - unfinished.leases_by_cluster(self.connection).keys())
