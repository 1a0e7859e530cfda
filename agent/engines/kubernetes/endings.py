"""Ending Jobs: with a deadline that is over, so that the Job stays and says why, until the admin knows of its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.engines.base import EngineUnavailable
from agent.engines.kubernetes import names
from agent.engines.kubernetes.api import Api, Refusal


def end_job(api: Api, job: Mapping[str, Any], reason: str, message: str = "") -> dict[str, Any] | None:
    """End a Job that has not ended, with its pods: they get SIGTERM, and SIGKILL after their grace period.

    Returns the Job as it is by then; None if it is gone. A suspended Job, which waits in a queue of Kueue's, has no
    pods and no deadline, and is deleted.
    """
    metadata = job["metadata"]
    if names.annotation(job, names.ENDED):
        return None
    path = names.jobs_path(metadata["namespace"], metadata["name"])
    annotations = {names.ENDED: reason, **({names.ENDED_MESSAGE: message} if message else {})}
    changes = {"metadata": {"annotations": annotations}, "spec": {"activeDeadlineSeconds": 1}}
    try:
        if job["spec"].get("suspend"):
            api.delete(path, propagationPolicy="Foreground", preconditions={"uid": metadata["uid"]})
            return None
        return api.patch(path, changes)
    except Refusal as refusal:
        if refusal.status != 404:
            raise EngineUnavailable(f"the Job {metadata['name']} cannot be ended: {refusal}") from refusal
        return None
