"""What clusters and pools have, and what of it is free for new work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from admin.core.fleet.clusters import Cluster, Health, why_unreachable
from admin.core.placement.capacity import GroupCapacity, group_capacity, usable_amounts
from tests.support.small_fleets import pool_fleet

HAS = {"capacity": {"executions": 4}}
FREE = {"report": {"free": {"executions": 3}}}


def cluster_of(definition: Mapping[str, Any], **state: Any) -> Cluster:
    return pool_fleet("weighted", {"a": definition}, a=state).clusters["a"]


@pytest.mark.parametrize("health", list(Health))
def test_only_a_cluster_whose_agent_syncs_has_something_free(health: Health) -> None:
    cluster = cluster_of(HAS, health=health.value)
    free = usable_amounts(cluster, {"a": {"executions": 1}})
    assert free == {"executions": 3 if health is Health.READY else 0}


def test_what_is_unknown_stays_unknown() -> None:
    assert usable_amounts(cluster_of({}, health="ready"), {}) is None


def test_a_pool_adds_up_what_is_free_on_the_members_that_may_get_work() -> None:
    ready = {"health": "ready", **FREE}
    fleet = pool_fleet(
        "weighted",
        dict.fromkeys(("able", "busy", "silent", "cordoned", "expected"), HAS),
        able=ready,
        busy=ready,
        silent={"health": "unreachable", **FREE},
        cordoned={**ready, "cordoned": True},
    )
    capacity = group_capacity(next(iter(fleet.pools.values())), fleet.clusters, {"busy": {"executions": 2}})
    assert capacity == GroupCapacity(total={"executions": 20}, free={"executions": 4}, able=2, members=5)


def test_a_silent_cluster_says_why_as_far_as_that_is_known() -> None:
    silent = cluster_of({}, health="lost", agent_host="node-1")
    assert why_unreachable(cluster_of({}, health="ready"), has_token=False) is None
    assert why_unreachable(silent, has_token=True) == (
        "Its agent on node-1 does not sync: it has ended, or cannot reach the admin."
    )
    assert "`rainbowctl rotate token a`" in (why_unreachable(silent, has_token=False) or "")
