"""Adoptions: which attempts of agents are newer than what is stored, and what becomes of the execution."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.executions.adoptions import adopt, may_adopt
from admin.core.executions.attempts import may_have_started
from admin.core.executions.lifecycle import Phase
from admin.core.executions.reports import Reporter, refusal
from tests.support.leased_executions import NOW, leased


@pytest.mark.parametrize(
    ("stored", "attempt", "expected"),
    [
        ({"phase": Phase.QUEUED, "has_lease": False}, 2, True),
        ({"phase": Phase.QUEUED, "has_lease": False, "cluster": "b"}, 2, True),
        ({"phase": Phase.QUEUED, "cluster": "b", "confirmed": False}, 2, True),
        ({"phase": Phase.RUNNING, "cluster": "b"}, 3, True),
        # It has the lease: that it holds it says no more than in any other sync.
        ({"phase": Phase.QUEUED, "confirmed": False}, 2, False),
        ({"phase": Phase.RUNNING}, 2, False),
        ({"phase": Phase.QUEUED, "cluster": "b"}, 2, False),
        ({"phase": Phase.RUNNING, "cluster": "b"}, 2, False),
        ({"phase": Phase.QUEUED, "has_lease": False}, 1, False),
        ({"phase": Phase.FAILED, "has_lease": False}, 3, False),
    ],
)
def test_what_is_newer_than_the_stored_attempt_is_adopted(stored: dict[str, Any], attempt: int, expected: bool) -> None:
    assert may_adopt(leased(**stored), "a", attempt) is expected


def test_an_adopted_attempt_may_have_started_and_may_be_handed_back() -> None:
    execution = leased(Phase.RUNNING, cluster="b", started_at=NOW)
    for name, value in adopt("a", "i", 3, NOW).values.items():
        setattr(execution, name, value)
    assert (execution.phase, execution.cluster, execution.attempt, execution.started_at) == ("QUEUED", "a", 3, None)
    assert may_have_started(execution)
    by = Reporter(cluster="a", instance="i")
    for type in ("RUNNING", "SUCCEEDED", "RELEASED", "DECLINED"):
        assert refusal(execution, type, attempt=3, uid="1234", by=by, now=NOW) is None
