"""Bids: what clusters answer when they are asked for an execution, and which of them gets it.

A bid is made from what the cluster's engine has. What was assigned to the cluster since, its agent could not know, so
that it is counted here: work that does not fit beside it starts later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from admin.core.fleet.asking import CHEAPEST, MIX, SOONEST, Asking
from admin.core.placement.candidates import Candidate, Workload
from admin.core.placement.decisions import ASKING, ASSIGNED, Evaluation
from admin.core.placement.filters import BID, BY_NAME, USE, WEIGHT, Verdict, Verdicts
from admin.core.placement.obstacles import describe_unable
from admin.core.placement.routes import Route
from admin.core.placement.scores import describe_start, reported_start
from admin.core.resources import Amounts, shortages
from admin.core.times import show_duration

#: The reason of executions that no cluster could ever run, by their own word.
NO_CLUSTER_CAN = "NO_CLUSTER_CAN"
#: How long something without a time limit is assumed to run, where others wait for it.
_ASSUMED_RUN_SECONDS = 60.0
#: How long to wait before clusters are asked again, of which none said yes: doubled with each round, up to the second.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
#: A start counts as promised if it is at most so late: seconds, and a part of what was promised.
_LATE_SECONDS, _LATE_PART = 5.0, 0.1


class BidAnswer(Enum):
    """What a cluster answered."""

    YES = "yes"
    NOT_NOW = "not-now"
    NEVER = "never"
    REPORTED = "reported"  # its agent cannot bid: what it reports counts
    SILENT = "silent"  # it did not answer in time
    REFUSED = "refused"  # its answer was not understood


#: The answers by which nothing is known of a cluster.
UNANSWERED = (BidAnswer.SILENT, BidAnswer.REFUSED)


@dataclass(frozen=True, kw_only=True)
class Bid:
    """The answer of one cluster in a round."""

    cluster: str
    answer: BidAnswer
    start_seconds: float | None = None  #: after the answer
    cost: float | None = None  #: None for what its definition says
    reason: str = ""
    answered_at: datetime


@dataclass(frozen=True, kw_only=True)
class Load:
    """What bids do not count, as of when they are compared."""

    now: datetime
    assigned: Mapping[str, Amounts] = field(default_factory=dict)  #: what each cluster got since its bid
    run_seconds: float | None = None  #: the time limit of what is to be placed
    round_seconds: float | None = None  #: how long the clusters had for their answers


class Weighed(NamedTuple):
    """A round of bids, compared."""

    evaluation: Evaluation
    starts: Mapping[str, float]  #: in how many seconds each cluster would start it that says so


def weigh(
    route: Route, evaluation: Evaluation, bids: Mapping[str, Bid], asking: Asking, workload: Workload, load: Load
) -> Weighed:
    """Rank the clusters that pass all filters by their bids; those without a yes are dropped with the reason."""
    verdicts: list[Verdicts] = list(evaluation.verdicts)
    starts: dict[str, float] = {}
    able: dict[int, float | None] = {}
    for position in evaluation.able:
        candidate = evaluation.candidates[position]
        bid = bids.get(candidate.cluster.name)
        reason = _why_out(bid, load.round_seconds)
        verdicts[position] = (*verdicts[position], Verdict(BID.name, not reason, reason))
        if bid is None or reason:
            continue
        start = start_of(bid, candidate, workload, load)
        if start is not None:
            starts[bid.cluster] = start
        able[position] = _score(asking, start, candidate.cluster.cost if bid.cost is None else bid.cost)
    weighed = replace(evaluation, verdicts=verdicts, able=able, choose_by=asking.choose_by)
    if not able:
        return Weighed(_without_yes(route, weighed, bids), starts)
    first = min((score for score in able.values() if score is not None), default=None)
    best = [evaluation.candidates[position] for position, score in able.items() if score == first]
    if asking.choose_by == CHEAPEST:  # of those that cost the same, the one that starts it first
        soonest = min(starts.get(candidate.cluster.name, math.inf) for candidate in best)
        best = [candidate for candidate in best if starts.get(candidate.cluster.name, math.inf) == soonest]
    return Weighed(replace(weighed, best=best, code=ASSIGNED, message=""), starts)


def _why_out(bid: Bid | None, round_seconds: float | None) -> str:
    """Why a cluster does not take part in the choice; "" where it does."""
    if bid is None:
        return "was not asked: it was not able then"
    match bid.answer:
        case BidAnswer.SILENT:
            within = f" within {round_seconds:g} s" if round_seconds is not None else " in time"
            return f"did not answer{within}"
        case BidAnswer.REFUSED:
            return f"made a bid that was refused ({bid.reason.removesuffix('.')})"
        case BidAnswer.NOT_NOW:
            return f"said not now{f' ({bid.reason})' if bid.reason else ''}"
        case BidAnswer.NEVER:
            return f"said never{f' ({bid.reason})' if bid.reason else ''}"
    return ""


def describe_answer(bid: Bid | None, round_seconds: float) -> str:
    """What a cluster answered in a round without a choice, in words; the bid is None where it has not answered yet."""
    if bid is None:
        return "has not answered yet"
    if bid.answer is BidAnswer.REPORTED:
        return "its agent cannot bid, so that its last report counts"
    if bid.answer is BidAnswer.YES:
        return f"said yes, and would start it {describe_start(bid.start_seconds)}"
    return _why_out(bid, round_seconds)


def start_of(bid: Bid, candidate: Candidate, workload: Workload, load: Load) -> float | None:
    """In how many seconds a cluster would start something, what was assigned since its bid included; None if unknown.

    Rounded to seconds: the clocks and answers of clusters are no more exact.
    """
    if bid.answer is BidAnswer.REPORTED:
        promised, age = reported_start(candidate, workload), 0.0
    else:
        promised, age = bid.start_seconds, max(0.0, (load.now - bid.answered_at).total_seconds())
    if promised is None:
        return None
    left = max(0.0, promised - age)
    return float(round(left + _delay(left, candidate, workload, load)))


def _delay(left: float, candidate: Candidate, workload: Workload, load: Load) -> float:
    """How much later something starts for what the bid did not count, as if all of it ran side by side and as long."""
    cluster, assigned = candidate.cluster, load.assigned.get(candidate.cluster.name, {})
    takes = workload.takes_of(cluster)
    short = shortages(candidate.free, takes) if candidate.free is not None else []
    if not short and candidate.lacks_for(workload):
        short = list(takes)  # enough in all, and no place on any of its nodes
    if left < 1 and candidate.free is not None and not short:
        return 0.0  # there is room for it beside what was assigned
    run_seconds = _ASSUMED_RUN_SECONDS if load.run_seconds is None else load.run_seconds
    room = cluster.unused or {}
    sizes = {**room, **(cluster.capacity or {})}  # what is free counts as all only where nothing else is known
    if left < 1:
        told = [name for name in short if name in sizes and takes[name] > 0]
        if told and all(room.get(name, 0) >= takes[name] for name in told):
            runs = (_runs_before(assigned.get(name, 0), takes[name], room[name], sizes[name]) for name in told)
            return run_seconds * max(runs)
    ahead = dict(assigned)
    for name in short if left < 1 else ():  # a later start counts what it takes itself
        ahead[name] = ahead.get(name, 0) + takes[name]
    shares = [amount / size for name, amount in ahead.items() if (size := sizes.get(name))]
    if not shares:  # nothing is known of the cluster: as if all ran one after the other
        return run_seconds * ahead.get("executions", 0)
    return run_seconds * max(shares)


def _runs_before(assigned: int, takes: int, room: int, size: int) -> int:
    """How many runs end before something has a place, behind what is assigned and as if all took as much.

    The first of them have the room that is free; what is in use now is free for the others when those end.
    """
    before = -(-assigned // takes)
    return 1 + max(0, before - room // takes) // max(1, size // takes)


def _score(asking: Asking, start: float | None, cost: float | None) -> float | None:
    if asking.choose_by == CHEAPEST:
        return cost
    if asking.choose_by != MIX:
        return start
    return None if start is None or cost is None else start * asking.seconds_weight + cost * asking.cost_weight


def _without_yes(route: Route, weighed: Evaluation, bids: Mapping[str, Bid]) -> Evaluation:
    """A round without a yes: the clusters are asked again, unless each of them says never or can never run it."""
    obstacles: dict[str, Verdict] = {}
    is_feasible = False
    for candidate, verdicts in zip(weighed.candidates, weighed.verdicts, strict=True):
        if candidate.weight <= 0:
            continue
        failed = [verdict for verdict in verdicts if not verdict.passed]
        name, bid = candidate.cluster.name, bids.get(candidate.cluster.name)
        lasting = [verdict for verdict in failed if BY_NAME[verdict.filter].is_permanent]
        if failed[0].filter == BID.name and bid is not None and bid.answer is BidAnswer.NEVER:
            lasting = failed
        is_feasible |= not lasting and failed[0].filter not in (USE.name, WEIGHT.name)
        obstacles[name] = (lasting or failed)[0]
    code = ASKING if is_feasible else NO_CLUSTER_CAN
    return replace(weighed, code=code, message=describe_unable(route, obstacles), is_feasible=is_feasible)


def find_better(weighed: Weighed, present: str, bids: Mapping[str, Bid], better_by_seconds: float) -> Weighed | None:
    """The clusters that would start something so much sooner than the one at which it waits; None where none would.

    Both starts are of one round: without an answer of the present cluster nothing is known to be better.
    """
    bid = bids.get(present)
    if bid is None or bid.answer in UNANSWERED:
        return None
    here = math.inf if bid.answer in (BidAnswer.NOT_NOW, BidAnswer.NEVER) else weighed.starts.get(present)
    others = {name: start for name, start in weighed.starts.items() if name != present}
    if here is None or not others or here - min(others.values()) < better_by_seconds:
        return None
    evaluation, soonest = weighed.evaluation, min(others.values())
    able = {position: weighed.starts.get(evaluation.candidates[position].cluster.name) for position in evaluation.able}
    best = [
        evaluation.candidates[position]
        for position, start in able.items()
        if start == soonest and evaluation.candidates[position].cluster.name != present
    ]
    better = replace(evaluation, able=able, best=best, choose_by=SOONEST, code=ASSIGNED, message="")
    return weighed._replace(evaluation=better)


def describe_worse(choose_by: str, score: float | None, best: float | None) -> str:
    """How the bid of a cluster compares with that of the one that was chosen, by their scores."""
    if choose_by == SOONEST:
        start, chosen = (describe_start(seconds) for seconds in (score, best))
        return f"would start it {start}, counting what goes first there, and the chosen one {chosen}"
    cost = "cost" if choose_by == CHEAPEST else "start or cost"
    if score is None:
        return f"its {cost} is not known{'' if best is None else f', and that of the chosen one is {best:.6g}'}"
    other = "that of the chosen one is not known" if best is None else f"the chosen one {best:.6g}"
    if choose_by == CHEAPEST:
        return f"costs {score:.6g}, and {other}"
    return f"counts {score:.6g} by start and cost, and {other}"


def describe_present(bid: Bid, start: float | None) -> str:
    """When the cluster at which something waits would start it, by its bid in the round that moves it."""
    if bid.answer is BidAnswer.NEVER:
        return "which will never run it"
    return "which has no room" if start is None else f"which would start it in {show_duration(start)}"


def pause_before(number: int) -> float:
    """How many seconds pass before the clusters are asked again after a round of a number, from 1."""
    return float(min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(number - 1, 10)))


def is_kept(promised_seconds: float, late_seconds: float) -> bool:
    """Whether a start that was promised in some seconds came about as promised, by how late it was."""
    return late_seconds <= max(_LATE_SECONDS, _LATE_PART * promised_seconds)


def count_answers(bids: Sequence[Bid]) -> tuple[int, int]:
    """How many clusters of a round answered, or were known by their reports, and how many there were."""
    return sum(bid.answer not in UNANSWERED for bid in bids), len(bids)
