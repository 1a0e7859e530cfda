"""Ending Jobs: with a deadline that is over, so that the Job stays and says why, until the admin knows of its end."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from agent.clocks import Clock
from agent.engines.kubernetes import names
from agent.engines.kubernetes.api import Api, NotNow, Refusal

log = logging.getLogger("rainbow.agent")

#: How long a Job is left alone that Kubernetes has refused to end; that doubles each time.
_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 5.0, 300.0
#: How long refusals may take in a round: each call may last as long as a webhook is waited for.
_REFUSED_SECONDS = 3.0


def end_job(api: Api, job: Mapping[str, Any], reason: str, message: str = "") -> dict[str, Any] | None:
    """End a Job that has not ended, with its pods: they get SIGTERM, and SIGKILL after their grace period.

    Returns the Job as it is by then; None if it is gone. A suspended Job, which waits in a queue of Kueue's, has no
    pods and no deadline, and is deleted. NotNow if Kubernetes refuses.
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
            raise NotNow(f"the Job {metadata['name']} cannot be ended: {refusal}") from refusal
        return None


class Endings:
    """Ends Jobs again and again until Kubernetes does; one that it refuses to end holds up no other."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        #: When to try again, and how long after the last time that is, by the name of the Job.
        self._again: dict[str, tuple[float, float]] = {}
        self._seconds_left = _REFUSED_SECONDS

    def begin(self) -> None:
        """Begin a round."""
        self._seconds_left = _REFUSED_SECONDS

    def end(self, job: Mapping[str, Any], reason: str, message: str = "") -> tuple[bool, dict[str, Any] | None]:
        """Whether a Job has been told to end, and the Job as it is by then; EngineUnavailable without an answer."""
        name, now = job["metadata"]["name"], self._clock.steady()
        again_at, pause = self._again.get(name, (now, 0.0))
        if now < again_at or self._seconds_left <= 0:
            return False, None
        try:
            ended = end_job(self._api, job, reason, message)
        except NotNow as error:
            if not pause:
                log.warning("%s: it cannot be ended yet: %s", name, error)
            pause = min(2 * pause or _RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
            then = self._clock.steady()
            self._again[name] = then + pause, pause
            self._seconds_left -= then - now
            return False, None
        self._again.pop(name, None)
        return True, ended

    def forget(self, name: str) -> None:
        """Drop what is remembered of a Job that is over."""
        self._again.pop(name, None)
