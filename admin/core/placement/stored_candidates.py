"""Stored candidates: the clusters that a decision of the past looked at, and why each was not chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from admin.core.fleet.clusters import ClusterState, Health
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import JsonObject
from admin.core.placement.bids import describe_worse
from admin.core.placement.choice import draw
from admin.core.placement.constraints.outcomes import describe_loss, draws_evenly
from admin.core.placement.filters import CORDONED, DECLINED, ENABLED, REACHABLE
from admin.core.placement.obstacles import SWITCHED_STATES, describe_decline, describe_drop
from admin.core.placement.scores import STRATEGIES, WORDS, Standing, Strategy, show_score
from admin.core.provenance import Provenance

#: The events that set such states, by cluster and state.
SwitchedBy = Mapping[tuple[str, str], Provenance]


def switched_candidates(trail: Mapping[str, Any]) -> dict[str, list[str]]:
    """The candidates of a stored decision that operators keep from getting work, by their states."""
    switched: dict[str, list[str]] = {state: [] for state in SWITCHED_STATES.values()}
    for candidate in trail["candidates"]:
        for verdict in candidate["verdicts"]:
            if not verdict["passed"] and verdict["filter"] in SWITCHED_STATES:
                switched[SWITCHED_STATES[verdict["filter"]]].append(candidate["cluster"])
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
    scores: JsonObject | None,
    key: str,
    chosen: str | None,
    switched_by: SwitchedBy,
    now: datetime | None,
    answers: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """The candidates of a stored decision with scores, ranks and draws, which are the same whenever they are made.

    `switched_by` are the events that set the states of `switched_candidates`, by cluster and state. Ages are counted
    from `now`; without it, as for a decision of the past, times themselves are told. `answers` are what clusters
    answered that were asked since, in words.
    """
    strategy = STRATEGIES[trail["strategy"]]
    by_position = strategy.score_by_position
    candidates = [dict(candidate) for candidate in trail["candidates"]]
    passed = []
    for position, candidate in enumerate(candidates):
        candidate["chosen"] = candidate["cluster"] == chosen
        if all(verdict["passed"] for verdict in candidate["verdicts"]):
            passed.append(candidate)
            stored = scores[candidate["cluster"]] if scores is not None else None
            candidate["score"] = by_position(position) if by_position is not None else stored
    rules = trail.get("rules", ())
    is_even = draws_evenly(rules)
    ranks = sorted({_order(candidate["score"]) for candidate in passed})
    is_asked = strategy.asks and chosen is None  # their bids are not there yet, or none is a yes
    for candidate in () if is_asked else passed:
        candidate["rank"] = ranks.index(_order(candidate["score"])) + 1
        if candidate["rank"] == 1:
            candidate["draw"] = draw(key, candidate["cluster"], 1 if is_even else candidate["weight"])
    winner = next((candidate for candidate in candidates if candidate["chosen"]), None)
    for candidate in candidates:
        if not candidate["chosen"]:
            choose_by, words = trail.get("choose_by", ""), (scores or {}).get(WORDS, {})
            candidate["why_not"] = _why_not(candidate, winner, words, strategy, rules, choose_by, switched_by, now)
        candidate["verdicts"] = [
            _with_event(verdict, event_of(candidate["cluster"], verdict["filter"], switched_by))
            for verdict in candidate["verdicts"]
        ]
    for candidate in passed if is_asked else ():
        candidate["why_not"] = answers.get(candidate["cluster"], "was asked")
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


def _with_event(verdict: Mapping[str, Any], event: Provenance | None) -> Mapping[str, Any]:
    return verdict if verdict["passed"] or event is None else {**verdict, "provenance": event.as_json()}


def event_of(cluster: str, filter_name: str, switched_by: SwitchedBy) -> Provenance | None:
    """The event by which a cluster does not pass a filter; None where operators have no part in it."""
    return switched_by.get((cluster, SWITCHED_STATES.get(filter_name, "")))


def _why_not(
    candidate: Mapping[str, Any],
    winner: Mapping[str, Any] | None,
    words: Mapping[str, str],
    strategy: Strategy,
    rules: Sequence[JsonObject],
    choose_by: str,
    switched_by: SwitchedBy,
    now: datetime | None,
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
    loss = describe_loss(candidate, winner, rules) if rules else None
    if loss is not None:
        return f"able; {loss}"
    room = "" if rules else _without_room(strategy)
    if candidate["rank"] > winner["rank"]:
        if choose_by:
            return f"able; {describe_worse(choose_by, candidate['score'], winner['score'])}"
        own, best = (
            Standing(each["cluster"], each["score"], words.get(each["cluster"], "")) for each in (candidate, winner)
        )
        return f"able; {strategy.compare(own, best)}{room}"
    draws = f"{show_score(candidate['draw'])} against {show_score(winner['draw'])}"
    return f"able; drew {draws}, and the largest wins{room}"


def _without_room(strategy: Strategy) -> str:
    """That a strategy may choose a full cluster while another one is idle, and which do not; else ""."""
    if strategy.looks_at_load:
        return ""
    others = [other.name for other in STRATEGIES.values() if other.needs_room]
    return f"; {strategy.name} does not look at room, {' and '.join(others)} do"


def _order(score: float | None) -> float:
    """Scores that are unknown rank after all that are known."""
    return math.inf if score is None else score
