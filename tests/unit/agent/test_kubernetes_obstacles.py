"""How long a pod that cannot start is waited for."""

from __future__ import annotations

from typing import Any

from agent.engines.kubernetes.obstacles import Obstacles
from agent.testing import FakeClock


def pod(**state: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "pod"},
        "spec": {},
        "status": {"containerStatuses": [{"name": "main", "state": state}]},
    }


def waiting(reason: str) -> dict[str, Any]:
    return pod(waiting={"reason": reason, "message": "no such host"})


def test_an_image_that_cannot_be_pulled_is_waited_for_as_long_as_the_options_say() -> None:
    clock = FakeClock()
    obstacles = Obstacles(120, clock)
    pulling = ("IMAGE_PULL", "ImagePullBackOff: no such host")
    assert obstacles.observe("rb-1", [waiting("ImagePullBackOff")]) is None
    assert obstacles.last("rb-1") == pulling
    clock.advance(60)
    # While it is being pulled again nothing is known to be wrong, and its time goes on.
    assert obstacles.observe("rb-1", [waiting("ContainerCreating")]) is None
    clock.advance(60)
    assert obstacles.observe("rb-1", [waiting("ImagePullBackOff")]) == pulling
    obstacles.forget("rb-1")
    assert obstacles.last("rb-1") is None


def test_a_pod_that_has_started_after_all_begins_anew() -> None:
    clock = FakeClock()
    obstacles = Obstacles(120, clock)
    assert obstacles.observe("rb-1", [waiting("ErrImagePull")]) is None
    clock.advance(60)
    assert obstacles.observe("rb-1", [pod(running={})]) is None
    assert obstacles.last("rb-1") is None
    clock.advance(60)
    assert obstacles.observe("rb-1", [waiting("ErrImagePull")]) is None


def test_what_cannot_become_better_is_not_waited_for() -> None:
    obstacles = Obstacles(120, FakeClock())
    assert obstacles.observe("rb-1", [waiting("InvalidImageName")]) == ("IMAGE_PULL", "InvalidImageName: no such host")
