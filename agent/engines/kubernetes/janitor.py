"""The janitor: ends the guarded Jobs of an agent that does not renew its Lease.

It runs beside the agent, as a process of its own that Kubernetes starts again when it ends. What it promises: a guarded
Job is told to end at most the Lease's duration, two rounds and the time of one call after the agent last renewed it, as
long as the janitor reaches the API server. Pods of a node that is cut off go on until it is back, or fenced.
"""

from __future__ import annotations

import logging
import math
import os
import platform
from collections.abc import Callable, Mapping
from typing import Any

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import EngineError
from agent.engines.kubernetes import names
from agent.engines.kubernetes.api import Api, Refusal
from agent.engines.kubernetes.endings import Endings
from agent.engines.kubernetes.guard import JANITOR_SECONDS, LeaseObject, Observer
from agent.engines.kubernetes.options import read_options
from agent.engines.kubernetes.states import is_finished

log = logging.getLogger("rainbow.agent")
_ROUND_SECONDS = 1.0


class Janitor:
    """Watches the Lease of one cluster's agent."""

    def __init__(self, options: Mapping[str, Any], clock: Clock = SYSTEM_CLOCK) -> None:
        settings = read_options(options)
        self.api = Api(settings.kubeconfig, settings.context, settings.timeout_seconds)
        self._clock = clock
        self._cluster = settings.cluster
        holder = f"{platform.node()}-{os.getpid()}"
        place = settings.lease_namespace
        self._own = LeaseObject(self.api, place, "janitor", settings.cluster, holder)
        self._agent = Observer(LeaseObject(self.api, place, "agent", settings.cluster, ""), clock)
        self._endings = Endings(self.api, clock)
        self._renew_at = 0.0
        self._problem = ""

    def run(self, is_over: Callable[[], bool] = lambda: False, beat: Callable[[], None] = lambda: None) -> None:
        """Look after Jobs until told to stop; `beat` is called in each round."""
        while not is_over():
            beat()
            try:
                self.step()
                self._problem = ""
            except (EngineError, Refusal) as error:
                if str(error) != self._problem:
                    log.error("%s", error)
                self._problem = str(error)
            self._clock.sleep(_ROUND_SECONDS)

    def step(self) -> None:
        """Renew the janitor's own Lease when that is due, and end what is guarded by a Lease that is over."""
        self._keep_own()
        if self._agent.is_over():
            self._end_all()

    def _end_all(self) -> None:
        """End every guarded Job; one that Kubernetes refuses to end is tried again in a later round."""
        self._endings.begin()
        checked_at = -math.inf
        for job in self._guarded():
            if self._clock.steady() >= checked_at + _ROUND_SECONDS:
                # It may have been renewed since they were asked for; a Job is created after that only.
                if not self._agent.is_over():
                    return
                self._keep_own()
                checked_at = self._clock.steady()
            if not is_finished(job) and not names.annotation(job, names.ENDED):
                is_told, _ = self._endings.end(job, names.LEASE_OVER)
                if is_told:
                    log.warning("%s: ended: its agent does not renew its Lease", job["metadata"]["name"])

    def _keep_own(self) -> None:
        """Renew the janitor's own Lease when that is due."""
        if self._clock.steady() >= self._renew_at:
            self._own.renew(JANITOR_SECONDS)
            self._renew_at = self._clock.steady() + JANITOR_SECONDS / 3

    def _guarded(self) -> list[dict[str, Any]]:
        labels = {
            names.MANAGED_BY: names.AGENT,
            names.CLUSTER: names.cluster_label(self._cluster),
            names.GUARDED: "true",
        }
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        jobs: list[dict[str, Any]] = self.api.get("/apis/batch/v1/jobs", labelSelector=selector)["items"]
        return jobs
