"""What is said of executions whose agent is missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from admin.core.executions.switch_outcomes import MissingAgent, Outcome, of_drain, of_missing_agent

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given_up_at", "then"),
    [
        (NOW + timedelta(seconds=60), "it is given up at 2026-03-01T12:01:00Z (on_lost: wait)."),
        (NOW, "it is given up any moment now (on_lost: wait)."),
        (
            NOW - timedelta(seconds=60),
            "it is given up any moment now, overdue since 2026-03-01T11:59:00Z (on_lost: wait).",
        ),
    ],
)
def test_what_is_overdue_is_not_said_to_come(given_up_at: datetime, then: str) -> None:
    attempt: Any = SimpleNamespace(
        phase="RUNNING",
        cluster="a",
        attempt=1,
        unstarted=0,
        content={},
        started_at=NOW,
        confirmed=True,
        lease_expires_at=NOW,
    )
    agent = MissingAgent(why="its agent is silent", lost_at=NOW, given_up_at=given_up_at, now=NOW)
    assert of_missing_agent(attempt, agent, None).message == f"May run on, but its agent is silent; {then}"


@pytest.mark.parametrize(
    ("reason", "retry", "then"),
    [
        ("TERMINATED", {"attempts": 3, "on_lost": "retry"}, ""),
        ("DRAINED", {"attempts": 3, "on_lost": "retry"}, ", and another attempt follows"),
        ("DRAINED", {"attempts": 3, "on_lost": "fail"}, ""),
    ],
)
def test_what_is_being_ended_is_counted_so_and_says_whether_another_attempt_follows(
    reason: str, retry: dict[str, Any], then: str
) -> None:
    attempt: Any = SimpleNamespace(
        phase="ABORTING",
        reason=reason,
        cluster="a",
        attempt=1,
        unstarted=0,
        content={"retry": retry},
        started_at=None,
        confirmed=False,
        lease_expires_at=NOW,
    )
    late = NOW + timedelta(seconds=60)
    agent = MissingAgent(why="its agent is silent", lost_at=late, given_up_at=late, now=NOW, drained_at=NOW)
    silent, heard = of_missing_agent(attempt, agent, None), of_drain(attempt, NOW, None)
    assert (silent.outcome, heard.outcome) == (Outcome.ENDING, Outcome.ENDING)
    start = "It is being ended already, but its agent is silent: it counts as ended at 2026-03-01T12:01:00Z"
    assert (silent.message, heard.message) == (f"{start}{then}.", f"It is being ended already{then}.")
