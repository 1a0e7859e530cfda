"""The Jobs of one cluster's agent at the API server: created once, and told from those of others."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from agent.engines.base import EngineUnavailable, SubmitRefused
from agent.engines.kubernetes import names
from agent.engines.kubernetes.api import Api, Forbidden, Refusal
from agent.engines.kubernetes.options import Options
from agent.engines.kubernetes.watches import Object

#: How long after its own time limit the API server may store what it was sent.
_COMMIT_SECONDS = 2.0


class Jobs:
    """Creates, reads and removes Jobs."""

    def __init__(self, api: Api, settings: Options) -> None:
        self._api = api
        self._cluster = settings.cluster
        self._keep_seconds = int(settings.keep_seconds)
        #: How long the API server may take to create a Job: less than it is waited for.
        self._create_seconds = max(1, math.floor(settings.timeout_seconds * 0.8))
        #: How long after a call whose answer did not come its Job may still appear.
        self.unsure_seconds = self._create_seconds + _COMMIT_SECONDS

    def create(self, manifest: dict[str, Any]) -> Object:
        """Create a Job; one of the same name is this one if its labels say so."""
        namespace, key = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        try:
            return self._api.create(names.jobs_path(namespace), manifest, timeout=f"{self._create_seconds}s")
        except Forbidden as error:
            # Of one namespace it may be; the jobs of the others go on.
            raise SubmitRefused(f"no Job can be created in the namespace {namespace}: {error}") from error
        except Refusal as refusal:
            if refusal.status == 409 and refusal.reason == "AlreadyExists":
                return self._existing(namespace, key)
            if refusal.status == 409:
                raise EngineUnavailable(f"Kubernetes asks to try again: {refusal}") from refusal
            if refusal.status == 404:
                raise SubmitRefused(
                    f"there is no namespace {namespace} ({refusal}): create it. The agent makes those of all projects "
                    f"after `rainbowctl update cluster {self._cluster} --clusterResources`; "
                    "engineOptions.namespace must then be the admin's namespace_mapping.template"
                ) from refusal
            raise SubmitRefused(f"Kubernetes refuses the Job: {refusal}") from refusal

    def _existing(self, namespace: str, key: str) -> Object:
        """A Job that has the name already, if it is ours."""
        job = self.read(namespace, key)
        if job is None:
            raise EngineUnavailable(f"the Job {namespace}/{key} was there, and is gone: to be created again")
        if not self.is_ours(job, key):
            raise SubmitRefused(f"There is a Job {namespace}/{key} that no agent of this cluster created.")
        return job

    def is_ours(self, job: Object, key: str) -> bool:
        """Whether an agent of this cluster created a Job for a key."""
        expected = {names.MANAGED_BY: names.AGENT, names.KEY: key, names.CLUSTER: names.cluster_label(self._cluster)}
        return all(names.label(job, name) == value for name, value in expected.items())

    def read(self, namespace: str, key: str) -> Object | None:
        """A Job as it is now; None if there is none of that name."""
        try:
            return self._api.get(names.jobs_path(namespace, key))
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise EngineUnavailable(f"the Job {namespace}/{key} cannot be read: {refusal}") from refusal

    def remove_later(self, job: Object) -> Object | None:
        """Let Kubernetes remove a Job and its pods after keepSeconds; None if it is gone already."""
        path = names.jobs_path(job["metadata"]["namespace"], job["metadata"]["name"])
        with contextlib.suppress(Refusal):
            return self._api.patch(path, {"spec": {"ttlSecondsAfterFinished": self._keep_seconds}})
        return None
