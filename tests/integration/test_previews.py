"""What a change of the fleet or of settings would do to executions, and that it then does just that; both databases."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.changes import rows_after
from admin.services import decision_views
from admin.services.context import Context
from admin.services.evictions import end_drained, evict_from_lost
from admin.services.fleet import find_cluster, view_clusters
from admin.services.queueing_budgets import end_overdue
from admin.services.redecisions import decide_undecided, decide_waiting
from admin.store import fleet
from admin.store.cluster_events import ClusterEvent
from admin.store.execution_lists import ListLimits
from tests.support.agents import Clock, PlayedAgent, played_agent
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    create,
    created,
    execution,
    get,
    label,
    nothing_stored,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    refused,
    switch,
)
from tests.support.small_fleets import group
from tests.support.statements import statements, transactions

SLOW_ON = ("postgresql",)

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
def test_what_would_wait_beyond_its_queueing_budget_is_said_to_fail_and_when(
    app: Flask, api: FlaskClient, context: Context, east: PlayedAgent, app_clock: Clock
) -> None:
    put_attribute(api, "domain", "quality_of_service", {"spec": {"queueing_budget": "90s"}})
    add(api, "alone", "again", retry={"on_lost": "retry", "attempts": 2, "backoff": "30s"})
    east.start()
    add(api, "both", "moves")
    add(api, "alone", "offered", "fails")
    east.offered(2)
    with nothing_stored(context):
        answer = preview(api, "drain", deadline="10m")
    over = (app_clock() + timedelta(seconds=90)).isoformat(timespec="seconds").replace("+00:00", "Z")
    assert effects(answer) == {
        "moves": ("MOVES", "west"),
        "fails": ("TIMES_OUT", None),
        "offered": ("TIMES_OUT", None),
        "again": ("RUNS_AGAIN", None),
    }
    told = {effect["id"]["name"]: effect for effect in answer["effects"]}
    for name in ("fails", "offered"):
        start = f"Fails for its queueing budget at {over} (TIMED_OUT), unless a cluster takes it before. No cluster of "
        assert told[name]["message"].startswith(start)
        assert datetime.fromisoformat(told[name]["at"]) == app_clock() + timedelta(seconds=90)
    later = (app_clock() + timedelta(seconds=720)).isoformat(timespec="seconds").replace("+00:00", "Z")
    assert f"waits to run again. Fails for its queueing budget at {later} (TIMED_OUT)" in told["again"]["message"]
    switch(api, "east", "drain", deadline="10m")
    decide_waiting(context)
    app_clock.advance(91)
    assert "fails" in [ended.name for ended in end_overdue(context_of(app))]


@pytest.mark.usefixtures("west")
def test_a_switch_that_would_change_nothing_has_no_effects(api: FlaskClient) -> None:
    answer = preview(api, "uncordon")
    assert (answer["changed"], answer["effects"], answer["counts"]) == (False, [], {})


@pytest.mark.usefixtures("west")
def test_an_answer_that_has_not_looked_at_everything_says_so(app: Flask, api: FlaskClient) -> None:
    app.extensions["rainbow"] = replace(context_of(app), list_limits=ListLimits(previewed=1))
    add(api, "both", "first", "second")
    answer = preview(api, "cordon")
    assert (list(effects(answer)), answer["complete"], answer["not_examined"]) == (["first"], False, 1)


def test_an_unknown_cluster_is_refused_with_the_nearest(api: FlaskClient, east: PlayedAgent) -> None:
    answer = refused(api.post(f"{API}/clusters/eest/drain?dry_run=true", json={}), 404, "cluster_not_found")
    assert east.cluster in answer["details"][0]["closest"]


def tried(api: FlaskClient, path: str, **query: str) -> Any:
    """The dry run of a delete."""
    more = "".join(f"&{key}={value}" for key, value in query.items())
    return ok(api.delete(f"{API}/{path}?dry_run=true{more}"))


def messages(preview: Any) -> dict[str, str]:
    return {effect["id"]["name"]: effect["message"] for effect in preview["effects"]}


def test_the_delete_of_a_cluster_tells_what_waits_and_runs_there_and_what_becomes_of_each(
    app: Flask, api: FlaskClient, context: Context, app_clock: Clock
) -> None:
    agent = played_agent(api, context, "north")  # no pool and no label names it
    running = {"stays": {}, "fails": {"on_lost": "fail"}, "again": {"on_lost": "retry"}}
    for name, retry in running.items():
        created(api, name, cluster="north", **({"retry": retry} if retry else {}))
    assert len(agent.start(3)) == 3
    created(api, "offered", cluster="north")
    agent.offered()
    created(api, "waits", cluster="north")
    with nothing_stored(context):
        refusal = refused(api.delete(f"{API}/clusters/north?dry_run=true"), 409, "in_use")
        answer = tried(api, "clusters/north", force="true")
    assert "5 unfinished executions" in refusal["details"][0]["reason"]
    assert answer["users"] == refusal["details"]
    preview = answer["executions"]
    assert effects(preview) == {
        "waits": ("WAITS", None),
        "stays": ("RUNS_ON", "north"),
        "fails": ("ENDS", "north"),
        "again": ("RUNS_AGAIN", None),
        "offered": ("WAITS", None),
    }
    assert preview["counts"] == {"WAITS": 2, "RUNS_ON": 1, "ENDS": 1, "RUNS_AGAIN": 1}
    assert {effect.get("from") for effect in preview["effects"]} == {"north"}
    ok(api.delete(f"{API}/clusters/north?force=true"))
    decide_waiting(context)
    app_clock.advance(3600)
    assert len(evict_from_lost(context_of(app), 100)) == 4
    decide_undecided(context_of(app))
    message = get(api, "timeline?source=redecision")["entries"][0]["message"]
    assert message.startswith("2 decided again: north -> none (CLUSTER_GONE): 2 (")
    assert "'north'" in message
    phases = {name: execution(api, name)["closure"]["phase"] for name in effects(preview)}
    assert phases == {
        "waits": "QUEUED",
        "offered": "QUEUED",
        "again": "QUEUED",
        "stays": "RUNNING",
        "fails": "FAILED",
    }
    for name in ("waits", "offered"):
        assert execution(api, name).get("cluster") is None
        assert messages(preview)[name].endswith(execution(api, name)["closure"]["reason"]["message"])


@pytest.mark.parametrize("kind", ["pool", "label"])
def test_the_delete_of_a_pool_or_label_tells_what_names_it_and_what_waits_for_it(
    api: FlaskClient, context: Context, west: PlayedAgent, kind: str
) -> None:
    put, asks = (put_pool, pool) if kind == "pool" else (put_label, label)
    put(api, "old", ["west"])
    key, value = ("cluster_assignment", "cluster_pool_name") if kind == "pool" else ("execution_cluster_label", "value")
    put_attribute(api, "domain", key, {value: "old"}, domain="staging")
    created(api, "runs", **asks("old"))
    assert west.start() == ["runs"]
    created(api, "waits", **asks("old"))
    with nothing_stored(context):
        refused(api.delete(f"{API}/{kind}s/old?dry_run=true"), 409, "in_use")
        answer = tried(api, f"{kind}s/old", force="true")
    assert [user["field"] for user in answer["users"]] == ["attributes", "executions"]
    assert "domain staging names it" in answer["users"][0]["reason"]
    assert effects(answer["executions"]) == {"waits": ("WAITS", None), "runs": ("RUNS_ON", "west")}
    ok(api.delete(f"{API}/{kind}s/old?force=true"))
    decide_waiting(context)
    assert execution(api, "waits")["closure"]["reason"]["message"] == messages(answer["executions"])["waits"]
    assert execution(api, "runs")["closure"]["phase"] == "RUNNING"


@pytest.mark.usefixtures("west")
def test_a_delete_that_affects_nothing_says_so_and_one_that_is_made_has_no_preview(api: FlaskClient) -> None:
    put_label(api, "unused", ["west"])
    answer = tried(api, "labels/unused")
    assert answer["executions"] == {"effects": [], "counts": {}, "complete": True}
    assert "users" not in answer
    assert "executions" not in ok(api.delete(f"{API}/labels/unused"))


@pytest.mark.usefixtures("west")
def test_an_update_of_a_pool_names_the_executions_that_would_move(api: FlaskClient, context: Context) -> None:
    add(api, "both", "moves")
    add(api, "alone", "stays")
    body = {"pool": group(["west"])}
    with nothing_stored(context):
        answer = ok(api.put(f"{API}/pools/both?dry_run=true", json=body))
        plan = plan_of(api, {"pool_definition": {"name": "both", **group(["west"])}})
    assert answer["executions"] == plan["executions"]
    assert effects(plan["executions"]) == {"moves": ("MOVES", "west")}
    assert plan["executions"]["effects"][0]["from"] == "east"
    ok(api.put(f"{API}/pools/both", json=body))
    decide_waiting(context)
    assert [execution(api, name)["cluster"] for name in ("moves", "stays")] == ["west", "east"]


@pytest.mark.usefixtures("west")
@pytest.mark.parametrize("members", [[("east", 0), ("west", 1)], [("west", 1)]])
def test_the_dry_run_of_a_pool_or_label_says_where_new_executions_would_wait(
    api: FlaskClient, context: Context, members: list[tuple[str, int]]
) -> None:
    put_label(api, "near", ["east", "west"])
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "both"})
    put_attribute(api, "workflow", "execution_cluster_label", {"value": "near"}, workflow="fit")
    switch(api, "west", "cordon")
    definition = {"members": [{"id": name, "weight": weight} for name, weight in members]}
    for noun, name in (("pool", "both"), ("label", "near")):
        with nothing_stored(context):
            answer = ok(api.put(f"{API}/{noun}s/{name}?dry_run=true", json={noun: definition}))["new_executions"]
            plan = plan_of(api, {f"{noun}_definition": {"name": name, **definition}})["new_executions"]
        assert answer == plan
        assert (answer["refused"], answer["waiting"], answer["complete"]) == (0, 1, True)
        [reason] = answer["reasons"]
        assert (reason["outcome"], reason.get("workflow")) == ("waits", None if noun == "pool" else "fit")
        assert "'west' is cordoned, event " in reason["message"]
    ok(api.put(f"{API}/pools/both", json={"pool": definition}))
    assert created(api, "new").get("cluster") is None
    both_able = {"members": [{"id": "east", "weight": 1}, {"id": "west", "weight": 1}]}
    assert "new_executions" not in ok(api.put(f"{API}/pools/both?dry_run=true", json={"pool": both_able}))


@pytest.mark.usefixtures("west")
def test_a_plan_says_where_new_executions_would_wait_by_pools_and_settings_together(api: FlaskClient) -> None:
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "both"})
    switch(api, "west", "cordon")
    pool_change = {"pool_definition": {"name": "both", **group(["west"])}}
    place = {"project": PROJECT, "domain": DOMAIN, "resource_type": "CLUSTER_ASSIGNMENT"}
    away, to_it = ({**place, "payload": {"cluster_pool_name": name}} for name in ("alone", "both"))
    assert plan_of(api, pool_change)["new_executions"]["waiting"] == 1
    assert "new_executions" not in plan_of(api, pool_change, away)
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "alone"})
    assert "new_executions" not in plan_of(api, pool_change)
    assert plan_of(api, pool_change, to_it)["new_executions"]["waiting"] == 1


@pytest.mark.usefixtures("west")
def test_the_dry_run_of_a_delete_or_rollback_says_which_label_decides_then(api: FlaskClient) -> None:
    put_label(api, "near", ["west"])
    put_attribute(api, "project-domain", "execution_cluster_label", {"value": "near"})
    at = get(api, "revisions")["head"]
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "both"})
    path = f"{API}/project_domain_attributes/{PROJECT}/{DOMAIN}?resource_type=CLUSTER_ASSIGNMENT&dry_run=true"
    [route] = ok(api.delete(path))["routes"]
    assert (route["project"], route["domain"], route["noun"], route["name"]) == (PROJECT, DOMAIN, "label", "near")
    assert (route["origin"]["level"], route["origin"]["revision"]) == ("project-domain", at)
    assert route["message"].startswith(
        f"New executions at project-domain {PROJECT}/{DOMAIN} would go by label 'near', set at "
    )
    assert f"(revision {at}, anonymous, " in route["message"]
    assert ok(api.post(f"{API}/rollbacks?dry_run=true", json={"revision": at + 1}))["routes"] == [route]
    place = {"project": PROJECT, "domain": DOMAIN, "resource_type": "CLUSTER_ASSIGNMENT"}
    assert "routes" not in plan_of(api, {**place, "payload": {"cluster_pool_name": "alone"}})
    label_path = path.replace("CLUSTER_ASSIGNMENT", "EXECUTION_CLUSTER_LABEL")
    assert "routes" not in ok(api.delete(label_path))  # the pool decides before and after
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "alone"})
    ok(api.delete(label_path.replace("&dry_run=true", "")))
    assert [(route["noun"], route["name"]) for route in ok(api.delete(path))["routes"]] == [("pool", "alone")]
    ok(api.delete(path.replace("&dry_run=true", "")))
    assert created(api, "new")["cluster"] == "east"


def plan_of(api: FlaskClient, *changes: Any, force: bool = False) -> Any:
    query = f"?dry_run=true{'&force=true' if force else ''}"
    return ok(api.post(f"{API}/attribute_changes{query}", json={"changes": list(changes)}))


@pytest.mark.usefixtures("west")
def test_a_plan_that_also_deletes_names_what_would_move_and_what_would_wait(api: FlaskClient, context: Context) -> None:
    add(api, "both", "moves")
    add(api, "alone", "waits")
    changes = [
        {"pool_definition": {"name": "both", **group(["west"])}},
        {"pool_definition": {"name": "alone"}, "delete": True},
    ]
    with nothing_stored(context):
        plan = plan_of(api, *changes, force=True)
    assert effects(plan["executions"]) == {"moves": ("MOVES", "west"), "waits": ("WAITS", None)}
    assert [user["field"] for user in plan["users"]] == ["executions"]
    ok(api.post(f"{API}/attribute_changes?force=true", json={"changes": changes}))
    decide_waiting(context)
    assert [execution(api, name).get("cluster") for name in ("moves", "waits")] == ["west", None]


@pytest.mark.usefixtures("west")
def test_new_settings_move_nothing_by_themselves_and_name_what_redecide_would_move(
    api: FlaskClient, context: Context
) -> None:
    put_label(api, "first", ["east"])
    put_label(api, "second", ["west"])
    put_attribute(api, "project-domain", "execution_cluster_label", {"value": "first"})
    created(api, "follows")
    created(api, "asks", **pool("alone"))
    created(api, "elsewhere", domain="staging", **pool("alone"))
    path = f"{API}/project_domain_attributes/{PROJECT}/{DOMAIN}"
    body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "second"}}}}
    with nothing_stored(context):
        answer = ok(api.put(f"{path}?dry_run=true", json=body))
    (effect,) = answer["executions"]["effects"]
    assert (effect["id"]["name"], effect["outcome"], effect["from"]) == ("follows", "STAYS", "east")
    assert (effect["cluster"], effect["redecided_cluster"]) == ("east", "west")
    ok(api.put(path, json=body))
    assert decide_waiting(context) == []
    assert execution(api, "follows")["cluster"] == "east"
    redecided = ok(api.post(f"{API}/executions/redecide", json={"selector": {"project": PROJECT}}))
    moved = {item["id"]["name"]: item["to"] for item in redecided["executions"] if item["changed"]}
    assert moved["follows"] == effect["redecided_cluster"]
    delete = ok(api.delete(f"{path}?resource_type=EXECUTION_CLUSTER_LABEL&dry_run=true"))
    assert {effect["id"]["name"] for effect in delete["executions"]["effects"]} <= {"follows"}


@pytest.mark.usefixtures("west")
def test_a_preview_that_would_draw_from_too_many_clusters_is_cut_and_says_so(app: Flask, api: FlaskClient) -> None:
    app.extensions["rainbow"] = replace(context_of(app), list_limits=ListLimits(drawn=1))
    add(api, "both", "first", "second")
    answer = preview(api, "cordon")
    assert (list(effects(answer)), answer["complete"]) == (["first"], False)


@pytest.mark.usefixtures("west")
def test_no_more_executions_are_decided_than_an_answer_names_and_it_says_so(app: Flask, api: FlaskClient) -> None:
    put_label(api, "near", ["east"])
    put_attribute(api, "project-domain", "execution_cluster_label", {"value": "near"})
    for name in ("a", "b", "c"):
        created(api, name)
    app.extensions["rainbow"] = replace(context_of(app), list_limits=ListLimits(decided=2))
    cut = preview(api, "cordon")
    assert (list(effects(cut)), cut["complete"]) == (["a", "b"], False)
    path = f"{API}/project_domain_attributes/{PROJECT}/{DOMAIN}?dry_run=true"
    body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "west"}}}}
    by_settings = ok(api.put(path, json=body))["executions"]
    assert (by_settings["counts"], by_settings["complete"]) == ({"STAYS": 2}, False)
    unrelated = {"attributes": {"matching_attributes": {"quality_of_service": {"tier": "LOW"}}}}
    nothing = ok(api.put(path, json=unrelated))["executions"]
    assert (nothing["counts"], nothing["complete"]) == ({}, True)


@pytest.mark.usefixtures("west")
def test_a_preview_keeps_only_the_proposed_rows_that_apply(api: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    created(api, "waits")
    proposed = []

    def note(rows: Any, changes: Any) -> Any:
        proposed.extend(changes)
        return rows_after(rows, changes)

    monkeypatch.setattr(decision_views, "rows_after", note)
    changes = [
        {"resource_type": "QUALITY_OF_SERVICE_SPECIFICATION", **place, "payload": {"tier": "LOW"}}
        for place in ({"domain": DOMAIN}, {"domain": "staging"}, {"project": PROJECT, "domain": "production"})
    ]
    ok(api.post(f"{API}/attribute_changes?dry_run=true", json={"changes": changes}))
    assert {change.scope.domain for change in proposed} == {DOMAIN}


def test_a_rollback_tells_which_later_revision_is_in_its_way_and_what_could_be_undone(
    api: FlaskClient, context: Context
) -> None:
    rows = [
        {"resource_type": "EXECUTION_CLUSTER_LABEL", "domain": domain, "payload": {"value": "east"}}
        for domain in ("staging", "production")
    ]
    first = ok(api.post(f"{API}/attribute_changes", json={"changes": rows}))["revision"]
    again = [{**rows[0], "payload": {"value": "west"}}]
    later = {"changes": again, "claimed_by": "ana", "message": "more room"}
    second = ok(api.post(f"{API}/attribute_changes", json=later))["revision"]
    for query in ("?dry_run=true", ""):
        with nothing_stored(context):
            response = api.post(f"{API}/rollbacks{query}", json={"revision": first})
            answer = refused(response, 409, "version_conflict")
        (detail,) = answer["details"]
        assert (detail["domain"], detail["changed_by_revision"]) == ("staging", second)
        made_by = detail["provenance"]
        assert (made_by["revision"], made_by["claimed_by"], made_by["message"]) == (second, "ana", "more room")
        assert answer["restorable"] == [{"resource_type": "EXECUTION_CLUSTER_LABEL", "domain": "production"}]
        assert f"revision {second}, anonymous (says ana)" in answer["message"]


def test_a_rollback_of_what_can_be_restored_leaves_the_rest_and_says_why(api: FlaskClient, context: Context) -> None:
    rows = [
        {"resource_type": "EXECUTION_CLUSTER_LABEL", "domain": domain, "payload": {"value": "east"}}
        for domain in ("staging", "production")
    ]
    first = ok(api.post(f"{API}/attribute_changes", json={"changes": rows}))["revision"]
    later = {"changes": [{**rows[0], "payload": {"value": "west"}}], "claimed_by": "ana", "message": "more room"}
    second = ok(api.post(f"{API}/attribute_changes", json=later))["revision"]
    body = {"revision": first, "restorable": True}
    with nothing_stored(context):
        trial = ok(api.post(f"{API}/rollbacks?dry_run=true", json=body))
    made = ok(api.post(f"{API}/rollbacks", json=body))
    for answer in (trial, made):
        assert [(row["domain"], row["action"]) for row in answer["rows"]] == [("production", "delete")]
        [left] = answer["left"]
        assert (left["domain"], left["changed_by_revision"], answer["left_count"]) == ("staging", second, 1)
        assert (left["provenance"]["claimed_by"], left["provenance"]["message"]) == ("ana", "more room")
    assert get(api, f"revisions/{made['revision']}")["undone"] == first
    assert get(api, "domain_attributes/staging?resource_type=EXECUTION_CLUSTER_LABEL")
    again = [{**rows[1], "payload": {"value": "west"}}]
    third = ok(api.post(f"{API}/attribute_changes", json={"changes": again}))["revision"]
    refused(api.post(f"{API}/rollbacks", json={"revision": first, "restorable": True}), 409, "version_conflict")
    complete = ok(api.post(f"{API}/rollbacks", json={"revision": third, "restorable": True}))
    assert not {"left", "left_count"} & complete.keys()
    wrong = {"to": 0, "everything": True, "restorable": True}
    refused(api.post(f"{API}/rollbacks", json=wrong), 400, "invalid_request", "restorable")


def fall_silent(context: Context, clock: Clock) -> None:
    """Have the agent of `east` be unreachable."""
    with context.database.writing() as connection:
        state = fleet.hold_state(connection, "east")
        event = ClusterEvent(cluster="east", at=clock(), type="UNREACHABLE")
        fleet.save(connection, replace(state, health="unreachable"), event)


def test_previews_of_a_silent_cluster_say_so_and_what_its_policies_make_of_it(
    api: FlaskClient, context: Context, app_clock: Clock, east: PlayedAgent, west: PlayedAgent
) -> None:
    for name, retry in {"goes-on": {}, "again": {"on_lost": "retry"}, "fails": {"on_lost": "fail"}}.items():
        created(api, name, **pool("both"), **({"retry": retry} if retry else {}))
    created(api, "ending", **pool("both"))
    assert len(east.start(4)) == 4
    ok(api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/ending", json={"cause": "enough"}))
    assert effects(preview(api, "drain"))["ending"] == ("ENDING", "east")
    heard = get(api, "clusters/east")["last_sync_at"]
    fall_silent(context, app_clock)
    with nothing_stored(context):
        drain, cordon = preview(api, "drain", deadline="10m"), preview(api, "cordon")
        removal = tried(api, "clusters/east", force="true")["executions"]
    for answer in (drain, cordon, removal):
        note, *kept = answer["notes"]
        assert note.startswith(f"Cluster 'east' is unreachable: its agent is silent since {heard[:19]}")
        assert kept == (["Cluster 'east' keeps the 4 executions that its agent has."] if answer is cordon else [])
    assert effects(drain) == {
        "goes-on": ("ENDS", "east"),
        "again": ("RUNS_AGAIN", "west"),
        "fails": ("ENDS", "east"),
        "ending": ("ENDING", "east"),
    }
    assert effects(removal) == effects(drain) | {"goes-on": ("RUNS_ON", "east")}
    outcomes = messages(drain)
    assert outcomes["ending"].startswith("It is being ended already, but its agent is silent since")
    assert messages(removal)["ending"].startswith("It is being ended already, but its agent can no longer report it")
    assert "its agent is silent since" in outcomes["goes-on"]
    lost = (datetime.fromisoformat(heard) + timedelta(seconds=context.settings.agents.lost_seconds)).isoformat()
    assert outcomes["again"].startswith(f"Counts as lost when its cluster does, at {lost[:19]}Z (its lease is over at ")
    at = {effect["id"]["name"]: effect["at"] for effect in drain["effects"]}
    assert at["again"][:19] == at["fails"][:19] == lost[:19]
    assert effects(cordon) == {}
    done = ok(api.post(f"{API}/clusters/east/drain", json={"deadline": "10m"}))
    assert done["notes"] == drain["notes"]


def test_a_drain_of_a_silent_cluster_tells_where_what_waits_for_the_agent_runs_again(
    app: Flask, api: FlaskClient, context: Context, app_clock: Clock, east: PlayedAgent, west: PlayedAgent
) -> None:
    retry = {"attempts": 3, "retry_on": ["CLUSTER_LOST"], "on_lost": "wait"}
    created(api, "again", **pool("both"), retry=retry)
    assert east.start(1) == ["again"]
    fall_silent(context, app_clock)
    assert effects(preview(api, "drain", deadline="10m")) == {"again": ("RUNS_AGAIN", "west")}
    assert effects(preview(api, "drain")) == {"again": ("RUNS_ON", "east")}
    ok(api.post(f"{API}/clusters/east/drain", json={"deadline": "10m"}))
    app_clock.advance(601)
    end_drained(context_of(app))
    assert execution(api, "again")["closure"]["phase"] == "ABORTING"
    ok(api.post(f"{API}/clusters/east/undrain", json={}))
    for silent in (preview(api, "drain", deadline="10m"), preview(api, "drain")):
        assert (effects(silent), silent["counts"]) == ({"again": ("ENDING", "east")}, {"ENDING": 1})
        assert messages(silent)["again"].startswith("It is being ended already, but its agent is silent since")
        assert messages(silent)["again"].endswith(", and another attempt follows.")
    ok(api.post(f"{API}/clusters/east/drain", json={"deadline": "10m"}))
    east.finish(["again"], "ABORTED")
    decide_undecided(context)
    assert (execution(api, "again")["closure"]["phase"], execution(api, "again")["cluster"]) == ("QUEUED", "west")


@pytest.mark.usefixtures("west")
def test_a_drain_tells_why_attempts_that_are_left_do_not_follow(api: FlaskClient, east: PlayedAgent) -> None:
    created(api, "left", **pool("both"), retry={"attempts": 4})
    assert east.start(1) == ["left"]
    why = "a drain counts as a loss, which is not retried (on_lost: wait, the default)."
    told = messages(preview(api, "drain", deadline="10m"))["left"]
    assert told.endswith(f", unless it has ended by then; no other attempt follows: {why}")


def test_a_deleted_cluster_that_pools_and_labels_still_name_gets_no_work_as_its_preview_says(
    api: FlaskClient, context: Context, app_clock: Clock, east: PlayedAgent, west: PlayedAgent
) -> None:
    put_label(api, "night", ["east"])
    put_attribute(api, "domain", "execution_cluster_label", {"value": "night"})
    add(api, "alone", "runs", "waits")
    assert east.start(1) == ["runs"]
    add(api, "both", "moves")
    with nothing_stored(context):
        answer = tried(api, "clusters/east", force="true")
    told = effects(answer["executions"])
    assert told == {"runs": ("RUNS_ON", "east"), "waits": ("WAITS", None), "moves": ("MOVES", "west")}
    assert "its agent can no longer report it" in messages(answer["executions"])["runs"]
    [reach] = answer["reach"]
    assert (reach["refused"], reach["waiting"]) == (0, 2)  # the projects of the domain
    revision = ok(api.delete(f"{API}/clusters/east?force=true", json={"message": "sold"}))["revision"]
    decide_waiting(context)
    assert {name: execution(api, name).get("cluster") for name in ("waits", "moves")} == {
        "waits": None,
        "moves": "west",
    }
    assert created(api, "new")["closure"]["phase"] == "QUEUED"
    assert execution(api, "new").get("cluster") is None
    why = get(api, f"executions/{PROJECT}/{DOMAIN}/new/explanation")["status"]["message"]
    assert f"'east' was deleted by revision {revision}, anonymous, 0 s ago, 'sold'" in why
    for error, request in (("unknown_cluster", {"cluster": "east"}), ("unknown_label", label("east"))):
        answer = refused(create(api, **request), 400, error)
        assert "No cluster" in answer["message"] or "No label" in answer["message"]
    assert east.post().status_code == 401
    shown = get(api, "clusters/east")
    assert (shown["takes_work"], shown["takes_none_because"]) == (False, ["deleted"])
    assert f"takes no work. It was deleted by revision {revision}, " in shown["summary"]
    explained = get(api, f"executions/{PROJECT}/{DOMAIN}/runs/explanation")
    assert f"It was deleted by revision {revision}, anonymous, 0 s ago, 'sold'" in explained["status"]["message"]
    assert explained["lease"]["health"] == "deleted"


def test_a_deleted_cluster_that_a_pool_still_names_is_as_new_once_it_is_defined_again(
    api: FlaskClient, context: Context, app_clock: Clock
) -> None:
    put_cluster(api, "south")
    put_pool(api, "southern", ["south"])
    ok(api.delete(f"{API}/clusters/south?force=true"))
    add(api, "southern", "waits")
    assert execution(api, "waits").get("cluster") is None
    with nothing_stored(context):
        answer = ok(api.put(f"{API}/clusters/south?dry_run=true", json={"cluster": {}}))["executions"]
    assert effects(answer) == {"waits": ("MOVES", "south")}
    put_cluster(api, "south")
    decide_waiting(context)
    assert execution(api, "waits")["cluster"] == "south"
    assert get(api, "clusters/south")["state"] == "expected"


@pytest.mark.usefixtures("west")
def test_a_rollback_of_a_pool_names_what_would_move(api: FlaskClient, context: Context) -> None:
    add(api, "alone", "moves")
    revision = put_pool(api, "alone", ["east", "west"], strategy="spill")["revision"]
    put_pool(api, "alone", ["west"])
    decide_waiting(context)
    assert execution(api, "moves")["cluster"] == "west"
    with nothing_stored(context):
        plan = ok(api.post(f"{API}/rollbacks?dry_run=true", json={"revision": revision + 1}))
    assert plan["executions"]["effects"] == []  # it may stay at west
    put_pool(api, "alone", ["east"])
    decide_waiting(context)
    plan = ok(api.post(f"{API}/rollbacks?dry_run=true", json={"revision": revision + 2}))
    assert effects(plan["executions"]) == {"moves": ("MOVES", "west")}


@pytest.mark.parametrize("word", ["cordon", "disable", "drain"])
def test_the_preview_of_a_switch_counts_what_goes_on_and_the_scopes_that_are_left_without_a_cluster(
    api: FlaskClient, context: Context, east: PlayedAgent, west: PlayedAgent, word: str
) -> None:
    add(api, "both", "runs")
    assert east.start(1) == ["runs"]
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "both"})
    assert "new_executions" not in preview(api, word)
    ok(api.post(f"{API}/clusters/west/drain", json={"reason": "new disks", "claimed_by": "cleo"}))
    with nothing_stored(context):
        answer = preview(api, word)
    goes_on = [] if word == "drain" else ["Cluster 'east' keeps the 1 execution that its agent has."]
    assert answer["notes"] == [*goes_on, "No cluster takes work then: every new execution waits until one does."]
    new = answer["new_executions"]
    assert (new["refused"], new["waiting"], new["complete"]) == (0, 2, True)  # the projects of the domain
    [reason] = new["reasons"]
    assert re.search(r"'west' is draining, event \d+, anonymous \(says cleo\), .* ago, 'new disks'", reason["message"])
    ok(api.post(f"{API}/clusters/east/{word}", json={}))
    assert created(api, "new").get("cluster") is None
    assert "new_executions" not in preview(api, "uncordon", "west")


def switch_all(api: FlaskClient, word: str, *clusters: str, dry_run: bool = False, **body: Any) -> Any:
    path = f"{API}/cluster_switches?dry_run={str(dry_run).lower()}"
    return ok(api.post(path, json={"switch": word, "clusters": clusters, **body}))


@pytest.mark.usefixtures("west")
@pytest.mark.parametrize("word", ["cordon", "disable", "drain"])
def test_clusters_that_are_switched_together_take_nothing_of_each_other(
    api: FlaskClient, context: Context, word: str
) -> None:
    played_agent(api, context, "north")
    put_pool(api, "both", ["east", "west", "north"], strategy="spill")
    add(api, "both", "moves")
    add(api, "alone", "waits")
    assert effects(preview(api, word))["moves"] == ("MOVES", "west")
    with nothing_stored(context):
        answer = switch_all(api, word, "east", "west", dry_run=True)
    assert effects(answer) == {"moves": ("MOVES", "north"), "waits": ("WAITS", None)}
    assert (answer["changed"], answer["dry_run"]) == (True, True)
    made = switch_all(api, word, "east", "west", reason="new disks")
    assert [(entry["cluster"]["name"], entry["changed"]) for entry in made["clusters"]] == [
        ("east", True),
        ("west", True),
    ]
    decide_waiting(context)
    for name, (_, cluster) in effects(answer).items():
        assert execution(api, name).get("cluster") == cluster
    again = switch_all(api, word, "east", "west", dry_run=True)
    assert (again["changed"], again["effects"]) == (False, [])


@pytest.mark.parametrize("dry_run", [True, False])
def test_as_many_statements_switch_many_clusters_as_a_few(
    api: FlaskClient, context: Context, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    monkeypatch.setattr("admin.store.users.CACHE_SECONDS", 3600.0)  # or a request asks anew whether there are users
    names = [f"cluster-{number}" for number in range(12)]
    for name in names:
        put_cluster(api, name)
    for word in ("cordon", "drain"):
        switch_all(api, word, *names)
    switch_all(api, "undrain", *names, dry_run=True)  # what creators may use is in memory from now on
    numbers = []
    for chosen in (names[:2], names[2:]):
        with statements(context) as seen, transactions(context) as begun:
            answer = switch_all(api, "undrain", *chosen, dry_run=dry_run)
        assert [entry["cluster"]["name"] for entry in answer["clusters"]] == chosen
        assert all("cordoned" in entry["also_ended"] for entry in answer["clusters"])
        numbers.append((len(seen), len(begun)))
    assert numbers[0] == numbers[1]


def test_a_cluster_that_is_deleted_after_its_switch_is_shown_all_the_same(api: FlaskClient, context: Context) -> None:
    put_cluster(api, "short")
    with context.database.reading() as connection:
        cluster = find_cluster(context, connection, "short")
    assert api.delete(f"{API}/clusters/short").status_code == 200
    assert [view.cluster.name for view in view_clusters(context, [cluster])] == ["short"]


def test_of_clusters_that_are_switched_together_none_is_if_one_is_unknown(api: FlaskClient, east: PlayedAgent) -> None:
    body = {"switch": "cordon", "clusters": [east.cluster, "eest"]}
    answer = refused(api.post(f"{API}/cluster_switches", json=body), 404, "cluster_not_found")
    assert east.cluster in answer["details"][0]["closest"]
    assert get(api, f"clusters/{east.cluster}")["cordoned"] is False
    body = {"switch": "cordon", "clusters": [east.cluster], "deadline": "10m"}
    refused(api.post(f"{API}/cluster_switches", json=body), 400, "invalid_request")


@pytest.mark.usefixtures("west")
def test_clusters_that_are_deleted_together_take_nothing_of_each_other(api: FlaskClient, context: Context) -> None:
    for name in ("first", "second", "third"):
        played_agent(api, context, name)
    put_pool(api, "group", ["first", "second", "third"], strategy="spill")
    add(api, "group", "moves")
    members = [{"id": "third"}]
    changes = [{"cluster_definition": {"name": name}, "delete": True} for name in ("first", "second")]
    changes.append({"pool_definition": {"name": "group", "members": members}})
    with nothing_stored(context):
        answer = plan_of(api, *changes, force=True)
    assert effects(answer["executions"]) == {"moves": ("MOVES", "third")}
    assert {user["name"] for user in answer["users"]} == {"first"}


@pytest.mark.usefixtures("west")
def test_what_was_not_decided_for_its_number_is_counted_and_not_said_to_stay(
    app: Flask, api: FlaskClient, context: Context
) -> None:
    add(api, "both", "first", "second", "third")
    put_pool(api, "both", ["west", "east"], strategy="spill")
    app.extensions["rainbow"] = replace(context_of(app), list_limits=ListLimits(decided=1))
    changes = [{"cluster_definition": {"name": "east"}, "delete": True}]
    changes.append({"pool_definition": {"name": "both", "members": [{"id": "west"}]}})
    answer = plan_of(api, *changes, force=True)["executions"]
    assert effects(answer) == {"first": ("MOVES", "west")}
    assert (answer["complete"], answer["not_examined"]) == (False, 2)


@pytest.mark.usefixtures("west")
def test_what_a_change_of_the_fleet_left_undecided_is_counted_once(app: Flask, api: FlaskClient) -> None:
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "both"})
    for name in ("first", "second", "third"):
        created(api, name)
    app.extensions["rainbow"] = replace(context_of(app), list_limits=ListLimits(decided=1))
    place = {"project": PROJECT, "domain": DOMAIN}
    answer = plan_of(
        api,
        {"cluster_definition": {"name": "east"}, "delete": True},
        {"pool_definition": {"name": "both", "members": [{"id": "west"}]}},
        {"pool_definition": {"name": "alone", "members": [{"id": "west"}]}},
        {"resource_type": "CLUSTER_ASSIGNMENT", **place, "payload": {"cluster_pool_name": "alone"}},
        force=True,
    )["executions"]
    assert effects(answer) == {"first": ("MOVES", "west")}
    assert (answer["complete"], answer["not_examined"]) == (False, 2)


@pytest.mark.usefixtures("west")
@pytest.mark.parametrize(("begin", "end"), [("cordon", "undrain"), ("drain", "uncordon")])
def test_a_switch_that_ends_another_state_too_says_so(api: FlaskClient, begin: str, end: str) -> None:
    switch(api, "east", begin, reason="new disks", claimed_by="ana")
    if begin == "cordon":
        switch(api, "east", "drain", reason="new racks", claimed_by="otto")
        shown = get(api, "clusters/east")
        begun = [shown["provenance"][state]["message"] for state in ("cordoned", "draining")]
        assert begun == ["new disks", "new racks"]
        both = r"it is draining \(event .*'new racks'\); it is cordoned \(event .*'new disks'\)"
        assert re.search(both, shown["summary"])
    state = "cordoned" if begin == "cordon" else "draining"
    for answer in (preview(api, end), switch(api, "east", end)):
        assert answer["also_ended"][state]["message"] == "new disks"
        [note] = answer["notes"]
        assert ("would be over too" if answer["dry_run"] else "that is over too") in note
        assert "anonymous (says ana)" in note
        assert f"`rainbowctl {begin} east`" in note
    shown = get(api, "clusters/east")
    assert (shown["cordoned"], shown["draining"]) == (False, False)


@pytest.mark.usefixtures("west")
def test_the_end_of_a_drain_alone_says_nothing_of_a_cordon(api: FlaskClient) -> None:
    switch(api, "east", "cordon")
    switch(api, "east", "uncordon")
    switch(api, "east", "drain")
    assert "it is cordoned" not in get(api, "clusters/east")["summary"]
    assert switch(api, "east", "undrain").keys().isdisjoint({"also_ended", "notes"})


def queue_by_name(api: FlaskClient, context: Context, word: str = "cordon") -> None:
    """Have an execution wait without a cluster for one that its request names, and that no pool or label has."""
    played_agent(api, context, "north")
    created(api, "named", cluster="north")
    switch(api, "north", word)
    decide_waiting(context)
    assert execution(api, "named").get("cluster") is None


@pytest.mark.usefixtures("west")
@pytest.mark.parametrize("word", ["cordon", "disable"])
def test_the_delete_of_a_cluster_tells_what_waits_for_it_by_name_without_a_cluster(
    api: FlaskClient, context: Context, word: str
) -> None:
    queue_by_name(api, context, word)
    switch(api, "east", "cordon")
    add(api, "alone", "other")
    with nothing_stored(context):
        refusal = refused(api.delete(f"{API}/clusters/north?dry_run=true"), 409, "in_use")
        answer = tried(api, "clusters/north", force="true")
    [user] = answer["users"]
    assert refusal["details"] == [user]
    assert user["reason"] == f"cluster 'north': 1 execution waits for it by name: {PROJECT}/{DOMAIN}/named."
    assert effects(answer["executions"]) == {"named": ("WAITS", None)}
    assert answer["executions"]["counts"] == {"WAITS": 1}
    assert "from" not in answer["executions"]["effects"][0]
    ok(api.delete(f"{API}/clusters/north?force=true"))
    decide_waiting(context)
    reason = execution(api, "named")["closure"]["reason"]
    assert reason["code"] == "CLUSTER_GONE"
    assert messages(answer["executions"])["named"] == f"Still waits, for another reason: {reason['message']}"
    assert execution(api, "other")["closure"]["reason"]["code"] != "CLUSTER_GONE"


@pytest.mark.usefixtures("west")
@pytest.mark.parametrize("kind", ["pool", "label"])
def test_the_delete_of_a_pool_or_label_tells_what_waits_for_it_without_a_cluster(
    api: FlaskClient, context: Context, kind: str
) -> None:
    put, asks = (put_pool, pool) if kind == "pool" else (put_label, label)
    put(api, "old", ["west"])
    switch(api, "west", "cordon")
    created(api, "waits", **asks("old"))
    with nothing_stored(context):
        answer = tried(api, f"{kind}s/old", force="true")
    assert effects(answer["executions"]) == {"waits": ("WAITS", None)}
    ok(api.delete(f"{API}/{kind}s/old?force=true"))
    decide_waiting(context)
    message = execution(api, "waits")["closure"]["reason"]["message"]
    assert messages(answer["executions"])["waits"] == f"Still waits, for another reason: {message}"


@pytest.mark.usefixtures("west")
def test_a_switch_tells_what_goes_on_waiting_for_another_reason(api: FlaskClient, context: Context) -> None:
    queue_by_name(api, context)
    for word, outcome in (("disable", "WAITS"), ("enable", "WAITS"), ("uncordon", "MOVES")):
        answer = preview(api, word, "north")
        assert {name: effect[0] for name, effect in effects(answer).items()} == {"named": outcome}
        switch(api, "north", word)
        decide_waiting(context)
        reason = execution(api, "named")["closure"]["reason"]["message"]
        if outcome == "WAITS":
            assert messages(answer)["named"] == f"Still waits, for another reason: {reason}"
    assert effects(preview(api, "cordon", "west")) == {}, "nothing waits for that one"


@pytest.mark.usefixtures("west")
@pytest.mark.parametrize("kind", ["pool", "label"])
def test_a_pool_or_label_that_has_a_cluster_is_named_with_the_revision_that_took_it_in(
    api: FlaskClient, kind: str
) -> None:
    put = put_pool if kind == "pool" else put_label
    put_cluster(api, "birch")
    put(api, "fast", ["birch"])
    put(api, "fast", ["west"])
    number = put(api, "fast", ["west", "birch"])["revision"]
    put(api, "fast", {"west": 1, "birch": 2})
    put(api, "fast", {"west": 1, "birch": 2, "east": 1})
    [user] = tried(api, "clusters/birch", force="true")["users"]
    assert user["provenance"]["revision"] == number
    assert f"{kind} 'fast' has it as a member (revision {number}, " in user["reason"]
    assert refused(api.delete(f"{API}/clusters/birch"), 409, "in_use")["details"] == [user]
    # Nobody has taken in yet what the same change takes in.
    put(api, "fast", ["west"])
    changes = [
        {f"{kind}_definition": {"name": "fast", "members": [{"id": "west"}, {"id": "birch"}]}},
        {"cluster_definition": {"name": "birch"}, "delete": True},
    ]
    [user] = plan_of(api, *changes, force=True)["users"]
    assert "provenance" not in user


@pytest.mark.usefixtures("west")
def test_a_forced_delete_tells_at_how_many_scopes_new_executions_would_be_refused_or_wait(
    api: FlaskClient, context: Context
) -> None:
    put_label(api, "near", ["west"])
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "alone"})
    put_attribute(api, "workflow", "execution_cluster_label", {"value": "near"}, workflow="fit")
    for noun, name in (("pool", "alone"), ("label", "near"), ("cluster", "east")):
        with nothing_stored(context):
            [reach] = tried(api, f"{noun}s/{name}", force="true")["reach"]
        counts = get(api, f"uses?{noun}={name}")["reach"]
        assert reach == {"noun": noun, "name": name, "complete": True, **counts}
        assert counts["refused"] or counts.get("waiting")
        delete = {f"{noun}_definition": {"name": name}, "delete": True}
        assert plan_of(api, delete, force=True)["reach"] == [reach]
    row = {"resource_type": "CLUSTER_ASSIGNMENT", "project": PROJECT, "domain": DOMAIN}
    delete = {"pool_definition": {"name": "alone"}, "delete": True}
    assert "reach" not in plan_of(api, delete, {**row, "payload": {"cluster_pool_name": "both"}}, force=True)


@pytest.mark.parametrize(("word", "state"), [("cordon", "cordoned"), ("drain", "draining"), ("disable", "disabled")])
def test_previews_name_who_switched_off_the_other_clusters(
    api: FlaskClient, context: Context, east: PlayedAgent, west: PlayedAgent, word: str, state: str
) -> None:
    created(api, "waits", **pool("both"))
    body: dict[str, Any] = {"claimed_by": "ana", "reason": "new disks"}
    other = "west" if execution(api, "waits")["cluster"] == "east" else "east"
    ok(api.post(f"{API}/clusters/{other}/{word}", json=body))
    here = execution(api, "waits")["cluster"]
    event = get(api, f"clusters/{other}")["provenance"][state]["event"]
    for switched in ("cordon", "disable", "drain"):
        with nothing_stored(context):
            message = messages(preview(api, switched, here, reason="own"))["waits"]
        by = f"(event {event}, anonymous (says ana), "
        assert f"'{other}' is {state} {by}" in message
        assert "'new disks')" in message
        own = "disabled" if switched == "disable" else f"{'draining' if switched == 'drain' else 'cordoned'} (own)"
        assert f"'{here}' is {own}" in message
    assert get(api, f"clusters/{other}").get("cordon_reason") == (None if word == "disable" else "new disks")


def test_the_fleet_that_a_plan_leaves_is_read_once(api: FlaskClient, context: Context, west: PlayedAgent) -> None:
    created(api, "a", **pool("both"))
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "both"})
    change = {"changes": [{"pool_definition": {"name": "both"}, "delete": True}]}
    with statements(context) as seen:
        planned = ok(api.post(f"{API}/attribute_changes?dry_run=true&force=true", json=change))
    assert planned["executions"]
    read = [text for text in seen if "FROM fleet_definitions" in text and "WHERE" not in text]
    states = [text for text in seen if "FROM cluster_states" in text and "WHERE" not in text]
    # The fleet as it is, perhaps, and as it would be; the states also for the latest reports.
    assert (len(read) <= 2, len(states) <= 3) == (True, True), (read, states)
    gc.collect()
    assert len(context.worked_out_fleets) == 0, "it is kept for the transaction alone"
