"""Decisions by bids: each round is decided once, when all clusters have answered or its deadline is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

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
from admin.core.placement.routes import Route
from admin.core.placement.scores import asking_of, strategy_of
from admin.core.resources import Amounts, add, subtract
from admin.core.times import show_duration
from admin.metrics import count_finished, count_redecided
from admin.services.bid_rounds import Inquiry, open_rounds
from admin.services.context import Context
from admin.services.creator_rights import current_rights
from admin.services.deciders import route_of, taken_of
from admin.services.decision_views import workload_of
from admin.services.definitions import current_fleet, latest_fleet
from admin.services.executions import end
from admin.services.new_decisions import store_again
from admin.services.redecision_rounds import Redecided, Round
from admin.services.redecisions import hold_loaded
from admin.store import bid_rounds, bids, execution_queue, executions, fleet
from admin.store.bid_rounds import BidRound
from admin.store.executions import Execution

#: Rounds in one transaction: creations that look at load wait for it.
_BATCH = 200
#: When it is tried again to ask about what may move, while none of its clusters can be asked.
_UNABLE_SECONDS = 60.0


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
        fleet_now = latest_fleet(context, connection)
        loaded = hold_loaded(connection, fleet_now)
        held = executions.hold(connection, bid_rounds.execution_ids(connection, ids))
        now = context.clock()
        claimed = bid_rounds.claim(connection, ids, now)
        bids.silence(connection, [round_.id for round_ in claimed], now)
        given = bids.of_rounds(connection, [round_.id for round_ in claimed])
        since = min((bid.answered_at for answers in given.values() for bid in answers), default=now)
        clusters = {name: fleet_now.clusters[name] for name in loaded}
        bidding = Bidding(
            fleet=fleet_now,
            now=now,
            rights=current_rights(context, connection),
            waiting=taken_of(connection, loaded, fleet_now, now),
            assigned=execution_queue.taken_beside_bids(connection, clusters, since, now),
        )
        by_id = {execution.id: execution for execution in held}
        for round_ in claimed:
            bidding.decide(round_, by_id.get(round_.execution_id), given[round_.id])
        failed = _store(context, connection, bidding)
    count_redecided(bidding.redecided)
    for execution in failed:
        count_finished(execution, now)
    return bidding.redecided


#: What is taken of clusters, by their names.
Taken = dict[str, dict[str, int]]


@dataclass(kw_only=True)
class Bidding:
    """Rounds that one transaction decides, one after the other: each counts what those before it assigned."""

    fleet: Fleet
    now: datetime
    rights: CreatorRights
    waiting: Taken  #: by what waits at each cluster, which its last report does not count
    assigned: Taken  #: of each cluster, which its bid does not count
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
        evaluation = evaluate(route, self.fleet, workload, self._without(self.waiting, execution, workload))
        if group is None or evaluation.code != ASKING:
            # The fleet has changed: what is decided for that comes first, and if it asks again, that is due.
            self._end(round_, RoundOutcome.WITHDRAWN, again=pause_before(round_.number))
            return
        given = {bid.cluster: bid for bid in answers}
        load = Load(
            now=self.now,
            assigned=self._without(self.assigned, execution, workload),
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

    def _without(self, taken: Taken, execution: Execution, workload: Workload) -> Taken:
        """What others take; an execution that waits at a cluster counts there already."""
        present = execution.cluster
        if present is None or present not in taken:
            return taken
        return {**taken, present: subtract(taken[present], self._takes(present, execution, workload))}

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
        takes = self._takes(cluster, execution, workload)
        self.waiting = self._without(self.waiting, execution, workload)
        self.assigned = self._without(self.assigned, execution, workload)
        for taken in (self.waiting, self.assigned):
            taken[cluster] = add(taken.get(cluster, {}), takes)
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


def ask_again(context: Context, execution_ids: Sequence[int]) -> None:
    """Ask the clusters of executions again: of those that none said yes to, and of those that may move."""
    with context.database.writing() as connection:
        fleet.share(connection)
        fleet_now = latest_fleet(context, connection)
        loaded = hold_loaded(connection, fleet_now)
        held = executions.hold(connection, execution_ids)
        now, rights = context.clock(), current_rights(context, connection)
        due = bid_rounds.still_due(connection, execution_ids)
        bid_rounds.forget_due(connection, due)
        waiting = taken_of(connection, loaded, fleet_now, now)
        inquiries: list[Inquiry] = []
        changes: list[tuple[Execution, Decision]] = []
        unable: list[int] = []  # to move now
        for execution in held:
            route, workload = route_of(execution), workload_of(execution, rights)
            if execution.id not in due or not _may_ask(execution, route, workload, fleet_now):
                continue
            evaluation = evaluate(route, fleet_now, workload, waiting)
            if evaluation.code == ASKING:
                inquiries.append(Inquiry(execution.id, route, evaluation, workload.requested, execution.cluster))
            elif execution.cluster is None:
                changes.append((execution, choose(evaluation, workload.key)))
            else:
                unable.append(execution.id)
        # Otherwise they would be found again at every look for what is not scheduled, in place of others.
        bid_rounds.postpone(connection, unable, now + timedelta(seconds=_UNABLE_SECONDS))
        open_rounds(context, connection, inquiries, now)
        store_again(context, connection, changes, ["when its clusters were to be asked again"] * len(changes))


def _may_ask(execution: Execution, route: Route, workload: Workload, fleet_now: Fleet) -> bool:
    """Whether the clusters of an execution may be asked again."""
    if not execution.is_unleased:
        return False
    if execution.cluster is None:
        return execution.reason == ASKING
    group = group_of(route, fleet_now)
    if group is None or not strategy_of(group, workload.requested).asks:
        return False
    return asking_of(group, workload.requested).better_by_seconds is not None


def schedule_rebalancing(context: Context, last_seen: dict[str, int] | None = None) -> int:
    """Have those asked about again that wait in pools which rebalance since they were given to a cluster.

    Returns how many executions that are. `last_seen` is kept between calls: the id up to which each pool was looked at,
    so that executions whose clusters cannot be asked now do not keep later ones from being looked at.
    """
    last_seen = {} if last_seen is None else last_seen
    times: dict[int, datetime] = {}
    unasked: list[int] = []
    with context.database.reading() as connection:
        now = context.clock()
        for pool in current_fleet(context, connection).pools.values():
            if not strategy_of(pool).asks or pool.asking.better_by_seconds is None:
                continue
            better_by = timedelta(seconds=pool.asking.better_by_seconds)
            for id, decided_at in bid_rounds.unscheduled(connection, pool.name, _BATCH):
                times[id] = max(now, decided_at + better_by)
            after = last_seen.get(pool.name, 0)
            ids = bid_rounds.unasked(connection, pool.name, now - better_by, after=after, most=_BATCH)
            last_seen[pool.name] = ids[-1] if len(ids) == _BATCH else 0
            unasked += _askable(context, connection, ids)
    if times:
        with context.database.writing() as connection:
            bid_rounds.schedule(connection, times)
    for start in range(0, len(unasked), _BATCH):
        ask_again(context, unasked[start : start + _BATCH])
    return len(times) + len(unasked)


def _askable(context: Context, connection: Connection, ids: Sequence[int]) -> list[int]:
    """Those of some executions whose clusters would be asked; looked at first because asking holds the clusters."""
    if not ids:
        return []
    fleet_now, rights = current_fleet(context, connection), current_rights(context, connection)
    askable = []
    for execution in executions.get_many(connection, ids):
        route, workload = route_of(execution), workload_of(execution, rights)
        if _may_ask(execution, route, workload, fleet_now) and evaluate(route, fleet_now, workload, {}).code == ASKING:
            askable.append(execution.id)
    return askable
