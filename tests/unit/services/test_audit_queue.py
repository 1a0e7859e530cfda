"""Audit events on their way: counted together, bounded, and written as lines."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from admin.core.audit import OTHERS, AuditEvent, AuditType, minute_of
from admin.core.audit_budget import DenialBudget
from admin.services.audit_queue import AuditFile, AuditQueue

NOW = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
WRONG = AuditEvent(at=NOW, event=AuditType.WRONG_TOKEN.value, address="192.0.2.7")
FORBIDDEN = AuditType.FORBIDDEN.value
MADE = AuditEvent(at=NOW, event=AuditType.TOKEN_CREATED.value, user="ada", target="user-token/ada/0b0b0b0b")


def later(seconds: float, event: AuditEvent = WRONG) -> AuditEvent:
    return replace(event, at=NOW + timedelta(seconds=seconds))


def lost(place: str) -> float:
    return REGISTRY.get_sample_value("rainbow_audit_events_lost_total", {"place": place}) or 0.0


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_denied_requests_of_one_address_and_user_are_one_event_a_minute() -> None:
    queue = AuditQueue()
    other = replace(WRONG, address="192.0.2.8")
    of_ada = replace(WRONG, user="ada")
    for event in (WRONG, later(1), other, later(50), of_ada, later(60)):
        queue.note(event)
    assert queue.take() == [replace(WRONG, count=3, last_at=NOW + timedelta(seconds=50)), other, of_ada, later(60)]
    assert queue.take() == []


def test_what_is_done_with_tokens_is_never_counted_together() -> None:
    queue = AuditQueue()
    queue.note(MADE)
    queue.note(MADE)
    assert queue.take() == [MADE, MADE]


def counted(queue: AuditQueue) -> list[tuple[str | None, str | None, str | None, int]]:
    """Of what waits: from where, whose and what it is, and how often."""
    return [(event.address, event.user, event.target, event.count) for event in queue.take()]


def test_many_addresses_cannot_fill_the_disk_and_those_left_out_are_counted() -> None:
    queue, before = AuditQueue(budget=DenialBudget(most_of_all=3)), lost("table")
    for number in range(10):
        queue.note(replace(WRONG, address=f"192.0.2.{number}"))
    noted = [(f"192.0.2.{number}", None, None, 1) for number in range(3)]
    assert counted(queue) == [*noted, (None, None, OTHERS, 7)]
    queue.note(replace(WRONG, address="192.0.2.1"))  # which is one of the three
    queue.note(replace(WRONG, address="192.0.2.9"))
    assert counted(queue) == [("192.0.2.1", None, None, 1), (None, None, OTHERS, 1)]
    queue.note(later(60))
    assert counted(queue) == [("192.0.2.7", None, None, 1)]
    assert lost("table") == before


def test_a_flood_of_one_address_or_user_does_not_hide_the_others() -> None:
    queue = AuditQueue(budget=DenialBudget(most_of_each=2, most_of_all=5))
    for number in range(9):
        queue.note(replace(WRONG, user=f"user-{number}"))  # of whom wrong tokens are sent
        queue.note(replace(WRONG, address=f"2001:db8::{number}"))
        queue.note(replace(WRONG, event=FORBIDDEN, user="ada", proof="token", address=f"198.51.100.{number}"))
    queue.note(replace(WRONG, address="203.0.113.1"))
    queue.note(replace(WRONG, event=FORBIDDEN, user="bea", proof="token"))
    by_kind = {(address, user): (target, count) for address, user, target, count in counted(queue)}
    assert by_kind == {
        ("192.0.2.7", "user-0"): (None, 1),
        ("192.0.2.7", "user-1"): (None, 1),
        ("192.0.2.7", None): (OTHERS, 7),
        ("2001:db8::0", None): (None, 1),
        ("2001:db8::1", None): (None, 1),
        ("2001:db8::/64", None): (OTHERS, 7),
        ("198.51.100.0", "ada"): (None, 1),
        ("198.51.100.1", "ada"): (None, 1),
        (None, "ada"): (OTHERS, 7),
        ("203.0.113.1", None): (None, 1),
        ("192.0.2.7", "bea"): (None, 1),
    }


def test_what_is_counted_together_says_so_and_is_never_counted_with_one_of_its_kind() -> None:
    queue = AuditQueue(budget=DenialBudget(most_of_each=1))
    queue.note(WRONG)
    queue.note(replace(WRONG, user="ada", method="GET", route="/x", request_id="r", reason="unknown"))
    own, others = queue.take()
    assert own == WRONG
    assert (others.address, others.user, others.method, others.request_id) == ("192.0.2.7", None, None, None)
    assert (others.reason or "").startswith("More than 1 different denied requests of this user or address")
    assert own.repeat_key != others.repeat_key


def test_what_there_is_no_room_for_is_counted_as_lost() -> None:
    queue, before = AuditQueue(most_waiting=2), lost("table")
    for _ in range(3):
        queue.note(MADE)
    taken = queue.take()
    queue.note(WRONG)
    queue.put_back(taken)  # the database failed
    assert queue.take() == [MADE, MADE]
    assert lost("table") - before == 2


def test_what_is_put_back_is_counted_with_what_came_since() -> None:
    queue = AuditQueue()
    queue.note(WRONG)
    taken = queue.take()
    queue.note(later(2))
    queue.put_back(taken)
    assert queue.take() == [replace(WRONG, count=2, last_at=NOW + timedelta(seconds=2))]


def test_a_use_of_a_token_is_new_once() -> None:
    queue = AuditQueue()
    uses = [("0b0b0b0b", "::1"), ("0b0b0b0b", "::1"), ("0b0b0b0b", "192.0.2.7"), ("0c0c0c0c", "::1")]
    assert [queue.is_new_use(*use) for use in uses] == [True, False, True, True]


def test_a_file_gets_a_line_for_each_event_and_those_of_a_minute_in_two(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path))
    minute = minute_of(NOW)
    file.write([MADE, WRONG], minute)
    file.write([later(3)], minute)
    file.write([replace(later(4), count=7, last_at=NOW + timedelta(seconds=9))], minute)
    assert path.stat().st_mode & 0o777 == 0o600
    first = {"at": "2026-03-01T12:00:05Z", "event": "WRONG_TOKEN", "address": "192.0.2.7"}
    made = {"at": "2026-03-01T12:00:05Z", "event": "TOKEN_CREATED", "user": "ada", "target": MADE.target}
    assert lines(path) == [made, first]
    path.rename(tmp_path / "old.jsonl")  # as logrotate does
    file.write([], minute_of(NOW + timedelta(minutes=1)))
    rest = {**first, "at": "2026-03-01T12:00:08Z", "count": 8, "last_at": "2026-03-01T12:00:14Z"}
    assert lines(path) == [rest]
    file.write([later(61), later(62)], minute_of(later(61).at))
    file.write([], None)  # the worker ends
    assert [line.get("at") for line in lines(path)[1:]] == ["2026-03-01T12:01:06Z", "2026-03-01T12:01:07Z"]


def test_standard_output_gets_the_same_lines(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    AuditFile("-").write([MADE], minute_of(NOW))
    assert json.loads(capfdbinary.readouterr().out)["event"] == "TOKEN_CREATED"


def test_a_file_that_cannot_be_written_is_counted_and_fails_nobody(tmp_path: Path) -> None:
    before = lost("file")
    file = AuditFile(str(tmp_path / "none" / "audit.jsonl"))
    file.write([MADE, WRONG], minute_of(NOW))
    assert lost("file") - before == 2
    (tmp_path / "none").mkdir()
    file.write([MADE], minute_of(NOW))
    assert len(lines(tmp_path / "none" / "audit.jsonl")) == 1
