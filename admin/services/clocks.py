"""Clocks: whether anything may be judged by time now."""

from __future__ import annotations

import logging

from admin.metrics import count_judgement_pause
from admin.services.context import Context

_log = logging.getLogger("rainbow.loops")
_REASONS = {
    "start": "this process has just begun to watch the clusters",
    "jump": "the clock has jumped",
    "pause": "this process was paused",
}


def may_judge(context: Context) -> bool:
    """Whether clusters and deadlines may be judged: not for one lease after a start, a jump or a pause."""
    lease_seconds = context.settings.agents.lease_seconds
    reason = context.watch.look(context.clock(), context.monotonic(), lease_seconds)
    if reason is not None:
        count_judgement_pause(reason)
        _log.log(
            logging.INFO if reason == "start" else logging.WARNING,
            f"nothing is judged by time for {lease_seconds:g} s: {_REASONS[reason]}",
        )
    return context.watch.may_judge
