"""Asking again: about executions to which no cluster said yes, and about those that may move to another cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import Workload, group_of
from admin.core.placement.decisions import ASKING, Decision, choose, evaluate
from admin.core.placement.routes import Route
from admin.core.placement.scores import asking_of, strategy_of
from admin.services.bid_rounds import Inquiry, open_rounds
from admin.services.context import Context
from admin.services.creator_rights import current_rights
from admin.services.deciders import route_of, taken_of
from admin.services.decision_views import workload_of
from admin.services.definitions import current_fleet, latest_fleet
from admin.services.new_decisions import store_again
from admin.services.redecisions import hold_loaded
from admin.store import bid_rounds, executions, fleet
from admin.store.executions import Execution

#: Executions in one transaction: creations that look at load wait for it.
_BATCH = 200
#: When it is tried again to ask about what may move, while none of its clusters can be asked.
_UNABLE_SECONDS = 60.0


def ask_again(context: Context, execution_ids: Sequence[int]) -> None:
    """Ask the clusters of executions again: of those that none said yes to, and of those that may move."""
    with context.database.writing() as connection:
        fleet.share(connection)
        loaded, fleet_now = hold_asked(context, connection, execution_ids)
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


def hold_asked(context: Context, connection: Connection, execution_ids: Sequence[int]) -> tuple[set[str], Fleet]:
    """Lock the clusters of executions that ask, and all whose load counts for some pool, before any execution.

    Returns these, and the fleet with what they reported last: nothing is reported while they are locked. A request may
    ask in a pool that does not, whose clusters are among them for that.
    """
    fleet_now = current_fleet(context, connection)
    loaded = hold_loaded(connection, fleet_now, executions.get_many(connection, execution_ids))
    return loaded, latest_fleet(context, connection)


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
