"""Routes: the most specific statement wins, the pool before the label, and every other one is accounted for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest

from admin.core.placement.routes import Route, RouteKind, Target, as_json, find_route
from admin.core.settings.builtin_kinds import CLUSTER_ASSIGNMENT, EXECUTION_CLUSTER_LABEL
from admin.core.settings.platform import PlatformLeaf, PlatformLeaves, PlatformValues
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Level, Scope

SCOPE = Scope(project="p", domain="d", workflow="w", launch_plan="l")
KINDS = {"pool": CLUSTER_ASSIGNMENT, "label": EXECUTION_CLUSTER_LABEL}
FIELDS = {"pool": "cluster_pool_name", "label": "value"}
LEVELS = ("launch-plan", "workflow", "project-domain", "project", "domain")


@dataclass(frozen=True)
class Place:
    """Where somebody can say where to run."""

    rung: str
    kind: str
    key: str = ""  # of configuration

    def __str__(self) -> str:
        return f"{self.key or self.rung} {self.kind}"

    @property
    def is_row(self) -> bool:
        return self.rung in LEVELS


#: Every place, the one that wins first.
PLACES = (
    Place("request", "cluster"),
    *(Place(rung, kind) for rung in ("request", "launch-plan-definition", *LEVELS) for kind in ("pool", "label")),
    Place("platform", "pool", "clusterPools.clusterPoolAssignments.d"),
    Place("platform", "pool", "clusters.defaultClusterPool"),
    Place("platform", "label", "clusters.defaultExecutionLabel"),
)
PAIRS = list(combinations(PLACES, 2))


def named(place: Place) -> str:
    return str(place).replace(" ", "-")


def routed(said: Iterable[Place], unset: Iterable[Place] = (), scope: Scope = SCOPE) -> Route:
    """The route when some places name something, and some rows hold null."""
    names = {place: named(place) for place in said}
    wishes: dict[str, dict[str, str]] = {"request": {}, "launch-plan-definition": {}}
    for place, name in names.items():
        if place.rung in wishes:
            wishes[place.rung][place.kind] = name
    rows: dict[str, dict[Scope, Row]] = {}
    for place in {*names, *unset}:
        if place.is_row:
            kind = KINDS[place.kind]
            at = SCOPE.at(Level(place.rung))
            payload: dict[str, Any] = {FIELDS[place.kind]: names.get(place)}
            rows.setdefault(kind.name, {})[at] = Row(kind=kind.name, scope=at, payload=payload, version=7)
    return find_route(
        request=Target(**wishes["request"]),
        definition=Target(**wishes["launch-plan-definition"]),
        scope=scope,
        rows=rows,
        platform=configured(names),
    )


def configured(names: dict[Place, str]) -> PlatformValues:
    everywhere: dict[str, PlatformLeaves] = {}
    by_domain: dict[tuple[str, str], PlatformLeaves] = {}
    for place, name in names.items():
        if place.rung != "platform":
            continue
        kind = KINDS[place.kind].name
        leaves: PlatformLeaves = {(FIELDS[place.kind],): PlatformLeaf(value=name, key=place.key)}
        if "Assignments" in place.key:
            by_domain[kind, "d"] = leaves
        else:
            everywhere[kind] = leaves
    return PlatformValues(everywhere=everywhere, by_domain=by_domain)


def states(route: Route) -> dict[Place, str]:
    """What became of each place, in the order of the rungs."""
    return {Place(rung.rung, rung.kind.value, rung.key): rung.state for rung in route.rungs}


EVERYWHERE = Place("everywhere", "any")


@pytest.mark.parametrize(("winner", "loser"), PAIRS, ids=[f"{one} over {other}" for one, other in PAIRS])
def test_of_two_statements_the_more_specific_wins_and_the_trail_says_so(winner: Place, loser: Place) -> None:
    route = routed([winner, loser])
    assert (route.kind.value, route.name) == (winner.kind, named(winner))
    assert states(route) == {
        **dict.fromkeys(PLACES, "silent"),
        winner: "wins",
        loser: "overridden",
        EVERYWHERE: "overridden",
    }
    assert list(states(route)) == [*PLACES, EVERYWHERE]
    assert route.winner.name == named(winner)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_single_statement_wins_and_every_other_place_was_asked(place: Place) -> None:
    route = routed([place])
    assert states(route) == {**dict.fromkeys(PLACES, "silent"), place: "wins", EVERYWHERE: "overridden"}


def test_all_statements_at_once_and_then_one_after_the_other_taken_away() -> None:
    for count in range(len(PLACES)):
        route = routed(PLACES[count:])
        assert route.name == named(PLACES[count])
        assert [rung.state for rung in route.rungs] == (
            ["silent"] * count + ["wins"] + ["overridden"] * (len(PLACES) - count)
        )
    nothing = routed([])
    assert (nothing.kind, nothing.winner.rung) == (RouteKind.ANY, "everywhere")
    assert set(states(nothing).values()) == {"silent", "wins"}


UNSET = [place for place in PLACES if place.is_row]


@pytest.mark.parametrize("unset", UNSET, ids=str)
def test_a_null_ends_its_own_kinds_statements_below_and_no_others(unset: Place) -> None:
    position = PLACES.index(unset)
    for place in PLACES:
        if place == unset:
            continue
        route = routed([place], [unset])
        is_above = PLACES.index(place) < position
        found = states(route)
        if is_above:
            assert (route.name, found[unset]) == (named(place), "overridden"), place
        elif place.kind == unset.kind:
            assert (route.kind, found[unset], found[place]) == (RouteKind.ANY, "unset", "overridden"), place
            assert found[EVERYWHERE] == "wins"
        else:
            assert (route.name, found[unset], found[place]) == (named(place), "unset", "wins"), place


def test_a_null_pool_lets_a_broader_label_through() -> None:
    pool, label = Place("workflow", "pool"), Place("domain", "label")
    broader_pool = Place("project", "pool")
    route = routed([label, broader_pool], [pool])
    found = states(route)
    assert (route.kind, found[pool], found[broader_pool], found[label]) == (
        RouteKind.LABEL,
        "unset",
        "overridden",
        "wins",
    )


def test_two_nulls_of_a_kind_are_told_apart() -> None:
    nearer, farther = Place("workflow", "label"), Place("domain", "label")
    found = states(routed([], [nearer, farther]))
    assert (found[nearer], found[farther], found[EVERYWHERE]) == ("unset", "overridden", "wins")


def test_an_ad_hoc_job_is_asked_about_at_project_and_domain_only() -> None:
    said = [Place("workflow", "pool"), Place("launch-plan", "pool"), Place("project", "label")]
    route = routed(said, scope=Scope(project="p", domain="d"))
    assert route.name == "project-label"
    assert not {"workflow", "launch-plan"} & {rung.rung for rung in route.rungs}


def test_a_domains_configured_pool_counts_in_that_domain_only() -> None:
    said = [PLACES[-3], PLACES[-1]]
    assert routed(said).name == named(PLACES[-3])
    elsewhere = routed(said, scope=Scope(project="p", domain="other"))
    assert elsewhere.name == named(PLACES[-1])
    keys = [rung.key for rung in elsewhere.rungs if rung.rung == "platform"]
    assert keys == [
        "clusterPools.clusterPoolAssignments.other",
        "clusters.defaultClusterPool",
        "clusters.defaultExecutionLabel",
    ]


def test_rungs_in_answers_carry_their_scope_version_name_and_key() -> None:
    said = [Place("project-domain", "pool"), Place("platform", "label", "clusters.defaultExecutionLabel")]
    shown = as_json(routed(said))
    assert {
        "rung": "project-domain",
        "kind": "pool",
        "state": "wins",
        "project": "p",
        "domain": "d",
        "name": "project-domain-pool",
        "version": 7,
    } in shown
    assert shown[-2] == {
        "rung": "platform",
        "kind": "label",
        "state": "overridden",
        "name": "clusters.defaultExecutionLabel-label",
        "key": "clusters.defaultExecutionLabel",
    }
    assert shown[-1] == {"rung": "everywhere", "kind": "any", "state": "overridden"}
    assert shown[0] == {"rung": "request", "kind": "cluster", "state": "silent"}
