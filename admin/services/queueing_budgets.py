"""Queueing budgets: executions that waited for longer than theirs are ended."""

from __future__ import annotations

from admin.core.executions.lifecycle import Phase
from admin.core.executions.limits import QUEUEING_BUDGET_EXCEEDED
from admin.core.times import show_time
from admin.metrics import count_finished
from admin.services.context import Context
from admin.services.endings import end
from admin.services.execution_tokens import give_back_of_ended
from admin.store import execution_queue, executions, limit_scopes
from admin.store.executions import Execution

#: Executions that are ended in one transaction.
_BATCH = 500


def end_overdue(context: Context) -> list[Execution]:
    """End executions that waited longer than their queueing budget."""
    now = context.clock()
    with context.database.reading() as connection:
        if not execution_queue.overdue(connection, now, 1):
            return []
    ended = []
    with context.database.writing() as connection:
        for execution in executions.hold(connection, execution_queue.overdue(connection, now, _BATCH)):
            if execution.lease_expires_at is not None or execution.queue_deadline is None:
                continue  # an agent has leased it at the last moment
            message = f"It still waited when its queueing budget ended at {show_time(execution.queue_deadline)}."
            if end(connection, execution, Phase.TIMED_OUT, QUEUEING_BUDGET_EXCEEDED, message, None, now):
                ended.append(execution)
        limit_scopes.store(connection, [execution.id for execution in ended])
        pending = give_back_of_ended(context, connection, ended)
    context.tokens.finish(pending)
    for execution in ended:
        count_finished(execution._replace(phase=Phase.TIMED_OUT.value, reason=QUEUEING_BUDGET_EXCEEDED), now)
    return ended
