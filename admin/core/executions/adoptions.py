"""Adoptions: attempts that agents have, and that a restored database does not know to be theirs."""

from __future__ import annotations

from datetime import datetime

from admin.core.executions.attempts import AttemptState, Change, may_have_started
from admin.core.executions.lifecycle import Phase


def may_adopt(execution: AttemptState, cluster: str, attempt: int) -> bool:
    """Whether what an agent says it has is newer than what is stored of the execution."""
    if Phase(execution.phase).is_finished or attempt < execution.attempt:
        return False
    if attempt > execution.attempt or execution.lease_expires_at is None:
        return True
    is_here = execution.cluster == cluster
    return execution.phase == Phase.QUEUED.value if is_here else not may_have_started(execution)


def adopt(execution: AttemptState, cluster: str, instance: str, attempt: int, until: datetime, now: datetime) -> Change:
    """Take an agent's word that it has an attempt, which may run since."""
    is_same_attempt = attempt == execution.attempt
    values = {
        "phase": Phase.RUNNING.value,
        "cluster": cluster,
        "attempt": attempt,
        "reason": "ADOPTED",
        "reason_message": f"The database was restored, and the agent of cluster '{cluster}' has it.",
        "started_at": execution.started_at if is_same_attempt and execution.started_at else now,
        "lease_expires_at": until,
        "lease_instance": instance,
        "confirmed": True,
        "silent_since": None,
        "abort_cause": None,
        "abort_principal": None,
    }
    return Change(kind="ADOPTED", values=values)
