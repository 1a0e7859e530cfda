"""Shares of a pool: what it promises against what was placed, and why; on both databases."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.retention import Retention
from admin.core.times import show_time
from admin.services import user_tokens
from admin.services.context import Context
from admin.services.retention import prune
from admin.services.shares import ShareLimits, pool_shares
from tests.support.agents import Clock
from tests.support.apps import context_of
from tests.support.copies import copy_execution
from tests.support.placing import (
    API,
    asked,
    created,
    get,
    label,
    ok,
    pool,
    put_label,
    put_pool,
    refused,
    report,
    switch,
)

SLOW_ON = ("postgresql",)

NAMES = [f"e{number}" for number in range(40)]


def by_cluster(answer: Any) -> dict[str, Any]:
    return {cluster["cluster"]: cluster for cluster in answer["clusters"]}


def add(api: FlaskClient, name: str, *names: str) -> None:
    for each in names:
        created(api, each, **pool(name))


def test_a_weighted_pool_says_which_cluster_was_passed_over_and_why(api: FlaskClient) -> None:
    for cluster in ("east", "west"):
        put_pool(api, cluster, [cluster])
        report(api, cluster, capacity={"executions": 1000})
    put_pool(api, "both", {"east": 3, "west": 1})
    add(api, "both", *NAMES)
    answer = get(api, "pools/both/shares")
    assert (answer["pool"], answer["strategy"], answer["total"], answer["complete"]) == ("both", "weighted", 40, True)
    assert (answer["placed"], answer["unplaced"]) == (40, 0)
    before = by_cluster(answer)
    assert (before["east"]["promised_share"], before["west"]["promised_share"]) == (0.75, 0.25)
    assert before["east"]["placed"] + before["west"]["placed"] == 40
    assert all(cluster["by_strategy"] == cluster["placed"] for cluster in before.values())
    assert answer["summary"].startswith("Pool 'both' (weighted) placed 40 executions, and each cluster got what its")
    assert all(cluster["why"].startswith(f"drew {cluster['placed']}, as chance") for cluster in before.values())
    assert before["east"]["share"] == before["east"]["placed"] / 40

    switch(api, "east", "drain", reason="new disks")
    add(api, "both", *(f"{name}-again" for name in NAMES))
    created(api, "named", cluster="west")
    created(api, "labelled", **label("west"))
    created(api, "alone", **pool("west"))
    west = by_cluster(get(api, "pools/both/shares"))["west"]
    assert west["placed"] == before["west"]["placed"] + 40
    [instead] = west["instead_of"]
    assert (instead["cluster"], instead["reason"]) == ("east", "cordoned")
    # Some of the later ones would have drawn this cluster anyway, as often as its weight says.
    assert before["west"]["placed"] < west["by_strategy"] < west["placed"]
    assert west["by_strategy"] + instead["count"] == west["placed"]
    assert west["otherwise"] == {"cluster": 1, "label": 1, "pool": 1}
    answer = get(api, "pools/both/shares")
    east = by_cluster(answer)["east"]
    assert east["drawn"] == east["placed"] + instead["count"]
    assert east["expected"]["low"] <= east["drawn"] <= east["expected"]["high"]
    assert f"{instead['count']} of them went elsewhere since it was drained" in east["why"]
    assert f"{instead['count']} came since east was drained" in west["why"]
    assert "east got" in answer["summary"]
    assert get(api, "pools/west/shares")["summary"].startswith("Pool 'west' (weighted) placed 1 execution, and each")
    assert answer["not_counted"] == []


def test_what_asked_for_another_strategy_leaves_the_promise_as_it_is(api: FlaskClient) -> None:
    put_pool(api, "both", {"local": 3, "west": 1})
    for cluster in ("local", "west"):
        report(api, cluster, capacity={"executions": 9}, free={"executions": 9})
    add(api, "both", "a", "b")
    created(api, "same", **pool("both"), strategy="weighted")
    created(api, "beside", **pool("both"), strategy="least-loaded")
    answer = get(api, "pools/both/shares")
    assert (answer["placed"], answer["examined"]) == (3, 4)
    assert by_cluster(answer)["local"]["promised_share"] == 0.75
    assert "promise" not in answer
    assert answer["not_counted"] == ["1 execution is not counted, which asked for another strategy than the pool's."]


def test_a_pool_that_spills_says_who_was_full(api: FlaskClient) -> None:
    report(api, "local", capacity={"executions": 2}, free={"executions": 2})
    put_pool(api, "spilling", ["local", "west"], strategy="spill")
    report(api, "west", capacity={"executions": 1}, free={"executions": 1})
    add(api, "spilling", "a", "b", "c", "d")
    answer = get(api, "pools/spilling/shares")
    assert (answer["placed"], answer["unplaced"]) == (3, 1)
    shares = by_cluster(answer)
    assert "promised_share" not in shares["local"]
    assert (shares["local"]["placed"], shares["local"]["by_strategy"]) == (2, 2)
    assert shares["west"]["instead_of"] == [{"cluster": "local", "reason": "full", "count": 1}]
    assert not {"drawn", "expected"} & shares["west"].keys()
    assert answer["summary"] == (
        "Pool 'spilling' (spill) placed 3 executions; west got 1: 1 came since local was full."
    )


def test_a_cluster_that_left_the_pool_is_shown_without_a_weight(api: FlaskClient) -> None:
    put_pool(api, "two", ["local", "west"])
    report(api, "west", capacity={"executions": 9})
    add(api, "two", "a")
    put_pool(
        api, "two", ["west"] if get(api, "executions/flytesnacks/development/a")["cluster"] == "local" else ["local"]
    )
    answer = get(api, "pools/two/shares")
    [gone] = [cluster for cluster in answer["clusters"] if "weight" not in cluster]
    assert gone["placed"] == 1


def test_what_came_beside_the_pool_is_counted_of_clusters_that_left_it_too(api: FlaskClient, app_clock: Clock) -> None:
    put_pool(api, "two", ["local", "west"])
    report(api, "west", capacity={"executions": 9})
    created(api, "named", cluster="west")
    put_label(api, "fast", ["west"])
    created(api, "labelled", **label("fast"))
    put_pool(api, "two", ["local"])
    app_clock.advance(1)
    clusters = by_cluster(get(api, "pools/two/shares"))
    assert clusters["west"]["otherwise"] == {"cluster": 1, "label": 1}
    assert clusters["west"]["why"].startswith("the pool placed nothing there; left the pool by revision ")
    assert clusters["local"]["why"] == "the pool placed nothing there"


def test_the_window_and_what_is_looked_at_are_limited(api: FlaskClient, context: Context, app_clock: Clock) -> None:
    put_pool(api, "one", ["local"])
    add(api, "one", "first")
    app_clock.advance(7200)
    add(api, "one", "second")
    copy_execution(context, "second", [f"copy-{number}" for number in range(9)])
    now = app_clock()
    assert get(api, "pools/one/shares")["total"] == 0  # what is created now is not before now
    app_clock.advance(1)
    assert get(api, "pools/one/shares")["total"] == 10
    assert get(api, "pools/one/shares?after=1926-01-01T00:00:00Z")["total"] == 11
    until = (now - timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert get(api, f"pools/one/shares?after=1926-01-01T00:00:00Z&before={until}")["total"] == 1
    cut = pool_shares(context, "one", now - timedelta(days=1), app_clock(), ShareLimits(executions=4))
    assert (cut.examined, cut.total, cut.examined_since) == (4, 11, now)
    assert cut.not_counted == ["7 older executions of the window are not counted."]
    refused(api.get(f"{API}/pools/one/shares?after=2999-01-01T00:00:00Z"), 400, "invalid_request", "after")
    for span in ("100000y", "999999999y"):
        answer = refused(api.get(f"{API}/pools/one/shares?after={span}"), 400, "invalid_request", "after")
        assert "is too long ago." in answer["message"]
    answer = refused(api.get(f"{API}/pools/oen/shares"), 404, "pool_not_found")
    assert "'one'" in answer["message"]


def test_members_that_joined_and_left_within_the_window_are_named(api: FlaskClient, app_clock: Clock) -> None:
    put_pool(api, "two", ["local", "old"])
    app_clock.advance(7200)
    assert not {"joined", "left"} & {key for cluster in get(api, "pools/two/shares")["clusters"] for key in cluster}
    body = {"pool": {"members": [{"id": "local"}, {"id": "new"}]}, "claimed_by": "ana", "message": "old is sold"}
    revision = ok(api.put(f"{API}/pools/two", json=body))["revision"]
    put_pool(api, "two", {"local": 2, "new": 1})
    add(api, "two", "a")
    app_clock.advance(60)
    answer = get(api, "pools/two/shares")
    assert answer["summary"].endswith(" Since the window began, new joined it and old left it.")
    clusters = by_cluster(answer)
    assert list(clusters) == ["local", "new", "old"]
    made_by = {"revision": revision, "author": "anonymous", "claimed_by": "ana", "message": "old is sold"}
    at = show_time(app_clock() - timedelta(seconds=60))
    words = f"by revision {revision}, anonymous (says ana), at {at}, 'old is sold'"
    for name, verb in (("new", "joined"), ("old", "left")):
        provenance = clusters[name][verb]
        assert {key: provenance[key] for key in made_by} == made_by
        assert clusters[name]["why"].endswith(f"; {verb} the pool {words}")
    assert ("weight" in clusters["old"], clusters["old"]["placed"]) == (False, 0)
    assert not {"joined", "left"} & clusters["local"].keys()
    app_clock.advance(7200)
    assert list(by_cluster(get(api, "pools/two/shares"))) == ["local", "new"], "that was before the window"


def test_a_share_is_promised_by_the_definition_that_executions_were_placed_by(
    api: FlaskClient, app_clock: Clock
) -> None:
    for cluster in ("east", "west"):
        put_pool(api, cluster, [cluster])
        report(api, cluster, capacity={"executions": 1000})
    put_pool(api, "both", {"east": 3, "west": 1})
    add(api, "both", *NAMES)
    app_clock.advance(60)
    answer = get(api, "pools/both/shares")
    assert not {"promise", "changes"} & answer.keys()
    before = by_cluster(answer)

    members = [{"id": "east", "weight": 1}, {"id": "west", "weight": 9}]
    body = {"pool": {"members": members}, "claimed_by": "ana", "message": "west is new"}
    revision = ok(api.put(f"{API}/pools/both", json=body))["revision"]
    ok(api.put(f"{API}/pools/both", json={"pool": {"members": members, "description": "for all"}}))
    app_clock.advance(60)
    answer = get(api, "pools/both/shares")
    after = by_cluster(answer)
    assert (after["east"]["weight"], after["west"]["weight"]) == (1, 9)
    for name in ("east", "west"):
        for key in ("promised_share", "expected", "drawn", "why"):
            assert after[name][key] == before[name][key], "nothing was placed by the new weights"
    [change] = answer["changes"]
    assert change["change"] == "weight of east 3 -> 1; weight of west 1 -> 9"
    made_by = change["made_by"]
    assert (made_by["revision"], made_by["claimed_by"], made_by["message"]) == (revision, "ana", "west is new")
    at = show_time(app_clock() - timedelta(seconds=60))
    assert answer["promise"] == (
        "Shares are promised by the members and weights that each execution was placed by; the pool's definition was "
        f"changed by revision {revision}, anonymous (says ana), at {at}, 'west is new' "
        "(weight of east 3 -> 1; weight of west 1 -> 9)."
    )
    assert "more than chance explains" not in answer["summary"]

    add(api, "both", *(f"{name}-again" for name in NAMES))
    app_clock.advance(60)
    mixed = by_cluster(get(api, "pools/both/shares"))
    assert mixed["east"]["promised_share"] == pytest.approx((0.75 + 0.1) / 2)
    put_pool(api, "both", {"east": 1, "west": 9}, strategy="spill")
    add(api, "both", "spilled")
    app_clock.advance(60)
    answer = get(api, "pools/both/shares")
    assert not any("promised_share" in cluster for cluster in answer["clusters"])
    assert answer["promise"].startswith("No share is promised for a window with decisions by a strategy that ")
    assert answer["changes"][0]["change"] == "strategy weighted -> spill"


def test_a_cluster_that_was_switched_off_says_by_whom(api: FlaskClient, app_clock: Clock) -> None:
    for cluster in ("east", "west"):
        put_pool(api, cluster, [cluster])
        report(api, cluster, capacity={"executions": 1000})
    put_pool(api, "both", {"east": 3, "west": 1})
    switch(api, "east", "cordon", reason="new disks", claimed_by="ana")
    app_clock.advance(60)
    add(api, "both", *NAMES[:10])
    app_clock.advance(60)
    switch(api, "east", "uncordon")
    switch(api, "east", "cordon", claimed_by="bob")
    app_clock.advance(60)
    switch(api, "east", "disable", claimed_by="eve")
    app_clock.advance(60)
    answer = get(api, "pools/both/shares")
    west = by_cluster(answer)["west"]
    [instead] = west["instead_of"]
    assert instead["reason"] == "cordoned"
    [event] = instead["switched_by"]
    assert (event["claimed_by"], event["message"], event["author"]) == ("ana", "new disks", "anonymous")
    at = show_time(app_clock() - timedelta(seconds=240))
    by = f"(event {event['event']}, anonymous (says ana), at {at}, 'new disks')"
    assert f"came since east was cordoned {by}" in west["why"]
    assert f"went elsewhere since it was cordoned {by}" in by_cluster(answer)["east"]["why"]
    add(api, "both", *NAMES[10:20])
    app_clock.advance(60)
    others = {other["reason"]: other for other in by_cluster(get(api, "pools/both/shares"))["west"]["instead_of"]}
    assert [event["claimed_by"] for event in others["disabled"]["switched_by"]] == ["eve"]


def test_a_window_of_which_a_part_was_pruned_says_so(api: FlaskClient, context: Context, app_clock: Clock) -> None:
    put_pool(api, "one", ["local"])
    add(api, "one", "gone", "last")
    for name in ("gone", "last"):
        ok(api.delete(f"{API}/executions/flytesnacks/development/{name}"))
    app_clock.advance(2 * 86400)
    put_pool(api, "one", ["local", "west"])
    list(prune(context, Retention(executions="1d", revisions="1d"), now=app_clock()))
    cutoff = show_time(app_clock() - timedelta(days=1))
    answer = get(api, "pools/one/shares?after=3d")
    assert answer["not_counted"] == [
        f"Executions that ended before {cutoff} are pruned, so they are not counted.",
        f"Revisions made before {cutoff} are pruned, so who joined or left the pool before is not known.",
    ]
    assert get(api, "pools/one/shares?after=23h")["not_counted"] == []


def test_what_a_pool_placed_is_counted_by_user_project_and_cluster(api: FlaskClient, app_clock: Clock) -> None:
    put_pool(api, "one", ["local"])
    add(api, "one", "a", "b", "c")
    claimed = asked("d", project="flyteexamples", **pool("one"))
    ok(api.post(f"{API}/executions", json={**claimed, "claimed_by": "ana"}))
    created(api, "beside", cluster="local")
    app_clock.advance(1)
    plain = get(api, "pools/one/shares")
    assert not {"by", "groups"} & plain.keys()
    by_project = get(api, "pools/one/shares?by=project")
    assert by_project["groups"] == [
        {"project": "flytesnacks", "placed": 3, "share": 0.75},
        {"project": "flyteexamples", "placed": 1, "share": 0.25},
    ]
    assert by_project["summary"] == (
        "Pool 'one' (weighted) placed 4 executions; project flytesnacks has 3 of them (75.0%)."
    )
    assert by_project["clusters"] == plain["clusters"]
    assert get(api, "pools/one/shares?by=user")["groups"] == [
        {"user": "anonymous", "placed": 3, "share": 0.75},
        {"user": "anonymous (says ana)", "placed": 1, "share": 0.25},
    ]
    assert get(api, "pools/one/shares?by=cluster")["groups"] == [{"cluster": "local", "placed": 4, "share": 1}]
    refused(api.get(f"{API}/pools/one/shares?by=colour"), 400, "invalid_request", "by")
    app_clock.advance(7200)
    nothing = get(api, "pools/one/shares?by=user")
    assert (nothing["groups"], nothing["summary"]) == ([], "Pool 'one' (weighted) placed 0 executions in this window.")


def test_users_and_projects_that_the_caller_may_not_read_are_counted_without_a_name(
    api: FlaskClient, app: Flask, app_clock: Clock
) -> None:
    put_pool(api, "one", ["local"])
    add(api, "one", "a", "b")
    created(api, "c", project="flyteexamples", **pool("one"))
    app_clock.advance(1)
    ok(api.post(f"{API}/grants", json={"grant": {"role": "viewer", "user": "eve", "project": "flyteexamples"}}))
    ok(api.post(f"{API}/users", json={"user": {"name": "eve"}}))
    eve = app.test_client()
    eve.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {user_tokens.create_token(context_of(app), 'eve', 'x').token}"
    hidden = {"placed": 2, "share": pytest.approx(2 / 3)}
    for by, name in (("project", "flyteexamples"), ("user", "anonymous")):
        answer = get(eve, f"pools/one/shares?by={by}")
        assert answer["groups"] == [{by: name, "placed": 1, "share": pytest.approx(1 / 3)}, hidden]
        assert "flytesnacks" not in str(answer)
        assert answer["summary"].endswith(f"placed 3 executions; {by} {name} has 1 of them (33.3%).")
