"""When each cluster of the fleet could run a workload, candidates or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import JobParameters, Workload
from admin.core.placement.fits import (
    CouldRun,
    DecisionTime,
    Fit,
    FitCounts,
    add_fits,
    count_fits,
    describe_entry,
    find_fits,
    with_members,
    without_obstacles,
)
from admin.core.placement.routes import Route, RouteKind
from admin.core.resources import Amounts
from admin.core.use_grants import UsableClusters
from tests.support.small_fleets import group, pool, reports, route, small_fleet

BIG = {"capacity": {"cpu": "64", "memory": "256Gi"}}
SMALL = {"capacity": {"cpu": "1", "memory": "256Gi"}}
READY = {"health": "ready"}
JOB = Workload(key="p/d/e", demand={"cpu": 8000, "memory": 2**30, "executions": 1})
FLEET = small_fleet(
    clusters={
        "small": SMALL,
        "large": BIG,
        "cordoned": BIG,
        "silent": BIG,
        "full": BIG,
        "unseen": BIG,
        "bare": {},
        "off": {**SMALL, "enabled": False},
    },
    pools={"gpu": group(["small"])},
    states={
        **dict.fromkeys(("small", "large", "off", "bare"), READY),
        "cordoned": {**READY, "cordoned": True, "cordon_reason": "disks"},
        "silent": {"health": "lost"},
        "full": {**READY, **reports(capacity={"cpu": "64", "memory": "256Gi"}, free={"cpu": "2", "memory": "1Gi"})},
    },
)


def fits_of(
    route: Route, fleet: Fleet, workload: Workload, waiting: Mapping[str, Amounts], names: Iterable[str] | None = None
) -> dict[str, Fit]:
    """What becomes of every cluster of a fleet, or of some and the candidates."""
    group = with_members(route, fleet, fleet.clusters if names is None else names)
    return find_fits(group, fleet, workload, waiting)


def entry(name: str, **more: Any) -> dict[str, Any]:
    return {"cluster": name, "why_not": "is not in pool 'gpu' as defined", **more}


def test_each_cluster_says_when_it_could_run_it_whether_or_not_it_is_a_candidate() -> None:
    fits = fits_of(pool("gpu"), FLEET, JOB, {})
    assert fits.keys() == FLEET.clusters.keys()
    assert {name: fit.could_run.value for name, fit in fits.items()} == {
        "small": "never",
        "large": "now",
        "cordoned": "later",
        "silent": "later",
        "full": "later",
        "unseen": "later",
        "bare": "unknown",
        "off": "never",
    }
    reasons = {name: [verdict.reason for verdict in fit.obstacles] for name, fit in fits.items()}
    assert reasons["large"] == reasons["bare"] == []
    assert reasons["cordoned"] == ["is cordoned (disks)"]
    assert reasons["full"] == ["is full (62 of 64 cpu taken, 8 wanted)"]
    assert reasons["unseen"] == ["is expected: no agent of it has ever been seen"]
    assert reasons["off"] == ["is disabled", "is too small: 1 cpu in all, 8 wanted"]
    assert fits["bare"].unknown == ["cpu", "memory"]


def test_what_waits_at_a_cluster_takes_its_room() -> None:
    waiting = {"large": {"cpu": 60_000, "executions": 3}}
    fit = fits_of(pool("gpu"), FLEET, JOB, waiting)["large"]
    assert (fit.could_run, [verdict.filter for verdict in fit.obstacles]) == (CouldRun.LATER, ["room"])


def test_the_rules_of_the_pool_count_for_clusters_outside_of_it() -> None:
    rules = [{"filter": "cost < 5"}]
    fleet = small_fleet(
        clusters={"a": {"cost": 1}, "b": {"cost": 9}, "c": {"cost": 2}},
        pools={"gpu": group(["a"], strategy="constraint", rules=rules)},
        states=dict.fromkeys("abc", READY),
    )
    parameters = JobParameters(1, None, 0, "p", "d", "", "", {})
    fits = fits_of(pool("gpu"), fleet, Workload(key="p/d/e", job=parameters), {})
    assert {name: fit.could_run.value for name, fit in fits.items()} == {"a": "now", "b": "later", "c": "now"}
    assert fits["b"].obstacles[0].reason == "rule 1: cost < 5 is false, where cost is 9"


def test_what_the_creator_may_not_use_and_a_missing_plugin_count() -> None:
    usable = UsableClusters(frozenset({"small"}))
    fits = fits_of(pool("gpu"), FLEET, Workload(key="p/d/e", usable=usable, plugins=("ray",)), {})
    assert [verdict.reason for verdict in fits["large"].obstacles] == ["may not be used by its creator"]
    fleet = small_fleet(clusters={"a": {}, "b": {}}, states={"a": reports(plugins=["spark"]), "b": READY})
    fits = fits_of(route(RouteKind.CLUSTER, "b"), fleet, Workload(key="p/d/e", plugins=("ray",)), {})
    assert (fits["a"].could_run, fits["b"].could_run) == (CouldRun.NEVER, CouldRun.NOW)


def test_where_the_pool_is_gone_every_cluster_still_answers() -> None:
    fits = fits_of(pool("gone"), FLEET, JOB, {})
    assert fits["large"].could_run is CouldRun.NOW


def test_those_that_could_run_it_stand_first_and_are_counted() -> None:
    fits = fits_of(pool("gpu"), FLEET, JOB, {})
    others = [entry(name) for name in FLEET.clusters if name != "small"]
    candidates, ordered = add_fits([entry("small"), entry("sold")], others, fits)
    assert [cluster["cluster"] for cluster in ordered] == [
        *("large", "cordoned", "full", "silent", "unseen", "bare", "off"),
    ]
    assert candidates[0]["could_run"] == "never"
    assert "could_run" not in candidates[1]  # which the fleet no longer has
    counts = count_fits(candidates[:1], ordered)
    assert counts.all == FitCounts(clusters=8, now=1, later=4, unknown=1, never=2)
    assert counts.candidates == FitCounts(clusters=1, now=0, later=0, unknown=0, never=1)


def test_of_some_clusters_those_and_the_candidates_are_asked_and_others_stand_last() -> None:
    fits = fits_of(pool("gpu"), FLEET, JOB, {}, ["off", "sold"])
    assert fits.keys() == {"small", "off"}
    everything = fits_of(pool("gpu"), FLEET, JOB, {})
    assert fits == {name: everything[name] for name in fits}
    [small], others = add_fits([entry("small")], [entry(name) for name in ("large", "bare", "off")], fits)
    assert small["could_run"] == "never"
    assert [(other["cluster"], other.get("could_run")) for other in others] == [
        ("off", "never"),
        ("bare", None),
        ("large", None),
    ]


def described(name: str) -> str:
    _, [others] = add_fits([], [entry(name)], fits_of(pool("gpu"), FLEET, JOB, {}))
    return describe_entry(others, is_candidate=False, decided=None).message


def describe_untold(name: str) -> str:
    """The same for who may not know why."""
    _, [others] = add_fits([], [entry(name)], fits_of(pool("gpu"), FLEET, JOB, {}))
    return describe_entry(without_obstacles(others), is_candidate=False, decided=None).message


def test_one_cluster_is_told_in_a_sentence() -> None:
    start = "is not a candidate: is not in pool 'gpu' as defined."
    assert described("large") == f"Cluster 'large' {start} It could run it now if it were a candidate."
    assert described("cordoned") == f"Cluster 'cordoned' {start} It could run it, though not now."
    assert described("full").endswith("It could run it, though not now: is full (62 of 64 cpu taken, 8 wanted).")
    assert described("bare") == (
        f"Cluster 'bare' {start} Whether it could run it is not known: nobody says how much cpu and memory it has."
    )
    never = "is too small: 1 cpu in all, 8 wanted"
    assert described("off") == f"Cluster 'off' {start} It could never run it: {never}."
    candidate = {"cluster": "a", "chosen": False, "why_not": "able; drew 0.3 against 0.5"}
    assert describe_entry(candidate, is_candidate=True, decided=None).message == (
        "Cluster 'a' is a candidate, and is not chosen: able; drew 0.3 against 0.5."
    )
    told = {name: describe_untold(name) for name in ("full", "bare", "off")}
    assert told == {
        "full": f"Cluster 'full' {start} It could run it, though not now.",
        "bare": f"Cluster 'bare' {start} Whether it could run it is not known.",
        "off": f"Cluster 'off' {start} It could never run it.",
    }
    chosen = describe_entry({"cluster": "a", "chosen": True}, is_candidate=True, decided=None)
    assert chosen.message == "Cluster 'a' is chosen."


def test_a_cluster_is_told_as_of_the_decision_and_as_it_is_now() -> None:
    decided = DecisionTime(2, datetime(2026, 3, 1, 12, tzinfo=UTC))
    silent = {"cluster": "a", "chosen": False, "why_not": "is lost (silent since 2026-03-01T11:59:00Z)"}
    lost = "cluster 'a' was a candidate, and was not chosen: is lost (silent since 2026-03-01T11:59:00Z)."
    text = describe_entry({**silent, "could_run": "now"}, is_candidate=True, decided=decided)
    assert (text.then, text.now) == (lost, "It could run it now.")
    assert text.message == f"As of decision 2, made at 2026-03-01T12:00:00Z: {lost} It could run it now."
    obstacles = [{"filter": "cordoned", "reason": "is cordoned"}]
    later = {**silent, "could_run": "later", "obstacles": obstacles}
    assert describe_entry(later, is_candidate=True, decided=decided).now == (
        "It could run it, though not now: is cordoned."
    )
    assert describe_entry(silent, is_candidate=True, decided=decided).now == "It is no longer in the fleet."
    other = {"cluster": "a", "why_not": "is cordoned; is not in pool 'gpu' as defined", "could_run": "now"}
    assert describe_entry(other, is_candidate=False, decided=decided).message == (
        "As of decision 2, made at 2026-03-01T12:00:00Z, cluster 'a' was not a candidate. "
        "As the fleet is now: is cordoned; is not in pool 'gpu' as defined. It could run it now if it were a candidate."
    )
    chosen = describe_entry({"cluster": "a", "chosen": True}, is_candidate=True, decided=decided)
    assert chosen.message == "As of decision 2, made at 2026-03-01T12:00:00Z, cluster 'a' was chosen."
