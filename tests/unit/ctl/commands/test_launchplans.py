"""What is said of the versions of a launch plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctl.cli.output import Printer
from ctl.commands.registrations.launchplans import summary

AGO = (datetime.now(UTC) - timedelta(days=3, minutes=1)).isoformat()
BY_EVE = {"author": "anonymous", "claimed_by": "eve", "at": AGO, "message": "twice as fast"}


def version(name: str, state: str, set_by: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "id": {"version": name},
        "state": state,
        "author": "anonymous",
        "claimed_by": "ana",
        "created_at": AGO,
        **({"state_set_by": set_by} if set_by else {}),
    }


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (
            [version("v2", "ACTIVE", BY_EVE), version("v1", "INACTIVE", BY_EVE)],
            "Version v2 is active (activated by anonymous (says eve), 3 d ago, 'twice as fast').",
        ),
        ([version("v1", "ACTIVE")], "Version v1 is active (registered by anonymous (says ana), 3 d ago)."),
        (
            [version("v2", "INACTIVE", BY_EVE), version("v1", "INACTIVE")],
            "No version is active: the last one was deactivated by anonymous (says eve), 3 d ago, 'twice as fast'.",
        ),
        ([version("v1", "INACTIVE")], "No version is active."),
    ],
)
def test_the_versions_of_a_launch_plan_open_with_the_active_one(versions: list[dict[str, Any]], expected: str) -> None:
    assert summary(Printer(), versions).replace(" 1 min ago", " ago") == expected
