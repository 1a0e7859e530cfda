"""Clusters that were no candidates, each with the reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from admin.core.placement.non_candidates import GroupHistory, render_non_candidates, switched_off
from admin.core.placement.routes import Route, RouteKind
from admin.core.provenance import Provenance
from tests.support.small_fleets import group, small_fleet

NOW = datetime(2026, 3, 4, tzinfo=UTC)
REVISION = Provenance(
    revision=7, author="anonymous", claimed_by="ana", at=datetime(2026, 3, 1, tzinfo=UTC), message=None
)
EVENT = Provenance(event=9, author="anonymous", claimed_by=None, at=datetime(2026, 3, 3, tzinfo=UTC), message="disks")
LEFT = Provenance(
    revision=5, author="anonymous", claimed_by="otto", at=datetime(2026, 3, 2, tzinfo=UTC), message="too slow"
)
FLEET = small_fleet(
    clusters={"a": {}, "b": {}, "c": {"enabled": False}, "d": {}},
    pools={"gpu": group(["a", "d"])},
    labels={"dusk": group(["b"])},
)


def why_not(kind: RouteKind, name: str, *candidates: str) -> dict[str, str]:
    route = Route(kind=kind, name=name, rungs=())
    history = GroupHistory(defined_by=REVISION, deleted_by=EVENT, changed_by={"b": LEFT})
    entries = render_non_candidates(route, FLEET, candidates, {"c": {"disabled": EVENT}}, history, NOW)
    return {entry["cluster"]: entry["why_not"] for entry in entries}


def test_each_says_why_the_route_does_not_lead_to_it_those_first_that_are_switched_off() -> None:
    by = "revision 7, anonymous (says ana), 3 d ago"
    reasons = why_not(RouteKind.POOL, "gpu", "a")
    assert list(reasons) == ["c", "b", "d"]
    assert reasons["c"] == f"is disabled, event 9, anonymous, 1 d ago, 'disks'; is not in pool 'gpu' as defined, {by}"
    assert reasons["b"] == "left pool 'gpu', revision 5, anonymous (says otto), 2 d ago, 'too slow'"
    assert reasons["d"] == f"came into pool 'gpu' after this was decided, {by}"


def test_a_label_and_a_named_cluster_have_words_of_their_own() -> None:
    assert why_not(RouteKind.LABEL, "dusk", "b")["a"].startswith("does not carry label 'dusk'")
    assert why_not(RouteKind.CLUSTER, "b", "b")["a"].startswith("is not cluster 'b', which the request names")
    assert why_not(RouteKind.ANY, "", "a", "b", "c").keys() == {"d"}


def test_a_silent_cluster_and_one_that_waits_to_be_admitted_say_so_too() -> None:
    states: dict[str, dict[str, Any]] = {"b": {"health": "lost", "last_sync_at": NOW}, "c": {"admitted": False}}
    fleet = small_fleet(clusters={"a": {}, "b": {}, "c": {}}, pools={"gpu": group(["a"])}, states=states)
    route = Route(kind=RouteKind.POOL, name="gpu", rungs=())
    silent, pending = render_non_candidates(route, fleet, ["a"], {}, GroupHistory(), NOW)
    assert silent["why_not"] == "is lost (silent since 2026-03-04T00:00:00Z); is not in pool 'gpu' as defined"
    assert [reason["reason"] for reason in pending["reasons"]] == [
        *("waits to be admitted", "is not in pool 'gpu' as defined"),
    ]


def test_those_that_operators_keep_from_work_are_found() -> None:
    assert [cluster.name for cluster in switched_off(FLEET, {"a"})] == ["c"]
    assert switched_off(FLEET, {"c"}) == []


def test_a_pool_that_was_deleted_is_why_nothing_is_in_it() -> None:
    assert (
        why_not(RouteKind.POOL, "gone")["a"]
        == "pool 'gone' is gone from the fleet, event 9, anonymous, 1 d ago, 'disks'"
    )
