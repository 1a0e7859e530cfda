"""The states of Slurm jobs, from Slurm and from the jobs' own files, in the words of executions."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

from agent.engines.base import NativePhase, NativeState
from agent.engines.command_engine import TASK
from agent.engines.leases import CLUSTER_LOST, LEASE_OVER_MESSAGE
from agent.engines.slurm.commands import NativeJob
from agent.engines.slurm.job_files import (
    CANCELLED,
    COMMAND_NOT_FOUND,
    LEASE_OVER,
    NO_WORKING_DIRECTORY,
    TIME_LIMIT,
    marked_id,
    read_ending,
    started_at,
)
from agent.files import read_json

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
        return _timed_out(state, directory)
    if phase is NativePhase.ABORTED:
        return state
    if job.state in _MESSAGES:
        return replace(state, reason=job.state, message=_MESSAGES[job.state])
    return _with_details(_with_code(state, job.exit_code, job.signal), directory, job.reason)


def recorded_state(directory: Path) -> NativeState | None:
    """The state of a job from its own files alone; None if they do not record its end."""
    ending = read_ending(directory)
    if ending is None:
        return None
    phase = NativePhase.FAILED if ending.code else NativePhase.SUCCEEDED
    state = NativeState(phase, started_at=started_at(directory), finished_at=ending.finished_at)
    if ending.is_signalled and (directory / CANCELLED).exists():
        return replace(state, phase=NativePhase.ABORTED)
    return _with_details(_with_code(state, ending.code, 0), directory)


def _with_code(state: NativeState, code: int, number: int) -> NativeState:
    """A state with its exit code or signal: a shell adds 128 to the signal that ended a command."""
    if number == 0 and 128 < code < 128 + signal.NSIG:
        number = code - 128
    return replace(state, signal=number) if number else replace(state, exit_code=code)


def _with_details(state: NativeState, directory: Path, slurm_reason: str = "") -> NativeState:
    """A failure with the details in the job's own files."""
    if state.phase is not NativePhase.FAILED:
        return state
    ending = read_ending(directory)
    if ending is None and marked_id(directory) is None:
        detail = f" ({slurm_reason})" if slurm_reason else ""
        message = f"Slurm could not start it{detail}: check that its nodes see the agent's directory {directory}."
        return replace(state, reason="NOT_STARTED", message=message)
    reason = ending.reason if ending else ""
    record = read_json(directory / TASK) or {}
    if reason == CANCELLED:
        return replace(state, phase=NativePhase.ABORTED, exit_code=None)
    if reason == LEASE_OVER:
        return replace(state, exit_code=None, signal=None, reason=CLUSTER_LOST, message=LEASE_OVER_MESSAGE)
    if reason == TIME_LIMIT:
        return _timed_out(replace(state, exit_code=None, signal=None), directory)
    if reason == COMMAND_NOT_FOUND:
        message = (
            f"There is no command '{record.get('command')}' on its node: check its name, and PATH in its environment."
        )
        return replace(state, reason=reason, message=message)
    if reason == NO_WORKING_DIRECTORY:
        message = f"The working directory {record.get('work')} does not exist on its node."
        return replace(state, exit_code=None, reason=reason, message=message)
    if state.signal is not None:
        return replace(state, reason="SIGNAL", message=f"It was ended by the signal {_signal_name(state.signal)}.")
    return state


def _timed_out(state: NativeState, directory: Path) -> NativeState:
    limit = (read_json(directory / TASK) or {}).get("time_limit_seconds")
    message = "It ran longer than Slurm lets it." if limit is None else f"It ran longer than its limit of {limit:g} s."
    return replace(state, phase=NativePhase.TIMED_OUT, reason=TIME_LIMIT, message=message)


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else str(number)
