"""The Slurm engine: batch jobs, submitted and watched with Slurm's commands.

A job is named after its key. Its files are in its directory, which must be on a file system that the nodes share with
the agent. The state of a job that the controller no longer remembers is taken from the job's own files, from accounting
if the site has it, or from the completion log.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import (
    Bid,
    Handle,
    NativePhase,
    NativeState,
    OptionError,
    SubmitRefused,
    Task,
    parse_seconds,
)
from agent.engines.batch.endings import recorded_state
from agent.engines.batch.engine import BatchEngine, lock_submission
from agent.engines.batch.job_files import LOCK, marked_id
from agent.engines.batch.script import check_environment
from agent.engines.command_engine import TASK
from agent.engines.limits import LOG_LIMIT_BYTES
from agent.engines.requirements import required_fields
from agent.engines.slurm.commands import NativeJob, Refusal, SlurmCommands
from agent.engines.slurm.descriptions import describe
from agent.engines.slurm.nodes import Partitions, Room
from agent.engines.slurm.requirements import ANY_NODES, choose_nodes
from agent.engines.slurm.script import arguments, batch_script
from agent.engines.slurm.states import phase_of, state_of
from agent.files import write_json

#: Slurm gives a start more than ten years away if it cannot tell.
_LONGEST_ETA_SECONDS = 10 * 365 * 86400.0
#: A start within so many seconds is at once: Slurm gives whole seconds, and plans ahead.
_NOW_SECONDS = 2.0
#: What Slurm says of a job that it will not take later either.
_NEVER = re.compile(
    r"node configuration is not available|invalid (partition|account|feature|generic|qos|trackable)|"
    r"memory specification can not be satisfied|node count specification invalid|cpu count .*invalid",
    re.IGNORECASE,
)
#: How long a job that Slurm does not know is asked for again before it counts as unknown.
_LAG_SECONDS = 30.0


class SlurmEngine(BatchEngine):
    """Runs commands as batch jobs."""

    name = "slurm"
    defaults: ClassVar[Mapping[str, Any]] = {
        "configuration": "",  # path of slurm.conf, if it is not the default
        "account": "",
        "arguments": [],  # more arguments for sbatch: a constraint, a quality of service, a reservation
        "ignoreImage": False,
        "graceSeconds": 5,
        "keepSeconds": 3600,
        "logLimitBytes": LOG_LIMIT_BYTES,
        "runAs": "",
        "timeoutSeconds": 5,
    }
    #: Longer than the default, because all users share the controller.
    poll_seconds = 2.0

    def __init__(self, options: Mapping[str, Any], directory: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(options, directory, clock=clock)
        for name in ("configuration", "account"):
            if not isinstance(self.options[name], str):
                raise OptionError(f"engineOptions.{name}: must be a text")
        timeout_seconds = self.options["timeoutSeconds"] = parse_seconds(self.options, "timeoutSeconds", least=1)
        words = self.options["arguments"]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise OptionError("engineOptions.arguments: must be a list of texts, each an argument of sbatch")
        self.commands = SlurmCommands(self.options["configuration"], timeout_seconds, clock)
        self.partitions = Partitions(self.commands, clock)
        self._room = Room()
        #: The nodes as they were last shown.
        self._nodes: list[dict[str, str]] = []

    def version(self) -> str:
        """Slurm's version."""
        return self.commands.version()

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All nodes, and what is not allocated on those that are up."""
        return self._room.show(self._show_nodes())

    def _show_nodes(self) -> list[dict[str, str]]:
        self._nodes = self.commands.records("--details", "show", "nodes")
        return self._nodes

    def graph(self) -> dict[str, Any] | None:
        """All nodes with their sockets, cores, memory, gpus and features, and the partitions that they are in."""
        nodes = self._show_nodes()
        name = self.commands.settings().get("ClusterName", "slurm")
        return describe(name, nodes, self.commands.records("show", "partitions"))

    def room(self) -> dict[str, Any] | None:
        """What is free after the jobs that have started since capacity()."""
        return self._room.free()

    def node_room(self) -> dict[str, Any] | None:
        """What is free of each node after the jobs that have started since capacity()."""
        return self._room.free_nodes()

    def check(self, task: Task) -> str:
        """Accept commands that fit into their partition."""
        return self._check_command(task) or check_environment(task.environment) or self.partitions.check(_placed(task))

    def submit(self, task: Task) -> Handle:
        """Submit the job with sbatch."""
        directory, work = self._make_directories(task)
        record = {"work": str(work), "command": task.job["command"][0], "time_limit_seconds": task.time_limit_seconds}
        write_json(directory / TASK, record)
        if task.lease_seconds is not None:
            self._renew(task.key, task.lease_seconds)
        environment = {**task.environment, "RAINBOW_KEY": task.key, "RAINBOW_TASK": "0"}
        script = batch_script(
            task,
            directory,
            work,
            environment,
            grace_seconds=self.options["graceSeconds"],
            log_limit_bytes=self.options["logLimitBytes"],
        )
        with lock_submission(directory / LOCK, task.key) as lock:
            try:
                printed, _ = self.commands.run(
                    "sbatch", "--parsable", *self._arguments(task, directory), script=script, holding=lock
                )
            except Refusal as refusal:
                raise SubmitRefused(f"Slurm refuses the job: {refusal}") from refusal
        return Handle(task.key, printed.strip().partition(";")[0])

    def _arguments(self, task: Task, directory: Path) -> list[str]:
        choice = choose_nodes(task.job, self._nodes or self._show_nodes()) if required_fields(task.job) else ANY_NODES
        return arguments(_placed(task), directory, self.options["account"], self.options["arguments"], choice)

    def find(self, key: str) -> Handle | None:
        """The job of that key that started, else the first that was submitted."""
        directory = self.directory / key
        self._await_submission(directory / LOCK, key, self.options["timeoutSeconds"] * 3)
        if (native_id := marked_id(directory)) is not None:
            return Handle(key, native_id)
        jobs = _accepted(self.commands.named(key)) or _accepted(self.commands.past_jobs(name=key))
        return Handle(key, jobs[0].id) if jobs else None

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each job, with one command for all that the controller remembers."""
        self._renew_begun()
        jobs = self.commands.jobs([handle.native_id for handle in handles])
        states: dict[str, NativeState] = {}
        forgotten: list[Handle] = []
        for handle in handles:
            job = jobs.get(handle.native_id)
            # Slurm reuses ids.
            if job is None or job.name != handle.key:
                self._room.forget(handle.native_id)
                forgotten.append(handle)
                continue
            with contextlib.suppress(OSError):  # asked for again; the others must not wait for it
                if (other := self._superseding(handle, job)) is not None:
                    states |= self.states([other])
                else:
                    states[handle.key] = self._state(job)
        if forgotten:
            states |= self._past_states(forgotten)
        for key in states:
            self._missing_since.pop(key, None)
        return states

    def _superseding(self, handle: Handle, job: NativeJob) -> Handle | None:
        """The job that ran in place of this one, if a lost answer made the agent submit two."""
        if phase_of(job) is not NativePhase.FAILED:
            return None
        native_id = marked_id(self.directory / handle.key)
        return None if native_id in (None, handle.native_id) else Handle(handle.key, str(native_id))

    def _past_states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The states of jobs that the controller does not know, from their own files, then from Slurm's records."""
        states: dict[str, NativeState] = {}
        unsure: list[Handle] = []
        for handle in handles:
            with contextlib.suppress(OSError):  # asked for again
                state = recorded_state(self.directory / handle.key)
                if state is None or self._was_signalled(handle.key):
                    unsure.append(handle)
                if state is not None:
                    states[handle.key] = state
        if not unsure:
            return states
        keys = {handle.native_id: handle.key for handle in unsure}
        for job in self.commands.past_jobs(ids=list(keys)):
            if keys.get(job.id) == job.name:
                with contextlib.suppress(OSError):
                    states[job.name] = self._state(job)
        now = self._clock.steady()
        for handle in unsure:
            if handle.key not in states and now - self._missing_since.setdefault(handle.key, now) >= _LAG_SECONDS:
                message = f"Slurm does not know job {handle.native_id} any more, and it left no record of its end."
                states[handle.key] = NativeState(NativePhase.UNKNOWN, message=message)
        return states

    def _state(self, job: NativeJob) -> NativeState:
        try:
            nodes = self.commands.expand_nodes(job.nodes)
        except Refusal:
            nodes = (job.nodes,)
        self._room.note(job, nodes, is_running=phase_of(job) is NativePhase.RUNNING)
        return state_of(job, nodes, self.directory / job.name)

    def cancel(self, handle: Handle) -> None:
        """Cancel every job of that key, and keep one that Slurm does not show yet from starting."""
        self._mark_cancelled(handle.key)
        ids = [job.id for job in self.commands.named(handle.key) if not phase_of(job).finished]
        if ids:
            # Refused if a job has ended meanwhile.
            with contextlib.suppress(Refusal):
                self.commands.run("scancel", "--quiet", *ids)

    def withdraw(self, handle: Handle) -> bool:
        """Cancel a job that waits, held first so that it cannot start meanwhile."""
        pending = [job.id for job in self.commands.named(handle.key) if job.state == "PENDING"]
        if pending:
            try:
                self.commands.run("scontrol", "hold", ",".join(pending))
            except Refusal:  # it has just started, or the site does not allow it
                return False
        jobs = self.commands.named(handle.key)
        if any(job.nodes or (job.state == "PENDING" and job.id not in pending) for job in jobs):
            return False
        self.cancel(handle)
        return bool(jobs)

    def eta(self, task: Task) -> float | None:
        """When Slurm would start the task, without submitting it."""
        try:
            return self._test(task)
        except Refusal:
            return None

    def bid(self, task: Task) -> Bid:
        """What `sbatch --test-only` says of the job, with the options that it would be submitted with."""
        if reason := self.check(task):
            return Bid.never(reason)
        try:
            seconds = self._test(task)
        except Refusal as refusal:
            answer = Bid.never if _NEVER.search(str(refusal)) else Bid.not_now
            return answer(f"Slurm refuses the job: {refusal}")
        if seconds is None:
            return Bid.not_now("Slurm cannot tell when it would start")
        return Bid.yes(0.0 if seconds < _NOW_SECONDS else seconds)

    def _test(self, task: Task) -> float | None:
        """Seconds until Slurm would start the task; None if it cannot tell, Refusal if it does not take the job."""
        _, errors = self.commands.run(
            *("sbatch", "--test-only", *self._arguments(task, self.directory)),
            script="#!/bin/sh\n",
            answer_seconds=task.answer_seconds,
        )
        match = re.search(r"to start at (\S+)", errors)
        if match is None:
            return None
        try:
            start = datetime.fromisoformat(match.group(1)).replace(tzinfo=UTC)
        except ValueError:
            return None  # a year of five digits, which Slurm gives if it cannot tell
        seconds = max(0.0, (start - self._clock.now()).total_seconds())
        return seconds if seconds < _LONGEST_ETA_SECONDS else None

    def forget(self, handle: Handle) -> None:
        """Remove the job's directory after keepSeconds."""
        self._missing_since.pop(handle.key, None)
        self._room.forget(handle.native_id)
        super().forget(handle)


def _placed(task: Task) -> Task:
    """A task without a queue in the partition that it requires, if it does."""
    partition = None if task.queue else required_fields(task.job, "partition").get("name")
    return replace(task, queue=str(partition)) if partition else task


def _accepted(jobs: Sequence[NativeJob]) -> list[NativeJob]:
    """Without refused submissions, which Slurm records as jobs that failed and never had a node."""
    return [job for job in jobs if job.state != "FAILED" or job.nodes]
