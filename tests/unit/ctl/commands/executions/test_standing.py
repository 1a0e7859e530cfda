"""Where an execution stands, for people."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.executions.starts import MOST_AHEAD
from ctl.cli.output import Printer
from ctl.commands.executions.standing import (
    _attempt,
    describe_ahead,
    describe_kept,
    describe_refused,
    describe_times,
    show_next,
    show_standing,
)

EVENT = {"event": 7, "author": "ana", "at": "2026-03-04T12:00:00Z", "message": "new disks"}


@pytest.mark.parametrize(
    ("attempt", "shown"),
    [
        (
            {"phase": "ABORTED", "ended_by": "drained by anonymous (says ana)", "drained_by": EVENT},
            "ABORTED on elm: drained (event 7, ana, 2026-03-04 12:00:00Z, 'new disks')",
        ),
        ({"phase": "DECLINED", "ended_by": "declined", "reason": {"message": "no gpu"}}, "DECLINED on elm: no gpu"),
    ],
)
def test_an_attempt_says_who_drained_its_cluster_and_why_it_was_declined(attempt: dict[str, Any], shown: str) -> None:
    assert _attempt(Printer(format="wide"), {"number": 1, "cluster": "elm", **attempt}) == shown


def test_an_attempt_says_when_its_end_was_reported_if_its_agent_was_silent() -> None:
    times = {"started_at": "2026-03-04T11:00:00Z", "reported_at": "2026-03-04T13:00:00Z"}
    attempt = {"number": 1, "cluster": "elm", "phase": "SUCCEEDED", **times}
    late = {**attempt, "silent_since": "2026-03-04T11:30:00Z"}
    printer, started = Printer(format="wide"), "SUCCEEDED on elm; started 2026-03-04 11:00:00Z"
    end = {"ended_at": "2026-03-04T12:00:00Z"}
    assert _attempt(printer, {**attempt, **end}) == f"{started}, ended 2026-03-04 12:00:00Z"
    told = f"{started}, ended 2026-03-04 12:00:00Z, reported 2026-03-04 13:00:00Z"
    assert _attempt(printer, {**late, **end}) == told
    silent = "(silent since 2026-03-04 11:30:00Z)"
    assert _attempt(printer, late) == f"{started}, end reported 2026-03-04 13:00:00Z {silent}"
    assert _attempt(printer, {**late, "unconfirmed": True}) == f"{started}, end not confirmed"


def test_what_is_in_line_says_when_it_starts_and_what_is_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    id = {"project": "p", "domain": "d"}
    ahead = [
        {**id, "name": "a", "phase": "RUNNING", "ends_by": "2026-03-04T12:00:00Z", "time_limit_seconds": 60.0},
        {**id, "name": "b", "phase": "QUEUED", "time_limit_seconds": 90.0},
        {**id, "name": "c", "phase": "QUEUED"},
    ]
    start = {"message": "No bound: p/d/c has no time limit.", "running": 1, "waiting": 4, "ahead": ahead}
    explanation = {"status": {"next": "Its agent takes it.", "start": start}}
    show_next(Printer(), explanation)
    assert "start     No bound: p/d/c has no time limit.\n" in capsys.readouterr().out
    assert describe_ahead(Printer(format="wide"), explanation) == [
        "ahead     p/d/a, RUNNING: ends 2026-03-04 12:00:00Z at the latest",
        "ahead     p/d/b, QUEUED: runs for 1 min 30 s at most",
        "ahead     p/d/c, QUEUED: no time limit",
        "ahead     2 others",
    ]
    assert describe_ahead(Printer(), {"status": {}}) == []
    for word, other in (("running", "waiting"), ("waiting", "running")):
        counted = {"status": {"start": {word: MOST_AHEAD, other: 2}}}
        assert describe_ahead(Printer(), counted) == ["ahead     502 others"]
        capped = {"status": {"start": {word: MOST_AHEAD + 1, other: 2}}}
        assert describe_ahead(Printer(), capped) == ["ahead     more than 502 others"]


def test_the_times_that_are_shown_add_up() -> None:
    times = {"waiting_seconds": 2.8, "run_seconds": 13.7, "total_seconds": 16.5}
    assert describe_times({"status": {"times": times}}) == ["times     waited 3 s, ran 13 s, 16 s in all"]
    assert describe_times({"status": {"times": {**times, "backoff_seconds": 2.0}}}) == [
        "times     waited 3 s (2 s of it in back-off), ran 13 s, 16 s in all"
    ]
    assert describe_times({"status": {}}) == []
    late = {"waiting_seconds": 2.9, "run_seconds": 600.2, "unreported_seconds": 3000.4, "total_seconds": 3603.5}
    assert describe_times({"status": {"times": late}}) == [
        "times     waited 3 s, ran 10 min, end reported 50 min late, 1 h in all"
    ]
    unknown = {"waiting_seconds": 0.0, "run_seconds": 5.0, "unknown_seconds": 60.0, "total_seconds": 65.0}
    assert describe_times({"status": {"times": unknown}}) == [
        "times     waited 0 s, ran 5 s, 1 min not known, 1 min 5 s in all"
    ]


@pytest.mark.parametrize(
    ("message", "wide"),
    [
        (
            "RUNNING on oak for 4 min 10 s (attempt 2 of 3): x.",
            "RUNNING on oak for 4 min 10 s (since {}) (attempt 2 of 3): x.",
        ),
        ("QUEUED for 2 years 3 d, next at oak: x.", "QUEUED for 2 years 3 d (since {}), next at oak: x."),
        ("TIMED_OUT 0 s ago: x.", "TIMED_OUT 0 s ago (at {}): x."),
        ("SUCCEEDED on oak 3 h ago after 2 s: x.", "SUCCEEDED on oak 3 h ago (at {}) after 2 s: x."),
        ("QUEUED: in back-off, next attempt in 4 min.", "QUEUED: in back-off, next attempt in 4 min. QUEUED since {}."),
    ],
)
def test_wide_output_opens_with_the_time_itself_too(
    message: str, wide: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {"message": message, "phase": message.split()[0].strip(":"), "since": "2026-03-04T12:00:00.5Z"}
    show_standing(Printer(format="wide"), {"status": status})
    assert capsys.readouterr().out == wide.format("2026-03-04 12:00:00Z") + "\n"
    show_standing(Printer(), {"status": status})
    assert capsys.readouterr().out == f"{message}\n"
    show_standing(Printer(format="wide"), {"status": {"message": message, "phase": "RUNNING"}})
    assert capsys.readouterr().out == f"{message}\n"


def test_late_reports_are_shown_with_what_they_said() -> None:
    time = "2026-03-04T12:00:00Z"
    attempt = {"number": 1, "phase": "FAILED", "cluster": "oak", "confirmed_at": time, "confirmed_as": "SUCCEEDED"}
    shown = _attempt(Printer(format="wide"), attempt)
    assert shown == "FAILED on oak; end confirmed 2026-03-04 12:00:00Z (SUCCEEDED)"
    reason = {"code": "OLD_ATTEMPT", "message": "Cluster 'oak' reported FAILED for attempt 1; it was refused."}
    [line] = describe_refused(
        Printer(format="wide"), {"refused_reports": [{"at": time, "cluster": "oak", "reason": reason}]}
    )
    assert line == f"refused   2026-03-04 12:00:00Z: {reason['message']} (OLD_ATTEMPT)"
    assert describe_refused(Printer(), {}) == []


def test_what_retention_deletes_earlier_is_named() -> None:
    printer = Printer(format="wide")
    at = {word: f"2026-0{month}-01T00:00:00Z" for word, month in (("execution", 5), ("log", 3), ("events", 5))}
    line = ["deleted   2026-05-01 00:00:00Z, its log 2026-03-01 00:00:00Z"]
    assert describe_kept(printer, {"status": {"kept_until": at}}) == line
    assert describe_kept(printer, {"status": {"kept_until": {"log": at["log"]}}}) == [
        "deleted   its log 2026-03-01 00:00:00Z"
    ]
    assert describe_kept(printer, {"status": {}}) == []
