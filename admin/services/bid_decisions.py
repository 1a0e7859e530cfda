"""Decisions by bids: each round is decided once, when all clusters have answered or its deadline is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from admin.core.creators import CreatorRights
from admin.core.executions.attempts import is_backing_off, time_limit_seconds
from admin.core.executions.lifecycle import Phase
from admin.core.fleet.asking import Asking
from admin.core.fleet.fleet import Fleet
from admin.core.placement.bids import (
    NO_CLUSTER_CAN,
    Bid,
    Load,
    Weighed,
    count_answers,
    describe_present,
    find_better,
    pause_before,
    weigh,
)
from admin.core.placement.candidates import Workload, group_of
from admin.core.placement.decisions import ASKING, Decision, choose, evaluate
from admin.core.placement.rounds import RoundOutcome
from admin.core.placement.scores import asking_of
from admin.core.resources import Amounts
from admin.core.times import show_duration
from admin.metrics import count_finished, count_redecided
from admin.services.asking_again import ask_again, hold_asked
from admin.services.bid_loads import BidLoads, load_beside, standing_of
from admin.services.context import Context
from admin.services.creator_rights import current_rights
from admin.services.deciders import route_of
from admin.services.decision_views import workload_of
from admin.services.endings import end
from admin.services.new_decisions import store_again
from admin.services.redecision_rounds import Redecided, Round
from admin.store import bid_rounds, bids, executions, fleet
from admin.store.bid_rounds import BidRound
from admin.store.executions import Execution

#: Rounds in one transaction: creations that look at load wait for it.
_BATCH = 200


def decide_due_rounds(context: Context) -> int:
    """Decide every round that is due, and ask again where that is; returns how many were decided."""
    with context.database.autocommit() as connection:
        now = context.clock()
        due, again = bid_rounds.due(connection, now, _BATCH), bid_rounds.due_again(connection, now, _BATCH)
    if due:
        decide_rounds(context, due)
    if again:
        ask_again(context, again)
    return len(due)


def decide_rounds(context: Context, ids: Sequence[int]) -> list[Redecided]:
    """Decide rounds that are open; of several that try to, one does."""
    with context.database.writing() as connection:
        fleet.share(connection)
        execution_ids = bid_rounds.execution_ids(connection, ids)
        loaded, fleet_now = hold_asked(context, connection, execution_ids)
        held = executions.hold(connection, execution_ids)
        now = context.clock()
        claimed = bid_rounds.claim(connection, ids, now)
        bids.silence(connection, [round_.id for round_ in claimed], now)
        given = bids.of_rounds(connection, [round_.id for round_ in claimed])
        bidding = Bidding(
            fleet=fleet_now,
            now=now,
            rights=current_rights(context, connection),
            loads=load_beside(
                connection,
                {name: fleet_now.clusters[name] for name in loaded},
                [bid for answers in given.values() for bid in answers],
                now,
                singly={execution.cluster for execution in held if execution.cluster is not None},
            ),
        )
        by_id = {execution.id: execution for execution in held}
        for round_ in claimed:
            bidding.decide(round_, by_id.get(round_.execution_id), given[round_.id])
        failed = _store(context, connection, bidding)
    count_redecided(bidding.redecided)
    for execution in failed:
        count_finished(execution, now)
    return bidding.redecided


@dataclass(kw_only=True)
class Bidding:
    """Rounds that one transaction decides, one after the other: each counts what those before it assigned."""

    fleet: Fleet
    now: datetime
    rights: CreatorRights
    loads: BidLoads
    rows: list[dict[str, object]] = field(default_factory=list)  #: of the rounds
    changes: list[tuple[Execution, Decision]] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    redecided: list[Redecided] = field(default_factory=list)
    messages: list[dict[str, object]] = field(default_factory=list)  #: of executions that are asked about again

    def decide(self, round_: BidRound, execution: Execution | None, answers: Sequence[Bid]) -> None:
        """Decide one round by its answers."""
        if execution is None or not _awaits(execution, round_):
            self._end(round_, RoundOutcome.WITHDRAWN)
            return
        route, workload = route_of(execution), workload_of(execution, self.rights)
        group = group_of(route, self.fleet)
        standing = standing_of(execution)
        evaluation = evaluate(route, self.fleet, workload, self.loads.waiting(standing))
        if group is None or evaluation.code != ASKING:
            # The fleet has changed: what is decided for that comes first, and if it asks again, that is due.
            self._end(round_, RoundOutcome.WITHDRAWN, again=pause_before(round_.number))
            return
        given = {bid.cluster: bid for bid in answers}
        load = Load(
            now=self.now,
            assigned=self.loads.beside(answers, standing),
            run_seconds=time_limit_seconds(execution.content),
            round_seconds=round_.seconds,
        )
        asking = asking_of(group, workload.requested)
        weighed = weigh(route, evaluation, given, asking, workload, load)
        if round_.present is not None:
            self._rebalance(round_, execution, workload, weighed, given, asking)
        elif weighed.evaluation.best:
            answered, asked = count_answers(answers)
            because = f"by bids: {answered} of {asked} clusters answered"
            self._assign(round_, execution, workload, weighed, because, asking)
        elif weighed.evaluation.code == NO_CLUSTER_CAN:
            self._change(round_, execution, weighed, "by bids: each says never")
            self._end(round_, RoundOutcome.NEVER, decision=execution.decisions + 1)
        else:
            message = weighed.evaluation.message
            self.messages.append({"id": execution.id, "reason_message": message, "updated_at": self.now})
            self._end(round_, RoundOutcome.NOBODY, again=pause_before(round_.number))

    def _takes(self, cluster: str, execution: Execution, workload: Workload) -> Amounts:
        """What an execution takes of a cluster while it waits there."""
        if is_backing_off(execution.not_before, self.now):
            return {}
        return workload.takes_of(self.fleet.clusters[cluster])

    def _rebalance(
        self,
        round_: BidRound,
        execution: Execution,
        workload: Workload,
        weighed: Weighed,
        given: dict[str, Bid],
        asking: Asking,
    ) -> None:
        """Move an execution to a cluster that starts it so much sooner, or leave it where it waits."""
        present, better_by = round_.present or "", asking.better_by_seconds
        better = None if better_by is None else find_better(weighed, present, given, better_by)
        if better is None:
            self._end(round_, RoundOutcome.STAYS, again=better_by)
            return
        there = min(start for name, start in weighed.starts.items() if name != present)
        sooner = describe_present(given[present], weighed.starts.get(present))
        cluster = choose(better.evaluation, str(execution.key)).cluster
        because = (
            f"from {present}, {sooner}, since '{cluster}' starts it in {show_duration(there)} by bids of one round"
        )
        self._assign(round_, execution, workload, better, because, asking)

    def _assign(
        self, round_: BidRound, execution: Execution, workload: Workload, weighed: Weighed, because: str, asking: Asking
    ) -> None:
        cluster = self._change(round_, execution, weighed, because)
        if cluster is None:
            return
        self.loads.assign(cluster, standing_of(execution), partial(self._takes, execution=execution, workload=workload))
        self._end(
            round_,
            RoundOutcome.CHOSEN,
            decision=execution.decisions + 1,
            cluster=cluster,
            promised_seconds=self._promised(execution, weighed.starts.get(cluster)),
            again=asking.better_by_seconds,
        )

    def _promised(self, execution: Execution, start: float | None) -> float | None:
        """In how many seconds something starts by a bid: not before its back-off is over."""
        if start is None or execution.not_before is None:
            return start
        return max(start, (execution.not_before - self.now).total_seconds())

    def _change(self, round_: BidRound, execution: Execution, weighed: Weighed, because: str) -> str | None:
        decision = choose(weighed.evaluation, str(execution.key))
        self.changes.append((execution, decision))
        self.causes.append(because)
        self.redecided.append(
            Redecided(
                id=execution.key,
                previous_cluster=execution.cluster,
                previous_reason=execution.reason,
                previous_message=execution.reason_message,
                cluster=decision.cluster,
                pool=execution.pool,
                label=execution.label,
                reason=decision.code,
                message=decision.message,
                is_change=True,
            )
        )
        return decision.cluster

    def _end(
        self,
        round_: BidRound,
        outcome: RoundOutcome,
        *,
        decision: int | None = None,
        cluster: str | None = None,
        promised_seconds: float | None = None,
        again: float | None = None,
    ) -> None:
        self.rows.append(
            {
                "id": round_.id,
                "outcome": outcome.value,
                "decision": decision,
                "cluster": cluster,
                "promised_seconds": promised_seconds,
                "ask_again_at": None if again is None else self.now + timedelta(seconds=again),
            }
        )


def _awaits(execution: Execution, round_: BidRound) -> bool:
    """Whether an execution still waits for a round, where it did when that was asked."""
    is_asking = round_.present is not None or execution.reason == ASKING
    return execution.is_unleased and is_asking and execution.cluster == round_.present


def _store(context: Context, connection: Connection, bidding: Bidding) -> list[Execution]:
    """Store what rounds have decided; returns the executions that no cluster can run."""
    store_again(context, connection, bidding.changes, bidding.causes)
    executions.change_many(connection, bidding.messages)
    bid_rounds.save(connection, bidding.rows)
    moved = [outcome for outcome in bidding.redecided if outcome.previous_cluster is not None]
    Round(context=context, cause="Other clusters start them sooner.").note(connection, moved)
    failed = []
    for execution, decision in bidding.changes:
        if decision.code == NO_CLUSTER_CAN:
            decided = execution._replace(events=execution.events + 1, decisions=execution.decisions + 1)
            if end(connection, decided, Phase.FAILED, NO_CLUSTER_CAN, decision.message, None, bidding.now):
                failed.append(decided._replace(phase=Phase.FAILED.value, reason=NO_CLUSTER_CAN))
    return failed
