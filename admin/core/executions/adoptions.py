"""Adoptions: attempts that agents have, and that a restored database does not know to be theirs."""

from __future__ import annotations

from datetime import datetime

from admin.core.executions.attempts import NOT_ABORTED, AttemptState, Change, may_have_started
from admin.core.executions.lifecycle import Phase


def may_adopt(execution: AttemptState, cluster: str, attempt: int) -> bool:
    """Whether what an agent says it has is newer than what is stored of the execution."""
    if Phase(execution.phase).is_finished or attempt < execution.attempt:
        return False
    if attempt > execution.attempt or execution.lease_expires_at is None:
        return True
    return execution.cluster != cluster and not may_have_started(execution)


def adopt(cluster: str, instance: str, attempt: int, until: datetime) -> Change:
    """Take an agent's word that it has an attempt; it may run, which the agent's next report says."""
    values = {
        "phase": Phase.QUEUED.value,
        "cluster": cluster,
        "attempt": attempt,
        "reason": "ADOPTED",
        "reason_message": f"The database was restored, and the agent of cluster '{cluster}' has it; it may run.",
        "started_at": None,
        "native_id": None,
        "nodes": None,
        "exit_code": None,
        "lease_expires_at": until,
        "lease_instance": instance,
        "confirmed": True,
        "silent_since": None,
        **NOT_ABORTED,
    }
    return Change(kind="ADOPTED", values=values)
