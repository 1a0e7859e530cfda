"""How jobs with a batch script ended, from their own files, in the words of executions."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

from agent.engines.base import NativePhase, NativeState
from agent.engines.batch.job_files import (
    CANCELLED,
    COMMAND_NOT_FOUND,
    LEASE_OVER,
    NO_WORKING_DIRECTORY,
    OUT_OF_MEMORY,
    TIME_LIMIT,
    marked_id,
    read_ending,
    started_at,
)
from agent.engines.command_engine import TASK
from agent.engines.leases import CLUSTER_LOST, LEASE_OVER_MESSAGE
from agent.engines.memory_words import find_lack_of_memory, lack_of_memory_message
from agent.files import read_file, read_json

#: What is written down of a task whose processes the kernel refuses more address space than that.
ADDRESS_SPACE = "address_space_bytes"
#: How much of the end of stderr is looked at.
_END_BYTES = 8192


def recorded_state(directory: Path) -> NativeState | None:
    """The state of a job from its own files alone; None if they do not record its end."""
    ending = read_ending(directory)
    if ending is None:
        return None
    phase = NativePhase.FAILED if ending.code else NativePhase.SUCCEEDED
    state = NativeState(phase, started_at=started_at(directory), finished_at=ending.finished_at)
    if ending.is_signalled and (directory / CANCELLED).exists():
        return replace(state, phase=NativePhase.ABORTED)
    return with_details(with_code(state, ending.code, 0), directory)


def with_code(state: NativeState, code: int, number: int) -> NativeState:
    """A state with its exit code or signal: a shell adds 128 to the signal that ended a command."""
    if number == 0 and 128 < code < 128 + signal.NSIG:
        number = code - 128
    return replace(state, signal=number) if number else replace(state, exit_code=code)


def with_details(state: NativeState, directory: Path, native_reason: str = "") -> NativeState:
    """A failure with the details in the job's own files."""
    if state.phase is not NativePhase.FAILED:
        return state
    ending = read_ending(directory)
    if ending is None and marked_id(directory) is None:
        detail = f" ({native_reason})" if native_reason else ""
        message = f"It could not be started{detail}: check that its nodes see the agent's directory {directory}."
        return replace(state, reason="NOT_STARTED", message=message)
    reason = ending.reason if ending else ""
    record = read_json(directory / TASK) or {}
    if reason == CANCELLED:
        return replace(state, phase=NativePhase.ABORTED, exit_code=None)
    if reason == LEASE_OVER:
        return replace(state, exit_code=None, signal=None, reason=CLUSTER_LOST, message=LEASE_OVER_MESSAGE)
    if reason == TIME_LIMIT:
        return timed_out(replace(state, exit_code=None, signal=None), directory)
    if reason == COMMAND_NOT_FOUND:
        message = (
            f"There is no command '{record.get('command')}' on its node: check its name, and PATH in its environment."
        )
        return replace(state, reason=reason, message=message)
    if reason == NO_WORKING_DIRECTORY:
        message = f"The working directory {record.get('work')} does not exist on its node."
        return replace(state, exit_code=None, reason=reason, message=message)
    if reason == OUT_OF_MEMORY:
        return replace(state, reason=reason, message="It used more memory than it may, and the kernel ended it.")
    if (limit := record.get(ADDRESS_SPACE)) and (printed := find_lack_of_memory(_end(directory), is_near=False)):
        return replace(state, reason=OUT_OF_MEMORY, message=lack_of_memory_message(printed, limit))
    if state.signal is not None:
        return replace(state, reason="SIGNAL", message=f"It was ended by the signal {_signal_name(state.signal)}.")
    return state


def _end(directory: Path) -> bytes:
    """The end of what the job printed on stderr; of a long one the file with the highest place is the last."""
    files = {int(path.suffix[1:]): path for path in directory.glob("stderr*") if path.suffix[1:].isdigit()}
    path = files[max(files)] if files else directory / "stderr"
    try:
        return read_file(path, _END_BYTES, max(0, path.stat().st_size - _END_BYTES))
    except FileNotFoundError:
        return b""


def timed_out(state: NativeState, directory: Path) -> NativeState:
    limit = (read_json(directory / TASK) or {}).get("time_limit_seconds")
    longest = "the cluster lets it" if limit is None else f"its limit of {limit:g} s"
    return replace(state, phase=NativePhase.TIMED_OUT, reason=TIME_LIMIT, message=f"It ran longer than {longest}.")


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else str(number)
