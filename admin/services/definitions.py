"""Definitions of the fleet: which are in force, and what uses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.fleet.clusters import ClusterState, Health
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.fleet import Fleet, build_fleet, build_group
from admin.core.in_use import Use, describe_executions, describe_waiting
from admin.core.json_text import json_string
from admin.core.placement.routes import RouteKind
from admin.core.settings import builtin_kinds
from admin.core.settings.kinds import NameList, Payload
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import KnownNames
from admin.core.use_grants import Named
from admin.errors import DeclaredInConfiguration
from admin.services.access import Access
from admin.services.context import Context
from admin.services.granted_uses import granted_uses
from admin.services.machines import machines_of
from admin.store import active_plans, attributes, fleet, registrations, unfinished
from admin.store.database import is_writing
from admin.store.decision_basis import DecisionBasis
from admin.store.registration_tables import launch_plans, workflows
from admin.store.token_tables import TOKEN_POOLS

_FIELDS = {
    FleetKind.POOL: (builtin_kinds.CLUSTER_ASSIGNMENT, "cluster_pool_name"),
    FleetKind.LABEL: (builtin_kinds.EXECUTION_CLUSTER_LABEL, "value"),
    FleetKind.CLUSTER: (builtin_kinds.EXECUTION_CLUSTER_LABEL, "value"),
}


NAMES = "names"  #: the key of all names in `Context.known_names`
_OF_FLEET = (NameList.POOL, NameList.LABEL)

#: Managed definitions by kind and name, None for those that go.
ChangedDefinitions = Mapping[tuple[FleetKind, str], Definition | None]


def current_fleet(context: Context, connection: Connection) -> Fleet:
    """The fleet as of a transaction."""
    generation = fleet.generation(connection)

    def build() -> Fleet:
        defined, states = [*context.settings.fleet, *fleet.definitions(connection)], fleet.states(connection)
        return build_fleet(generation, defined, states, machines_of(context, connection, states))

    return context.fleet_cache.at(generation, build, keep=not is_writing(connection))


def latest_fleet(context: Context, connection: Connection) -> Fleet:
    """The fleet with the latest reports, which are not always a new generation."""

    def find() -> Fleet:
        return current_fleet(context, connection).with_states(fleet.states(connection))

    return _worked_out(context, connection, "", find)


def _worked_out(context: Context, connection: Connection, key: str, find: Callable[[], Fleet]) -> Fleet:
    """A fleet that a transaction which only reads, and so always finds the same, works out once."""
    if is_writing(connection):
        return find()
    fleets = context.worked_out_fleets.setdefault(connection, {})
    if key not in fleets:
        fleets[key] = find()
    return fleets[key]


def names_in_fleet(context: Context, most: int) -> dict[str, list[str]]:
    """The first names of pools, labels and clusters; none to who may not read the fleet."""
    if not context.access.allows("fleet.read"):
        return {"pools": [], "labels": [], "clusters": []}
    with context.database.reading() as connection:
        present = current_fleet(context, connection)
    names = {"pools": present.pools, "labels": present.labels, "clusters": present.cluster_names()}
    return {noun: sorted(of_noun)[:most] for noun, of_noun in names.items()}


def are_enabled(context: Context, connection: Connection, states: Iterable[ClusterState]) -> dict[str, bool]:
    """Whether each cluster is enabled, without loading the whole fleet; expected clusters are."""
    by_key = {(FleetKind.CLUSTER, state.name): state for state in states}
    configured = [definition for definition in context.settings.fleet if (definition.kind, definition.name) in by_key]
    defined = [*configured, *fleet.get_definitions(connection, by_key).values()]
    clusters = build_fleet(0, defined, {state.name: state for state in by_key.values()}).clusters
    return {
        state.name: clusters[state.name].enabled if state.name in clusters else state.enabled is not False
        for state in by_key.values()
    }


def fleet_after(context: Context, connection: Connection, changes: Iterable[RowChange]) -> Fleet:
    """The fleet as changes would leave it."""
    changed = definitions_after(changes)
    if not changed:
        return current_fleet(context, connection)

    def find() -> Fleet:
        managed = {(definition.kind, definition.name): definition for definition in fleet.definitions(connection)}
        return _fleet_of(context, connection, [*context.settings.fleet, *_present({**managed, **changed})], changed)

    key = json_string([[kind.value, name, new and new.payload] for (kind, name), new in changed.items()])
    return _worked_out(context, connection, key, find)


def fleet_without(context: Context, connection: Connection, kind: FleetKind, names: Collection[str]) -> Fleet:
    """The fleet without some definitions, be they configured or managed; pools and labels go on naming a cluster."""
    present = [*context.settings.fleet, *fleet.definitions(connection)]
    left = [definition for definition in present if definition.kind is not kind or definition.name not in names]
    return _fleet_of(context, connection, left, {(kind, name): None for name in names})


def _fleet_of(
    context: Context, connection: Connection, defined: list[Definition], changed: ChangedDefinitions
) -> Fleet:
    """The fleet of some definitions, of which some are changed."""
    states = fleet.states(connection)
    after = build_fleet(fleet.generation(connection), defined, states, machines_of(context, connection, states))
    return after.with_states(_states_after(after, changed))


def _states_after(after: Fleet, changed: ChangedDefinitions) -> dict[str, ClusterState]:
    """The states of clusters that are deleted and still named, and of those that are defined again."""
    states: dict[str, ClusterState] = {}
    for (kind, name), definition in changed.items():
        cluster = after.clusters.get(name) if kind is FleetKind.CLUSTER else None
        if cluster is None:
            continue
        if definition is None and cluster.definition.source is Source.NAMED:
            states[name] = cluster.state.deleted()
        elif definition is not None and cluster.state.is_of_deleted:
            states[name] = replace(cluster.state, health=Health.EXPECTED.value)
    return states


def fleet_of(context: Context, connection: Connection, changed: ChangedDefinitions) -> Fleet:
    """Some managed definitions beside the configured ones, and the clusters that they name; no state is loaded."""
    groups = [definition for definition in _present(changed) if definition.kind is not FleetKind.CLUSTER]
    groups += [definition for definition in context.settings.fleet if definition.kind is not FleetKind.CLUSTER]
    members = {member.cluster for definition in groups for member in build_group(definition).members}
    # Configured clusters are as configured, whatever else is defined under their names.
    members -= {definition.name for definition in context.settings.fleet if definition.kind is FleetKind.CLUSTER}
    managed = fleet.get_definitions(connection, [(FleetKind.CLUSTER, name) for name in members]) if members else {}
    return build_fleet(0, [*context.settings.fleet, *_present({**managed, **changed})], {})


def definitions_after(changes: Iterable[RowChange]) -> ChangedDefinitions:
    """The managed definitions that changes leave."""
    kinds = {kind.value: kind for kind in FleetKind}
    return {
        (kinds[change.kind], change.name): None
        if change.after is None
        else Definition(
            kind=kinds[change.kind], name=change.name, payload=change.after, source=Source.MANAGED, version=0
        )
        for change in changes
        if change.kind in kinds and not change.is_attribute
    }


def _present(definitions: ChangedDefinitions) -> list[Definition]:
    return [definition for definition in definitions.values() if definition is not None]


def names_known(
    context: Context, connection: Connection, current: Fleet, readable: frozenset[Scope] | None = None
) -> KnownNames:
    """The names that rows may use without a warning; of what is registered only at and below `readable`, if given."""
    return {
        NameList.POOL: frozenset(current.pools),
        NameList.LABEL: current.label_names(),
        NameList.QUEUE_TAG: frozenset(tag for queue in context.settings.rules.queues for tag in queue.tags),
        NameList.WORKFLOW: frozenset(registrations.all_names(connection, workflows, readable)),
        NameList.LAUNCH_PLAN: frozenset(registrations.all_names(connection, launch_plans, readable)),
        NameList.TOKEN_POOL: frozenset(TOKEN_POOLS.names(connection)),
    }


def names_known_at(
    context: Context, connection: Connection, basis: DecisionBasis, readable: frozenset[Scope] | None = None
) -> KnownNames:
    """The same at a transaction's basis, from memory where they are known."""

    def read() -> KnownNames:
        return names_known(context, connection, current_fleet(context, connection), readable)

    return context.known_names.find(names_key(readable), read, names_version(basis))


def names_told_at(context: Context, connection: Connection, basis: DecisionBasis) -> KnownNames:
    """Those of them that the caller may be told of."""
    names = names_known_at(context, connection, basis, context.access.scopes("workflows.read"))
    return told_names(context.access, names)


def told_names(access: Access, names: KnownNames) -> KnownNames:
    """The names without the lists of the fleet and of token pools, if the caller may not know those."""
    if not access.is_restricted:
        return names
    return {name_list: names[name_list] for name_list in names if _may_know(access, name_list)}


def untold_names(access: Access, names: KnownNames) -> KnownNames:
    """The lists that `told_names` leaves out."""
    return {name_list: names[name_list] for name_list in names if not _may_know(access, name_list)}


def _may_know(access: Access, name_list: NameList) -> bool:
    if name_list is NameList.TOKEN_POOL:
        return access.allows("token_pools.read")
    return name_list not in _OF_FLEET or access.sees_fleet()


def names_key(readable: frozenset[Scope] | None) -> Hashable:
    """The key under which `Context.known_names` keeps names."""
    return NAMES if readable is None else (NAMES, readable)


def names_version(basis: DecisionBasis) -> tuple[int, int]:
    """What the names that are known depend on."""
    return basis.registrations, basis.fleet


def is_declared(context: Context, kind: FleetKind, name: str) -> bool:
    """Whether configuration declares a definition."""
    return any((definition.kind, definition.name) == (kind, name) for definition in context.settings.fleet)


def check_managed(context: Context, kind: FleetKind, name: str) -> None:
    """Refuse to change a definition that configuration declares."""
    if is_declared(context, kind, name):
        raise DeclaredInConfiguration(
            f"The {kind.noun} '{name}' is declared in the admin's configuration: change it there.",
            details=[{"field": "name", "reason": f"'{name}' is declared in configuration."}],
        )


#: Executions that a refusal names, and settings or launch plans that an answer has; the others are counted.
_MOST_NAMED, _MOST_USERS = 5, 500


def find_unused(context: Context, connection: Connection, kind: FleetKind) -> set[str]:
    """The managed clusters, pools or labels that nothing would miss, so that each can be deleted as it is."""
    current = current_fleet(context, connection)
    groups = [*current.pools.values(), *current.labels.values()] if kind is FleetKind.CLUSTER else []
    members = {member.cluster for group in groups for member in group.members}
    managed = [definition for definition in fleet.definitions(connection) if definition.kind is kind]
    alone = {definition.name: definition for definition in managed if definition.name not in members}
    # None of these is a member of another, so that all can be taken away at once.
    left = fleet_without(context, connection, kind, alone) if alone else current
    setting, field = _FIELDS[kind]
    named = attributes.names_in(connection, setting.name, field) if alone else frozenset()
    return {
        name
        for name, definition in alone.items()
        if next(users_of(context, connection, definition, left, (), named), None) is None
    }


def users_of(
    context: Context,
    connection: Connection,
    definition: Definition,
    after: Fleet,
    changes: Iterable[RowChange],
    named: Collection[str] | None = None,
) -> Iterator[Use]:
    """What would miss a removed definition once some changes are made, of which its removal is one.

    `named` are the names that settings have, where they are known.
    """
    if _is_replaced(definition, after):
        return
    name = definition.name
    if definition.kind is FleetKind.CLUSTER:
        for noun, groups in (("pool", after.pools), ("label", after.labels)):
            for group in after.groups_of(name, groups):
                stored = groups[group].definition
                place = None if stored.version is None else (stored.kind.value, group)
                yield Use(noun=f"{noun}s", reason=f"{noun} '{group}' has it as a member", group=place)
        placed_by = {"cluster": name}
    else:
        placed_by = {"route_kind": definition.kind.noun, "route_name": name}
    changes = list(changes)
    if definition.kind is not FleetKind.CLUSTER or after.label(name) is None:
        yield from _named_by(context, connection, definition, changes, named)
    yield from granted_uses(connection, Named(definition.kind.noun, name), changes)
    yield from _executions(connection, describe_executions, **placed_by)
    if definition.kind is FleetKind.CLUSTER:  # which a request names, and which none may wait at now
        waiting = {"route_kind": RouteKind.CLUSTER.value, "route_name": name, "cluster": ""}
        yield from _executions(connection, describe_waiting, **waiting)


def _executions(connection: Connection, describe: Callable[[int, Sequence[str]], str], **columns: str) -> Iterator[Use]:
    """The unfinished executions that have some values, as one user."""
    count = unfinished.count(connection, **columns)
    if count:
        first = tuple(map(str, unfinished.first(connection, _MOST_NAMED, **columns)))
        yield Use(noun="executions", reason=describe(count, first), executions=first)


def _is_replaced(definition: Definition, after: Fleet) -> bool:
    """Whether another definition has its name once it is removed."""
    name = definition.name
    if definition.kind is FleetKind.CLUSTER:
        cluster = after.clusters.get(name)
        return cluster is not None and cluster.definition.source is not Source.NAMED
    return name in after.pools if definition.kind is FleetKind.POOL else after.label(name) is not None


def _named_by(
    context: Context,
    connection: Connection,
    definition: Definition,
    changes: Iterable[RowChange],
    named: Collection[str] | None,
) -> Iterator[Use]:
    """The settings that name a pool or label, or a cluster by the label that its own name is."""
    kind, field = _FIELDS[definition.kind]
    name = definition.name

    def names_it(payload: Payload | None) -> bool:
        return payload is not None and payload.get(field) == name

    changed = [change for change in changes if change.kind == kind.name]
    most = _MOST_USERS + len(changed)
    is_named = named is None or name in named
    stored = attributes.naming(connection, kind.name, field, name, most) if is_named else []
    rows = [row for row in rows_after(stored, changed).values() if names_it(row.payload)]
    rest = 0
    if len(stored) == most:  # there may be others
        difference = sum(names_it(change.after) - names_it(change.before) for change in changed)
        rest = attributes.count_naming(connection, kind.name, field, name) + difference - _MOST_USERS
    for row in rows[:_MOST_USERS] if rest else rows:
        yield Use(noun="attributes", reason=f"{row.scope} names it", version=row.version)
    if rest:
        reason = f"{rest} more {'setting names' if rest == 1 else 'settings name'} it"
        yield Use(noun="attributes", reason=reason, count=rest)
    yield from _plans_naming(connection, (kind.payload_key, field), name)
    for key in _configuration_keys(context, kind.name, name):
        yield Use(noun="configuration", reason=f"{key} names it")


def _plans_naming(connection: Connection, path: tuple[str, ...], name: str) -> Iterator[Use]:
    """The active launch plans that name something, up to a number, and how many others do."""
    plans = active_plans.naming(connection, path, name, _MOST_USERS + 1)
    for plan in plans[:_MOST_USERS]:
        yield Use(noun="launch_plans", reason=f"{plan.id} names it", registered_by=plan.registered_by)
    if len(plans) > _MOST_USERS:
        rest = active_plans.count_naming(connection, path, name) - _MOST_USERS
        reason = f"{rest} more {'launch plan names' if rest == 1 else 'launch plans name'} it"
        yield Use(noun="launch_plans", reason=reason, count=rest)


def _configuration_keys(context: Context, kind: str, name: str) -> Iterator[str]:
    """The configuration keys that give a kind this name as its value."""
    platform = context.settings.platform
    for leaf in platform.everywhere.get(kind, {}).values():
        if leaf.value == name:
            yield leaf.key
    for (kind_of_domain, _domain), leaves in platform.by_domain.items():
        if kind_of_domain == kind:
            yield from (leaf.key for leaf in leaves.values() if leaf.value == name)
