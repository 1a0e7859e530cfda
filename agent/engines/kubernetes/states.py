"""The states of Jobs and their pods, in the words of executions."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from agent.engines.base import NativePhase, NativeState
from agent.engines.kubernetes import names
from agent.engines.kubernetes.manifests import MAIN
from agent.engines.leases import CLUSTER_LOST, LEASE_OVER_MESSAGE

Object = Mapping[str, Any]

#: Why a container waits that will not start by itself, and what the Job is then ended with.
_PULLING = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError")
_CREATING = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff")
#: Reasons of a pod's disruption.
_DISRUPTIONS = {
    "PreemptionByScheduler": ("PREEMPTED", "Kubernetes ended it in favour of another pod."),
    "EvictionByEvictionAPI": ("EVICTED", "It was evicted from its node."),
    "DeletionByTaintManager": ("EVICTED", "Its node was tainted, and does not let it go on."),
    "TerminationByKubelet": ("EVICTED", "Its node ended it."),
    "DeletionByPodGC": ("NODE_FAIL", "Its node is gone."),
}
_MESSAGES = {
    names.LEASE_OVER: (CLUSTER_LOST, LEASE_OVER_MESSAGE),
    names.IMAGE_PULL: ("IMAGE_PULL", "Its image cannot be pulled."),
    names.NOT_STARTED: ("NOT_STARTED", "Kubernetes could not start it."),
    names.PREEMPTED: ("PREEMPTED", "Kueue suspended it after it had begun, in favour of others."),
}


def condition(item: Object, kind: str) -> Object | None:
    """A condition of an object that is true."""
    conditions = item.get("status", {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == kind and entry["status"] == "True"), None)


def is_finished(job: Object) -> bool:
    """Whether nothing more will happen to a Job."""
    return condition(job, "Complete") is not None or condition(job, "Failed") is not None


def is_ended(pod: Object) -> bool:
    """Whether the containers of a pod have ended."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def container(pod: Object, name: str = MAIN) -> Object:
    """What the kubelet says of a container."""
    status = pod.get("status", {})
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return next((entry for entry in statuses if entry["name"] == name), {})


def has_begun(pod: Object) -> bool:
    """Whether the command of a pod has started."""
    state = container(pod).get("state", {})
    return "running" in state or "terminated" in state


def state_of(
    job: Object, pods: Sequence[Object], event: str = "", problem: tuple[str, str] | None = None
) -> NativeState:
    """The state of a Job with its pods, the last event that says why it has none, and what kept them from starting."""
    nodes = tuple(sorted({pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}))
    started = [time for pod in pods if (time := _started_at(pod)) is not None]
    state = NativeState(NativePhase.RUNNING, nodes=nodes, started_at=min(started, default=None))
    if not is_finished(job):
        if started:
            return state
        return NativeState(NativePhase.QUEUED, message=waiting_reason(job, pods) or event)
    ended = [time for pod in pods if (time := _finished_at(pod)) is not None]
    failed = condition(job, "Failed")
    finished_at = max(ended, default=None) or _time((failed or job["status"]).get(_completion(failed)))
    state = replace(state, finished_at=finished_at)
    if failed is None:
        started_at = state.started_at or _time(job["status"].get("startTime"))
        return replace(state, phase=NativePhase.SUCCEEDED, exit_code=0, started_at=started_at)
    return _failure(job, pods, failed, state, problem)


def ended_state(state: NativeState, ended_by: str, words: str = "") -> NativeState:
    """The state of a Job that was ended by us, for that reason."""
    if ended_by == names.CANCELLED:
        return replace(state, phase=NativePhase.ABORTED)
    reason, message = _MESSAGES.get(ended_by, (ended_by, ""))
    return replace(state, phase=NativePhase.FAILED, reason=reason, message=f"{message} {words}".strip())


def _completion(failed: Object | None) -> str:
    return "completionTime" if failed is None else "lastTransitionTime"


def waiting_reason(job: Object, pods: Sequence[Object]) -> str:
    """Why a Job has not begun, in the words of Kubernetes."""
    if job["spec"].get("suspend"):
        return "Kubernetes says: the Job is suspended"
    for pod in pods:
        if problem := obstacle(pod):
            return f"Kubernetes says: {problem[1]}"
        for entry in pod.get("status", {}).get("conditions") or ():
            if entry["type"] == "PodScheduled" and entry["status"] == "False":
                return f"Kubernetes says: {entry.get('message') or entry.get('reason')}"
    return ""


def obstacle(pod: Object) -> tuple[str, str] | None:
    """What keeps a pod from starting, and would for ever: what its Job is to be ended with, and the kubelet's words."""
    status = pod.get("status", {})
    for entry in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = entry.get("state", {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason in (*_PULLING, *_CREATING):
            last = entry.get("lastState", {}).get("terminated") or {}
            words = last.get("message") or waiting.get("message") or reason
            return (names.IMAGE_PULL if reason in _PULLING else names.NOT_STARTED), f"{reason}: {words}"
    return None


def _failure(
    job: Object, pods: Sequence[Object], failed: Object, state: NativeState, problem: tuple[str, str] | None
) -> NativeState:
    """How a Job failed: by what ended it, else by what its first pod to fail says."""
    ended_by = names.annotation(job, names.ENDED)
    pod = min((pod for pod in pods if pod["status"].get("phase") == "Failed"), key=_failed_at, default=None)
    # A pod that was withdrawn before it had a node counts as failed, sooner than the Job's deadline is noticed.
    if ended_by and (failed.get("reason") == "DeadlineExceeded" or state.started_at is None):
        return ended_state(state, ended_by, names.annotation(job, names.ENDED_MESSAGE))
    state = replace(state, phase=NativePhase.FAILED)
    if pod is None:
        message = f"Kubernetes says: {failed.get('message') or failed.get('reason')}"
        return replace(state, reason="POD_LOST", message=f"Its pod is gone, with its exit code. {message}")
    status = pod["status"]
    if status.get("reason") == "DeadlineExceeded":
        if state.started_at is None and (cause := obstacle(pod) or problem) is not None:
            return ended_state(state, *cause)
        limit = pod["spec"].get("activeDeadlineSeconds")
        message = f"It ran longer than its limit of {limit} s."
        return replace(state, phase=NativePhase.TIMED_OUT, reason="TIME_LIMIT", message=message)
    if status.get("reason") == "Evicted":
        return replace(state, reason="EVICTED", message=str(status.get("message") or "It was evicted from its node."))
    if (disruption := condition(pod, "DisruptionTarget")) is not None:
        reason, message = _DISRUPTIONS.get(disruption.get("reason", ""), ("EVICTED", "It was evicted from its node."))
        return replace(state, reason=reason, message=f"{message} {disruption.get('message', '')}".strip())
    return _exit(pod, state)


def _exit(pod: Object, state: NativeState) -> NativeState:
    """How the command of a pod ended."""
    ended = container(pod).get("state", {}).get("terminated")
    if ended is None:
        message = f"Kubernetes says: {pod['status'].get('message') or pod['status'].get('reason') or 'it failed'}"
        return replace(state, reason="NOT_STARTED", message=message)
    code, reason, message = int(ended.get("exitCode", 0)), ended.get("reason"), str(ended.get("message") or "").strip()
    if reason == "OOMKilled":
        limit = _memory_limit(pod)
        text = f"It used more memory than its limit of {limit}." if limit else "Its node ran out of memory."
        return replace(state, reason="OUT_OF_MEMORY", message=text, signal=int(signal.SIGKILL))
    if reason in ("StartError", "ContainerCannotRun"):
        if "not found" in message or "no such file" in message:
            return replace(state, exit_code=127, reason="COMMAND_NOT_FOUND", message=message)  # as a shell has it
        return replace(state, reason="NOT_STARTED", message=message)
    if 128 < code < 128 + signal.NSIG:
        number = code - 128
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return replace(state, signal=number, reason="SIGNAL", message=f"It was ended by the signal {name}.")
    return replace(state, exit_code=code)


def _memory_limit(pod: Object) -> str:
    main: Object = next((entry for entry in pod["spec"]["containers"] if entry["name"] == MAIN), {})
    return str(main.get("resources", {}).get("limits", {}).get("memory", ""))


def _failed_at(pod: Object) -> str:
    ended = container(pod).get("state", {}).get("terminated") or {}
    return str(ended.get("finishedAt") or "9")


def _started_at(pod: Object) -> datetime | None:
    state = container(pod).get("state", {})
    return _time((state.get("running") or state.get("terminated") or {}).get("startedAt"))


def _finished_at(pod: Object) -> datetime | None:
    return _time((container(pod).get("state", {}).get("terminated") or {}).get("finishedAt"))


def _time(text: str | None) -> datetime | None:
    # A command that never ran has the year 1970 or none.
    return None if not text or text.startswith(("0001", "1970")) else datetime.fromisoformat(text)
