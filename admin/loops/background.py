"""The background work of one process."""

from __future__ import annotations

from admin.loops.asking import AskingLoop
from admin.loops.audit import AuditLoop
from admin.loops.evictions import EvictionLoop
from admin.loops.leadership import Leader
from admin.loops.retention import RetentionLoop
from admin.loops.statistics import StatisticsLoop
from admin.loops.waiting import WaitingLoop
from admin.services.context import Context


def start_background(context: Context) -> Leader:
    """Start every loop; they run while this process holds the lease, but for those that each process has."""
    leader = Leader(
        context,
        [
            WaitingLoop(context),
            AskingLoop(context),
            EvictionLoop(context),
            RetentionLoop(context),
            StatisticsLoop(context),
        ],
        [AuditLoop(context)],
    )
    leader.start()
    return leader
