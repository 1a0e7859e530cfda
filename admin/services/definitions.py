"""Definitions of the fleet: what is in force, and who uses what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.fleet.clusters import ClusterState
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.fleet import Fleet, build_fleet
from admin.core.settings import builtin_kinds
from admin.core.settings.resolution import Row
from admin.core.settings.warnings import KnownNames, known_names
from admin.errors import DeclaredInConfiguration
from admin.services.context import Context
from admin.store import executions, fleet, registrations
from admin.store.database import is_writing

_FIELDS = {
    FleetKind.POOL: (builtin_kinds.CLUSTER_ASSIGNMENT, "cluster_pool_name"),
    FleetKind.LABEL: (builtin_kinds.EXECUTION_CLUSTER_LABEL, "value"),
    FleetKind.CLUSTER: (builtin_kinds.EXECUTION_CLUSTER_LABEL, "value"),
}


def current_fleet(context: Context, connection: Connection) -> Fleet:
    """The fleet as a transaction sees it."""
    number = fleet.number(connection)

    def build() -> Fleet:
        defined = [*context.settings.fleet, *fleet.definitions(connection)]
        return build_fleet(number, defined, fleet.states(connection))

    return context.fleet_cache.at(number, build, keep=not is_writing(connection))


def are_enabled(context: Context, connection: Connection, states: Iterable[ClusterState]) -> dict[str, bool]:
    """Which clusters take part, without reading the whole fleet for it; those that are only expected do."""
    by_key = {(FleetKind.CLUSTER, state.name): state for state in states}
    configured = [one for one in context.settings.fleet if (one.kind, one.name) in by_key]
    defined = [*configured, *fleet.some(connection, by_key).values()]
    clusters = build_fleet(0, defined, {state.name: state for state in by_key.values()}).clusters
    return {
        state.name: clusters[state.name].enabled if state.name in clusters else state.enabled is not False
        for state in by_key.values()
    }


def fleet_after(context: Context, connection: Connection, changes: Iterable[RowChange]) -> Fleet:
    """The fleet as changes would leave it."""
    kinds = {kind.value for kind in FleetKind}
    changed = {(change.kind, change.name): change for change in changes if change.kind in kinds}
    if not changed:
        return current_fleet(context, connection)
    kept = [one for one in fleet.definitions(connection) if (one.kind.value, one.name) not in changed]
    new = [
        Definition(
            kind=FleetKind(change.kind), name=change.name, payload=change.after, source=Source.MANAGED, version=0
        )
        for change in changed.values()
        if change.after is not None
    ]
    defined = [*context.settings.fleet, *kept, *new]
    return build_fleet(fleet.number(connection), defined, fleet.states(connection))


def names_known(context: Context, connection: Connection, found: Fleet) -> KnownNames:
    """The names that rows may use without a warning."""
    return known_names(
        found,
        context.settings.rules.queues,
        registrations.all_names(connection, registrations.workflows),
        registrations.all_names(connection, registrations.launch_plans),
    )


def check_managed(context: Context, kind: FleetKind, name: str) -> None:
    """Refuse to change what configuration declares."""
    if any((one.kind, one.name) == (kind, name) for one in context.settings.fleet):
        raise DeclaredInConfiguration(
            f"The {kind.noun} '{name}' is declared in the admin's configuration: change it there.",
            details=[{"field": "name", "reason": f"'{name}' is declared in configuration."}],
        )


def users_of(
    context: Context, connection: Connection, one: Definition, after: Fleet, rows: Iterable[Row]
) -> Iterator[tuple[str, str]]:
    """Who would miss a definition: the sort of user, and which one. The rows are those of the kind that may name it."""
    if _is_answered(one, after):
        return
    if one.kind is FleetKind.CLUSTER:
        for what, groups in (("pools", after.pools), ("labels", after.labels)):
            yield from (
                (what, f"{what[:-1]} '{name}' has it as a member") for name in after.groups_of(one.name, groups)
            )
        count = executions.count_unfinished(connection, cluster=one.name)
    else:
        count = executions.count_unfinished(connection, route_kind=one.kind.noun, route_name=one.name)
    if one.kind is not FleetKind.CLUSTER or after.label(one.name) is None:
        yield from _named_by(context, connection, one, rows)
    if count:
        yield "executions", f"{count} unfinished executions were placed by it"


def _is_answered(one: Definition, after: Fleet) -> bool:
    """Whether something else answers to its name once it is gone."""
    if one.kind is FleetKind.CLUSTER:
        found = after.clusters.get(one.name)
        return found is not None and found.definition.source is not Source.EXPECTED
    return one.name in after.pools if one.kind is FleetKind.POOL else after.label(one.name) is not None


def _named_by(
    context: Context, connection: Connection, one: Definition, rows: Iterable[Row]
) -> Iterator[tuple[str, str]]:
    """The settings that name a pool or label, or a cluster as the label that its own name is."""
    kind, field = _FIELDS[one.kind]
    yield from (("attributes", f"{row.scope} names it") for row in rows if row.payload.get(field) == one.name)
    for plan in registrations.active_plans(connection):
        if plan.spec.get(kind.payload_key, {}).get(field) == one.name:
            yield "launch_plans", f"{plan.id} names it"
    yield from (("configuration", f"{key} names it") for key in _configured(context, kind.name, one.name))


def _configured(context: Context, kind: str, name: str) -> Iterator[str]:
    platform = context.settings.platform
    leaves: list[Any] = [*platform.everywhere.get(kind, {}).values()]
    for (other, _domain), said in platform.by_domain.items():
        leaves += said.values() if other == kind else []
    yield from (leaf.key for leaf in leaves if leaf.value == name)


def kind_that_names(kind: FleetKind) -> str:
    """The kind of attributes whose rows may name a pool, a label, or a cluster as a label."""
    return _FIELDS[kind][0].name
