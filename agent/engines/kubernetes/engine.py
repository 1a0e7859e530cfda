"""The Kubernetes engine: a Job for each attempt.

A Job is named after its key, in the namespace of its project and domain. Nothing is asked per job but its creation, its
log and its removal: what becomes of Jobs and pods is told by one watch of each.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import (
    Bid,
    EngineUnavailable,
    Handle,
    NativePhase,
    NativeState,
    NothingDone,
    Orphan,
    SubmitRefused,
    Task,
)
from agent.engines.command_engine import CommandEngine
from agent.engines.kubernetes import names
from agent.engines.kubernetes.api import Api, Forbidden, Refusal
from agent.engines.kubernetes.endings import Endings
from agent.engines.kubernetes.guard import AgentLease, LeaseObject
from agent.engines.kubernetes.jobs import Jobs
from agent.engines.kubernetes.logs import OUTPUT_FILES
from agent.engines.kubernetes.manifests import Selector, job_manifest, placing_of, why_no_node, why_not
from agent.engines.kubernetes.obstacles import Obstacles
from agent.engines.kubernetes.options import DEFAULTS, Options, read_options
from agent.engines.kubernetes.orphans import orphan_of
from agent.engines.kubernetes.resource_api import LightkubeApi
from agent.engines.kubernetes.states import has_begun, is_ended, is_finished, state_of
from agent.engines.kubernetes.suspensions import Suspensions
from agent.engines.kubernetes.watched_nodes import WatchedNodes
from agent.engines.kubernetes.watches import Object
from agent.engines.kubernetes.watching import Watching
from agent.engines.requirements import required_fields
from agent.files import read_file, read_json, write_json

#: The namespace in which a job was, or may have been, created.
SUBMITTED = "submitted.json"
#: Why a job is declined that must end with its lease.
_UNGUARDED = "on_lost: nothing would end it if this agent were gone"
#: How long the end of a Job waits for the rest of its log.
_LOG_SECONDS = 60.0
#: How long a Job that has ended may be ahead of what the watch of pods tells.
_LAG_SECONDS = 5.0
#: What counts of the time between two rounds: of an agent that was stopped, nobody has read logs meanwhile.
_MOST_ROUND_SECONDS = 1.0


class KubernetesEngine(CommandEngine):
    """Runs images as Jobs."""

    name = "kubernetes"
    defaults = DEFAULTS
    poll_seconds = 0.5
    is_shared = True
    guards_leases = True

    def __init__(self, options: Mapping[str, Any], directory: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.settings: Options = read_options(options)
        self.options = {**DEFAULTS, **options}
        self.directory = directory
        self._clock = clock
        self.api = Api(self.settings.kubeconfig, self.settings.context, self.settings.timeout_seconds)
        self._watching: Watching | None = None
        cluster, place = self.settings.cluster, self.settings.lease_namespace
        holder = f"{platform.node()}-{os.getpid()}"
        self._lease = AgentLease(
            LeaseObject(self.api, place, "agent", cluster, holder),
            LeaseObject(self.api, place, "janitor", cluster, holder),
            clock,
        )
        self._jobs = Jobs(self.api, self.settings)
        self._endings = Endings(self.api, clock)
        self._suspensions = Suspensions(directory)
        self._obstacles = Obstacles(self.settings.image_pull_seconds, clock)
        #: How long what is left of a Job that has ended was waited for, by key; and since the last round.
        self._waited: dict[str, float] = {}
        self._round_seconds = 0.0
        self._round_at = clock.steady()

    def namespace_of(self, project: str, domain: str) -> str:
        """The namespace of the jobs of a project and domain; ValueError if it is none that Kubernetes takes."""
        return names.namespace_of(self.settings.namespace, project, domain)

    def resource_api(self) -> LightkubeApi:
        """The calls by which namespaces are made."""
        return LightkubeApi(self.settings.kubeconfig, self.settings.context, self.settings.timeout_seconds)

    @property
    def _watched(self) -> Watching:
        """The watches, which begin when something is first asked of the cluster."""
        if self._watching is None:
            self._watching = Watching(self.api, self.directory, self.settings)
        self._watching.jobs.wait(self.settings.timeout_seconds)
        self._watching.pods.wait(self.settings.timeout_seconds)
        return self._watching

    def close(self) -> None:
        """End the watches and close the connections."""
        if self._watching is not None:
            self._watching.loop.close()
            self._watching = None
        self.api.close()

    def version(self) -> str:
        """The API server's version."""
        try:
            return str(self.api.get("/version")["gitVersion"])
        except Refusal as refusal:
            raise EngineUnavailable(str(refusal)) from refusal

    # The nodes

    def _wait_for_nodes(self) -> WatchedNodes:
        """The nodes, once they have been listed."""
        nodes = self._watched.nodes
        nodes.wait(self.settings.timeout_seconds)
        return nodes

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All nodes that jobs go to, and what no pod requests of those that take pods."""
        return self._wait_for_nodes().of(self.settings.not_interruptible).capacity()

    def room(self) -> dict[str, Any] | None:
        """What is free by now."""
        return self._wait_for_nodes().of(self.settings.not_interruptible).capacity()[1]

    def node_room(self) -> dict[str, Any] | None:
        """What is free of each node by now."""
        return self._wait_for_nodes().of(self.settings.not_interruptible).room()

    def graph(self) -> dict[str, Any] | None:
        """All nodes that jobs may go to, with their cores, memory, gpus, labels and taints."""
        settings = self.settings
        placings = [settings.not_interruptible, *([settings.interruptible] if settings.interruptible else [])]
        return self._wait_for_nodes().of(*placings).describe(settings.cluster or "kubernetes")

    def eta(self, task: Task) -> float | None:
        """At once if there is room, else nobody knows."""
        nodes = self._wait_for_nodes().of(placing_of(task, self.settings))
        return 0.0 if nodes.fits(task.job, when_empty=False) else None

    def bid(self, task: Task) -> Bid:
        """Yes if its pods fit on the nodes as they are."""
        if reason := self.check(task):
            return Bid.never(reason)
        seconds = self.eta(task)
        return Bid.not_now("no node has room for it now") if seconds is None else Bid.yes(seconds)

    # Starting

    def check(self, task: Task) -> str:
        """Accept what can be written as a Job."""
        return why_not(task, self.settings) or why_no_node(task, self.settings, self._selector(task))

    def _selector(self, task: Task) -> Selector:
        """The labels of the nodes that a task requires; the nodes are asked only if it requires some."""
        return self._wait_for_nodes().selector(task.job) if required_fields(task.job) else {}

    def submit(self, task: Task) -> Handle:
        """Create the Job; one of the same name is this one if its labels say so."""
        if reason := why_not(task, self.settings):
            raise SubmitRefused(reason)
        selector = self._selector(task)
        if reason := why_no_node(task, self.settings, selector):
            raise SubmitRefused(reason)
        watched = self._watched
        if task.lease_seconds is not None:
            self._guard(task, task.lease_seconds)
        manifest = job_manifest(task, self.settings, selector)
        namespace = manifest["metadata"]["namespace"]
        task.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = {"namespace": namespace, "outputs": task.job.get("outputs") or [], "sent_at": self._clock.steady()}
        write_json(task.directory / SUBMITTED, record)
        watched.jobs.put(self._jobs.create(manifest))
        return Handle(task.key, f"{namespace}/{task.key}")

    def _guard(self, task: Task, seconds: float) -> None:
        """Renew the Lease before the Job exists, so that no janitor ends it at once."""
        try:
            has_janitor = self._lease.has_janitor()
            if has_janitor:
                self._lease.guard(task.key, seconds)
        except NothingDone as error:  # asked again, the API server would say the same
            self._lease.forget(task.key)
            raise SubmitRefused(f"{_UNGUARDED}: {error}") from error
        if not has_janitor:
            reason = f"{_UNGUARDED}: start `rainbow-agent janitor` in the cluster"
            # One that was started together with this agent may need a moment longer.
            raise NothingDone(reason) if self._lease.is_new else SubmitRefused(reason)

    def find(self, key: str) -> Handle | None:
        """The Job that the watch shows; one that may just have been created is asked for by name."""
        job = self._watched.job(key)
        if job is None and (record := read_json(self.directory / key / SUBMITTED)) is not None:
            job = self._jobs.read(record["namespace"], key)
            if job is not None and self._jobs.is_ours(job, key):
                self._watched.jobs.put(job)
            # None would be final, and the API server may still be at work on a call whose answer did not come.
            sent_seconds = self._clock.steady() - record.get("sent_at", 0.0)  # negative after a restart of the machine
            if job is None and 0 <= sent_seconds < self._jobs.unsure_seconds:
                raise EngineUnavailable(f"the Job {record['namespace']}/{key} may still be created: asking again")
        if job is None or not self._jobs.is_ours(job, key):
            return None
        return Handle(key, f"{job['metadata']['namespace']}/{key}")

    def orphans(self, known: Collection[str]) -> list[Orphan]:
        """The Jobs of this cluster and admin that are not known, and that Kubernetes was not told to remove."""
        jobs = self._watched.jobs_by_key()
        mine = (job for key, job in jobs.items() if key not in known and self._jobs.is_ours(job, key))
        orphans = (orphan_of(job) for job in mine if names.annotation(job, names.ENDPOINT) == self.settings.endpoint)
        return [orphan for orphan in orphans if orphan is not None]

    # Watching

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each Job, from memory."""
        watched = self._watched
        self._begin_round(watched)
        self._endings.begin()
        self._end_expired()
        by_job, jobs = watched.pods_by_job(), watched.jobs_by_key()
        states: dict[str, NativeState] = {}
        for handle in handles:
            job = jobs.get(handle.key)
            if job is None:
                if (deleted := self._suspensions.state_of_deleted(handle.key)) is not None:
                    states[handle.key] = deleted
                elif not watched.jobs.problem:
                    message = "Kubernetes does not have its Job any more: somebody has deleted it."
                    states[handle.key] = NativeState(NativePhase.UNKNOWN, message=message)
                continue
            pods = by_job.get((job["metadata"]["namespace"], handle.key), [])
            state = self._state(handle.key, job, pods)
            if state is not None:
                states[handle.key] = state
        return states

    def _begin_round(self, watched: Watching) -> None:
        now = self._clock.steady()
        is_heard = not (watched.jobs.problem or watched.pods.problem)
        self._round_seconds = min(now - self._round_at, _MOST_ROUND_SECONDS) if is_heard else 0.0
        self._round_at = now

    def _state(self, key: str, job: Object, pods: list[Object]) -> NativeState | None:
        namespace, logs = job["metadata"]["namespace"], self._watched.logs
        for pod in pods:
            if has_begun(pod) and not logs.is_followed(key, pod["metadata"]["name"]):
                logs.follow(key, namespace, pod["metadata"]["name"], self._outputs(key, job))
        event = self._watched.failure(namespace, key) if not pods else ""
        state = state_of(job, pods, event, self._obstacles.last(key))
        if self._suspensions.is_preempted(key, job, state):
            self._end(job, names.PREEMPTED)
            return None
        if not state.phase.finished:
            if (obstacle := self._obstacles.observe(key, pods)) is not None:
                self._end(job, obstacle[0], obstacle[1][:1000])
            return state
        waited = self._waited.get(key, 0.0)
        self._waited[key] = waited + self._round_seconds
        is_lagging = any(not is_ended(pod) for pod in pods) or (not pods and state.phase is NativePhase.SUCCEEDED)
        if is_lagging and waited < _LAG_SECONDS:
            return None
        if all(logs.is_complete(key, pod["metadata"]["name"]) for pod in pods if has_begun(pod)):
            return state
        if waited < _LOG_SECONDS:
            return None
        problem = logs.problem(key) or "the kubelet has not sent its end in time"
        said = f"{state.outcome.rstrip('.')}. " if state.outcome else ""
        return replace(state, message=f"{said}Its log could not be read: {problem}")

    def _outputs(self, key: str, job: Object) -> list[str]:
        record = read_json(self.directory / key / SUBMITTED)
        if record is not None:
            return list(record["outputs"])
        # Of an agent on another machine: the arguments of the container that hands them over.
        containers = job["spec"]["template"]["spec"].get("initContainers") or [{"command": []}]
        return [str(word).replace("$$", "$") for word in containers[0]["command"][4:]]

    # Ending

    def cancel(self, handle: Handle) -> None:
        """End the Job, and its pods with it."""
        job = self._watched.job(handle.key)
        if job is None and (found := self.find(handle.key)) is not None:
            job = self._watched.job(found.key)
        if job is not None and not is_finished(job):
            self._endings.begin()
            self._end(job, names.CANCELLED)

    def withdraw(self, handle: Handle) -> bool:
        """End a Job that waits in a queue of Kueue's, or whose one pod waits for a node; False if it may start yet.

        Neither is deleted if it has changed since, for then it may have begun.
        """
        job = self._watched.job(handle.key)
        if job is None or is_finished(job) or self._suspensions.has_begun(handle.key):
            return False
        namespace = job["metadata"]["namespace"]
        if is_suspended := bool(job["spec"].get("suspend")):
            waiting, path = job, names.jobs_path(namespace, handle.key)
            self._suspensions.note_deleted(handle.key, names.CANCELLED)
        else:
            pods = self._watched.pods_by_job().get((namespace, handle.key), [])
            if len(pods) != 1 or job["spec"].get("completions", 1) != 1 or pods[0]["spec"].get("nodeName"):
                return False
            waiting, path = pods[0], f"/api/v1/namespaces/{namespace}/pods/{pods[0]['metadata']['name']}"
        unchanged = {name: waiting["metadata"][name] for name in ("uid", "resourceVersion")}
        try:
            self.api.delete(path, propagationPolicy="Background", preconditions=unchanged)
        except (Refusal, Forbidden) as error:
            self._suspensions.note_kept(handle.key)
            if isinstance(error, Forbidden):
                raise  # so that the agent says which right is missing
            return False
        if not is_suspended:
            self._end(job, names.CANCELLED)
        return True

    def _end(self, job: Object, reason: str, message: str = "") -> bool:
        """Whether a Job has been told to end; else that is tried again later."""
        if job["spec"].get("suspend"):
            self._suspensions.note_deleted(names.label(job, names.KEY), reason, message)
        is_told, ended = self._endings.end(job, reason, message)
        if ended is not None:
            self._watched.jobs.put(ended)
        return is_told

    def renew(self, seconds: Mapping[Handle, float]) -> None:
        """Let guarded Jobs go on; one Lease stands for all of them."""
        for handle, left in seconds.items():
            job = self._watched.job(handle.key)
            if job is not None and names.label(job, names.GUARDED) and not is_finished(job):
                self._lease.set(handle.key, left)
        self._lease.renew_if_due()

    def _end_expired(self) -> None:
        """End the guarded Jobs whose lease is over while this agent is there."""
        for key in self._lease.expired():
            job = self._watched.job(key)
            if job is None or is_finished(job) or self._end(job, names.LEASE_OVER):
                self._lease.forget(key)
        with suppress(NothingDone):  # renew() says so; what becomes of Jobs is told all the same
            self._lease.renew_if_due()

    def forget(self, handle: Handle) -> None:
        """Let Kubernetes remove the Job and its pods after keepSeconds, now that its end is known."""
        self._lease.forget(handle.key)
        self._endings.forget(handle.key)
        self._waited.pop(handle.key, None)
        self._obstacles.forget(handle.key)
        job = self._watched.job(handle.key)
        if job is not None and (removed := self._jobs.remove_later(job)) is not None:
            self._watched.jobs.put(removed)
        self._watched.logs.forget(handle.key)
        super().forget(handle)

    # Output files

    def read_output(self, handle: Handle, path: str, limit: int, offset: int = 0) -> tuple[bytes, int, bool] | None:
        """A declared output file, as it was handed over when the command had ended."""
        entry = (read_json(self.directory / handle.key / OUTPUT_FILES) or {}).get(path)
        if entry is None:
            return None
        content = read_file(self.directory / handle.key / entry["file"], limit, offset)
        size = int(entry["size"])
        return content, size, size > offset + limit
