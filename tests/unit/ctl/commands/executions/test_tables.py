"""What tables of executions show beside the fields of an answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from ctl.cli.output import Printer
from ctl.cli.session import Session
from ctl.client.executions import Execution
from ctl.commands.executions.tables import _cause, reason_of, show_counts, show_events, show_executions

LATER = (datetime.now(UTC) + timedelta(days=2, hours=1, minutes=30)).isoformat()


@pytest.mark.parametrize(
    ("phase", "code", "fields", "expected"),
    [
        ("ABORTED", "TERMINATED", {}, "TERMINATED"),
        ("ABORTED", "TERMINATED", {"unconfirmed": True}, "TERMINATED (unconfirmed)"),
        ("ABORTING", "TERMINATED", {"silence": "Cluster 'a' has been silent."}, "TERMINATED (silent)"),
        ("RUNNING", "CLUSTER_SILENT", {"silence": "Cluster 'a' has been silent."}, "CLUSTER_SILENT"),
        ("QUEUED", "ASSIGNED", {"not_before": "2026-03-01T12:00:00Z"}, "ASSIGNED"),
        ("QUEUED", "ASSIGNED", {"not_before": LATER}, "ASSIGNED (back-off 2 d 1 h)"),
    ],
)
def test_a_reason_says_what_its_code_does_not_tell(
    phase: str, code: str, fields: dict[str, Any], expected: str
) -> None:
    id = {"project": "p", "domain": "d", "name": "e"}
    document = {"id": id, "closure": {"phase": phase, "reason": {"code": code}}, **fields}
    assert reason_of(Execution.from_document(document)) == expected


@pytest.mark.parametrize(
    ("format", "is_asked", "is_shown"), [("table", False, False), ("table", True, True), ("wide", False, True)]
)
def test_the_scope_of_a_limit_is_shown_once_where_it_is_asked_for(
    format: str, is_asked: bool, is_shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    id = {"project": "p", "domain": "d", "name": "e"}
    execution = Execution.from_document({"id": id, "limit_scope": "domain production"})
    session: Any = SimpleNamespace(printer=Printer(format=format))
    show_executions(session, [execution], with_place=False, with_origin=True, with_limit_scope=is_asked)
    output = capsys.readouterr().out
    assert (output.count("LIMIT SCOPE"), output.count("domain production")) == ((1, 1) if is_shown else (0, 0))


def test_a_list_that_was_selected_by_a_field_shows_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "id": {"project": "p", "domain": "d", "name": "e"},
        "closure": {"phase": "RUNNING", "created_at": "2026-03-01T12:00:00Z"},
        "silence": "Cluster 'oak' is silent.",
        "silence_outlook": "It is given up tomorrow.",
        "decisions": 3,
    }
    execution = Execution.from_document(document)
    session: Any = SimpleNamespace(printer=Printer())
    show_executions(session, [execution], with_place=False)
    assert "given up tomorrow" not in capsys.readouterr().out
    show_executions(session, [execution], with_place=False, selected_by=["silent", "phase"])
    shown = capsys.readouterr().out
    assert ("  SILENCE" in shown, "Cluster 'oak' is silent. It is given up tomorrow." in shown) == (True, True)
    show_executions(session, [execution], with_place=False, selected_by=["decisions"])
    header, row = capsys.readouterr().out.splitlines()
    assert row[header.index("DECISIONS") :].startswith("3 ")


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (2000 * 2**20, "2000Mi"),
        (2 * 2**30, "2Gi"),
        (1536 * 2**20, "1.5Gi"),
        (3 * 2**40 // 2, "1.5Ti"),
        (2**30 + 1, str(2**30 + 1)),
        (512, "512"),
        (0, "0"),
    ],
)
def test_the_memory_of_a_group_is_shown_exactly(memory: int, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    group = {"value": "QUEUED", "count": 1, "requested": {"cpu": 1, "memory": memory, "gpu": 0}}
    session: Any = SimpleNamespace(printer=Printer())
    show_counts(session, {"by": "phase", "counts": [group], "total": 1})
    assert capsys.readouterr().out.splitlines()[1].split()[3] == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"previous_cluster": "oak", "cluster": "elm"}, "oak -> elm"),
        ({"previous_cluster": "oak"}, "oak -> none"),
        ({"previous_cluster": "oak", "cluster": "oak"}, "-"),
        ({"cluster": "elm"}, "-"),
        ({"previous_none": True, "cluster": "elm"}, "none -> elm"),
        ({"previous_none": True}, "-"),
        ({"previous_cluster": "oak", "closure": {"phase": "QUEUED", "reason": {"code": "UNDECIDED"}}}, "-"),
    ],
)
def test_a_list_selected_by_decisions_says_from_where_to_where_each_went(
    fields: dict[str, Any], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    id = {"project": "p", "domain": "d", "name": "e"}
    execution = Execution.from_document({"id": id, "decisions": 2, **fields})
    session: Any = SimpleNamespace(printer=Printer())
    show_executions(session, [execution], with_place=False, selected_by=["decisions"])
    header, row = capsys.readouterr().out.splitlines()
    start = header.index("MOVED")
    assert row[start : header.index("MESSAGE")].strip() == expected


@pytest.mark.parametrize(("hours", "is_shown"), [(1, True), (-1, False)])
def test_the_time_of_the_next_attempt_is_left_out_where_it_has_passed(
    hours: int, is_shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    id = {"project": "p", "domain": "d", "name": "e"}
    not_before = (datetime.now(UTC) + timedelta(hours=hours)).isoformat()
    execution = Execution.from_document({"id": id, "not_before": not_before})
    session: Any = SimpleNamespace(printer=Printer(format="wide"))
    show_executions(session, [execution], with_place=False)
    assert (not_before[:16].replace("T", " ") in capsys.readouterr().out.replace("T", " ")) is is_shown


def test_an_event_tells_what_was_then(capsys: pytest.CaptureFixture[str]) -> None:
    at = (datetime.now(UTC) - timedelta(minutes=6)).isoformat(timespec="seconds").replace("+00:00", "Z")
    events = [{"number": 3, "at": at, "type": "SILENT", "message": f"Cluster 'a' has been silent since {at}."}]
    show_events(Session(), events)
    shown = capsys.readouterr().out
    assert "Cluster 'a' was silent, last heard 6 min" in shown
    assert "has been silent" not in shown


def test_what_is_being_ended_after_a_failure_has_its_own_cause() -> None:
    failure = {"attempt": 1, "attempt_number": 1, "cause": "EXIT_CODE", "ended_by": "exit 5"}
    for phase, cause, expected in (
        ("RUNNING", "EXIT_CODE", "EXIT_CODE (attempt 1: exit 5)"),
        ("QUEUED", "EXIT_CODE", "EXIT_CODE (attempt 1: exit 5)"),
        ("ABORTING", "CANCELLED", "CANCELLED"),
    ):
        document = {
            "id": {"project": "p", "domain": "d", "name": "e"},
            "closure": {"phase": phase, "cause": cause},
            "last_failure": failure,
        }
        assert _cause(Execution.from_document(document)) == expected
