"""Which log is meant by an attempt, and what is said of one that has printed nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ctl.client.executions import Execution
from ctl.commands.executions.logs import _lease_number, _next_attempt, _Selection, _show

ATTEMPTS = [
    {"number": 1, "phase": "RELEASED"},
    {"number": 2, "attempt_number": 1, "phase": "FAILED"},
    {"number": 3, "phase": "DECLINED"},
    {"number": 4, "attempt_number": 2, "phase": "RUNNING"},
]


@pytest.mark.parametrize(("attempt", "lease"), [(None, None), (1, 2), (2, 4), (3, 5)])
def test_an_attempt_is_found_by_its_number_though_leases_were_given_back(
    attempt: int | None, lease: int | None
) -> None:
    session: Any = SimpleNamespace(client=SimpleNamespace(explain_execution=lambda _: {"attempts": ATTEMPTS}))
    id = {"project": "p", "domain": "d", "name": "e"}
    execution = Execution.from_document({"id": id, "attempt": 4, "attempt_number": 2})
    assert _lease_number(session, execution, attempt) == lease
    plain = Execution.from_document({"id": id, "attempt": 4, "attempt_number": 4})
    assert _lease_number(None, plain, attempt) == attempt  # type: ignore[arg-type]  # nothing is asked


@pytest.mark.parametrize(("lease", "following"), [(1, (2, 1)), (2, (4, 2)), (4, (5, 3))])
def test_the_next_attempt_is_shown_by_its_own_number_and_leases_that_came_to_nothing_are_left_out(
    lease: int, following: tuple[int, int]
) -> None:
    session: Any = SimpleNamespace(client=SimpleNamespace(explain_execution=lambda _: {"attempts": ATTEMPTS}))
    id = {"project": "p", "domain": "d", "name": "e"}
    execution = Execution.from_document({"id": id, "attempt": 5, "attempt_number": 3})
    assert _next_attempt(session, execution, lease) == following
    waits = Execution.from_document({"id": id, "attempt": 5, "attempt_number": 2})  # the third has not begun
    assert _next_attempt(session, waits, lease) == following
    assert _lease_number(session, waits, 3) == 5
    plain = Execution.from_document({"id": id, "attempt": 5, "attempt_number": 5})
    assert _next_attempt(None, plain, lease) == (lease + 1, lease + 1)  # type: ignore[arg-type]  # nothing is asked


class EmptyLog(_Selection):
    """The selection of streams that hold nothing."""

    def open(self, *_: Any) -> Any:
        return SimpleNamespace(name="stdout", available=list, is_complete=True, is_pruned=False, is_truncated=False)


@pytest.mark.parametrize(
    ("attempt", "note"),
    [
        (1, "Attempt 1 of execution p/d/e has printed nothing, and is over."),
        (2, "Execution p/d/e has printed nothing: it is QUEUED on a (RETRY)."),
        (None, "Execution p/d/e has printed nothing: it is QUEUED on a (RETRY)."),
    ],
)
def test_an_earlier_attempt_that_printed_nothing_is_not_taken_for_the_last_one(attempt: int | None, note: str) -> None:
    notes: list[str] = []
    session: Any = SimpleNamespace(client=None, printer=SimpleNamespace(note=notes.append))
    closure = {"phase": "QUEUED", "reason": {"code": "RETRY"}}
    id = {"project": "p", "domain": "d", "name": "e"}
    document = {"id": id, "attempt": 2, "attempt_number": 2, "cluster": "a", "closure": closure}
    _show(session, Execution.from_document(document), EmptyLog(attempt=attempt))
    assert notes == [note]


def test_while_the_next_attempt_waits_the_log_of_the_one_before_is_named() -> None:
    notes: list[str] = []
    session: Any = SimpleNamespace(client=None, printer=SimpleNamespace(note=notes.append))
    closure = {"phase": "QUEUED", "reason": {"code": "RETRY"}}
    id = {"project": "p", "domain": "d", "name": "e"}
    document = {"id": id, "attempt": 2, "attempt_number": 1, "cluster": "a", "closure": closure}
    failed = {**document, "last_failure": {"attempt": 1, "attempt_number": 1}}
    _show(session, Execution.from_document(failed), EmptyLog())
    assert notes == [
        "The next attempt of execution p/d/e has printed nothing: it is QUEUED on a (RETRY). `rainbowctl logs p/d/e "
        "--attempt 1` shows what attempt 1 printed."
    ]
