"""What is watched of a cluster: Jobs, their pods, nodes, and why Jobs get no pods."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.engines.kubernetes import names
from agent.engines.kubernetes.api import Api
from agent.engines.kubernetes.logs import Logs
from agent.engines.kubernetes.options import Options
from agent.engines.kubernetes.watched_nodes import WatchedNodes
from agent.engines.kubernetes.watches import Loop, Object, Watch, trimmed

_JOB = "batch.kubernetes.io/job-name"


class Watching:
    """The watches of a cluster, and the logs of its pods."""

    def __init__(self, api: Api, directory: Path, options: Options) -> None:
        self.loop = Loop(api)
        #: Pods of Jobs as they were when somebody deleted them, which tell how a Job ended: by its namespace and name.
        self._deleted_pods: dict[tuple[str, str], dict[str, Object]] = {}
        self.jobs = Watch(
            self.loop,
            "/apis/batch/v1/jobs",
            keep=trimmed,
            deleted=self._drop_deleted_pods,
            labelSelector=f"{names.MANAGED_BY}={names.AGENT}",
        )
        self.pods = Watch(self.loop, "/api/v1/pods", keep=_trimmed_pod, deleted=self._keep_deleted_pod)
        self._by_key: Mapping[str, Object] = {}
        self._indexed_at = -1
        self.nodes = WatchedNodes(self.loop, self.pods, options.gpu_resource)
        # A Job whose pods a quota or an admission controller refuses says so in its events alone.
        self.events = Watch(
            self.loop,
            "/api/v1/events",
            keep=trimmed,
            is_needed=False,
            fieldSelector="involvedObject.kind=Job,reason=FailedCreate",
        )
        self.logs = Logs(self.loop, self.pods, directory, options.log_limit_bytes)

    def _keep_deleted_pod(self, pod: Object) -> None:
        """Keep a pod that was evicted or preempted: it goes before its Job says that it has failed."""
        name = pod["metadata"].get("namespace", ""), names.label(pod, _JOB)
        job = self.jobs.items.get(name)
        if job is not None and "ttlSecondsAfterFinished" not in job["spec"]:
            self._deleted_pods.setdefault(name, {})[pod["metadata"]["name"]] = pod

    def _drop_deleted_pods(self, job: Object) -> None:
        self._deleted_pods.pop((job["metadata"]["namespace"], job["metadata"]["name"]), None)

    def job(self, key: str) -> Object | None:
        """The Job of a key."""
        return self.jobs_by_key().get(key)

    def jobs_by_key(self) -> Mapping[str, Object]:
        """Every Job, by its key; indexed once per change, since there may be many thousands that have ended."""
        changes = self.jobs.changes
        if changes != self._indexed_at:
            self._by_key = {name: job for (_, name), job in list(self.jobs.items.items())}
            self._indexed_at = changes
        return self._by_key

    def pods_by_job(self) -> dict[tuple[str, str], list[Object]]:
        """The pods of each Job, by its namespace and name; those that were deleted as they were then."""
        pods = {name: list(deleted.values()) for name, deleted in list(self._deleted_pods.items())}
        for (namespace, _), pod in list(self.pods.items.items()):
            if name := names.label(pod, _JOB):
                pods.setdefault((namespace, name), []).append(pod)
        return pods

    def failure(self, namespace: str, key: str) -> str:
        """Why the pods of a Job cannot be created, by its last event."""
        events = [
            event
            for (place, _), event in list(self.events.items.items())
            if place == namespace and event["involvedObject"].get("name") == key
        ]
        last = max(events, key=lambda event: str(event.get("lastTimestamp") or ""), default=None)
        return f"Kubernetes says: {last.get('message', '')}" if last else ""


def _trimmed_pod(pod: Object) -> Object:
    """A pod of a Job of ours; of any other only what tells what it takes of which node."""
    if names.label(pod, names.MANAGED_BY) == names.AGENT:
        return trimmed(pod)
    metadata, spec = pod["metadata"], pod["spec"]
    kept = ("name", "namespace", "resourceVersion", "ownerReferences")
    return {
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {
            "nodeName": spec.get("nodeName"),
            "containers": [_requests(container) for container in spec["containers"]],
            "initContainers": [_requests(container) for container in spec.get("initContainers") or ()],
        },
        "status": {"phase": pod.get("status", {}).get("phase")},
    }


def _requests(container: Object) -> Object:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {"restartPolicy": container.get("restartPolicy"), "resources": {"requests": requests}}
