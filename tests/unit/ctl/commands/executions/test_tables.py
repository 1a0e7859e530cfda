"""What tables of executions show beside the fields of an answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctl.client.executions import Execution
from ctl.commands.executions.tables import reason_of

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
    document = {"closure": {"phase": phase, "reason": {"code": code}}, **fields}
    assert reason_of(Execution.from_document(document)) == expected
