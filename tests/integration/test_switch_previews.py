"""What a switch of a cluster would do to executions, and that the switch then does just that; on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.redecisions import decide_waiting
from admin.store.execution_lists import ListLimits
from tests.support.agents import Clock, PlayedAgent, played_agent
from tests.support.apps import context_of
from tests.support.placing import API, created, execution, get, nothing_stored, ok, pool, put_pool, refused, switch

Effects = dict[str, tuple[str, str | None]]  #: the outcome of each execution, and where it would be


@pytest.fixture
def east(api: FlaskClient, context: Context, app_clock: Clock) -> PlayedAgent:
    return played_agent(api, context, "east")


@pytest.fixture
def west(api: FlaskClient, context: Context, east: PlayedAgent) -> PlayedAgent:
    """An agent of the cluster that takes what the first of the pool does not."""
    agent = played_agent(api, context, "west")
    put_pool(api, "both", ["east", "west"], strategy="spill")
    put_pool(api, "alone", ["east"])
    return agent


def preview(api: FlaskClient, word: str, cluster: str = "east", **body: Any) -> Any:
    return ok(api.post(f"{API}/clusters/{cluster}/{word}?dry_run=true", json=body))


def effects(answer: Any) -> Effects:
    return {effect["id"]["name"]: (effect["outcome"], effect.get("cluster")) for effect in answer["effects"]}


def add(api: FlaskClient, route: str, *names: str, **spec: Any) -> None:
    for name in names:
        created(api, name, **pool(route), **spec)


@pytest.mark.usefixtures("west")
@pytest.mark.parametrize("word", ["cordon", "disable", "drain"])
def test_what_waits_moves_or_waits_on_as_the_preview_says(api: FlaskClient, context: Context, word: str) -> None:
    add(api, "both", "moves")
    add(api, "alone", "waits")
    with nothing_stored(context):
        answer = preview(api, word)
    assert (answer["dry_run"], answer["changed"], answer["complete"]) == (True, True, True)
    assert effects(answer) == {"moves": ("MOVES", "west"), "waits": ("WAITS", None)}
    assert answer["counts"] == {"MOVES": 1, "WAITS": 1}
    assert get(api, "clusters/east")["cordoned"] is False
    assert switch(api, "east", word).keys().isdisjoint({"effects", "counts", "complete"})
    decide_waiting(context)
    for name, (_, cluster) in effects(answer).items():
        assert execution(api, name).get("cluster") == cluster
    reasons = {effect["id"]["name"]: effect["message"] for effect in answer["effects"]}
    assert reasons["waits"] == execution(api, "waits")["closure"]["reason"]["message"]


def test_a_drain_tells_what_runs_until_when_and_what_then(
    api: FlaskClient, context: Context, app_clock: Clock, east: PlayedAgent, west: PlayedAgent
) -> None:
    long = {"command": ["true"], "resources": {"duration": "1h"}}
    short = {"command": ["true"], "resources": {"duration": "5m"}}
    add(api, "both", "ends", job=long)
    add(api, "both", "again", retry={"on_lost": "retry"})
    add(api, "alone", "stuck", retry={"on_lost": "retry"})
    add(api, "both", "short", job=short)
    assert len(east.start(4)) == 4
    add(api, "both", "taken")
    east.take()
    with nothing_stored(context):
        answer = preview(api, "drain", deadline="10m")
    assert effects(answer) == {
        "ends": ("ENDS", "east"),
        "again": ("RUNS_AGAIN", "west"),
        "stuck": ("RUNS_AGAIN", None),
        "short": ("RUNS_ON", "east"),
        "taken": ("MOVES", "west"),
    }
    times = {effect["id"]["name"]: effect.get("at") for effect in answer["effects"]}
    deadline = (app_clock() + timedelta(minutes=10)).isoformat().replace("+00:00", "Z")
    assert times["ends"] == times["again"] == deadline
    assert times["taken"] is None
    assert times["short"] < deadline
    without = effects(preview(api, "drain"))
    assert {name: outcome for name, (outcome, _) in without.items()} == {
        "ends": "RUNS_ON",
        "again": "RUNS_ON",
        "stuck": "RUNS_ON",
        "short": "RUNS_ON",
        "taken": "MOVES",
    }


@pytest.mark.usefixtures("west")
def test_what_waits_for_a_cordoned_cluster_would_go_there_when_it_is_uncordoned(
    api: FlaskClient, context: Context
) -> None:
    switch(api, "east", "cordon")
    add(api, "alone", "waits")
    answer = preview(api, "uncordon")
    assert effects(answer) == {"waits": ("MOVES", "east")}
    switch(api, "east", "uncordon")
    decide_waiting(context)
    assert execution(api, "waits")["cluster"] == "east"


@pytest.mark.usefixtures("west")
def test_the_room_that_one_takes_is_gone_for_the_next(api: FlaskClient, context: Context, west: PlayedAgent) -> None:
    west.sync(report={"capacity": {"executions": 1}, "free": {"executions": 1}})
    add(api, "both", "first", "second")
    answer = preview(api, "cordon")
    assert effects(answer) == {"first": ("MOVES", "west"), "second": ("WAITS", None)}
    switch(api, "east", "cordon")
    decide_waiting(context)
    assert [execution(api, name).get("cluster") for name in ("first", "second")] == ["west", None]


@pytest.mark.usefixtures("west")
def test_a_switch_that_would_change_nothing_has_no_effects(api: FlaskClient) -> None:
    answer = preview(api, "uncordon")
    assert (answer["changed"], answer["effects"], answer["counts"]) == (False, [], {})


@pytest.mark.usefixtures("west")
def test_an_answer_that_has_not_looked_at_everything_says_so(app: Flask, api: FlaskClient) -> None:
    app.extensions["rainbow"] = replace(context_of(app), list_limits=ListLimits(previewed=1))
    add(api, "both", "first", "second")
    answer = preview(api, "cordon")
    assert (list(effects(answer)), answer["complete"]) == (["first"], False)


def test_an_unknown_cluster_is_refused_with_the_nearest(api: FlaskClient, east: PlayedAgent) -> None:
    answer = refused(api.post(f"{API}/clusters/eest/drain?dry_run=true", json={}), 404, "cluster_not_found")
    assert east.cluster in answer["details"][0]["closest"]
