"""The Slurm engine: batch jobs on a cluster that has Slurm, by the commands of its command line.

A job is called by its key. Its files are in its directory, which must be on a file system that the nodes share with
the agent. What the controller no longer remembers is taken from the job's own files, from accounting where there is
some, or from the completion log.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.engines import task_files
from agent.engines.base import (
    EngineUnavailable,
    Handle,
    NativePhase,
    NativeState,
    OptionError,
    SubmitRefused,
    Task,
    refuse_unknown,
)
from agent.engines.slurm import nodes, script
from agent.engines.slurm.commands import NativeJob, Refusal, SlurmCommands
from agent.engines.slurm.states import phase_of, recorded_state, state_of
from agent.files import read_json, write_json

_OPTIONS: dict[str, Any] = {
    "configuration": "",  # slurm.conf, where it is not at its usual place
    "account": "",
    "arguments": [],  # more for sbatch: a constraint, a quality of service, a reservation
    "ignoreImage": False,
    "graceSeconds": 5,
    "keepSeconds": 3600,
    "timeoutSeconds": 5,
}
#: A start in ten years is Slurm's way to say that it has no idea.
_NO_IDEA_SECONDS = 10 * 365 * 86400.0
_LOCK = "lock"
#: How long a job that nobody knows is asked for again, before it counts as unknown.
_LAG_SECONDS = 30.0


class SlurmEngine:
    """Runs commands as batch jobs."""

    name = "slurm"
    #: The controller serves everyone: it is not asked at every turn.
    poll_seconds = 2.0
    #: Jobs belong to the cluster, not to the agent's machine.
    is_shared = True

    def __init__(self, options: Mapping[str, Any], directory: Path) -> None:
        refuse_unknown(options, _OPTIONS)
        chosen = {**_OPTIONS, **options}
        for name in ("configuration", "account"):
            if not isinstance(chosen[name], str):
                raise OptionError(f"engineOptions.{name}: must be a text")
        for name in ("graceSeconds", "keepSeconds", "timeoutSeconds"):
            _refuse_no_seconds(name, chosen[name])
        if not isinstance(chosen["ignoreImage"], bool):
            raise OptionError("engineOptions.ignoreImage: must be true or false")
        if not isinstance(chosen["arguments"], list) or not all(isinstance(one, str) for one in chosen["arguments"]):
            raise OptionError("engineOptions.arguments: must be a list of texts, each an argument of sbatch")
        self.directory = directory
        self.options = chosen
        self.commands = SlurmCommands(chosen["configuration"], float(chosen["timeoutSeconds"]))
        self.partitions = nodes.Partitions(self.commands)
        #: Since when each key has been missing, on a clock of our own.
        self._missing: dict[str, float] = {}

    def version(self) -> str:
        """Slurm's version."""
        return self.commands.version()

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All nodes there are, and what is not given away on those that work."""
        return nodes.capacity(self.commands.records("--details", "show", "nodes"))

    def check(self, task: Task) -> str:
        """Commands only, in a partition that there is, and no larger than that."""
        if task.job.get("image") and not self.options["ignoreImage"]:
            return (
                "the slurm engine runs commands, not images: leave out the image, or set engineOptions.ignoreImage to "
                "run the command without it"
            )
        if not task.job.get("command"):
            return "the slurm engine needs a command"
        if unfit := script.unfit_environment(task.environment):
            return unfit
        return self.partitions.check(task)

    def submit(self, task: Task) -> Handle:
        """Give the job to Slurm."""
        directory = self.directory / task.key
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = task_files.working_directory(directory, task.job.get("working_directory"))
        told = {"work": str(work), "command": task.job["command"][0], "time_limit_seconds": task.time_limit_seconds}
        write_json(directory / script.TASK, told)
        environment = {**task.environment, "RAINBOW_KEY": task.key, "RAINBOW_TASK": "0"}
        batch = script.batch_script(task, directory, work, environment, float(self.options["graceSeconds"]))
        with _submission(directory) as lock:
            try:
                printed, _ = self.commands.run(
                    "sbatch", "--parsable", *self._arguments(task, directory), script=batch, holding=lock
                )
            except Refusal as refusal:
                raise SubmitRefused(f"Slurm refuses the job: {refusal}") from refusal
        return Handle(task.key, printed.strip().partition(";")[0])

    def _arguments(self, task: Task, directory: Path) -> list[str]:
        return script.arguments(task, directory, self.options["account"], self.options["arguments"])

    def find(self, key: str) -> Handle | None:
        """The job that started, or else the first that was submitted."""
        directory = self.directory / key
        self._await_submission(directory)
        if (started := script.marked_id(directory)) is not None:
            return Handle(key, started)
        jobs = _accepted(self.commands.named(key)) or _accepted(self.commands.past_jobs(name=key))
        return Handle(key, jobs[0].id) if jobs else None

    def _await_submission(self, directory: Path) -> None:
        """Wait for an sbatch that outlived the agent which started it."""
        deadline = time.monotonic() + float(self.options["timeoutSeconds"]) * 3
        while _is_locked(directory / _LOCK):
            if time.monotonic() > deadline:
                raise EngineUnavailable(
                    f"an earlier sbatch of {directory.name} has not ended yet; it is asked again later"
                )
            time.sleep(0.02)

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each job, by one command for all that the controller remembers."""
        known = self.commands.jobs([handle.native_id for handle in handles])
        found: dict[str, NativeState] = {}
        gone: list[Handle] = []
        for handle in handles:
            job = known.get(handle.native_id)
            # Ids are used again.
            if job is None or job.name != handle.key:
                gone.append(handle)
            elif (other := self._superseded(handle, job)) is not None:
                found |= self.states([other])
            else:
                found[handle.key] = self._state(job)
        if gone:
            found |= self._past_states(gone)
        for key in found:
            self._missing.pop(key, None)
        return found

    def _superseded(self, handle: Handle, job: NativeJob) -> Handle | None:
        """The job that ran instead, where a lost answer had us submit two."""
        if phase_of(job) is not NativePhase.FAILED:
            return None
        started = script.marked_id(self.directory / handle.key)
        return None if started in (None, handle.native_id) else Handle(handle.key, str(started))

    def _past_states(self, gone: Sequence[Handle]) -> dict[str, NativeState]:
        """Of jobs that the controller does not know: by their own files, then by Slurm's records of the past."""
        found = {handle.key: state for handle in gone if (state := recorded_state(self.directory / handle.key))}
        left = [handle for handle in gone if handle.key not in found or self._was_terminated(handle.key)]
        if not left:
            return found
        ids = {handle.native_id: handle.key for handle in left}
        for job in self.commands.past_jobs(ids=list(ids)):
            if ids.get(job.id) == job.name:
                found[job.name] = self._state(job)
        now = time.monotonic()
        for handle in left:
            if handle.key not in found and now - self._missing.setdefault(handle.key, now) >= _LAG_SECONDS:
                message = f"Slurm does not know job {handle.native_id} any more, and it left no record of its end."
                found[handle.key] = NativeState(NativePhase.UNKNOWN, message=message)
        return found

    def _was_terminated(self, key: str) -> bool:
        ending = script.ending(self.directory / key)
        return ending is not None and ending.reason == script.TERMINATED

    def _state(self, job: NativeJob) -> NativeState:
        try:
            nodes = self.commands.unfolded(job.nodes)
        except Refusal:
            nodes = (job.nodes,)
        return state_of(job, nodes, self.directory / job.name)

    def cancel(self, handle: Handle) -> None:
        """End every job of that key that has not ended, and keep one that Slurm does not show yet from starting."""
        if (self.directory / handle.key).is_dir():
            (self.directory / handle.key / script.CANCELLED).touch()
        live = [job.id for job in self.commands.named(handle.key) if not phase_of(job).finished]
        if live:
            # What ended meanwhile is fine.
            with contextlib.suppress(Refusal):
                self.commands.run("scancel", "--quiet", *live)

    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        """A piece of what it printed."""
        return task_files.read_log(self.directory / handle.key, stream, offset, limit)

    def read_output(self, handle: Handle, path: str, limit: int) -> tuple[bytes, int, bool] | None:
        """A file below its working directory, or with its whole path."""
        told = read_json(self.directory / handle.key / script.TASK)
        return None if told is None else task_files.read_output(Path(told["work"]) / path, limit)

    def eta(self, task: Task) -> float | None:
        """When Slurm would start it, submitting nothing."""
        arguments = self._arguments(task, self.directory)
        try:
            _, said = self.commands.run("sbatch", "--test-only", *arguments, script="#!/bin/sh\n")
        except Refusal:
            return None
        found = re.search(r"to start at (\S+)", said)
        if found is None:
            return None
        try:
            start = datetime.fromisoformat(found.group(1)).replace(tzinfo=UTC)
        except ValueError:
            return None  # Slurm says it has no idea with a year of five digits
        seconds = max(0.0, (start - datetime.now(UTC)).total_seconds())
        return seconds if seconds < _NO_IDEA_SECONDS else None

    def forget(self, handle: Handle) -> None:
        """Let its directory go, after a while."""
        self._missing.pop(handle.key, None)
        task_files.forget(self.directory / handle.key, float(self.options["keepSeconds"]))


@contextlib.contextmanager
def _submission(directory: Path) -> Iterator[int]:
    """A lock that sbatch holds too, so that a later agent knows of one that still runs."""
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    except BlockingIOError as error:
        raise EngineUnavailable(f"an earlier sbatch of {directory.name} has not ended yet") from error
    finally:
        os.close(lock)


def _is_locked(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _accepted(jobs: Sequence[NativeJob]) -> list[NativeJob]:
    """Without refused submissions, which leave a record too: of a job that failed and never had a node."""
    return [job for job in jobs if job.state != "FAILED" or job.nodes]


def _refuse_no_seconds(name: str, value: Any) -> None:
    least = 1 if name == "timeoutSeconds" else 0
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise OptionError(f"engineOptions.{name}: must be a number of seconds, {least} or more")
