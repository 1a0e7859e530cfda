"""Obstacles: pods that cannot start, and would wait for ever, since Kubernetes never gives up pulling an image."""

from __future__ import annotations

from collections.abc import Sequence

from agent.clocks import Clock
from agent.engines.kubernetes.states import has_begun, obstacle
from agent.engines.kubernetes.watches import Object

#: What the kubelet cannot do better later.
_FINAL = ("InvalidImageName", "ErrImageNeverPull")


class Obstacles:
    """Since when the pods of a Job are unable to start, and why."""

    def __init__(self, patience_seconds: float, clock: Clock) -> None:
        self._patience_seconds = patience_seconds
        self._clock = clock
        #: By key: since when, what the Job is to be ended with, and the kubelet's words.
        self._met: dict[str, tuple[float, tuple[str, str]]] = {}

    def last(self, key: str) -> tuple[str, str] | None:
        """What kept its pods from starting, as far as is known: a reason, and the kubelet's words."""
        return self._met[key][1] if key in self._met else None

    def observe(self, key: str, pods: Sequence[Object]) -> tuple[str, str] | None:
        """Note what keeps pods from starting.

        What their Job is to be ended for, where they have waited for too long; None if they may start yet.
        """
        problem = next((problem for pod in pods if (problem := obstacle(pod)) is not None), None)
        if problem is None:
            if any(map(has_begun, pods)):
                self.forget(key)
            return None
        since, _ = self._met.get(key, (self._clock.steady(), problem))
        self._met[key] = since, problem
        is_over = problem[1].startswith(_FINAL) or self._clock.steady() - since >= self._patience_seconds
        return problem if is_over else None

    def forget(self, key: str) -> None:
        """Drop what is remembered of a Job."""
        self._met.pop(key, None)
