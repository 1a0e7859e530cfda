"""The Flux engine: jobs of a Flux instance, the system's or a user's own, followed by their events.

A job is named after its key, and runs a batch script in its directory, which must be on a file system that the nodes
share with the agent. Flux takes a name twice: of two jobs of one key, which a lost answer may leave, the script lets
one run the command. The state of a job that Flux no longer remembers is taken from the job's own files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
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
from agent.engines.batch.endings import ADDRESS_SPACE, recorded_state
from agent.engines.batch.engine import BatchEngine
from agent.engines.batch.job_files import CANCELLED, marked_id
from agent.engines.batch.script import batch_script, check_environment
from agent.engines.command_engine import TASK
from agent.engines.flux.connection import FluxConnection, Refusal
from agent.engines.flux.descriptions import describe
from agent.engines.flux.jobspec import SCRIPT, jobspec, launcher, memory_bytes, urgency
from agent.engines.flux.resources import (
    Demand,
    Resources,
    fits_ever,
    fits_now,
    hosts_of,
    required_properties,
    seconds_until_fit,
    seconds_until_over,
)
from agent.engines.flux.states import FluxJob, state_of
from agent.engines.limits import LOG_LIMIT_BYTES
from agent.files import read_json, write_file, write_json
from agent.quantities import per_task
from ctl.client.words import did_you_mean, listed

#: Locked while a job is being submitted.
_LOCK = "flux.lock"
#: How long a job that Flux does not know is asked for again before it counts as unknown.
_LAG_SECONDS = 30.0
#: How long what Flux says of its queues holds.
_FRESH_SECONDS = 60.0
_MEMORY_LIMITS = ("address-space", "decline", "none")
_FOLLOW = ("", "journal", "eventlogs")


class FluxEngine(BatchEngine):
    """Runs commands as jobs of a Flux instance."""

    name = "flux"
    defaults: ClassVar[Mapping[str, Any]] = {
        "uri": "",  # of the instance; else FLUX_URI, else the system's
        "flux": "flux",  # the program, or its path
        "follow": "",  # journal or eventlogs; else by the rights that the user has there
        "attributes": {},  # more of attributes.system of every jobspec: bank, project, constraints
        "memoryLimit": "address-space",
        "ignoreImage": False,
        "graceSeconds": 5,
        "keepSeconds": 3600,
        "logLimitBytes": LOG_LIMIT_BYTES,
        "runAs": "",
        "timeoutSeconds": 10,
    }
    #: Flux tells what happens; asking the engine costs it nothing.
    poll_seconds = 0.2

    def __init__(self, options: Mapping[str, Any], directory: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(options, directory, clock=clock)
        for name in ("uri", "flux"):
            if not isinstance(self.options[name], str):
                raise OptionError(f"engineOptions.{name}: must be a text")
        for name, words in (("follow", _FOLLOW), ("memoryLimit", _MEMORY_LIMITS)):
            if self.options[name] not in words:
                raise OptionError(f"engineOptions.{name}: must be one of {', '.join(filter(None, words))}")
        if not isinstance(self.options["attributes"], dict):
            raise OptionError("engineOptions.attributes: must be a mapping, of what jobspecs have in attributes.system")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.flux = FluxConnection(
            program=self.options["flux"],
            uri=self.options["uri"],
            follow=self.options["follow"],
            lock=directory / _LOCK,
            timeout_seconds=parse_seconds(self.options, "timeoutSeconds", least=1),
            clock=clock,
        )
        #: What was heard of each job that is followed, by native id.
        self._jobs: dict[str, FluxJob] = {}
        self._generation = 0
        #: What there was when it was last asked for, and the jobs that had begun then.
        self._resources: Resources | None = None
        self._counted: set[str] = set()
        self._queues: dict[str, Mapping[str, Any]] = {}
        self._queues_fresh_until = 0.0

    def close(self) -> None:
        """End the process that talks to Flux."""
        self.flux.close()

    def version(self) -> str:
        """Flux's version."""
        self.flux.call("hello")
        return str(self.flux.instance.get("version") or "")

    # What there is

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All nodes, and what is not allocated of those that are up."""
        return self._ask_resources().capacity()

    def _ask_resources(self) -> Resources:
        self._listen()
        counted = {id for id, job in self._jobs.items() if job.has_begun}
        self._resources = Resources.of(self.flux.call("resources"))
        self._counted = counted
        return self._resources

    def _left(self) -> Resources | None:
        """What is free by now: less what jobs have that have begun since."""
        if self._resources is None:
            return None
        begun = [job for id, job in self._jobs.items() if id not in self._counted and not job.is_over]
        return self._resources.taken(job.resource_set for job in begun if job.resource_set is not None)

    def room(self) -> dict[str, Any] | None:
        """What is free after the jobs that have started since capacity()."""
        left = self._left()
        return left.capacity()[1] if left else None

    def node_room(self) -> dict[str, Any] | None:
        """What is free of each node after the jobs that have started since capacity()."""
        left = self._left()
        return left.room() if left else None

    def graph(self) -> dict[str, Any] | None:
        """All nodes with what Flux knows of them, and the queues that they are in."""
        resource_set = self.flux.call("resource_set")
        return describe(self.flux.instance.get("hostname") or "flux", resource_set, self._known_queues())

    def _known_queues(self) -> dict[str, Mapping[str, Any]]:
        if self._clock.steady() > self._queues_fresh_until:
            self._queues = dict(self.flux.call("queues").get("queues") or {})
            self._queues_fresh_until = self._clock.steady() + _FRESH_SECONDS
        return self._queues

    # Starting

    def check(self, task: Task) -> str:
        """Accept commands that the instance could run one day."""
        return self._check_command(task) or check_environment(task.environment) or self._check_size(task)

    def _check_size(self, task: Task) -> str:
        for resource in ("memory", "ephemeral_storage"):
            is_named = per_task(task.job, resource) or per_task(task.job, resource, "limits")
            if is_named and self.options["memoryLimit"] == "decline":
                return (
                    f"resources: Flux holds no {resource.replace('_', ' ')} for jobs: leave it out of requests and "
                    "limits, or set engineOptions.memoryLimit to address-space or none"
                )
        queues = self._known_queues()
        if task.queue and queues and task.queue not in queues:
            suggestion = did_you_mean(task.queue, queues)
            return f"queue: Flux has no queue '{task.queue}'.{suggestion} There are {listed(sorted(queues))}."
        demand, there = Demand.of(task), self._for(task, self._resources or self._ask_resources())
        if fits_ever(demand, there):
            return ""
        where = f"{demand.nodes} nodes with {demand.slots // demand.nodes}" if demand.nodes else f"{demand.slots}"
        gpus = f" and {demand.gpus} gpus" if demand.gpus else ""
        total, _ = there.capacity()
        has = f"{total['nodes']} nodes, {total['cpu']} cores and {total['gpu']} gpus"
        return f"resources: the job asks for {where} slots of {demand.cores} cores{gpus}; Flux has {has} for it"

    def _for(self, task: Task, resources: Resources) -> Resources:
        """What there is for a job: the nodes of its queue that have what it requires."""
        of_queue = self._known_queues().get(task.queue, {}).get("requires") or ()
        return resources.having([*of_queue, *required_properties(task, resources.properties)])

    def submit(self, task: Task) -> Handle:
        """Submit the job."""
        directory, work = self._make_directories(task)
        limits_memory = self.options["memoryLimit"] == "address-space"
        record = {
            "work": str(work),
            "command": task.job["command"][0],
            "time_limit_seconds": task.time_limit_seconds,
            ADDRESS_SPACE: memory_bytes(task) if limits_memory else 0,
        }
        write_json(directory / TASK, record)
        if task.lease_seconds is not None:
            self._renew(task.key, task.lease_seconds)
        script = batch_script(
            task,
            directory,
            work,
            {**task.environment, "RAINBOW_KEY": task.key, "RAINBOW_TASK": "0"},
            launcher(task, self.flux.program, limits_memory=limits_memory),
            grace_seconds=self.options["graceSeconds"],
            log_limit_bytes=self.options["logLimitBytes"],
        )
        write_file(directory / SCRIPT, script.encode(errors="surrogateescape"), is_durable=False)
        with self.flux.submitting(task.key):
            is_owner = bool(self.flux.instance.get("is_owner"))
            try:
                native_id = self.flux.call(
                    "submit",
                    patience=3,
                    jobspec=self._jobspec(task, directory),
                    urgency=urgency(task.priority, is_owner=is_owner),
                )
            except Refusal as refusal:
                raise SubmitRefused(f"Flux refuses the job: {refusal}") from refusal
            # Flux may show the job a moment later.
            write_json(directory / TASK, {**record, "native_id": native_id})
        return Handle(task.key, native_id)

    def _jobspec(self, task: Task, directory: Path) -> dict[str, Any]:
        environment = {**self.flux.login, "RAINBOW_KEY": task.key}
        known = (self._resources or self._ask_resources()).properties if task.job.get("requires") else ()
        required = required_properties(task, known)
        return jobspec(task, directory, environment, self.flux.program, self.options["attributes"], required)

    def find(self, key: str) -> Handle | None:
        """The job of that key that started, else the first that was submitted."""
        self._await_submission(self.directory / _LOCK, key, self.options["timeoutSeconds"] * 3)
        directory = self.directory / key
        if (native_id := self._marked(key)) is not None:
            return Handle(key, native_id)
        record = read_json(directory / TASK) or {}
        if native_id := record.get("native_id"):
            return Handle(key, native_id)
        jobs = self.flux.call("named", name=key)
        return Handle(key, jobs[0]["id"]) if jobs else None

    def _marked(self, key: str) -> str | None:
        """The job that runs, or ran, the command; Flux writes ids with a letter that is not ASCII."""
        native_id = marked_id(self.directory / key)
        return native_id.replace("\N{LATIN SMALL LETTER F WITH HOOK}", "f") if native_id else None

    # Following

    def _listen(self) -> None:
        """Take what Flux has sent; after the connection was lost everything is followed anew."""
        messages = self.flux.messages()
        if self._generation != self.flux.generation:
            self._generation = self.flux.generation
            self._jobs.clear()
            self._resources = None
        for message in messages:
            if (job := self._jobs.get(message["job"])) is not None:
                job.take(message)

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each job, from the events that Flux has sent."""
        self._renew_begun()
        self._listen()
        unknown = self._follow(handle for handle in handles if handle.native_id not in self._jobs)
        states: dict[str, NativeState] = {}
        for handle in handles:
            with contextlib.suppress(OSError):  # asked for again; the others must not wait for it
                if handle.native_id in unknown:
                    state = self._past_state(handle)
                elif (other := self._superseding(handle)) is not None:
                    state = self.states([other]).get(handle.key)
                else:
                    job = self._jobs[handle.native_id]
                    state = state_of(job, hosts_of(job.resource_set), self.directory / handle.key)
                    self._missing_since.pop(handle.key, None)
                if state is not None:
                    states[handle.key] = state
        return states

    def _follow(self, handles: Iterable[Handle]) -> set[str]:
        """Follow jobs from now on; which of them Flux does not know."""
        names = {handle.native_id: handle.key for handle in handles}
        ids = [id for id in names if id.startswith("f") and id[1:].isalnum()]
        unknown = set(names) - set(ids)
        if ids:
            for id in ids:
                self._jobs[id] = FluxJob()
            try:
                unknown |= set(self.flux.call("follow", names={id: names[id] for id in ids}))
            except Exception:
                for id in ids:
                    del self._jobs[id]
                raise
            self._listen()
        for id in unknown:
            self._jobs.pop(id, None)
        return unknown

    def _superseding(self, handle: Handle) -> Handle | None:
        """The job that ran in place of this one, if a lost answer made the agent submit two."""
        if not self._jobs[handle.native_id].is_over:
            return None
        native_id = self._marked(handle.key)
        return None if native_id in (None, handle.native_id) else Handle(handle.key, str(native_id))

    def _past_state(self, handle: Handle) -> NativeState | None:
        """The state of a job that Flux does not know, from its own files; None while it may yet be shown."""
        state = recorded_state(self.directory / handle.key)
        if state is not None:
            return state
        now = self._clock.steady()
        if now - self._missing_since.setdefault(handle.key, now) < _LAG_SECONDS:
            return None
        message = f"Flux does not know job {handle.native_id} any more, and it left no record of its end."
        return NativeState(NativePhase.UNKNOWN, message=message)

    # Ending

    def cancel(self, handle: Handle) -> None:
        """Cancel every job of that key, and keep one that Flux does not show yet from starting."""
        self._mark_cancelled(handle.key)
        ids = {job["id"] for job in self.flux.call("named", name=handle.key)}
        if handle.native_id in self._jobs and not self._jobs[handle.native_id].is_over:
            ids.add(handle.native_id)
        if ids:
            self.flux.call("cancel", ids=sorted(ids))

    def withdraw(self, handle: Handle) -> bool:
        """Cancel a job that waits, held first so that it cannot start meanwhile."""
        if not self.flux.call("urgency", job=handle.native_id, urgency=0):
            return False
        directory = self.directory / handle.key
        # A script that begins after the file is there does not start the command.
        self._mark_cancelled(handle.key)
        if marked_id(directory) is not None or self._has_begun(handle):
            (directory / CANCELLED).unlink(missing_ok=True)
            return False
        self.cancel(handle)
        return True

    def _has_begun(self, handle: Handle) -> bool:
        jobs = {job["id"]: job for job in self.flux.call("named", name=handle.key)}
        return bool(jobs.get(handle.native_id, {}).get("nodelist"))

    def forget(self, handle: Handle) -> None:
        """Stop following the job, and remove its directory after keepSeconds."""
        self._missing_since.pop(handle.key, None)
        self._leases.pop(handle.key, None)
        if self._jobs.pop(handle.native_id, None) is not None:
            self.flux.call("leave", ids=[handle.native_id])
        super().forget(handle)

    # Bidding

    def eta(self, task: Task) -> float | None:
        """When there is room by what is free and by the time limits of what runs, and of what waits before it.

        None where nobody knows: what waits counts by the scheduler's estimates, and some have none.
        """
        resources = self._for(task, self._ask_resources())
        now = self._clock.now().timestamp()
        over = seconds_until_over(self._waiting(task), now)
        if over is None:
            return None
        if fits_now(demand := Demand.of(task), resources):
            return over
        room = seconds_until_fit(demand, resources, self.flux.call("running"), now)
        return None if room is None else max(room, over)

    def _waiting(self, task: Task) -> list[dict[str, Any]]:
        """The jobs that wait, and that Flux would not start after this one."""
        own = urgency(task.priority, is_owner=bool(self.flux.instance.get("is_owner")))
        pending: list[dict[str, Any]] = self.flux.call("pending")
        return [job for job in pending if job.get("priority", 0) >= own and job.get("queue", "") == task.queue]

    def bid(self, task: Task) -> Bid:
        """Never what the scheduler cannot place; yes where there is room, or will be by the limits of what runs."""
        if reason := self.check(task):
            return Bid.never(reason)
        reason = self.flux.call("feasible", jobspec=self._jobspec(task, self.directory))
        if reason:
            return Bid.never(f"Flux refuses the job: {reason}")
        seconds = self.eta(task)
        if seconds is not None:
            return Bid.yes(seconds)
        if waiting := self._waiting(task):
            return Bid.not_now(f"{len(waiting)} jobs wait in Flux before it")
        return Bid.not_now("Flux has no room for it now, and what runs has no time limits that say when")
