"""Decisions: which cluster, and why not each of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from admin.core.fleet.fleet import DEFAULT_STRATEGY, Fleet
from admin.core.json_text import JsonObject
from admin.core.placement.assessments import assess
from admin.core.placement.candidates import Candidate, Workload, group_of
from admin.core.placement.choice import WeightedChoice
from admin.core.placement.constraints.expressions import Value
from admin.core.placement.constraints.ranking import VALUES
from admin.core.placement.constraints.rules import RANDOM, Rules
from admin.core.placement.filters import BID, BY_NAME, EXPECTED, ROOM, RULES, USE, WEIGHT, Verdict, Verdicts
from admin.core.placement.obstacles import describe_gone, describe_unable
from admin.core.placement.routes import REQUEST, Route, RouteKind
from admin.core.placement.scores import STRATEGIES, WORDS
from admin.core.resources import Amounts
from admin.core.settings.trails import Trail

ASSIGNED = "ASSIGNED"
#: The reason of executions whose clusters are asked for bids.
ASKING = BID.code
#: Reasons of decisions that chose a cluster.
CHOSEN = (ASSIGNED, EXPECTED.code)
#: Several filters together drop every cluster.
_MIXED = "CLUSTERS_UNABLE"
#: Codes of executions that may be placed as soon as another one leaves a cluster.
WAITS_FOR_ROOM = (ROOM.code, _MIXED)
#: Codes of executions that may be passed by their rules as soon as another one leaves a cluster.
WAITS_FOR_RULES = (RULES.code, _MIXED)
#: Clusters of which it is stored in words how their scores came about; of more the scores alone.
_MOST_DESCRIBED = 50
_GONE = {RouteKind.POOL: "POOL_GONE", RouteKind.LABEL: "LABEL_GONE", RouteKind.CLUSTER: "CLUSTER_GONE"}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Every candidate of a route with its verdicts and score: the same for all executions with the same demand."""

    strategy: str
    candidates: Sequence[Candidate] = ()
    verdicts: Sequence[Verdicts] = ()  #: of each candidate
    able: Mapping[int, float | None] = field(default_factory=dict)  #: scores of those that passed, by position
    best: Sequence[Candidate] = ()  #: the best ranked, of which one is drawn
    rules: Rules | None = None  #: that were applied
    values: Mapping[int, Mapping[str, Value]] = field(default_factory=dict)  #: what they calculated, by position
    is_requested: bool = False  #: whether the request asks for the strategy
    choose_by: str = ""  #: what bids were chosen by, where clusters were asked
    code: str = ASSIGNED
    message: str = ""  #: why no cluster is able
    detailed_message: str = ""  #: the same with the values that rules looked at, for what is not stored
    is_feasible: bool = True  #: whether some cluster may be able one day, so that waiting makes sense

    @cached_property
    def choice(self) -> WeightedChoice:
        """The draw among the best ranked."""
        is_even = self.rules is not None and self.rules.pick == RANDOM
        return WeightedChoice((candidate.cluster.name, 1 if is_even else candidate.weight) for candidate in self.best)

    @cached_property
    def trail(self) -> Trail:
        """Every candidate and its verdicts, as they are stored."""
        candidates = [
            {
                "cluster": candidate.cluster.name,
                "weight": candidate.weight,
                "expected": candidate.cluster.is_expected,
                "verdicts": [_render_verdict(verdict) for verdict in verdicts],
                **({"values": dict(values)} if (values := self.values.get(candidate.position)) else {}),
            }
            for candidate, verdicts in zip(self.candidates, self.verdicts, strict=True)
        ]
        rules = {} if self.rules is None else {"rules": self.rules.document}
        source = {"strategy_source": REQUEST} if self.is_requested else {}
        asked = {"choose_by": self.choose_by} if self.choose_by else {}
        return Trail.of({"strategy": self.strategy, **source, **rules, **asked, "candidates": candidates})

    @cached_property
    def scores(self) -> JsonObject | None:
        """The scores to store, by cluster, with how they came about; None where the trail alone gives them."""
        strategy = STRATEGIES[self.strategy]
        if strategy.score_by_position is not None:
            return None
        able = [self.candidates[position] for position in self.able]
        scores: JsonObject = {candidate.cluster.name: self.able[candidate.position] for candidate in able}
        if strategy.describe is not None and len(able) <= _MOST_DESCRIBED:
            scores[WORDS] = {candidate.cluster.name: strategy.describe(candidate) for candidate in able}
        return scores


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
    assessment = assess(group, fleet, workload, waiting, needs_room=needs_room)
    evaluation = Evaluation(
        strategy=assessment.strategy.name,
        candidates=assessment.candidates,
        verdicts=assessment.verdicts,
        able=assessment.able,
        rules=assessment.strategy.rules,
        values=assessment.values,
        is_requested=workload.requested is not None,
    )
    if not assessment.able:
        return _unable(route, evaluation)
    first = min((score for score in assessment.able.values() if score is not None), default=None)
    best = [assessment.candidates[position] for position, score in assessment.able.items() if score == first]
    # Expected clusters are able only where none that has been seen is.
    code = EXPECTED.code if best[0].cluster.is_expected else ASSIGNED
    if assessment.strategy.asks and code == ASSIGNED:
        is_one = route.kind is RouteKind.CLUSTER
        message = (
            f"Asks {route} when it would start it."
            if is_one
            else f"Asks the clusters of {route} when they would start it."
        )
        return replace(evaluation, able=dict.fromkeys(assessment.able), code=ASKING, message=message)
    return replace(evaluation, best=best, code=code)


def choose(evaluation: Evaluation, key: str) -> Decision:
    """Draw one of the best ranked clusters."""
    if not evaluation.best:
        return Decision(cluster=None, code=evaluation.code, message=evaluation.message, evaluation=evaluation)
    cluster = evaluation.choice.draw(key)
    message = describe_choice(cluster, evaluation.code)
    if evaluation.code == ASKING:  # foreseen, of something that is not created
        message = f"Its clusters would be asked; '{cluster}' is the best {evaluation.message}."
    return Decision(cluster=cluster, code=evaluation.code, message=message, evaluation=evaluation)


def describe_choice(cluster: str, code: str, *, is_past: bool = False) -> str:
    """What the choice of a cluster means while the execution waits there, or once it does not any more."""
    unseen = ", which had no agent when this was decided" if code == EXPECTED.code else ""
    if is_past:
        return f"Cluster '{cluster}' was chosen{unseen}."
    return f"Waits for cluster '{cluster}'{unseen or ' to take it'}."


def _unable(route: Route, evaluation: Evaluation) -> Evaluation:
    """Why no cluster is able, by the first filter that each one fails."""
    verdicts = evaluation.verdicts
    failures = {
        candidate.cluster.name: [verdict for verdict in verdicts[candidate.position] if not verdict.passed]
        for candidate in evaluation.candidates
        if candidate.weight > 0
    }
    if not failures:
        return replace(evaluation, code=WEIGHT.code, message="The fleet has no cluster yet.")
    # What its creator may not use now is no candidate, unless there is no other.
    permanent = {
        cluster: [verdict for verdict in failed if BY_NAME[verdict.filter].is_permanent]
        for cluster, failed in failures.items()
        if failed[0].filter != USE.name
    }
    is_feasible = not permanent or not all(permanent.values())
    # Where waiting cannot help, temporary obstacles do not matter.
    obstacles = {cluster: failed[0] for cluster, failed in ({} if is_feasible else permanent).items()}
    obstacles = {cluster: obstacles.get(cluster, failed[0]) for cluster, failed in failures.items()}
    # Where it waits for clusters that have been seen, the others do not count in the code.
    filters = {
        obstacles[cluster].filter
        for cluster, failed in failures.items()
        if not any(verdict.filter == EXPECTED.name for verdict in failed)
    }
    if len(filters) > 1:  # nor do those that its creator may not use, where it may use some
        filters.discard(USE.name)
    code = BY_NAME[filters.pop()].code if len(filters) == 1 else _MIXED
    detailed = describe_unable(route, obstacles)
    message = describe_unable(route, {cluster: _without_values(verdict) for cluster, verdict in obstacles.items()})
    return replace(evaluation, code=code, message=message, detailed_message=detailed, is_feasible=is_feasible)


def _without_values(verdict: Verdict) -> Verdict:
    """A verdict by rules without the values that they looked at: else every report would be a new reason to wait."""
    if verdict.filter != RULES.name:
        return verdict
    return replace(verdict, reason=verdict.reason.partition(VALUES)[0])


def _render_verdict(verdict: Verdict) -> dict[str, Any]:
    fields: dict[str, Any] = {"filter": verdict.filter, "passed": verdict.passed}
    return fields | {"reason": verdict.reason} if verdict.reason else fields
