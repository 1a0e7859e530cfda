"""Rounds of bids as explanations tell them: who was asked about an execution, and who answered what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.placement.bids import Bid
from admin.store import bid_rounds, bids
from admin.store.bid_rounds import BidRound

#: Rounds that an explanation has, the last ones.
MOST_ROUNDS = 5


class RoundView(NamedTuple):
    """A round, the bids in it, and the clusters that have not answered yet."""

    round: BidRound
    bids: Sequence[Bid]
    awaited: Sequence[str]


def view_rounds(connection: Connection, execution_id: int, decision: int, *, is_last: bool) -> list[RoundView]:
    """The last rounds of an execution; of a decision that others followed, the one that led to it."""
    rounds = bid_rounds.of(connection, execution_id)
    if not is_last:
        rounds = [round_ for round_ in rounds if round_.decision == decision]
    shown = rounds[-MOST_ROUNDS:]
    given = bids.of_rounds(connection, [round_.id for round_ in shown]) if shown else {}
    return [
        RoundView(
            round_,
            given[round_.id],
            bids.unanswered(connection, round_.id) if round_.decided_at is None else (),
        )
        for round_ in shown
    ]


def without_clusters_but(rounds: Sequence[RoundView], told: frozenset[str | None]) -> list[RoundView]:
    """Rounds without the bids of clusters that an asker is not told of."""
    return [
        RoundView(
            view.round,
            [bid for bid in view.bids if bid.cluster in told],
            [cluster for cluster in view.awaited if cluster in told],
        )
        for view in rounds
    ]
