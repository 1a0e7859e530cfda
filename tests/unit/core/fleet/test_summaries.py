"""The sentences that open answers about clusters, pools and labels."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from admin.core.fleet.summaries import describe_cluster, describe_group, off_because
from admin.core.placement.capacity import group_capacity, usable_amounts
from admin.core.provenance import Provenance
from tests.support.small_fleets import NOW, group, small_fleet

READY: dict[str, Any] = {"health": "ready", "last_sync_at": NOW - timedelta(minutes=3)}
BY_OTTO = Provenance(event=7, author="anonymous", claimed_by="otto", at=NOW - timedelta(days=3), message="new disks")


def described(**state: Any) -> str:
    report = {"capacity": {"cpu": "4", "nodes": 1}, "free": {"cpu": "3", "nodes": 0}}
    fleet = small_fleet(clusters={"fir": {}}, states={"fir": {"report": report, **state}})
    cluster = fleet.clusters["fir"]
    made_by = dict.fromkeys(("disabled", "cordoned", "draining"), BY_OTTO)
    return describe_cluster(cluster, usable_amounts(cluster, {}), made_by, NOW)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (READY, "Cluster 'fir' takes work; free are 3 of 4 cpu; 0 of 1 nodes idle."),
        (
            {**READY, "cordoned": True},
            f"Cluster 'fir' takes no work: it is cordoned ({BY_OTTO.describe(NOW)}).",
        ),
        (
            {**READY, "cordoned": True, "draining": True, "drain_deadline": NOW + timedelta(seconds=9)},
            f"Cluster 'fir' takes no work: it is draining until 2026-01-01T00:00:09Z ({BY_OTTO.describe(NOW)}).",
        ),
        (
            {**READY, "cordoned": True, "draining": True, "drain_deadline": NOW},
            "Cluster 'fir' takes no work: it is draining; its deadline was at 2026-01-01T00:00:00Z "
            f"({BY_OTTO.describe(NOW)}).",
        ),
        ({**READY, "health": "lost"}, "Cluster 'fir' takes no work: its agent is lost, last heard 3 min ago."),
        (
            {**READY, "enabled": False, "health": "unreachable"},
            f"Cluster 'fir' takes no work: it is disabled ({BY_OTTO.describe(NOW)}); "
            "its agent is not heard, last heard 3 min ago.",
        ),
        ({**READY, "admitted": False}, "Cluster 'fir' takes no work: it waits to be admitted."),
    ],
)
def test_a_cluster_takes_work_or_says_why_not_and_by_whom(state: dict[str, Any], expected: str) -> None:
    assert described(**state) == expected


@pytest.mark.parametrize(
    ("free", "waiting", "expected"),
    [
        (
            {"cpu": "900m", "executions": 0},
            9,
            "Cluster 'fir' is full (2 of 2 executions taken), 9 wait; free are 900m of 2 cpu.",
        ),
        (
            {"cpu": 0, "executions": 1},
            1,
            "Cluster 'fir' is full (2 of 2 cpu taken), 1 waits; free are 1 of 2 executions.",
        ),
        ({"cpu": 0, "executions": 0}, 0, "Cluster 'fir' is full (2 of 2 cpu, 2 of 2 executions taken)."),
        (
            {"cpu": 1, "executions": 1},
            3,
            "Cluster 'fir' takes work; free are 1 of 2 cpu, 1 of 2 executions; 3 wait.",
        ),
    ],
)
def test_a_cluster_without_room_is_full_and_says_how_many_wait(
    free: dict[str, Any], waiting: int, expected: str
) -> None:
    report = {"capacity": {"cpu": "2", "executions": 2}, "free": free}
    fleet = small_fleet(clusters={"fir": {}}, states={"fir": {**READY, "report": report}})
    cluster = fleet.clusters["fir"]
    assert describe_cluster(cluster, usable_amounts(cluster, {}), {}, NOW, waiting=waiting) == expected


def test_a_cluster_that_was_never_seen_is_expected_and_has_reported_nothing() -> None:
    cluster = small_fleet(clusters={"fir": {"capacity": {"cpu": "4"}}}).clusters["fir"]
    assert off_because(cluster) == ["expected"]
    assert describe_cluster(cluster, None, {}, NOW).startswith(
        "Cluster 'fir' is expected: no agent of it has ever been"
    )


@pytest.mark.parametrize("state", [{"cordoned": True}, {"enabled": False}, {"admitted": False}, {"health": "lost"}])
def test_nothing_is_free_on_a_cluster_that_takes_no_work(state: dict[str, Any]) -> None:
    report = {"capacity": {"cpu": "4"}, "free": {"cpu": "3"}}
    fleet = small_fleet(clusters={"fir": {}}, states={"fir": {**READY, "report": report, **state}})
    assert usable_amounts(fleet.clusters["fir"], {}) == {"cpu": 0}


def test_a_pool_says_which_members_take_work_and_why_others_do_not() -> None:
    clusters = {name: {"capacity": {"cpu": "2"}} for name in ("a", "b", "c", "d", "e")}
    states: dict[str, dict[str, Any]] = {
        "a": {**READY, "report": {"free": {"cpu": "1"}}},
        "e": {**READY, "report": {"free": {"cpu": "0"}}},
        "b": {**READY, "cordoned": True},
        "c": {**READY, "health": "lost"},
    }
    pools = {"gpu": group({"a": 1, "b": 1, "c": 1, "d": 0}), "one": group(["a"]), "none": group(["b", "c"])}
    pools["some"] = group(["a", "b", "d"])
    pools |= {"full": group(["e"]), "half": group(["a", "e"]), "part": group(["e", "b"])}
    fleet = small_fleet(clusters=clusters, pools=pools, labels={"l": group(["a"])}, states=states)

    def summary(name: str, *, is_label: bool = False) -> str:
        chosen = fleet.labels[name] if is_label else fleet.pools[name]
        capacity = group_capacity(chosen, fleet.clusters, {})
        made_by = {"b": {"cordoned": BY_OTTO}}
        return describe_group(chosen, fleet.clusters, capacity.total, capacity.free, made_by, NOW, full=capacity.full)

    assert summary("gpu") == (
        "Pool 'gpu' (weighted): 1 of 4 members takes work; free are 1 of 8 cpu; b (cordoned: event 7, "
        "anonymous (says otto), 3 d ago, 'new disks'), c (lost), d (weight 0) take no work."
    )
    assert summary("some").endswith(" 'new disks') takes no work; d (expected: no agent has been seen).")
    assert summary("one") == "Pool 'one' (weighted): its one member takes work; free are 1 of 2 cpu."
    assert summary("none").startswith("Pool 'none' (weighted): no member takes work now, so that what is placed by it")
    assert summary("full") == "Pool 'full' (weighted): its one member is full; free are 0 of 2 cpu."
    assert summary("half").endswith("all 2 members take work, of which e is full; free are 1 of 4 cpu.")
    assert "1 of 2 members is full; free are 0 of 4 cpu; b (cordoned: " in summary("part")
    assert summary("l", is_label=True).startswith("Label 'l': its one member takes work")


def test_what_has_not_reported_says_so() -> None:
    fleet = small_fleet(clusters={"fir": {}}, states={"fir": READY})
    assert describe_cluster(fleet.clusters["fir"], None, {}, NOW).endswith(
        "takes work, and has not reported what is free."
    )
