"""Rounds of bids as explanations tell them: who was asked about an execution, and who answered what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.placement.bids import Bid, describe_answer
from admin.core.placement.rounds import RoundOutcome
from admin.store import bid_rounds, bids
from admin.store.bid_rounds import BidRound
from admin.store.executions import Execution

#: Rounds that an explanation has, the last ones.
MOST_ROUNDS = 5


class RoundView(NamedTuple):
    """A round, the bids in it, and the clusters that have not answered yet."""

    round: BidRound
    bids: Sequence[Bid]
    awaited: Sequence[str]


def view_rounds(connection: Connection, execution: Execution, decision: int, *, is_last: bool) -> list[RoundView]:
    """The last rounds of an execution; of a decision that others followed, the one that led to it."""
    rounds = bid_rounds.of(connection, execution.id)
    if not is_last:
        rounds = [round_ for round_ in rounds if round_.decision == decision]
    if not execution.is_unleased:  # then no answer counts any more, though that is noted only when it would be due
        withdrawn = RoundOutcome.WITHDRAWN.value
        rounds = [round_._replace(ask_again_at=None, outcome=round_.outcome or withdrawn) for round_ in rounds]
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


def answers_of(rounds: Sequence[RoundView]) -> dict[str, str]:
    """What each cluster answered in the last of some rounds, in words."""
    if not rounds:
        return {}
    last, given, awaited = rounds[-1]
    words = {bid.cluster: describe_answer(bid, last.seconds) for bid in given}
    return words | {cluster: describe_answer(None, last.seconds) for cluster in awaited}


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
