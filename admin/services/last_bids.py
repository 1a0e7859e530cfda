"""Last bids: where something would go whose clusters would be asked, by what they last answered to anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from admin.core.fleet.fleet import Fleet
from admin.core.placement.bids import Bid, BidAnswer, Load, weigh
from admin.core.placement.candidates import Workload, group_of
from admin.core.placement.decisions import ASKING, ASSIGNED, Evaluation, evaluate
from admin.core.placement.routes import Route
from admin.core.placement.scores import asking_of
from admin.core.times import show_duration
from admin.services.bid_loads import BidLoads, Standing


def foresee_bids(
    route: Route,
    fleet: Fleet,
    workload: Workload,
    known: Mapping[str, Bid],
    loads: BidLoads,
    standing: Standing,
    now: datetime,
) -> Evaluation:
    """How something that would ask is evaluated by the last bids of its clusters; those without one by their reports.

    What goes before it at each cluster counts as in a round. Its code stays that of asking: nothing was asked.
    """
    evaluation, group = evaluate(route, fleet, workload, loads.waiting(standing)), group_of(route, fleet)
    if evaluation.code != ASKING or group is None:
        return evaluation
    names = [evaluation.candidates[position].cluster.name for position in evaluation.able]
    given = {name: known.get(name) or Bid(cluster=name, answer=BidAnswer.REPORTED, answered_at=now) for name in names}
    run_seconds = None if workload.job is None else workload.job.duration
    load = Load(now=now, assigned=loads.beside(given.values(), standing), run_seconds=run_seconds)
    weighed = weigh(route, evaluation, given, asking_of(group, workload.requested), workload, load).evaluation
    source = _source([known[name] for name in names if name in known], len(names), now)
    if weighed.code != ASSIGNED:  # a no to something else refuses nothing: the clusters would be asked anyway
        obstacles = f"{weighed.message[:1].lower()}{weighed.message[1:]}"
        message = f"Its clusters would be asked; {source}, {obstacles}"
        return replace(weighed, code=ASKING, message=message, is_feasible=True)
    return replace(weighed, code=ASKING, message=source)


def _source(known: Sequence[Bid], asked: int, now: datetime) -> str:
    """By which bids it was foreseen."""
    times = [bid.answered_at for bid in known]
    if not times:
        return "by what they report, since none of them has made a bid"
    age = show_duration((now - min(times)).total_seconds())
    return f"by the last bids of {len(times)} of {asked}, up to {age} old"
