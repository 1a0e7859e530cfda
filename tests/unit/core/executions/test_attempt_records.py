"""What is kept of an attempt that is over, and by what it ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from admin.core.executions.attempt_records import AttemptRecord

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(outcome: str = "FAILED", reason: str = "FAILED", **more: Any) -> AttemptRecord:
    return AttemptRecord(number=1, outcome=outcome, reason=reason, **more)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (record(exit_code=1), "exit 1"),
        (record(reason="SIGNAL", exit_code=137, signal=9), "signal 9"),
        (record(), "failed"),
        (record(reason="OUT_OF_MEMORY", exit_code=137), "out of memory (exit 137)"),
        (record(reason="COMMAND_NOT_FOUND", exit_code=127), "command not found (exit 127)"),
        (record("TIMED_OUT", "TIME_LIMIT"), "time limit"),
        (record("TIMED_OUT", "TIMED_OUT"), "timed out"),
        (record(reason="CLUSTER_LOST"), "cluster lost"),
        (record("ABORTED", "DRAINED", signal=15), "drained (signal 15)"),
        (record("DECLINED", "DECLINED"), "declined"),
    ],
)
def test_what_ended_it_is_said_in_words(ended: AttemptRecord, words: str) -> None:
    assert ended.ended_by == words


def test_a_record_is_stored_without_what_is_unknown_and_read_back() -> None:
    attempt = record(native_id="77", exit_code=0, ended_at=NOON)
    stored = attempt.as_json()
    assert stored.keys() == {"number", "outcome", "reason", "native_id", "exit_code", "ended_at"}
    assert stored["ended_at"] == "2026-03-01T12:00:00+00:00"
    assert AttemptRecord.from_json(stored) == attempt
    assert AttemptRecord.from_json(record().as_json()) == record()
