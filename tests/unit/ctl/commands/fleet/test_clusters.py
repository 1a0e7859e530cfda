from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctl.cli.output import Printer
from ctl.client.times import age, distance
from ctl.commands.fleet.clusters import state_until, state_words, summary


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ({"state": "expected", "enabled": True}, "expected"),
        ({"state": "ready", "enabled": True, "cordoned": True}, "ready,cordoned"),
        ({"state": "lost", "enabled": True, "cordoned": True, "draining": True}, "lost,draining"),
        ({"state": "ready", "enabled": False, "draining": True}, "ready,disabled,draining"),
        (
            {
                "state": "ready",
                "cordoned": True,
                "draining": True,
                "provenance": {"cordoned": {"event": 7}, "draining": {"event": 8}},
            },
            "ready,cordoned,draining",
        ),
        (
            {
                "state": "ready",
                "cordoned": True,
                "draining": True,
                "provenance": {"cordoned": {"event": 8}, "draining": {"event": 8}},
            },
            "ready,draining",
        ),
    ],
)
def test_a_state_says_what_an_operator_decided_too(cluster: dict[str, Any], expected: str) -> None:
    assert state_words(cluster) == expected


def test_a_deadline_that_has_passed_is_shown_by_its_age() -> None:
    deadline = (datetime.now(UTC) - timedelta(minutes=3, seconds=5.5)).isoformat().replace("+00:00", "Z")
    cluster = {"state": "ready", "enabled": True, "draining": True, "drain_deadline": deadline}
    assert Printer().in_words(state_until(cluster)).startswith("ready,draining, its deadline was 3 min 5 s ago")
    shown = Printer(format="wide").in_words(state_until(cluster))
    assert shown == f"ready,draining, its deadline was at {deadline[:19].replace('T', ' ')}Z"


def test_the_last_sync_is_shown_by_its_age() -> None:
    assert age(None) == ""
    assert age((datetime.now(UTC) - timedelta(minutes=3, seconds=5)).isoformat()).startswith("3 min")
    # Clocks differ.
    assert age((datetime.now(UTC) + timedelta(minutes=3)).isoformat()) == "0 s ago"


def test_what_is_to_come_is_shown_by_its_distance() -> None:
    assert distance((datetime.now(UTC) + timedelta(minutes=3, seconds=5)).isoformat()).startswith("in 3 min")
    assert distance((datetime.now(UTC) - timedelta(minutes=3, seconds=5)).isoformat()).startswith("3 min")


def listed(name: str, *because: str) -> dict[str, Any]:
    return {"name": name, "takes_work": not because, "takes_none_because": list(because)}


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        ([listed("a")], "1 of 1 cluster takes work."),
        (
            [
                {**listed("a"), "free": {"cpu": "500m", "memory": "1Gi"}, "capacity": {"cpu": "2", "memory": "4Gi"}},
                {**listed("b"), "free": {"cpu": "3", "gpu": "1"}, "capacity": {"cpu": "8", "gpu": "4"}},
                {**listed("c", "lost"), "free": {"cpu": "0"}, "capacity": {"cpu": "8"}},
            ],
            "2 of 3 clusters take work; free there are 3.5 of 10 cpu, 1Gi of 4Gi memory, 1 of 4 gpu; c (lost) does "
            "not.",
        ),
        ([listed("a", "lost")], "0 of 1 cluster takes work; a (lost) does not."),
        ([listed("a"), listed("b", "draining")], "1 of 2 clusters takes work; b (draining) does not."),
        (
            [listed("a", "lost"), listed("b", "disabled", "lost")],
            "0 of 2 clusters take work; a (lost) and b (disabled, lost) do not.",
        ),
        (
            [listed(f"c{number}", "expected") for number in range(7)],
            "0 of 7 clusters take work; c0, c1, c2, c3, c4 and 2 more (expected: no agent has been seen).",
        ),
        (
            [listed("a"), listed("b", "lost"), listed("c", "expected"), listed("d", "disabled", "expected")],
            "1 of 4 clusters takes work; b (lost) and d (disabled, expected) do not; c (expected: no agent has been "
            "seen).",
        ),
        (
            [listed("a") | {"full": ["executions"], "waiting": 2}, listed("b") | {"waiting": 1}],
            "2 of 2 clusters take work; a (2 waiting) is full.",
        ),
        ([{"name": "of an older admin"}], ""),
    ],
)
def test_a_list_opens_with_what_takes_work_and_what_does_not(clusters: list[dict[str, Any]], expected: str) -> None:
    assert summary(clusters) == expected
