"""Placements: which requests are refused for where they ask to go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from admin.core.executions.effective_settings import EffectiveSettings
from admin.core.fleet.fleet import Fleet, Group
from admin.core.graph.request_texts import read_request
from admin.core.graph.requests import has_requirements
from admin.core.placement.candidates import RequestedStrategy, Workload, group_of
from admin.core.placement.constraints.rules import prepared_rules, unknown_properties
from admin.core.placement.decisions import Evaluation
from admin.core.placement.filters import able_clusters, lack_descriptions
from admin.core.placement.obstacles import without_clusters
from admin.core.placement.routes import EVERYWHERE, REQUEST, Route, RouteKind, Rung
from admin.core.placement.scores import asking_of
from admin.core.problems import Problem, Refused, closest, did_you_mean, raise_problems, shorten
from admin.core.use_grants import Usable


def _by_anybody() -> bool:
    return True


def check_route(
    effective: EffectiveSettings,
    fleet: Fleet,
    requested: RequestedStrategy | None = None,
    *,
    may_override: bool = False,
    sees_fleet: Callable[[], bool] = _by_anybody,
) -> None:
    """Refuse a route or strategy that the settings do not allow or the fleet does not know, and a disabled cluster.

    `may_override` says that this request may override settings in a domain where others may not. `sees_fleet` is only
    asked for a refusal: whether it may tell other names of the fleet.
    """
    route = effective.route
    if effective.fence is not None and not may_override:
        _check_fence(route, effective.fence, fleet)
        if requested is not None:
            _check_fenced_strategy(requested, effective.fence, fleet)
    if requested is not None and requested.rules is not None:
        _check_properties(requested.rules, fleet, sees_fleet)
    if route.winner.rung == EVERYWHERE:
        return
    check_known(route, fleet, sees_fleet)
    if route.kind is RouteKind.CLUSTER and not fleet.clusters[route.name].enabled:
        raise Refused(
            "cluster_disabled",
            Problem(
                field=_field(route.winner),
                reason=f"cluster '{route.name}' is disabled: name another one, or "
                f"`rainbowctl enable cluster {route.name}` first.",
                definition=("CLUSTER", route.name),
            ),
        )


def check_known(route: Route, fleet: Fleet, sees_fleet: Callable[[], bool] = _by_anybody) -> None:
    """Refuse a route that the fleet does not know, with the closest names that who asks may know."""
    if group_of(route, fleet) is None:
        raise _unknown(route, fleet, sees_fleet=sees_fleet())


def check_feasible(
    evaluation: Evaluation,
    route: Route,
    sees_fleet: Callable[[], bool] = _by_anybody,
    able_elsewhere: Callable[[], str] = str,
    *,
    asks: str | None = None,
) -> None:
    """Refuse a job that no cluster of its route could ever run, without the names that who asks may not know.

    `able_elsewhere` names a place that is able, if there is one; only who sees the fleet is told. `asks` is what
    the job asks of a graph.
    """
    if not evaluation.is_feasible:
        message, place = evaluation.message, ""
        if sees_fleet():
            place = (name := able_elsewhere()) and f"for {name}"
        else:
            names = {candidate.cluster.name for candidate in evaluation.candidates}
            message = without_clusters(message, names - {route.name}, "see")
        requires = asks is not None and has_requirements(read_request(asks))
        less = "Ask for less or require less" if requires else "Ask for less"
        if lack_descriptions(evaluation.candidates, evaluation.verdicts):
            undescribed = "remove the requirements" if requires else "ask for nodes and slots alone"
            less = f"Describe it or {undescribed}"
            place = place and f"ask {place}"
        remedy = f"{less}, or {place}, which is able." if place else f"{less}."
        raise Refused("no_cluster_large_enough", Problem(field="spec.job.resources", reason=f"{message} {remedy}"))


def able_elsewhere(effective: EffectiveSettings, fleet: Fleet, workload: Workload, usable: Usable | None = None) -> str:
    """A pool or cluster beside the route of a request that could take its job now: `pool 'large'`; "" without one.

    `usable` is what its creator may use; None for everything. Nothing where requests may not leave the settings.
    """
    if effective.fence is not None:
        return ""
    # What the creator may use by the route of the request says nothing of other routes.
    able = able_clusters(fleet, replace(workload, usable=None))

    def may_use(kind: RouteKind, name: str, cluster: str) -> bool:
        by_name = None if usable is None else usable.by_name(kind, name)
        return by_name is None or cluster in by_name.clusters

    for name, group in sorted(fleet.pools.items()):
        members = {member.cluster for member in group.members if member.weight > 0}
        if any(may_use(RouteKind.POOL, name, cluster) for cluster in members.intersection(able)):
            return f"pool '{name}'"
    return next((f"cluster '{name}'" for name in able if may_use(RouteKind.CLUSTER, name, name)), "")


def _check_fence(requested: Route, fence: Route, fleet: Fleet) -> None:
    """A request may repeat what the settings say, or name one of the clusters that they lead to, and nothing else."""
    if fence.kind is RouteKind.ANY or (requested.kind, requested.name) == (fence.kind, fence.name):
        return
    group = group_of(fence, fleet)
    members = {member.cluster for member in group.members} if group else set()
    if requested.kind is RouteKind.CLUSTER and requested.name in members:
        return
    raise Refused(
        "request_fenced",
        Problem(
            field=_field(requested.winner),
            reason=f"asks for {requested}, but {fence.winner} says {fence}, and requests in this domain may not "
            "override settings (placement.requestMayOverride) without the permission executions.override. Leave it "
            "out, or change the setting.",
            setting=fence.winner.setting,
        ),
    )


def _check_fenced_strategy(requested: RequestedStrategy, fence: Route, fleet: Fleet) -> None:
    """A request may repeat the strategy and the rules of the pool that the settings name."""
    group = group_of(fence, fleet)
    if fence.kind is RouteKind.ANY or group is None or _is_same(requested, group):
        return
    raise Refused(
        "request_fenced",
        Problem(
            field="spec.strategy",
            reason=f"asks for the strategy {requested.name}, but {fence.winner} says {fence}, and requests in this "
            "domain may not override settings (placement.requestMayOverride) without the permission "
            "executions.override. Leave it out, or change the pool.",
            setting=fence.winner.setting,
        ),
    )


def _is_same(requested: RequestedStrategy, group: Group) -> bool:
    has_strategy = (requested.name, requested.rules) == (group.strategy, group.rules)
    return has_strategy and asking_of(group, requested) == group.asking


def _check_properties(rules: str, fleet: Fleet, sees_fleet: Callable[[], bool]) -> None:
    """Refuse rules that name a property which no cluster has, with the closest names.

    Who may not see the fleet is not told which properties there are: each is refused without its prefix.
    """
    unknown = partial(unknown_properties, prepared_rules(rules), path=("spec", "rules"))
    if any(unknown(())):
        raise_problems(list(unknown(fleet.properties) if sees_fleet() else unknown((), is_told=False)))


def _unknown(route: Route, fleet: Fleet, *, sees_fleet: bool) -> Refused:
    names = {
        RouteKind.POOL: fleet.pools.keys(),
        RouteKind.LABEL: fleet.label_names(),
        RouteKind.CLUSTER: fleet.cluster_names(),
    }[route.kind]
    noun, listed = route.kind.value, f" `rainbowctl get {route.kind.value}` lists them."
    if not sees_fleet:  # the settings of an execution may be known to whoever creates it
        in_settings = (rung.name for rung in route.rungs if rung.kind is route.kind)
        names, listed = {name for name in in_settings if name and name in names}, ""
    near = closest(route.name, names)
    return Refused(
        f"unknown_{noun}",
        Problem(
            field=_field(route.winner),
            reason=f"No {noun} is called '{shorten(route.name)}', set by {route.winner}.{did_you_mean(near)}{listed}",
            closest=near,
            setting=route.winner.setting,
            definition=(noun.upper(), route.name),
        ),
    )


def _field(rung: Rung) -> str:
    """The field of a request that a rung stands for."""
    fields = {
        RouteKind.CLUSTER: "spec.cluster",
        RouteKind.POOL: "spec.cluster_assignment.cluster_pool_name",
        RouteKind.LABEL: "spec.execution_cluster_label.value",
    }
    return fields.get(rung.kind, "") if rung.rung == REQUEST else rung.kind.value
