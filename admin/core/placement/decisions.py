"""Decisions: which cluster, and what was said of every other one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from admin.core.fleet.fleet import Definition, Fleet, FleetKind, Group, Health, Member, Source, Strategy
from admin.core.placement import filters
from admin.core.placement.choices import Options, draw
from admin.core.placement.filters import Verdict, Wanted, have_passed, room, room_verdicts, verdicts
from admin.core.placement.routes import Route, RouteKind
from admin.core.placement.strategies import SCORES
from admin.core.resources import Amounts
from admin.core.settings.trails import Trail

ASSIGNED = "ASSIGNED"
TOO_SMALL = "CLUSTERS_TOO_SMALL"
_CODES = {
    filters.ENABLED: "CLUSTERS_DISABLED",
    filters.CORDONED: "CLUSTERS_CORDONED",
    filters.REACHABLE: "CLUSTERS_UNREACHABLE",
    filters.DECLINED: "CLUSTERS_DECLINED",
    filters.LARGE_ENOUGH: TOO_SMALL,
    filters.PLUGINS: "PLUGIN_MISSING",
    filters.ROOM: "CLUSTERS_FULL",
}
_MIXED = "CLUSTERS_UNABLE"
#: Codes of what may go on as soon as something else leaves a cluster.
WAITS_FOR_ROOM = (_CODES[filters.ROOM], _MIXED)
_GONE = {RouteKind.POOL: "POOL_GONE", RouteKind.LABEL: "LABEL_GONE", RouteKind.CLUSTER: "CLUSTER_GONE"}

_EVERYWHERE = Definition(kind=FleetKind.LABEL, name="", payload={}, source=Source.CONFIGURATION)

#: Clusters that a message names before it only counts them.
_MOST_NAMED = 5


class Candidate(NamedTuple):
    """One cluster that might be chosen."""

    cluster: str
    weight: float
    expected: bool  #: nobody has declared it
    verdicts: tuple[Verdict, ...]
    score: float | None = None  #: by the strategy, for those that passed; the smaller the better

    @property
    def passed(self) -> bool:
        return have_passed(self.verdicts)

    @property
    def obstacle(self) -> Verdict:
        """The first filter that it did not pass."""
        return next(verdict for verdict in self.verdicts if not verdict.passed)

    def failed(self, name: str) -> Verdict | None:
        """What one filter says against it, None where it passed."""
        return next((verdict for verdict in self.verdicts if verdict.filter == name and not verdict.passed), None)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What is to be said of every cluster before one is drawn: the same for all that want the same."""

    strategy: Strategy
    candidates: tuple[Candidate, ...]
    best: tuple[Candidate, ...]  #: those that one is drawn from
    code: str = ASSIGNED
    message: str = ""  #: why none is able

    @cached_property
    def options(self) -> Options:
        """The best, as one of them is drawn."""
        return Options((one.cluster, one.weight) for one in self.best)

    @cached_property
    def trail(self) -> Trail:
        """What led here, as it is stored."""
        body = {
            "strategy": self.strategy.value,
            "candidates": [
                {
                    "cluster": one.cluster,
                    "weight": one.weight,
                    "expected": one.expected,
                    "verdicts": [_verdict(verdict) for verdict in one.verdicts],
                }
                for one in self.candidates
            ],
        }
        return Trail.of(body)

    @cached_property
    def scores(self) -> dict[str, float | None] | None:
        """The scores that only this moment gave; None where the trail alone tells them."""
        if self.strategy in (Strategy.WEIGHTED, Strategy.SPILL):
            return None
        return {one.cluster: one.score for one in self.candidates if one.passed}


class Decision(NamedTuple):
    """Which cluster, or why none."""

    cluster: str | None
    code: str
    message: str
    judgement: Judgement


def group_of(route: Route, fleet: Fleet) -> Group | None:
    """The clusters that a route leads to, None where the fleet does not know its name."""
    match route.kind:
        case RouteKind.POOL:
            return fleet.pools.get(route.name)
        case RouteKind.LABEL:
            return fleet.label(route.name)
        case RouteKind.CLUSTER:
            found = fleet.clusters.get(route.name)
            members = (Member(cluster=route.name, weight=1),)
            return Group(definition=found.definition, members=members) if found else None
    everything = tuple(Member(cluster=name, weight=1) for name in fleet.clusters)
    return Group(definition=_EVERYWHERE, members=everything)


def decide(route: Route, fleet: Fleet, wanted: Wanted, waiting: Mapping[str, Amounts]) -> Decision:
    """Choose a cluster; `waiting` is what waits at each already."""
    return choose(judge(route, fleet, wanted, waiting), wanted.key)


def judge(route: Route, fleet: Fleet, wanted: Wanted, waiting: Mapping[str, Amounts]) -> Judgement:
    """What filters and strategy say of every cluster of a route; the key of what is wanted does not count."""
    group = group_of(route, fleet)
    if group is None:
        gone = f"The {route.kind.value} '{route.name}' is gone from the fleet."
        return Judgement(strategy=Strategy.WEIGHTED, candidates=(), best=(), code=_GONE[route.kind], message=gone)
    strategy = group.strategy
    candidates = tuple(_candidates(group, fleet, wanted, waiting))
    passed = [one for one in candidates if one.passed]
    if not passed:
        code, message = _obstacles(route, candidates)
        return Judgement(strategy=strategy, candidates=candidates, best=(), code=code, message=message)
    orders = [_order(one.score) for one in passed]
    least = min(orders)
    best = tuple(one for one, order in zip(passed, orders, strict=True) if order == least)
    return Judgement(strategy=strategy, candidates=candidates, best=best)


def choose(judgement: Judgement, key: str) -> Decision:
    """The one of the best candidates that a key draws."""
    if not judgement.best:
        return Decision(cluster=None, code=judgement.code, message=judgement.message, judgement=judgement)
    best = judgement.options.draw(key)
    message = f"Waits for cluster '{best}' to take it."
    return Decision(cluster=best, code=ASSIGNED, message=message, judgement=judgement)


def _candidates(group: Group, fleet: Fleet, wanted: Wanted, waiting: Mapping[str, Amounts]) -> Iterator[Candidate]:
    strategy, clusters = group.strategy, fleet.clusters
    score = SCORES[strategy]
    looks_at_load, needs_room = strategy.looks_at_load, strategy.needs_room
    for position, (name, weight) in enumerate(group.members):
        cluster = clusters[name]
        found = verdicts(cluster, weight, wanted)
        free = room(cluster, waiting) if looks_at_load else None
        if needs_room:
            found = room_verdicts(found, free, wanted)
        rated = score(position, cluster, wanted, free) if have_passed(found) else None
        yield Candidate(name, weight, cluster.definition.source is Source.EXPECTED, found, rated)


def _order(value: float | None) -> float:
    return math.inf if value is None else value


def _obstacles(route: Route, candidates: tuple[Candidate, ...]) -> tuple[str, str]:
    """Why no cluster is able."""
    usable = [one for one in candidates if one.weight > 0]
    if not usable:
        return "NO_CLUSTERS", "The fleet has no cluster yet."
    too_small = [verdict for one in usable if (verdict := one.failed(filters.LARGE_ENOUGH))]
    # Where no cluster could ever do, it does not matter what else stands in the way.
    found = too_small if len(too_small) == len(usable) else [one.obstacle for one in usable]
    said = [f"'{one.cluster}' {verdict.reason}" for one, verdict in zip(usable, found, strict=True)]
    named = ", ".join(said[:_MOST_NAMED])
    by_filter = {verdict.filter for verdict in found}
    more = f" and {len(usable) - _MOST_NAMED} more" if len(usable) > _MOST_NAMED else ""
    code = _CODES[by_filter.pop()] if len(by_filter) == 1 else _MIXED
    if route.kind is RouteKind.CLUSTER:
        return code, f"Cluster {named}."
    return code, f"No cluster of {route} is able: {named}{more}."


def may_stay(cluster: str, route: Route, fleet: Fleet, wanted: Wanted) -> bool:
    """Whether what waits at a cluster may go on waiting there; it holds its room already.

    A silent cluster gets nothing new, and keeps what it has until it is lost.
    """
    group = group_of(route, fleet)
    member = next((one for one in group.members if one.cluster == cluster), None) if group else None
    if member is None:
        return False
    there = fleet.clusters[cluster]
    may_be_silent = there.health is Health.UNREACHABLE and there.state.admitted
    found = verdicts(there, member.weight, wanted)
    return all(verdict.passed or (may_be_silent and verdict.filter == filters.REACHABLE) for verdict in found)


def can_ever(judgement: Judgement) -> bool:
    """Whether some candidate is large enough; waiting would help no one otherwise."""
    return judgement.code != TOO_SMALL


def _verdict(verdict: Verdict) -> dict[str, Any]:
    said: dict[str, Any] = {"filter": verdict.filter, "passed": verdict.passed}
    return said | {"reason": verdict.reason} if verdict.reason else said


def candidates_shown(
    trail: Mapping[str, Any], scores: Mapping[str, float | None] | None, key: str, chosen: str | None
) -> list[dict[str, Any]]:
    """The candidates of a decision with scores, ranks and draws; the draws are the same every time they are made."""
    candidates = [dict(one) for one in trail["candidates"]]
    passed = [one for one in candidates if all(verdict["passed"] for verdict in one["verdicts"])]
    is_spill = trail["strategy"] == Strategy.SPILL.value
    for position, one in enumerate(candidates):
        one["chosen"] = one["cluster"] == chosen
        if one in passed:
            one["score"] = scores[one["cluster"]] if scores is not None else float(position) if is_spill else 0.0
    ranks = sorted({_order(one["score"]) for one in passed})
    for one in passed:
        one["rank"] = ranks.index(_order(one["score"])) + 1
        if one["rank"] == 1:
            one["draw"] = draw(key, one["cluster"], one["weight"])
    return candidates
