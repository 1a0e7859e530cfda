"""The states of Slurm jobs, from Slurm and from the jobs' own files, in the words of executions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent.engines.base import NativePhase, NativeState
from agent.engines.batch.endings import timed_out, with_code, with_details
from agent.engines.slurm.commands import NativeJob

_WAITING = {
    *("PENDING", "CONFIGURING", "POWER_UP_NODE", "REQUEUED", "REQUEUE_FED"),
    *("REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
}
_ENDED = {
    "COMPLETED": NativePhase.SUCCEEDED,
    "FAILED": NativePhase.FAILED,
    "TIMEOUT": NativePhase.TIMED_OUT,
    "CANCELLED": NativePhase.ABORTED,
    "REVOKED": NativePhase.ABORTED,
}
#: Failures that only Slurm knows of, with their messages.
_MESSAGES = {
    "OUT_OF_MEMORY": "It used more memory than it asked for.",
    "NODE_FAIL": "One of its nodes failed.",
    "BOOT_FAIL": "One of its nodes did not boot.",
    "LAUNCH_FAILED": "Slurm could not start it.",
    "PREEMPTED": "Slurm ended it in favour of another job.",
    "DEADLINE": "Its deadline passed.",
}


def phase_of(job: NativeJob) -> NativePhase:
    """The phase of a job."""
    if job.state in _WAITING:
        return NativePhase.QUEUED
    if job.state in _MESSAGES:
        return NativePhase.FAILED
    # In every other state of Slurm's, the job has started and has not ended.
    return _ENDED.get(job.state, NativePhase.RUNNING)


def state_of(job: NativeJob, nodes: tuple[str, ...], directory: Path) -> NativeState:
    """The state of a job that Slurm knows."""
    phase = phase_of(job)
    if phase is NativePhase.QUEUED:
        return NativeState(phase, message=f"Slurm says: {job.reason}" if job.reason else "")
    # A job that never had a node has not started, even if Slurm shows a start time.
    state = NativeState(phase, nodes=nodes, started_at=job.started_at if nodes else None)
    if phase is NativePhase.RUNNING:
        return state
    state = replace(state, finished_at=job.ended_at)
    if phase is NativePhase.TIMED_OUT:
        return timed_out(state, directory)
    if phase is NativePhase.ABORTED:
        return state
    if job.state in _MESSAGES:
        return replace(state, reason=job.state, message=_MESSAGES[job.state])
    return with_details(with_code(state, job.exit_code, job.signal), directory, job.reason)
