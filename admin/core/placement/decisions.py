"""Decisions: which cluster, and why not each of the others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from admin.core.fleet.clusters import Health
from admin.core.fleet.fleet import Fleet
from admin.core.fleet.groups import DEFAULT_STRATEGY, Group
from admin.core.placement.candidates import Candidate, candidates_of, group_of
from admin.core.placement.choice import WeightedChoice, draw
from admin.core.placement.filters import BY_NAME, FILTERS, FILTERS_WITH_ROOM, Chain, Verdict
from admin.core.placement.filters.amounts import ROOM
from admin.core.placement.filters.state import REACHABLE, WEIGHT
from admin.core.placement.routes import Route, RouteKind
from admin.core.placement.scores import STRATEGIES, strategy_of
from admin.core.placement.workloads import Workload
from admin.core.resources import Amounts
from admin.core.settings.trails import Trail

ASSIGNED = "ASSIGNED"
#: Several filters together drop every cluster.
_MIXED = "CLUSTERS_UNABLE"
#: Codes of executions that may be placed as soon as another one leaves a cluster.
WAITS_FOR_ROOM = (ROOM.code, _MIXED)
_GONE = {RouteKind.POOL: "POOL_GONE", RouteKind.LABEL: "LABEL_GONE", RouteKind.CLUSTER: "CLUSTER_GONE"}

_CHAIN = Chain(FILTERS)
_CHAIN_WITH_ROOM = Chain(FILTERS_WITH_ROOM)

#: Clusters that a message names before it only counts them.
_MOST_NAMED = 5


class Assessment(NamedTuple):
    """What filters and strategy say of one candidate."""

    candidate: Candidate
    verdicts: tuple[Verdict, ...]
    passed: bool  #: every filter
    score: float | None = None  #: by the strategy, for those that passed; the smaller the better

    @property
    def cluster(self) -> str:
        return self.candidate.cluster.name

    @property
    def obstacle(self) -> Verdict:
        """The first filter that it did not pass."""
        return next(verdict for verdict in self.verdicts if not verdict.passed)

    @property
    def permanent_obstacle(self) -> Verdict | None:
        """The first filter that it can never pass, None where waiting may help."""
        failed = (verdict for verdict in self.verdicts if not verdict.passed)
        return next((verdict for verdict in failed if BY_NAME[verdict.filter].is_permanent), None)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Every candidate of a route, assessed: the same for all executions with the same demand."""

    strategy: str
    assessments: tuple[Assessment, ...] = ()
    best: tuple[Assessment, ...] = ()  #: the best ranked, of which one is drawn
    code: str = ASSIGNED
    message: str = ""  #: why no cluster is able
    is_feasible: bool = True  #: whether some cluster may be able one day, so that waiting makes sense

    @cached_property
    def choice(self) -> WeightedChoice:
        """The draw among the best ranked."""
        return WeightedChoice((assessment.cluster, assessment.candidate.weight) for assessment in self.best)

    @cached_property
    def trail(self) -> Trail:
        """Every candidate and its verdicts, as they are stored."""
        candidates = [
            {
                "cluster": assessment.cluster,
                "weight": assessment.candidate.weight,
                "expected": assessment.candidate.cluster.is_expected,
                "verdicts": [_render_verdict(verdict) for verdict in assessment.verdicts],
            }
            for assessment in self.assessments
        ]
        return Trail.of({"strategy": self.strategy, "candidates": candidates})

    @cached_property
    def scores(self) -> dict[str, float | None] | None:
        """The scores to store; None where the trail alone gives them."""
        if STRATEGIES[self.strategy].score_by_position is not None:
            return None
        return {assessment.cluster: assessment.score for assessment in self.assessments if assessment.passed}


class Decision(NamedTuple):
    """Which cluster, or why none."""

    cluster: str | None
    code: str
    message: str
    evaluation: Evaluation


def decide(route: Route, fleet: Fleet, workload: Workload, waiting: Mapping[str, Amounts]) -> Decision:
    """Choose a cluster; `waiting` is what waits at each already."""
    return choose(evaluate(route, fleet, workload, waiting), workload.key)


def evaluate(route: Route, fleet: Fleet, workload: Workload, waiting: Mapping[str, Amounts]) -> Evaluation:
    """Assess every cluster of a route; the workload's key does not count."""
    group = group_of(route, fleet)
    if group is None:
        gone = f"The {route.kind.value} '{route.name}' is gone from the fleet."
        return Evaluation(strategy=DEFAULT_STRATEGY, code=_GONE[route.kind], message=gone)
    assessments = tuple(_assess(group, fleet, workload, waiting))
    passed = [assessment for assessment in assessments if assessment.passed]
    if not passed:
        return _unable(route, group.strategy, assessments)
    ranks = [_rank(assessment.score) for assessment in passed]
    first = min(ranks)
    best = tuple(assessment for assessment, rank in zip(passed, ranks, strict=True) if rank == first)
    return Evaluation(strategy=group.strategy, assessments=assessments, best=best)


def choose(evaluation: Evaluation, key: str) -> Decision:
    """Draw one of the best ranked clusters."""
    if not evaluation.best:
        return Decision(cluster=None, code=evaluation.code, message=evaluation.message, evaluation=evaluation)
    cluster = evaluation.choice.draw(key)
    message = f"Waits for cluster '{cluster}' to take it."
    return Decision(cluster=cluster, code=ASSIGNED, message=message, evaluation=evaluation)


def _assess(group: Group, fleet: Fleet, workload: Workload, waiting: Mapping[str, Amounts]) -> Iterator[Assessment]:
    strategy = strategy_of(group)
    chain = _CHAIN_WITH_ROOM if strategy.needs_room else _CHAIN
    for candidate in candidates_of(group, fleet, waiting if strategy.looks_at_load else None):
        verdicts = chain.verdicts(candidate, workload)
        if verdicts is chain.passed:
            yield Assessment(candidate, verdicts, True, strategy.score(candidate, workload))
        else:
            yield Assessment(candidate, verdicts, False)


def _rank(score: float | None) -> float:
    return math.inf if score is None else score


def _unable(route: Route, strategy: str, assessments: tuple[Assessment, ...]) -> Evaluation:
    """Why no cluster is able, by the first filter that each one fails."""
    weighted = [assessment for assessment in assessments if assessment.candidate.weight > 0]
    if not weighted:
        message = "The fleet has no cluster yet."
        return Evaluation(strategy=strategy, assessments=assessments, code=WEIGHT.code, message=message)
    permanent = [assessment.permanent_obstacle for assessment in weighted]
    is_feasible = not all(permanent)
    # Where waiting can never help, temporary obstacles do not matter.
    obstacles = [
        assessment.obstacle if is_feasible or verdict is None else verdict
        for assessment, verdict in zip(weighted, permanent, strict=True)
    ]
    reasons = [
        f"'{assessment.cluster}' {verdict.reason}" for assessment, verdict in zip(weighted, obstacles, strict=True)
    ]
    listed = ", ".join(reasons[:_MOST_NAMED])
    more = f" and {len(reasons) - _MOST_NAMED} more" if len(reasons) > _MOST_NAMED else ""
    filters = {verdict.filter for verdict in obstacles}
    return Evaluation(
        strategy=strategy,
        assessments=assessments,
        code=BY_NAME[filters.pop()].code if len(filters) == 1 else _MIXED,
        message=f"Cluster {listed}."
        if route.kind is RouteKind.CLUSTER
        else f"No cluster of {route} is able: {listed}{more}.",
        is_feasible=is_feasible,
    )


def may_stay(cluster: str, route: Route, fleet: Fleet, workload: Workload) -> bool:
    """Whether an execution that waits at a cluster may go on waiting there; it counts in the cluster's room already.

    An unreachable cluster gets nothing new, and keeps what waits there until it is lost.
    """
    group = group_of(route, fleet)
    candidates = candidates_of(group, fleet, None) if group else iter(())
    candidate = next((candidate for candidate in candidates if candidate.cluster.name == cluster), None)
    if candidate is None:
        return False
    is_silent = candidate.cluster.health is Health.UNREACHABLE and candidate.cluster.state.admitted
    return all(
        verdict.passed or (is_silent and verdict.filter == REACHABLE.name)
        for verdict in _CHAIN.verdicts(candidate, workload)
    )


def _render_verdict(verdict: Verdict) -> dict[str, Any]:
    fields: dict[str, Any] = {"filter": verdict.filter, "passed": verdict.passed}
    return fields | {"reason": verdict.reason} if verdict.reason else fields


def render_candidates(
    trail: Mapping[str, Any], scores: Mapping[str, float | None] | None, key: str, chosen: str | None
) -> list[dict[str, Any]]:
    """The candidates of a stored decision with scores, ranks and draws, which are the same whenever they are made."""
    by_position = STRATEGIES[trail["strategy"]].score_by_position
    candidates = [dict(candidate) for candidate in trail["candidates"]]
    passed = []
    for position, candidate in enumerate(candidates):
        candidate["chosen"] = candidate["cluster"] == chosen
        if all(verdict["passed"] for verdict in candidate["verdicts"]):
            passed.append(candidate)
            stored = scores[candidate["cluster"]] if scores is not None else None
            candidate["score"] = by_position(position) if by_position is not None else stored
    ranks = sorted({_rank(candidate["score"]) for candidate in passed})
    for candidate in passed:
        candidate["rank"] = ranks.index(_rank(candidate["score"])) + 1
        if candidate["rank"] == 1:
            candidate["draw"] = draw(key, candidate["cluster"], candidate["weight"])
    return candidates
