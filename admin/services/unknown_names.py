"""Unknown names: those of a question that nothing has, each with the closest ones that something has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.executions.causes import CAUSE_RULES, Cause
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST
from admin.core.executions.selectors import SCOPE_FIELDS, Condition, equals
from admin.core.problems import closest, did_you_mean, shorten
from admin.core.provenance import show_name
from admin.core.settings.kinds import NameList
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.creator_rights import told_clusters
from admin.services.definitions import current_fleet, names_known_at
from admin.services.scopes import known_projects
from admin.services.visibility import seen_executions
from admin.store import decision_basis, derived_fields, execution_lists
from admin.store.executions import ListedExecution
from admin.store.scopes import below

#: The newest executions that are looked at, the most names that a wrong one is compared with, and the most of those.
_NEWEST, _MOST_COMPARED, _MOST_ASKED = 1000, 5000, 10
_LISTS = {
    "pool": NameList.POOL,
    "label": NameList.LABEL,
    "workflow": NameList.WORKFLOW,
    "launch_plan": NameList.LAUNCH_PLAN,
}
_CLUSTERS = ("cluster", "requested_cluster")
#: What the newest executions are searched for, in words.
_VERBS = {
    "created_by": "was created by",
    "abort_principal": "was ended by",
    "reason": "has the reason",
    "origin_scope": "was placed by",
    "limit_scope": "was ended by a limit of",
}


class UnknownName(NamedTuple):
    """A name that nothing has."""

    field: str
    value: str
    message: str
    closest: tuple[str, ...]


def find_unknown(context: Context, connection: Connection, conditions: Iterable[Condition]) -> list[UnknownName]:
    """The names among exact conditions that nothing has, each with the closest ones that something has."""
    # What pools, labels and workflows of others are called is not for those who may see some projects.
    fields = (*_VERBS, *_CLUSTERS) if context.access.is_restricted else (*_LISTS, *_VERBS, *_CLUSTERS)
    pairs = [
        (condition.field, value)
        for condition in conditions
        if condition.function in ("eq", "value_in") and condition.field in fields
        for value in condition.values
        if value != ""
    ]
    examined = list(dict.fromkeys(pairs))[:_MOST_ASKED]
    names = {field: _known(context, connection, field) for field, _ in examined}
    unknown = (_unknown(context, connection, field, value, names[field]) for field, value in examined)
    return [name for name in unknown if name is not None]


def _unknown(
    context: Context, connection: Connection, field: str, value: str, names: Collection[str]
) -> UnknownName | None:
    """A name, unless something is called so or an execution has it; those may be older than what is known now."""
    seen = seen_executions(context)
    if value in names or (field not in _VERBS and _newest(connection, [*seen, equals(field, value)], 1)):
        return None
    near = closest(value, islice(_alike_first(value, names), _MOST_COMPARED))
    if not near and field in SCOPE_FIELDS:
        projects = known_projects(connection, context.access)
        near = closest(value, [str(Scope(project=project)) for project in projects[:_MOST_COMPARED]])
    start = f"No {'cluster' if field in _CLUSTERS else field.replace('_', ' ')} is called"
    if field in _VERBS:
        which = " that you may see" if context.access.is_restricted else ""
        start = f"None of the newest {_NEWEST:,} executions{which} {_VERBS[field]}"
    elif context.access.is_restricted:
        # Without quotes, in which names of clusters that the caller is not told are replaced.
        message = f"No cluster that you may see is called {shorten(value)}.{did_you_mean(near)}"
        return UnknownName(field, value, message, near)
    return UnknownName(field, value, f"{start} '{shorten(value)}'.{did_you_mean(near)}", near)


def find_unknown_scope(
    context: Context, connection: Connection, scope: Scope, assumed: Collection[Scope] = ()
) -> list[UnknownName]:
    """The workflow or launch plan of a scope, if none is registered under that name and nothing is set for it.

    `assumed` are scopes for which something would be set.
    """
    if not scope.workflow:
        return []
    # Names of other projects are not for those who may see some projects.
    names = (
        {NameList.WORKFLOW: (), NameList.LAUNCH_PLAN: ()}
        if context.access.is_restricted
        else names_known_at(context, connection, decision_basis.read(connection))
    )
    of_workflow = below(connection, scope.domain, [scope.project], _MOST_COMPARED, workflow=scope.workflow)
    places = [*of_workflow, *(place for place in assumed if place.workflow == scope.workflow)]
    if not places and scope.workflow not in names[NameList.WORKFLOW]:
        others = below(connection, scope.domain, [scope.project], _MOST_COMPARED)
        known = {place.workflow for place in others} or names[NameList.WORKFLOW]
        return [_nothing_of("workflow", scope.workflow, known)]
    plans = {place.launch_plan for place in places if place.launch_plan}
    if scope.launch_plan and scope.launch_plan not in {*plans, *names[NameList.LAUNCH_PLAN]}:
        return [_nothing_of("launch_plan", scope.launch_plan, plans)]
    return []


def _nothing_of(field: str, name: str, known: Collection[str]) -> UnknownName:
    near = closest(name, islice(_alike_first(name, known), _MOST_COMPARED))
    message = f"No {field.replace('_', ' ')} '{shorten(name)}' is registered, and nothing is set for one."
    return UnknownName(field, name, f"{message}{did_you_mean(near)}", near)


def _known(context: Context, connection: Connection, field: str) -> Collection[str]:
    if field in _VERBS:
        return names_of_executions(connection, field, seen_executions(context))
    return _known_names(context, connection, field)


def _known_names(context: Context, connection: Connection, field: str) -> Collection[str]:
    if field in _CLUSTERS:
        fleet, access = current_fleet(context, connection), context.access
        if not access.is_restricted:
            return fleet.clusters
        told = told_clusters(context, connection, access.identity, fleet) if access.sees_fleet() else frozenset()
        return fleet.clusters if told is None else told
    return names_known_at(context, connection, decision_basis.read(connection))[_LISTS[field]]


def names_of_executions(connection: Connection, field: str, seen: Sequence[Condition]) -> set[str]:
    """The values of a field of the newest executions that may be seen."""
    if field == "created_by":
        listed = _newest(connection, seen, _NEWEST)
        return {name for execution in listed for name in _creator_names(execution)}
    if field == "abort_principal":
        cancelled = [equals("phase", Phase.ABORTED.value, Phase.ABORTING.value)]
        given_up = [equals("phase", Phase.FAILED.value), equals("reason", CLUSTER_LOST)]
        ended = [row for which in (cancelled, given_up) for row in _newest(connection, [*seen, *which], _NEWEST)]
        return {name for execution in ended for name in _ender_names(execution)}
    if field == "reason":
        known = {reason for rule in CAUSE_RULES for reason in rule.reasons}
        return known | {execution.reason for execution in _newest(connection, seen, _NEWEST)}
    if field == "limit_scope":
        listed = _newest(connection, [*seen, equals("cause", Cause.LIMIT.value)], _NEWEST)
        return {execution.limit_scope for execution in listed if execution.limit_scope}
    listed = _newest(connection, seen, _NEWEST)
    return derived_fields.values_of(connection, field, [execution.id for execution in listed])


def _creator_names(execution: ListedExecution) -> Iterator[str]:
    """The names by which the creator of an execution is found."""
    yield execution.created_by
    if execution.claimed_by:
        yield execution.claimed_by
        yield show_name(execution.created_by, execution.claimed_by)


def _ender_names(execution: ListedExecution) -> Iterator[str]:
    """The names by which who ended an execution is found."""
    for actor in filter(None, (execution.aborted_by, execution.given_up_by)):
        yield from filter(None, (actor.author, actor.claimed_by, show_name(actor.author, actor.claimed_by)))


def _newest(connection: Connection, conditions: Sequence[Condition], limit: int) -> list[ListedExecution]:
    return execution_lists.page(connection, conditions, ListedExecution, limit=limit).executions


def _alike_first(value: str, candidates: Iterable[str]) -> Iterator[str]:
    """Names in an order that has those with the same first letter before the others."""
    first = value[:1].lower()
    names = sorted(candidates)
    yield from (name for name in names if name[:1].lower() == first)
    yield from (name for name in names if name[:1].lower() != first)
