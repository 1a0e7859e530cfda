"""Causes: the category of what ended an execution without success, by its phase and reason."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST, DRAINED


class Cause(Enum):
    """Why an execution ended without success."""

    EXIT_CODE = "EXIT_CODE"  # the job itself: its exit code, a signal, or a command that cannot be run
    LIMIT = "LIMIT"  # of time, memory or waiting
    CLUSTER_LOST = "CLUSTER_LOST"  # its cluster was silent for too long
    CANCELLED = "CANCELLED"  # somebody ended it
    PLATFORM = "PLATFORM"  # anything else that the job has no part in: a node, an engine, a drain


class CauseRule(NamedTuple):
    """The cause of executions in a phase, for some reasons."""

    phase: Phase
    reasons: tuple[str, ...]  #: none for any reason
    cause: Cause


#: The first rule that fits counts. Engines may report reasons of their own, which count as the platform's.
CAUSE_RULES = (
    CauseRule(
        Phase.FAILED,
        ("FAILED", "SIGNAL", "COMMAND_NOT_FOUND", "COMMAND_NOT_EXECUTABLE", "NO_WORKING_DIRECTORY"),
        Cause.EXIT_CODE,
    ),
    CauseRule(Phase.FAILED, ("OUT_OF_MEMORY", "TIME_LIMIT", "DEADLINE"), Cause.LIMIT),
    CauseRule(Phase.FAILED, (CLUSTER_LOST,), Cause.CLUSTER_LOST),
    CauseRule(Phase.FAILED, (), Cause.PLATFORM),
    CauseRule(Phase.TIMED_OUT, (), Cause.LIMIT),
    CauseRule(Phase.ABORTING, (DRAINED,), Cause.PLATFORM),
    CauseRule(Phase.ABORTING, (), Cause.CANCELLED),
    CauseRule(Phase.ABORTED, (DRAINED,), Cause.PLATFORM),
    CauseRule(Phase.ABORTED, (CLUSTER_LOST,), Cause.CLUSTER_LOST),  # it was lost before a drain was to end it
    CauseRule(Phase.ABORTED, (), Cause.CANCELLED),
)

#: Phases of an execution that waits or runs again after a failure, whose cause it has until it ends or is ended.
TRIED_AGAIN = (Phase.QUEUED.value, Phase.RUNNING.value)


def cause_of(phase: str, reason: str) -> Cause | None:
    """The cause of an execution; None where it has succeeded, waits or runs."""
    for rule in CAUSE_RULES:
        if rule.phase.value == phase and (not rule.reasons or reason in rule.reasons):
            return rule.cause
    return None


def phases_of(causes: Iterable[str]) -> tuple[str, ...]:
    """The phases that executions with one of some causes may have; those that go on have that of their last failure."""
    words = set(causes)
    ended = dict.fromkeys(rule.phase.value for rule in CAUSE_RULES if rule.cause.value in words)
    return (*ended, *(TRIED_AGAIN if ended else ()))
