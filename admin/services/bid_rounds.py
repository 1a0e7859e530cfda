"""Rounds of bids: whom an execution's clusters are asked by, and when they are asked again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.placement.bids import BidAnswer
from admin.core.placement.candidates import group_of
from admin.core.placement.decisions import Evaluation
from admin.core.placement.routes import Route
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.store import bid_rounds, bids, fleet


class Inquiry(NamedTuple):
    """An execution whose clusters are to be asked."""

    execution_id: int
    route: Route
    evaluation: Evaluation  #: whose able clusters are asked
    present: str | None = None  #: the cluster at which it waits meanwhile


def open_rounds(context: Context, connection: Connection, inquiries: Sequence[Inquiry], now: datetime) -> None:
    """Store whom to ask about executions; their agents get the question with their next sync.

    Who said never before is not asked again, and whose agent cannot bid is known by what it reports.
    """
    if not inquiries:
        return
    ids = [inquiry.execution_id for inquiry in inquiries]
    rounds = bid_rounds.open_rounds(
        connection,
        [
            {
                "execution_id": inquiry.execution_id,
                "asked_at": now,
                "deadline": now + timedelta(seconds=_deadline_seconds(context, connection, inquiry.route)),
                "present": inquiry.present,
            }
            for inquiry in inquiries
        ],
    )
    names = {cluster for inquiry in inquiries for cluster in _asked(inquiry)}
    can_bid = {name for name, state in fleet.states(connection, names).items() if state.can_bid}
    refusals = bids.refusals(connection, ids)
    rows = []
    for inquiry in inquiries:
        refused = refusals.get(inquiry.execution_id, {})
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


def _asked(inquiry: Inquiry) -> list[str]:
    evaluation = inquiry.evaluation
    return [evaluation.candidates[position].cluster.name for position in evaluation.able]


def _deadline_seconds(context: Context, connection: Connection, route: Route) -> float:
    """How long clusters have for a bid: as the pool says, else as configured."""
    group = group_of(route, current_fleet(context, connection))
    seconds = None if group is None else group.asking.deadline_seconds
    return context.settings.ask_deadline_seconds if seconds is None else seconds
