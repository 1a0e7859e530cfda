"""Decisions: which cluster, and why not each of the others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from admin.core.fleet.clusters import Cluster, ClusterState, Health
from admin.core.fleet.fleet import DEFAULT_STRATEGY, Fleet
from admin.core.placement.candidates import Candidate, Workload, candidates_of, group_of
from admin.core.placement.choice import WeightedChoice, draw
from admin.core.placement.filters import (
    BY_NAME,
    CORDONED,
    DECLINED,
    ENABLED,
    EXPECTED,
    FILTERS,
    FILTERS_WITH_ROOM,
    NEVER_SEEN,
    REACHABLE,
    ROOM,
    WEIGHT,
    Chain,
    Verdict,
    Verdicts,
)
from admin.core.placement.routes import Route, RouteKind
from admin.core.placement.scores import STRATEGIES, Strategy, strategy_of
from admin.core.problems import list_first
from admin.core.provenance import Provenance
from admin.core.resources import Amounts
from admin.core.settings.trails import Trail

ASSIGNED = "ASSIGNED"
#: Reasons of decisions that chose a cluster.
CHOSEN = (ASSIGNED, EXPECTED.code)
#: Several filters together drop every cluster.
_MIXED = "CLUSTERS_UNABLE"
#: Codes of executions that may be placed as soon as another one leaves a cluster.
WAITS_FOR_ROOM = (ROOM.code, _MIXED)
_GONE = {RouteKind.POOL: "POOL_GONE", RouteKind.LABEL: "LABEL_GONE", RouteKind.CLUSTER: "CLUSTER_GONE"}

_CHAIN = Chain(FILTERS)
_CHAIN_WITH_ROOM = Chain(FILTERS_WITH_ROOM)

#: Clusters that a message names before it only counts them.
MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Every candidate of a route with its verdicts and score: the same for all executions with the same demand."""

    strategy: str
    candidates: Sequence[Candidate] = ()
    verdicts: Sequence[Verdicts] = ()  #: of each candidate
    able: Mapping[int, float | None] = field(default_factory=dict)  #: scores of those that passed, by position
    best: Sequence[Candidate] = ()  #: the best ranked, of which one is drawn
    code: str = ASSIGNED
    message: str = ""  #: why no cluster is able
    is_feasible: bool = True  #: whether some cluster may be able one day, so that waiting makes sense

    @cached_property
    def choice(self) -> WeightedChoice:
        """The draw among the best ranked."""
        return WeightedChoice((candidate.cluster.name, candidate.weight) for candidate in self.best)

    @cached_property
    def trail(self) -> Trail:
        """Every candidate and its verdicts, as they are stored."""
        candidates = [
            {
                "cluster": candidate.cluster.name,
                "weight": candidate.weight,
                "expected": candidate.cluster.is_expected,
                "verdicts": [_render_verdict(verdict) for verdict in verdicts],
            }
            for candidate, verdicts in zip(self.candidates, self.verdicts, strict=True)
        ]
        return Trail.of({"strategy": self.strategy, "candidates": candidates})

    @cached_property
    def scores(self) -> dict[str, float | None] | None:
        """The scores to store, by cluster; None where the trail alone gives them."""
        if STRATEGIES[self.strategy].score_by_position is not None:
            return None
        return {self.candidates[position].cluster.name: score for position, score in self.able.items()}


class Decision(NamedTuple):
    """Which cluster, or why none."""

    cluster: str | None
    code: str
    message: str
    evaluation: Evaluation


def decide(
    route: Route, fleet: Fleet, workload: Workload, waiting: Mapping[str, Amounts], *, needs_room: bool = False
) -> Decision:
    """Choose a cluster; `waiting` is what is taken of each by what waits there already."""
    return choose(evaluate(route, fleet, workload, waiting, needs_room=needs_room), workload.key)


def evaluate(
    route: Route, fleet: Fleet, workload: Workload, waiting: Mapping[str, Amounts], *, needs_room: bool = False
) -> Evaluation:
    """Assess every cluster of a route; the workload's key does not count.

    With `needs_room` full clusters are passed over, whatever the strategy.
    """
    group = group_of(route, fleet)
    if group is None:
        return Evaluation(strategy=DEFAULT_STRATEGY, code=_GONE[route.kind], message=describe_gone(route))
    strategy = strategy_of(group)
    chain = _CHAIN_WITH_ROOM if strategy.needs_room or needs_room else _CHAIN
    candidates = candidates_of(group, fleet, waiting if strategy.looks_at_load or needs_room else None)
    verdicts = chain.verdicts(candidates, workload)
    able = {
        candidate.position: strategy.score(candidate, workload)
        for candidate, passed in zip(candidates, verdicts, strict=True)
        if passed is chain.passed
    }
    if not able:
        return _unable(route, strategy, candidates, verdicts)
    first = min((score for score in able.values() if score is not None), default=None)
    best = [candidates[position] for position, score in able.items() if score == first]
    # Expected clusters are able only where none that has been seen is.
    code = EXPECTED.code if best[0].cluster.is_expected else ASSIGNED
    return Evaluation(strategy=strategy.name, candidates=candidates, verdicts=verdicts, able=able, best=best, code=code)


def choose(evaluation: Evaluation, key: str) -> Decision:
    """Draw one of the best ranked clusters."""
    if not evaluation.best:
        return Decision(cluster=None, code=evaluation.code, message=evaluation.message, evaluation=evaluation)
    cluster = evaluation.choice.draw(key)
    message = describe_choice(cluster, evaluation.code)
    return Decision(cluster=cluster, code=evaluation.code, message=message, evaluation=evaluation)


def describe_choice(cluster: str, code: str, *, is_past: bool = False) -> str:
    """What the choice of a cluster means while the execution waits there, or once it does not any more."""
    unseen = ", of which no agent had ever been seen when this was decided" if code == EXPECTED.code else ""
    if is_past:
        return f"Cluster '{cluster}' was chosen{unseen}."
    return f"Waits for cluster '{cluster}'{unseen or ' to take it'}."


def _unable(
    route: Route, strategy: Strategy, candidates: Sequence[Candidate], verdicts: Sequence[Verdicts]
) -> Evaluation:
    """Why no cluster is able, by the first filter that each one fails."""
    evaluation = Evaluation(strategy=strategy.name, candidates=candidates, verdicts=verdicts)
    failures = {
        candidate.cluster.name: [verdict for verdict in verdicts[candidate.position] if not verdict.passed]
        for candidate in candidates
        if candidate.weight > 0
    }
    if not failures:
        return replace(evaluation, code=WEIGHT.code, message="The fleet has no cluster yet.")
    permanent = {
        cluster: [verdict for verdict in failed if BY_NAME[verdict.filter].is_permanent]
        for cluster, failed in failures.items()
    }
    is_feasible = not all(permanent.values())
    # Where waiting cannot help, temporary obstacles do not matter.
    obstacles = {cluster: failed[0] for cluster, failed in (failures if is_feasible else permanent).items()}
    # Where it waits for clusters that have been seen, the others do not count in the code.
    filters = {
        obstacles[cluster].filter
        for cluster, failed in failures.items()
        if not any(verdict.filter == EXPECTED.name for verdict in failed)
    }
    code = BY_NAME[filters.pop()].code if len(filters) == 1 else _MIXED
    message = describe_unable(route, {cluster: verdict.reason for cluster, verdict in obstacles.items()})
    return replace(evaluation, code=code, message=message, is_feasible=is_feasible)


def describe_unable(route: Route, reasons: Mapping[str, str]) -> str:
    """That no cluster of a route is able, with the reason of each, as many as a message names."""
    named = [f"'{cluster}' {reason}" for cluster, reason in itertools.islice(reasons.items(), MOST_NAMED)]
    separator = "; " if any(", " in reason for reason in named) else ", "
    listed = list_first(named, MOST_NAMED, count=len(reasons), separator=separator)
    return f"Cluster {listed}." if route.kind is RouteKind.CLUSTER else f"No cluster of {route} is able: {listed}."


def describe_gone(route: Route, deleted_by: Provenance | None = None, now: datetime | None = None) -> str:
    """That the fleet does not have what a route names, and by which revision it was deleted where that is known."""
    deleted = f", deleted by {deleted_by.describe(now)}" if deleted_by is not None and now is not None else ""
    return f"The {route} is gone from the fleet{deleted}."


def describe_triggers(obstacles: Mapping[str, Sequence[Verdict]]) -> str:
    """When an execution is decided again that no cluster takes: `when 'east' is uncordoned, or the fleet changes`.

    `obstacles` are the filters that each cluster fails.
    """
    clusters: dict[str, list[str]] = {}
    for cluster, failed in obstacles.items():
        steps = dict.fromkeys(_TRIGGERS[verdict.filter](verdict) for verdict in failed if verdict.filter in _TRIGGERS)
        if steps and all(verdict.filter in _TRIGGERS for verdict in failed):
            clusters.setdefault(" and ".join(steps), []).append(cluster)
    triggers = [f"{_any_of(names)} {steps}" for steps, names in clusters.items()]
    otherwise = "the fleet changes otherwise" if triggers else "the fleet changes"
    return f"when {', '.join([*triggers, f'or {otherwise}' if triggers else otherwise])}"


def _any_of(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"one of {len(names)} clusters"
    quoted = [f"'{name}'" for name in names]
    return " or ".join(part for part in (", ".join(quoted[:-1]), quoted[-1]) if part)


def _until_cordon_ends(verdict: Verdict) -> str:
    return "is undrained" if verdict.reason.startswith("is draining") else "is uncordoned"


def _until_reachable(verdict: Verdict) -> str:
    return "is admitted" if verdict.reason.startswith("waits to be admitted") else "is heard again"


#: What must happen to a cluster that fails a filter, of those filters that something other than a definition ends.
_TRIGGERS: Mapping[str, Callable[[Verdict], str]] = {
    ENABLED.name: lambda _: "is enabled",
    CORDONED.name: _until_cordon_ends,
    REACHABLE.name: _until_reachable,
    EXPECTED.name: lambda _: "is seen",
    ROOM.name: lambda _: "has room because something ends there",
}


def find_failures(
    route: Route, fleet: Fleet, workload: Workload, waiting: Mapping[str, Amounts] | None = None
) -> dict[str, list[Verdict]] | None:
    """The filters that each cluster of a route fails; None where some cluster passes them all.

    A full cluster passes, unless `waiting` says what is taken of each by what waits there and the strategy needs room.
    """
    group = group_of(route, fleet)
    if group is None:
        return {}
    needs_room = waiting is not None and strategy_of(group).needs_room
    chain = _CHAIN_WITH_ROOM if needs_room else _CHAIN
    candidates = candidates_of(group, fleet, waiting if needs_room else None)
    verdicts = chain.verdicts(candidates, workload)
    if any(passed is chain.passed for passed in verdicts):
        return None
    return {
        candidate.cluster.name: [verdict for verdict in answers if not verdict.passed]
        for candidate, answers in zip(candidates, verdicts, strict=True)
    }


def may_stay(cluster: str, route: Route, fleet: Fleet, workload: Workload) -> bool:
    """Whether an execution that waits at a cluster may go on waiting there; it counts in the cluster's room already.

    An unreachable cluster gets nothing new, and keeps what waits there until it is lost.
    """
    group = group_of(route, fleet)
    member = next((member for member in group.members if member.cluster == cluster), None) if group else None
    if member is None:
        return False
    candidate = Candidate(fleet.clusters[cluster], member.weight, 0, None)
    failed = [filter_ for filter_ in FILTERS if filter_.drop((candidate,), workload)]
    if failed == [REACHABLE]:
        return candidate.cluster.health is Health.UNREACHABLE and candidate.cluster.state.admitted
    return not failed


def obstacle_at(cluster: Cluster, workload: Workload) -> Verdict | None:
    """The first filter by which a cluster would not take what waits there now; None where it would."""
    if cluster.is_expected:
        return Verdict(EXPECTED.name, False, NEVER_SEEN)
    candidate = Candidate(cluster, 1, 0, cluster.unused)
    drops = ((filter_, filter_.drop((candidate,), workload).get(0)) for filter_ in FILTERS_WITH_ROOM)
    return next((Verdict(filter_.name, False, reason) for filter_, reason in drops if reason is not None), None)


def may_move(cluster: str, route: Route, fleet: Fleet) -> bool:
    """Whether an execution that waits at a cluster may leave it for another: an expected one for one that was seen."""
    present = fleet.clusters.get(cluster)
    group = group_of(route, fleet) if present is not None and present.is_expected else None
    return group is not None and any(not fleet.clusters[member.cluster].is_expected for member in group.members)


def _render_verdict(verdict: Verdict) -> dict[str, Any]:
    fields: dict[str, Any] = {"filter": verdict.filter, "passed": verdict.passed}
    return fields | {"reason": verdict.reason} if verdict.reason else fields


#: The states of clusters that operators switch, by the filters that ask for them.
_SWITCHED = {ENABLED.name: "disabled", CORDONED.name: "cordoned"}
#: The events that set such states, by cluster and state.
SwitchedBy = Mapping[tuple[str, str], Provenance]


def switched_state(verdict: Verdict) -> str | None:
    """The state that a cluster does not pass a filter for; None where operators have no part in it."""
    return None if verdict.passed else _SWITCHED.get(verdict.filter)


def switched_candidates(trail: Mapping[str, Any]) -> dict[str, list[str]]:
    """The candidates of a stored decision that operators keep from getting work, by their states."""
    switched: dict[str, list[str]] = {state: [] for state in _SWITCHED.values()}
    for candidate in trail["candidates"]:
        for verdict in candidate["verdicts"]:
            if not verdict["passed"] and verdict["filter"] in _SWITCHED:
                switched[_SWITCHED[verdict["filter"]]].append(candidate["cluster"])
    return switched


def recorded_states(trail: Mapping[str, Any], fleet: Fleet) -> dict[str, ClusterState]:
    """The states of the candidates of a stored decision, as its verdicts tell them; of clusters that are in a fleet.

    What an agent reported, room and plugins, is not among the verdicts and stays as it is.
    """
    states: dict[str, ClusterState] = {}
    for candidate in trail["candidates"]:
        cluster = fleet.clusters.get(candidate["cluster"])
        if cluster is None:
            continue
        failed = {verdict["filter"] for verdict in candidate["verdicts"] if not verdict["passed"]}
        seen = cluster.state.health if cluster.is_reachable and not cluster.is_expected else Health.READY.value
        health = Health.LOST.value if REACHABLE.name in failed else seen
        states[cluster.name] = replace(
            cluster.state,
            enabled=ENABLED.name not in failed,
            cordoned=CORDONED.name in failed,
            draining=False,
            admitted=True,
            health=Health.EXPECTED.value if candidate["expected"] else health,
            reported_at=None if candidate["expected"] else cluster.state.reported_at,
        )
    return states


def render_candidates(
    trail: Mapping[str, Any],
    scores: Mapping[str, float | None] | None,
    key: str,
    chosen: str | None,
    switched_by: SwitchedBy,
    now: datetime,
) -> list[dict[str, Any]]:
    """The candidates of a stored decision with scores, ranks and draws, which are the same whenever they are made.

    `switched_by` are the events that set the states of `switched_candidates`, by cluster and state. Ages are counted
    from `now`, which is the time of the decision for one of the past.
    """
    by_position = STRATEGIES[trail["strategy"]].score_by_position
    candidates = [dict(candidate) for candidate in trail["candidates"]]
    passed = []
    for position, candidate in enumerate(candidates):
        candidate["chosen"] = candidate["cluster"] == chosen
        if all(verdict["passed"] for verdict in candidate["verdicts"]):
            passed.append(candidate)
            stored = scores[candidate["cluster"]] if scores is not None else None
            candidate["score"] = by_position(position) if by_position is not None else stored
    ranks = sorted({_order(candidate["score"]) for candidate in passed})
    for candidate in passed:
        candidate["rank"] = ranks.index(_order(candidate["score"])) + 1
        if candidate["rank"] == 1:
            candidate["draw"] = draw(key, candidate["cluster"], candidate["weight"])
    winner = next((candidate for candidate in candidates if candidate["chosen"]), None)
    for candidate in candidates:
        if not candidate["chosen"]:
            candidate["why_not"] = _why_not(candidate, winner, switched_by, now)
        candidate["verdicts"] = [
            _with_event(verdict, event_of(candidate["cluster"], verdict["filter"], switched_by))
            for verdict in candidate["verdicts"]
        ]
    return candidates


def with_declines(trail: Mapping[str, Any], declines: Mapping[str, str]) -> dict[str, Any]:
    """A stored decision whose verdicts tell why agents declined the execution; `declines` has that by cluster."""
    return {
        **trail,
        "candidates": [
            {
                **candidate,
                "verdicts": [
                    {**verdict, "reason": describe_decline(verdict["reason"], declines.get(candidate["cluster"]))}
                    if verdict["filter"] == DECLINED.name and not verdict["passed"]
                    else verdict
                    for verdict in candidate["verdicts"]
                ],
            }
            for candidate in trail["candidates"]
        ],
    }


def describe_decline(reason: str, why: str | None) -> str:
    """That a cluster declined an execution, and why, where that is known: `declined it at …: it has no gpu`."""
    return f"{reason} {why}" if why else reason


def _with_event(verdict: Mapping[str, Any], event: Provenance | None) -> Mapping[str, Any]:
    return verdict if verdict["passed"] or event is None else {**verdict, "provenance": event.as_json()}


def event_of(cluster: str, filter_name: str, switched_by: SwitchedBy) -> Provenance | None:
    """The event by which a cluster does not pass a filter; None where operators have no part in it."""
    return switched_by.get((cluster, _SWITCHED.get(filter_name, "")))


def _why_not(
    candidate: Mapping[str, Any], winner: Mapping[str, Any] | None, switched_by: SwitchedBy, now: datetime
) -> str:
    """Why a candidate was not chosen: the filters that it fails, or how it compares with the one that was."""
    failed = [verdict for verdict in candidate["verdicts"] if not verdict["passed"]]
    if failed:
        return "; ".join(
            describe_drop(verdict["reason"], event_of(candidate["cluster"], verdict["filter"], switched_by), now)
            for verdict in failed
            if "reason" in verdict
        )
    if winner is None or "rank" not in winner:
        return "able"
    if candidate["rank"] > winner["rank"]:
        return f"able; scored {_shown(candidate['score'])} against {_shown(winner['score'])}, and the lowest is best"
    return f"able; drew {_shown(candidate['draw'])} against {_shown(winner['draw'])}, and the largest wins"


def describe_drop(reason: str, event: Provenance | None, now: datetime) -> str:
    """Why a filter drops a cluster, and the event by which that is so: `is cordoned, event 7, ana, 3 d ago, 'x'`."""
    if event is None:
        return reason
    # The message of the event says it already.
    return f"{reason.removesuffix(f' ({event.message})')}, {event.describe(now)}"


def _shown(number: float | None) -> str:
    return "nothing" if number is None else f"{number:.6g}"


def _order(score: float | None) -> float:
    """Scores that are unknown rank after all that are known."""
    return math.inf if score is None else score
