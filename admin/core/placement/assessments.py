"""Assessments: every candidate of a group with the verdicts of all filters, and the scores of those that pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from admin.core.fleet.fleet import Fleet, Group
from admin.core.placement.candidates import Candidate, Workload, candidates_of
from admin.core.placement.constraints.expressions import Value
from admin.core.placement.constraints.facts import job_values
from admin.core.placement.constraints.ranking import rank
from admin.core.placement.filters import CHAIN, CHAIN_WITH_ROOM, RULES, Verdict, Verdicts
from admin.core.placement.scores import Strategy, strategy_of
from admin.core.resources import Amounts


def criteria_of(group: Group | None, workload: Workload) -> tuple[object, ...]:
    """All of a workload that the filters and the strategy of a group look at: evaluations are cached by it."""
    rules = None if group is None else strategy_of(group, workload.requested).rules
    return workload.criteria, None if rules is None else job_values(rules.job_names, workload)


_PASSES_RULES = Verdict(RULES.name, True)


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What filters and a strategy make of the candidates of a group."""

    strategy: Strategy
    candidates: Sequence[Candidate]
    verdicts: Sequence[Verdicts]  #: of each candidate
    able: Mapping[int, float | None]  #: scores of those that passed, by position; the smaller is the better
    values: Mapping[int, Mapping[str, Value]] = field(default_factory=dict)  #: what rules calculated, by position


def assess(
    group: Group,
    fleet: Fleet,
    workload: Workload,
    waiting: Mapping[str, Amounts] | None,
    *,
    needs_room: bool = False,
) -> Assessment:
    """Ask every filter about every cluster of a group, then its strategy.

    `waiting` is what is taken of each by what waits there; with None nothing is asked that depends on it. With
    `needs_room` full clusters are passed over, whatever the strategy.
    """
    strategy = strategy_of(group, workload.requested)
    has_load = waiting is not None
    needs_room = has_load and (needs_room or strategy.needs_room)
    chain = CHAIN_WITH_ROOM if needs_room else CHAIN
    candidates = candidates_of(group, fleet, waiting if strategy.looks_at_load or needs_room else None)
    verdicts = chain.verdicts(candidates, workload)
    passing = [candidate for candidate, passed in zip(candidates, verdicts, strict=True) if passed is chain.passed]
    rules = strategy.rules
    if rules is None or workload.job is None or (rules.looks_at_load and not has_load):
        able = {candidate.position: strategy.score(candidate, workload) for candidate in passing}
        return Assessment(strategy=strategy, candidates=candidates, verdicts=verdicts, able=able)
    ranking = rank(rules, passing, workload, waiting or {})
    for candidate in passing:
        reason = ranking.dropped.get(candidate.position)
        verdict = _PASSES_RULES if reason is None else Verdict(RULES.name, False, reason)
        verdicts[candidate.position] = (*chain.passed, verdict)
    return Assessment(
        strategy=strategy,
        candidates=candidates,
        verdicts=verdicts,
        able=ranking.order,
        values=ranking.values,
    )
