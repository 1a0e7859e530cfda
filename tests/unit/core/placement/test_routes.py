"""Routes: the most specific rung wins, the pool before the label, and every other rung has a state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest

from admin.core.placement.routes import Route, RouteKind, Target, as_json, describe_rungs, find_route, find_winner
from admin.core.settings.builtin_kinds import CLUSTER_ASSIGNMENT, EXECUTION_CLUSTER_LABEL
from admin.core.settings.platform import PlatformLeaf, PlatformLeaves, PlatformValues
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Level, Scope

SCOPE = Scope(project="p", domain="d", workflow="w", launch_plan="l")
KINDS = {"pool": CLUSTER_ASSIGNMENT, "label": EXECUTION_CLUSTER_LABEL}
FIELDS = {"pool": "cluster_pool_name", "label": "value"}
LEVELS = ("launch-plan", "workflow", "project-domain", "project", "domain")


@dataclass(frozen=True)
class Source:
    """A rung by its name, kind and key."""

    rung: str
    kind: str
    key: str = ""  # of configuration

    def __str__(self) -> str:
        return f"{self.key or self.rung} {self.kind}"

    @property
    def is_row(self) -> bool:
        return self.rung in LEVELS


#: Every rung, the most specific first.
SOURCES = (
    Source("request", "cluster"),
    *(Source(rung, kind) for rung in ("request", "launch-plan-definition", *LEVELS) for kind in ("pool", "label")),
    Source("platform", "pool", "clusterPools.clusterPoolAssignments.d"),
    Source("platform", "pool", "clusters.defaultClusterPool"),
    Source("platform", "label", "clusters.defaultExecutionLabel"),
)
PAIRS = list(combinations(SOURCES, 2))


def named(source: Source) -> str:
    return str(source).replace(" ", "-")


def routed(sources: Iterable[Source], unset: Iterable[Source] = (), scope: Scope = SCOPE) -> Route:
    """The route where these rungs name something, and the rows of others hold null."""
    names = {source: named(source) for source in sources}
    targets: dict[str, dict[str, str]] = {"request": {}, "launch-plan-definition": {}}
    for source, name in names.items():
        if source.rung in targets:
            targets[source.rung][source.kind] = name
    rows: dict[str, dict[Scope, Row]] = {}
    for source in {*names, *unset}:
        if source.is_row:
            kind = KINDS[source.kind]
            at = SCOPE.at(Level(source.rung))
            payload: dict[str, Any] = {FIELDS[source.kind]: names.get(source)}
            rows.setdefault(kind.name, {})[at] = Row(kind=kind.name, scope=at, payload=payload, version=7)
    question: dict[str, Any] = {
        "request": Target(**targets["request"]),
        "definition": Target(**targets["launch-plan-definition"]),
        "scope": scope,
        "rows": rows,
        "platform": configured(names),
    }
    route = find_route(**question)
    assert find_winner(**question) == route.winner
    return route


def configured(names: dict[Source, str]) -> PlatformValues:
    everywhere: dict[str, PlatformLeaves] = {}
    by_domain: dict[tuple[str, str], PlatformLeaves] = {}
    for source, name in names.items():
        if source.rung != "platform":
            continue
        kind = KINDS[source.kind].name
        leaves: PlatformLeaves = {(FIELDS[source.kind],): PlatformLeaf(value=name, key=source.key)}
        if "Assignments" in source.key:
            by_domain[kind, "d"] = leaves
        else:
            everywhere[kind] = leaves
    return PlatformValues(everywhere=everywhere, by_domain=by_domain)


def states(route: Route) -> dict[Source, str]:
    """The state of each rung, in their order."""
    return {Source(rung.rung, rung.kind.value, rung.key): rung.state for rung in route.rungs}


EVERYWHERE = Source("everywhere", "any")


@pytest.mark.parametrize(("winner", "loser"), PAIRS, ids=[f"{winner} over {loser}" for winner, loser in PAIRS])
def test_of_two_rungs_the_more_specific_wins_and_the_trail_says_so(winner: Source, loser: Source) -> None:
    route = routed([winner, loser])
    assert (route.kind.value, route.name) == (winner.kind, named(winner))
    assert states(route) == {
        **dict.fromkeys(SOURCES, "silent"),
        winner: "wins",
        loser: "overridden",
        EVERYWHERE: "overridden",
    }
    assert list(states(route)) == [*SOURCES, EVERYWHERE]
    assert route.winner.name == named(winner)


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_single_rung_wins_and_every_other_is_silent(source: Source) -> None:
    route = routed([source])
    assert states(route) == {**dict.fromkeys(SOURCES, "silent"), source: "wins", EVERYWHERE: "overridden"}


def test_without_the_winner_the_next_rung_wins() -> None:
    for count in range(len(SOURCES)):
        route = routed(SOURCES[count:])
        assert route.name == named(SOURCES[count])
        assert [rung.state for rung in route.rungs] == (
            ["silent"] * count + ["wins"] + ["overridden"] * (len(SOURCES) - count)
        )
    nothing = routed([])
    assert (nothing.kind, nothing.winner.rung) == (RouteKind.ANY, "everywhere")
    assert set(states(nothing).values()) == {"silent", "wins"}


UNSET = [source for source in SOURCES if source.is_row]


@pytest.mark.parametrize("unset", UNSET, ids=str)
def test_a_null_cancels_broader_rungs_of_its_own_kind_and_no_others(unset: Source) -> None:
    position = SOURCES.index(unset)
    for source in SOURCES:
        if source == unset:
            continue
        route = routed([source], [unset])
        is_above = SOURCES.index(source) < position
        state_of = states(route)
        if is_above:
            assert (route.name, state_of[unset]) == (named(source), "overridden"), source
        elif source.kind == unset.kind:
            assert (route.kind, state_of[unset], state_of[source]) == (RouteKind.ANY, "unset", "overridden"), source
            assert state_of[EVERYWHERE] == "wins"
        else:
            assert (route.name, state_of[unset], state_of[source]) == (named(source), "unset", "wins"), source


def test_a_null_pool_lets_a_broader_label_through() -> None:
    pool, label = Source("workflow", "pool"), Source("domain", "label")
    broader_pool = Source("project", "pool")
    route = routed([label, broader_pool], [pool])
    state_of = states(route)
    assert (route.kind, state_of[pool], state_of[broader_pool], state_of[label]) == (
        RouteKind.LABEL,
        "unset",
        "overridden",
        "wins",
    )


def test_two_nulls_of_a_kind_are_told_apart() -> None:
    nearer, farther = Source("workflow", "label"), Source("domain", "label")
    state_of = states(routed([], [nearer, farther]))
    assert (state_of[nearer], state_of[farther], state_of[EVERYWHERE]) == ("unset", "overridden", "wins")


def test_an_ad_hoc_job_has_no_rungs_of_workflow_and_launch_plan() -> None:
    sources = [Source("workflow", "pool"), Source("launch-plan", "pool"), Source("project", "label")]
    route = routed(sources, scope=Scope(project="p", domain="d"))
    assert route.name == "project-label"
    assert not {"workflow", "launch-plan"} & {rung.rung for rung in route.rungs}


def test_a_domains_configured_pool_counts_in_that_domain_only() -> None:
    sources = [SOURCES[-3], SOURCES[-1]]
    assert routed(sources).name == named(SOURCES[-3])
    elsewhere = routed(sources, scope=Scope(project="p", domain="other"))
    assert elsewhere.name == named(SOURCES[-1])
    keys = [rung.key for rung in elsewhere.rungs if rung.rung == "platform"]
    assert keys == [
        "clusterPools.clusterPoolAssignments.other",
        "clusters.defaultClusterPool",
        "clusters.defaultExecutionLabel",
    ]


def test_rungs_in_answers_carry_their_scope_version_name_and_key() -> None:
    sources = [Source("project-domain", "pool"), Source("platform", "label", "clusters.defaultExecutionLabel")]
    rungs = as_json(routed(sources))
    assert {
        "rung": "project-domain",
        "kind": "pool",
        "state": "wins",
        "project": "p",
        "domain": "d",
        "name": "project-domain-pool",
        "version": 7,
    } in rungs
    assert rungs[-2] == {
        "rung": "platform",
        "kind": "label",
        "state": "overridden",
        "name": "clusters.defaultExecutionLabel-label",
        "key": "clusters.defaultExecutionLabel",
    }
    assert rungs[-1] == {"rung": "everywhere", "kind": "any", "state": "overridden"}
    assert rungs[0] == {"rung": "request", "kind": "cluster", "state": "silent"}


def test_a_rung_does_not_outrank_another_that_names_the_same() -> None:
    wins = {"rung": "request", "kind": "pool", "name": "trees", "state": "wins"}
    same = {"rung": "domain", "kind": "pool", "name": "trees", "state": "overridden", "domain": "d"}
    assert describe_rungs([wins, same]) == "pool 'trees' in the request decides"
    other = {**same, "kind": "label"}
    assert describe_rungs([wins, same, other]) == "pool 'trees' in the request outranks label 'trees' at domain d"
