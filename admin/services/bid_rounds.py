"""Rounds of bids: whom an execution's clusters are asked by, and when they are asked again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.fleet.fleet import Fleet
from admin.core.placement.bids import BidAnswer
from admin.core.placement.candidates import RequestedStrategy, group_of
from admin.core.placement.decisions import Evaluation
from admin.core.placement.routes import Route
from admin.core.placement.scores import asking_of
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.store import bid_rounds, bids, cluster_events, fleet


class Inquiry(NamedTuple):
    """An execution whose clusters are to be asked."""

    execution_id: int
    route: Route
    evaluation: Evaluation  #: whose able clusters are asked
    requested: RequestedStrategy | None  #: the strategy that its request asks for
    present: str | None = None  #: the cluster at which it waits meanwhile
    is_new: bool = False  #: whether it was just created, so that there is no round of it
    asks_all: bool = False  #: also the clusters that said never, as somebody wants it


def open_rounds(context: Context, connection: Connection, inquiries: Sequence[Inquiry], now: datetime) -> None:
    """Store whom to ask about executions; their agents get the question with their next sync.

    Who said never before is not asked again unless it has changed since, and whose agent cannot bid is known by what it
    reports. Earlier rounds of these executions that are still open are withdrawn.
    """
    if not inquiries:
        return
    older = [inquiry.execution_id for inquiry in inquiries if not inquiry.is_new]
    if older:
        bids.silence(connection, bid_rounds.withdraw(connection, older, now), now)
    fleet_now = current_fleet(context, connection)
    rounds = bid_rounds.open_rounds(
        connection,
        [
            {
                "execution_id": inquiry.execution_id,
                "asked_at": now,
                "deadline": now + timedelta(seconds=_deadline_seconds(context, fleet_now, inquiry)),
                "present": inquiry.present,
            }
            for inquiry in inquiries
        ],
    )
    names = {cluster for inquiry in inquiries for cluster in _asked(inquiry)}
    can_bid = {name for name, state in fleet.states(connection, names).items() if state.can_bid}
    refusals = _lasting_refusals(connection, fleet_now, older) if older else {}
    rows = []
    for inquiry in inquiries:
        refused = {} if inquiry.asks_all else refusals.get(inquiry.execution_id, {})
        for cluster in _asked(inquiry):
            answer = None if cluster in can_bid else BidAnswer.REPORTED.value
            answer = BidAnswer.NEVER.value if cluster in refused else answer
            rows.append(
                {
                    "round": rounds[inquiry.execution_id],
                    "cluster": cluster,
                    "answer": answer,
                    "reason": refused.get(cluster, ""),
                    "answered_at": None if answer is None else now,
                }
            )
    bids.add(connection, rows)


def _lasting_refusals(
    connection: Connection, fleet_now: Fleet, execution_ids: Sequence[int]
) -> dict[int, dict[str, str]]:
    """Why clusters will never run executions, without those that say or are said to have something else since."""
    refusals = bids.refusals(connection, execution_ids)
    clusters = {cluster for refused in refusals.values() for cluster in refused}
    changed_at = {cluster: _changed_at(connection, fleet_now, cluster) for cluster in clusters}
    return {
        execution_id: {
            cluster: refusal.reason
            for cluster, refusal in refused.items()
            if all(changed <= refusal.at for changed in changed_at[cluster])
        }
        for execution_id, refused in refusals.items()
    }


def _changed_at(connection: Connection, fleet_now: Fleet, name: str) -> list[datetime]:
    """When what a cluster has last changed, by its description, its agent's report and its definition."""
    cluster = fleet_now.clusters.get(name)
    defined = None if cluster is None else cluster.definition.last_change
    times = (cluster_events.changed_at(connection, name), None if defined is None else defined.updated_at)
    return [at for at in times if at is not None]


def _asked(inquiry: Inquiry) -> list[str]:
    evaluation = inquiry.evaluation
    return [evaluation.candidates[position].cluster.name for position in evaluation.able]


def _deadline_seconds(context: Context, fleet_now: Fleet, inquiry: Inquiry) -> float:
    """How long clusters have for a bid: as the request says, else as the pool says, else as configured."""
    group = group_of(inquiry.route, fleet_now)
    seconds = None if group is None else asking_of(group, inquiry.requested).deadline_seconds
    return context.settings.ask_deadline_seconds if seconds is None else seconds
