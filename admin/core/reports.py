"""Reports of agents: what each does to an execution, and which are refused."""

from __future__ import annotations

from dataclasses import dataclass

from admin.core.lifecycle import Phase

#: What an agent may report, and the phase that it means; None for what changes no phase by itself.
REPORTS: dict[str, Phase | None] = {
    "RUNNING": Phase.RUNNING,
    "SUCCEEDED": Phase.SUCCEEDED,
    "FAILED": Phase.FAILED,
    "TIMED_OUT": Phase.TIMED_OUT,
    "ABORTED": Phase.ABORTED,
    "DECLINED": None,  # the agent will not have it
    "RELEASED": None,  # the agent gives it back, not started
    "UNKNOWN": None,  # the agent knows nothing of it, and neither does its engine
}


@dataclass(frozen=True, kw_only=True)
class Held:
    """What the admin knows of an execution that an agent reports on."""

    cluster: str | None
    attempt: int
    phase: Phase
    is_leased: bool


def refusal(held: Held | None, cluster: str, attempt: int, report: str) -> str | None:
    """Why a report does not count; None where it does, or where it was counted before."""
    if held is None:
        return "UNKNOWN_EXECUTION"
    if attempt != held.attempt:
        return "OLD_ATTEMPT"
    if held.cluster != cluster:
        return "NOT_YOURS"
    phase = REPORTS[report]
    if phase is held.phase:
        return None
    if not held.is_leased:
        return "NOT_YOURS" if not held.phase.is_finished else "PHASE"
    if phase is None:
        return None if held.phase in (Phase.QUEUED, Phase.ABORTING) or report == "UNKNOWN" else "PHASE"
    if held.phase is Phase.ABORTING:
        return None  # whatever it came to, it has ended; the wish to end it is fulfilled
    return None if held.phase.may_become(phase) else "PHASE"
