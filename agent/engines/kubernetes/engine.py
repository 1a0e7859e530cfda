"""The Kubernetes engine: a Job for each attempt.

A Job is named after its key, in the namespace of its project and domain. Nothing is asked per job but its creation, its
log and its removal: what becomes of Jobs and pods is told by one watch of each.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import (
    Bid,
    EngineUnavailable,
    Handle,
    NativePhase,
    NativeState,
    Orphan,
    SubmitRefused,
    Task,
    is_exclusive,
)
from agent.engines.command_engine import CommandEngine
from agent.engines.kubernetes import names
from agent.engines.kubernetes.api import Api, Forbidden, Refusal
from agent.engines.kubernetes.endings import Endings
from agent.engines.kubernetes.guard import AgentLease, LeaseObject
from agent.engines.kubernetes.logs import OUTPUT_FILES
from agent.engines.kubernetes.manifests import WORK, job_manifest, placing_of, work_directory
from agent.engines.kubernetes.nodes import Nodes, node_selector
from agent.engines.kubernetes.options import DEFAULTS, Options, read_options
from agent.engines.kubernetes.orphans import orphan_of
from agent.engines.kubernetes.resource_api import LightkubeApi
from agent.engines.kubernetes.states import has_begun, is_ended, is_finished, obstacle, state_of
from agent.engines.kubernetes.suspensions import Suspensions
from agent.engines.kubernetes.watches import Object
from agent.engines.kubernetes.watching import Watching
from agent.engines.requirements import required_fields
from agent.files import read_file, read_json, write_json
from agent.quantities import count
from ctl.client.words import did_you_mean

#: The namespace in which a job was, or may have been, created.
SUBMITTED = "submitted.json"
#: How long after its own time limit the API server may store what it was sent.
_COMMIT_SECONDS = 2.0
#: How long the end of a Job waits for the rest of its log.
_LOG_SECONDS = 30.0
#: How long a Job that has ended may be ahead of what the watch of pods tells.
_LAG_SECONDS = 5.0


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
        self._endings = Endings(self.api, clock)
        self._suspensions = Suspensions(directory)
        #: The nodes as they were when something of them was last asked, by what pods are created with.
        self._counted: dict[tuple[int, ...], Nodes] = {}
        self._counted_at = (-1, -1)
        #: When a Job was first seen to have ended; since when a pod is unable to start, and why: by key.
        self._ended_at: dict[str, float] = {}
        self._stuck: dict[str, tuple[float, tuple[str, str]]] = {}

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

    def _nodes(self, *placings: Mapping[str, Any]) -> Nodes:
        """The nodes that pods with these tolerations, affinities and selectors may go to, as they are now."""
        watched = self._watched
        watched.nodes.wait(self.settings.timeout_seconds)
        changes = watched.nodes.changes, watched.pods.changes
        if changes != self._counted_at:
            self._counted_at, self._counted = changes, {}
        key = tuple(map(id, placings))
        if key not in self._counted:
            nodes, pods = list(watched.nodes.items.values()), list(watched.pods.items.values())
            self._counted[key] = Nodes(nodes, pods, self.settings.gpu_resource, placings, watched.labels)
        return self._counted[key]

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All nodes that jobs go to, and what no pod requests of those that take pods."""
        return self._nodes(self.settings.not_interruptible).capacity()

    def room(self) -> dict[str, Any] | None:
        """What is free by now."""
        return self._nodes(self.settings.not_interruptible).capacity()[1]

    def node_room(self) -> dict[str, Any] | None:
        """What is free of each node by now."""
        return self._nodes(self.settings.not_interruptible).room()

    def graph(self) -> dict[str, Any] | None:
        """All nodes that jobs may go to, with their cores, memory, gpus, labels and taints."""
        settings = self.settings
        placings = [settings.not_interruptible, *([settings.interruptible] if settings.interruptible else [])]
        return self._nodes(*placings).describe(settings.cluster or "kubernetes")

    def eta(self, task: Task) -> float | None:
        """At once if there is room, else nobody knows."""
        return 0.0 if self._nodes(placing_of(task, self.settings)).fits(task.job, when_empty=False) else None

    def bid(self, task: Task) -> Bid:
        """Yes if its pods fit on the nodes as they are."""
        if reason := self.check(task):
            return Bid.never(reason)
        seconds = self.eta(task)
        return Bid.not_now("no node has room for it now") if seconds is None else Bid.yes(seconds)

    # Starting

    def check(self, task: Task) -> str:
        """Accept what can be written as a Job."""
        job = task.job
        if not (job.get("image") or self.settings.image):
            return "the kubernetes engine runs images: name one in the job, or set engineOptions.image"
        if is_exclusive(job):
            return "resources.exclusive: Kubernetes gives no job a node of its own"
        nodes, tasks = count(job, "nodes"), count(job, "tasks")
        if nodes > tasks:
            return (
                f"resources.nodes: {nodes} nodes for fewer tasks ({tasks}): Kubernetes holds no node without a pod: "
                f"set resources.tasks to {nodes} or more"
            )
        if task.queue and self.settings.queues and task.queue not in self.settings.queues:
            suggestion = did_you_mean(task.queue, self.settings.queues)
            return f"queue: engineOptions.queues has no '{task.queue}'.{suggestion}"
        directory = work_directory(task)
        if job.get("outputs") and directory is not None and not directory.startswith(WORK):
            return (
                f"outputs: files in {directory}, a directory of the image, cannot be read when the pod has ended: "
                "leave out working_directory, or make it a relative path"
            )
        try:
            self._namespace(task)
        except ValueError as error:
            return f"namespace: {error}"
        fixed = placing_of(task, self.settings).get("nodeSelector", {})
        for label, values in self._selector(task).items():
            if fixed.get(label, values[0]) not in values:
                return f"requires: the label '{label}' must be '{values[0]}', and is '{fixed[label]}' by nodeSelector"
        return ""

    def _selector(self, task: Task) -> dict[str, tuple[str, ...]]:
        """The labels of the nodes that a task requires."""
        if not required_fields(task.job):
            return {}
        watched = self._watched
        watched.nodes.wait(self.settings.timeout_seconds)
        return node_selector(task.job, watched.labels)

    def _namespace(self, task: Task) -> str:
        environment = task.environment
        return self.namespace_of(environment.get("RAINBOW_PROJECT", ""), environment.get("RAINBOW_DOMAIN", ""))

    def submit(self, task: Task) -> Handle:
        """Create the Job; one of the same name is this one if its labels say so."""
        if reason := self.check(task):
            raise SubmitRefused(reason)
        watched, namespace = self._watched, self._namespace(task)
        if task.lease_seconds is not None:
            self._guard(task, task.lease_seconds)
        manifest = job_manifest(task, namespace, self.settings.cluster, self.settings, self._selector(task))
        task.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = {"namespace": namespace, "outputs": task.job.get("outputs") or [], "sent_at": self._clock.steady()}
        write_json(task.directory / SUBMITTED, record)
        try:
            job = self.api.create(names.jobs_path(namespace), manifest, timeout=f"{self._create_seconds}s")
        except Forbidden as error:
            # Of one namespace it may be; the jobs of the others go on.
            raise SubmitRefused(f"no Job can be created in the namespace {namespace}: {error}") from error
        except Refusal as refusal:
            if refusal.status == 409 and refusal.reason == "AlreadyExists":
                job = self._existing(namespace, task.key)
            elif refusal.status == 409:
                raise EngineUnavailable(f"Kubernetes asks to try again: {refusal}") from refusal
            else:
                raise SubmitRefused(f"Kubernetes refuses the Job: {refusal}") from refusal
        watched.jobs.put(job)
        return Handle(task.key, f"{namespace}/{task.key}")

    @property
    def _create_seconds(self) -> int:
        """How long the API server may take to create a Job: less than it is waited for."""
        return max(1, math.floor(self.settings.timeout_seconds * 0.8))

    def _guard(self, task: Task, seconds: float) -> None:
        """Renew the Lease before the Job exists, so that no janitor ends it at once."""
        if not self._lease.has_janitor():
            raise SubmitRefused(
                "on_lost: nothing would end it if this agent were gone: start `rainbow-agent janitor` in the cluster"
            )
        self._lease.guard(task.key, seconds)

    def _existing(self, namespace: str, key: str) -> Object:
        """A Job that has the name already, if it is ours."""
        job = self._read(namespace, key)
        if job is None:
            raise EngineUnavailable(f"the Job {namespace}/{key} was there, and is gone: to be created again")
        if not self._is_ours(job, key):
            raise SubmitRefused(f"There is a Job {namespace}/{key} that no agent of this cluster created.")
        return job

    def _is_ours(self, job: Object, key: str) -> bool:
        expected = {
            names.MANAGED_BY: names.AGENT,
            names.KEY: key,
            names.CLUSTER: names.cluster_label(self.settings.cluster),
        }
        return all(names.label(job, name) == value for name, value in expected.items())

    def _read(self, namespace: str, key: str) -> Object | None:
        try:
            return self.api.get(names.jobs_path(namespace, key))
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise EngineUnavailable(f"the Job {namespace}/{key} cannot be read: {refusal}") from refusal

    def find(self, key: str) -> Handle | None:
        """The Job that the watch shows; one that may just have been created is asked for by name."""
        job = self._watched.job(key)
        if job is None and (record := read_json(self.directory / key / SUBMITTED)) is not None:
            job = self._read(record["namespace"], key)
            if job is not None and self._is_ours(job, key):
                self._watched.jobs.put(job)
            # None would be final, and the API server may still be at work on a call whose answer did not come.
            sent_seconds = self._clock.steady() - record.get("sent_at", 0.0)  # negative after a restart of the machine
            if job is None and 0 <= sent_seconds < self._create_seconds + _COMMIT_SECONDS:
                raise EngineUnavailable(f"the Job {record['namespace']}/{key} may still be created: asking again")
        if job is None or not self._is_ours(job, key):
            return None
        return Handle(key, f"{job['metadata']['namespace']}/{key}")

    def orphans(self, known: Collection[str]) -> list[Orphan]:
        """The Jobs of this cluster and admin that are not known, and that Kubernetes was not told to remove."""
        jobs = self._watched.jobs_by_key()
        mine = (job for key, job in jobs.items() if key not in known and self._is_ours(job, key))
        orphans = (orphan_of(job) for job in mine if names.annotation(job, names.ENDPOINT) == self.settings.endpoint)
        return [orphan for orphan in orphans if orphan is not None]

    # Watching

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each Job, from memory."""
        watched = self._watched
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

    def _state(self, key: str, job: Object, pods: list[Object]) -> NativeState | None:
        namespace, logs = job["metadata"]["namespace"], self._watched.logs
        outputs = self._outputs(key, job)
        for pod in pods:
            if has_begun(pod):
                logs.follow(key, namespace, pod["metadata"]["name"], outputs)
        event = self._watched.failure(namespace, key) if not pods else ""
        _, problem = self._stuck.get(key, (0.0, None))
        state = state_of(job, pods, event, problem)
        if self._suspensions.is_preempted(key, job, state):
            self._end(job, names.PREEMPTED)
            return None
        if not state.phase.finished:
            self._end_if_stuck(key, job, pods)
            return state
        waited = self._clock.steady() - self._ended_at.setdefault(key, self._clock.steady())
        is_lagging = any(not is_ended(pod) for pod in pods) or (not pods and state.phase is NativePhase.SUCCEEDED)
        if is_lagging and waited < _LAG_SECONDS:
            return None
        unread = [pod for pod in pods if has_begun(pod) and not logs.is_complete(key, pod["metadata"]["name"])]
        return None if unread and waited < _LOG_SECONDS else state

    def _outputs(self, key: str, job: Object) -> list[str]:
        record = read_json(self.directory / key / SUBMITTED)
        if record is not None:
            return list(record["outputs"])
        # Of an agent on another machine: the arguments of the container that hands them over.
        containers = job["spec"]["template"]["spec"].get("initContainers") or [{"command": []}]
        return [str(word).replace("$$", "$") for word in containers[0]["command"][4:]]

    def _end_if_stuck(self, key: str, job: Object, pods: Sequence[Object]) -> None:
        """End a Job whose pod would wait for ever: Kubernetes never gives up pulling an image."""
        problem = next((problem for pod in pods if (problem := obstacle(pod)) is not None), None)
        if problem is None:
            if any(map(has_begun, pods)):
                self._stuck.pop(key, None)
            return
        since, _ = self._stuck.get(key, (self._clock.steady(), problem))
        self._stuck[key] = since, problem
        is_final = problem[1].startswith(("InvalidImageName", "ErrImageNeverPull"))
        if is_final or self._clock.steady() - since >= self.settings.image_pull_seconds:
            self._end(job, problem[0], problem[1][:1000])

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
        except (Refusal, Forbidden):
            self._suspensions.note_kept(handle.key)
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
        self._lease.renew_if_due()

    def forget(self, handle: Handle) -> None:
        """Let Kubernetes remove the Job and its pods after keepSeconds, now that its end is known."""
        self._lease.forget(handle.key)
        self._endings.forget(handle.key)
        self._ended_at.pop(handle.key, None)
        self._stuck.pop(handle.key, None)
        job = self._watched.job(handle.key)
        if job is not None:
            self._remove_later(job)
        self._watched.logs.forget(handle.key)
        super().forget(handle)

    def _remove_later(self, job: Object) -> None:
        metadata = job["metadata"]
        changes = {"spec": {"ttlSecondsAfterFinished": int(self.settings.keep_seconds)}}
        with contextlib.suppress(Refusal):  # it is gone already
            self._watched.jobs.put(self.api.patch(names.jobs_path(metadata["namespace"], metadata["name"]), changes))

    # Output files

    def read_output(self, handle: Handle, path: str, limit: int, offset: int = 0) -> tuple[bytes, int, bool] | None:
        """A declared output file, as it was handed over when the command had ended."""
        entry = (read_json(self.directory / handle.key / OUTPUT_FILES) or {}).get(path)
        if entry is None:
            return None
        content = read_file(self.directory / handle.key / entry["file"], limit, offset)
        size = int(entry["size"])
        return content, size, size > offset + limit
