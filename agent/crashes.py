"""Deliberate crashes: the agent kills itself at a named step, for tests of what a restart does about it."""

from __future__ import annotations

import os
import signal

VARIABLE = "RAINBOW_AGENT_CRASH_AT"

STEPS = (
    "after-lease",  # an offer arrived, nothing is written
    "after-intent",  # the intent is written, not confirmed
    "after-confirm",  # the admin has confirmed it
    "before-submit",  # the engine is about to get it
    "after-submit",  # the engine has it, its native id is not written
    "after-running",  # it runs; that is written, not reported
    "after-finish",  # it has ended; that is not written
    "before-report",  # its end is written, not reported
    "after-report",  # the admin has its end, the agent has not cleaned up
)


def crash_point(step: str) -> None:
    """End without any clean-up, as kill -9 does, if the environment names this step."""
    if os.environ.get(VARIABLE) == step:
        os.kill(os.getpid(), signal.SIGKILL)


def check_crash_variable() -> str:
    """Why the variable's value is invalid, or an empty text."""
    step = os.environ.get(VARIABLE)
    return "" if step is None or step in STEPS else f"{VARIABLE}: there is no step '{step}'; use {', '.join(STEPS)}"
