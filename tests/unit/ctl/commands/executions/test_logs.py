"""Which log is meant by an attempt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ctl.client.executions import Execution
from ctl.commands.executions.logs import _lease_number

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
