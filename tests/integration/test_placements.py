"""Where work goes and why, over the API: refusals, trails, placements and simulations; on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select

from admin.services.context import Context
from admin.services.redecisions import decide_waiting
from admin.store.decisions import decisions, trails
from admin.store.execution_lists import ListLimits
from tests.support.agents import Clock
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    asked,
    create,
    created,
    delete_attribute,
    explanation,
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
    register_plan,
    register_workflow,
    report,
    switch,
)
from tests.support.small_fleets import group

SLOW_ON = ("postgresql",)


def place(api: FlaskClient, name: str | None = None, changes: Any = None, **fields: Any) -> Any:
    body = asked(name, **fields)
    return ok(api.post(f"{API}/placements", json={**body, "changes": changes} if changes else body))


def stored_trails(context: Context) -> tuple[int, int, int]:
    """How many trails, settings trails in use and placement trails in use there are."""
    with context.database.reading() as connection:
        rows = connection.execute(select(decisions.c.settings_trail, decisions.c.placement_trail)).all()
        count = len(connection.execute(select(trails.c.digest)).all())
    return count, len({row.settings_trail for row in rows}), len({row.placement_trail for row in rows})


# Unknown names


@pytest.mark.parametrize(
    ("level", "scope", "words"),
    [
        ("domain", {}, "domain development"),
        ("project", {}, "project flytesnacks"),
        ("project-domain", {}, "project-domain flytesnacks/development"),
        ("workflow", {"workflow": "wf"}, "workflow flytesnacks/development/wf"),
        ("launch-plan", {"workflow": "wf", "launch_plan": "lp"}, "launch-plan flytesnacks/development/wf/lp"),
    ],
)
def test_an_unknown_pool_or_label_of_an_attribute_is_refused_naming_its_scope(
    api: FlaskClient, context: Context, level: str, scope: dict[str, str], words: str
) -> None:
    put_pool(api, "training", ["c1"])
    put_label(api, "sunshine", ["c1"])
    ok(register_workflow(api, "wf"))
    ok(register_plan(api, "lp", "wf"))
    for key, payload, error, near in (
        ("cluster_assignment", {"cluster_pool_name": "trainning"}, "unknown_pool", "training"),
        ("execution_cluster_label", {"value": "sunshin"}, "unknown_label", "sunshine"),
    ):
        written = put_attribute(api, level, key, payload, **scope)
        assert error in [warning["code"] for warning in written["warnings"]]
        with nothing_stored(context):
            answer = refused(create(api, "e", launch_plan={"name": "lp"}), 400, error)
            assert f"set by {words}." in answer["message"]
            assert answer["details"][0]["closest"] == [near]
            refused(api.post(f"{API}/placements", json=asked("e", launch_plan={"name": "lp"})), 400, error)
        delete_attribute(api, level, 7 if error == "unknown_pool" else 3, **scope)


def test_an_unknown_pool_or_label_of_a_launch_plan_or_request_is_refused_naming_it(
    api: FlaskClient, context: Context
) -> None:
    put_pool(api, "training", ["c1"])
    put_label(api, "sunshine", ["c1"])
    ok(register_workflow(api, "wf"))
    ok(register_plan(api, "bad-pool", "wf", **pool("trainning")))
    ok(register_plan(api, "bad-label", "wf", **label("sunshin")))
    with nothing_stored(context):
        for fields, error, words, near in (
            ({"launch_plan": {"name": "bad-pool"}}, "unknown_pool", "the launch plan's definition", ["training"]),
            ({"launch_plan": {"name": "bad-label"}}, "unknown_label", "the launch plan's definition", ["sunshine"]),
            (pool("trainning"), "unknown_pool", "the request", ["training"]),
            (label("sunshin"), "unknown_label", "the request", ["sunshine"]),
            ({"cluster": "locall"}, "unknown_cluster", "the request", ["local"]),
        ):
            answer = refused(create(api, "e", **fields), 400, error)
            assert f"set by {words}." in answer["message"]
            assert answer["details"][0]["closest"] == near
    assert created(api, "e", launch_plan={"name": "bad-pool"}, **pool("training"))["cluster"] == "c1"


# Trails


def test_a_hundred_executions_of_one_scope_share_their_trails(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", {"a": 1, "b": 2})
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    for number in range(100):
        created(api, f"e{number}")
    assert stored_trails(context) == (2, 1, 1)
    created(api, "other", max_parallelism=3)
    assert stored_trails(context) == (3, 2, 1)
    put_attribute(api, "domain", "task_resource_attributes", {"defaults": {"cpu": "1"}})
    created(api, "later")
    assert stored_trails(context) == (4, 3, 1)
    switch(api, "a", "cordon")
    created(api, "cordoned")
    assert stored_trails(context) == (5, 3, 2)


def test_a_decision_that_changed_is_kept_beside_the_first(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a", "b"], strategy="spill")
    assert created(api, "e", **pool("gpu"))["cluster"] == "a"
    first = explanation(api, "e")
    decide_waiting(context)
    switch(api, "a", "cordon", reason="disks")
    assert [decision.cluster for decision in decide_waiting(context)] == ["b"]
    second = explanation(api, "e")
    number = get(api, "clusters/a/events")["events"][0]["number"]
    because = f"from a: after event {number}, cluster 'a' was cordoned by anonymous, 'disks'"
    assert (second["cluster"], second["decision"], second["because"]) == ("b", 2, because)
    verdicts = {candidate["cluster"]: candidate["verdicts"] for candidate in second["candidates"]}
    [failed] = [verdict for verdict in verdicts["a"] if verdict["filter"] == "cordoned"]
    assert failed.pop("provenance")["message"] == "disks"
    assert failed == {"filter": "cordoned", "passed": False, "reason": "is cordoned (disks)"}
    history = second["history"]
    assert [(decision["number"], decision["cluster"], decision["because"]) for decision in history] == [
        (1, "a", "created"),
        (2, "b", because),
    ]
    assert (second["rungs"], second["settings"]) == (first["rungs"], first["settings"])
    earlier = explanation(api, "e", "?decision=1")
    assert earlier["reason"]["message"].startswith("Cluster 'a' was chosen")
    del first["status"], first["attempts"]  # which are about now
    same = {"history": [], "reason": earlier["reason"], "not_candidates": []}  # which say how long ago
    assert {**earlier, **same} == {**first, **same}
    assert earlier["history"] == history
    for wrong in ("3", "0", "x"):
        path = f"{API}/executions/{PROJECT}/{DOMAIN}/e/explanation?decision={wrong}"
        refused(api.get(path), 400, "invalid_request", "decision")


def test_an_explanation_holds_every_rung_candidate_and_setting(api: FlaskClient) -> None:
    put_pool(api, "gpu", {"a": 3, "b": 0, "c": 1})
    put_label(api, "sunny", ["a"])
    switch(api, "c", "disable")
    put_attribute(api, "domain", "execution_cluster_label", {"value": "sunny"})
    put_attribute(api, "project", "cluster_assignment", {"cluster_pool_name": "gpu"})
    created(api, "e", job={"command": ["x"], "resources": {"requests": {"cpu": "1"}}}, max_parallelism=4)
    explained = explanation(api, "e")
    assert (explained["cluster"], explained["pool"], explained["strategy"], explained["reason"]["code"]) == (
        "a",
        "gpu",
        "weighted",
        "CLUSTER_EXPECTED",
    )
    states = {(rung["rung"], rung["kind"]): rung["state"] for rung in explained["rungs"] if rung["state"] != "silent"}
    assert states == {
        ("project", "pool"): "wins",
        ("domain", "label"): "overridden",
        ("everywhere", "any"): "overridden",
    }
    candidates = {candidate["cluster"]: candidate for candidate in explained["candidates"]}
    assert {
        name: (candidate["chosen"], candidate["expected"], candidate.get("rank"))
        for name, candidate in candidates.items()
    } == {
        "a": (True, True, 1),
        "b": (False, True, None),
        "c": (False, True, None),
    }
    assert [verdict["reason"] for verdict in candidates["b"]["verdicts"] if not verdict["passed"]] == ["has weight 0"]
    assert [verdict["reason"] for verdict in candidates["c"]["verdicts"] if not verdict["passed"]] == ["is disabled"]
    assert (candidates["a"]["score"], candidates["a"]["draw"] > 0) == (0.0, True)
    kinds = [setting["resource_type"] for setting in explained["settings"]]
    fixed = [kind["name"] for kind in get(api, "kinds")["kinds"] if kind["merge"] != "tightest"]
    assert sorted(kinds) == sorted(fixed)  # quotas are read when something is granted
    config = next(
        setting for setting in explained["settings"] if setting["resource_type"] == "WORKFLOW_EXECUTION_CONFIG"
    )
    assert config["origins"]["max_parallelism"] == {"level": "request"}
    assert [step["level"] for step in config["trail"]][-1] == "request"
    assert explained["job"]["resources"]["requests"]["cpu"] == "1"


def test_rungs_of_a_launch_plan_and_a_request_name_these(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["a"])
    put_pool(api, "own", ["b"])
    ok(register_workflow(api, "train"))
    ok(register_plan(api, "nightly", "train", version="v2", **pool("gpu")))
    launch = {"launch_plan": {"name": "nightly"}}

    def sources(answer: Any) -> dict[str, str]:
        return {rung["rung"]: rung["source"] for rung in answer["rungs"] if "source" in rung}

    created(api, "e", **launch)
    assert sources(explanation(api, "e")) == {"launch-plan-definition": "launch plan nightly v2"}
    created(api, "f", **launch, **pool("own"))
    both = {"request": "the request", "launch-plan-definition": "launch plan nightly v2"}
    assert sources(explanation(api, "f")) == sources(place(api, "f", **launch, **pool("own"))) == both
    created(api, "g")
    assert sources(explanation(api, "g")) == {}


def test_what_a_launch_plan_decides_says_who_registered_it(api: FlaskClient, app_clock: Clock) -> None:
    put_pool(api, "gpu", ["a"])
    ok(register_workflow(api, "train"))
    ok(register_plan(api, "nightly", "train", **pool("gpu"), claimed_by="ana", message="more\nspeed"))
    made_by = {
        "author": "anonymous",
        "claimed_by": "ana",
        "at": app_clock().isoformat().replace("+00:00", "Z"),
        "message": "more\nspeed",
    }
    launch = {"launch_plan": {"name": "nightly"}}
    created(api, "e", **launch)
    app_clock.advance(60)
    for answer in (explanation(api, "e"), place(api, "f", **launch)):
        assert [rung["registered_by"] for rung in answer["rungs"] if "registered_by" in rung] == [made_by]
    created(api, "g", **launch, **pool("gpu"))
    compared = get(api, f"executions/{PROJECT}/{DOMAIN}/e/comparison?other_name=g")
    assert compared["first"]["placed"]["origin"]["registered_by"] == made_by
    [use] = get(api, "uses?pool=gpu")["uses"]
    assert (use["level"], use["version"], use["registered_by"]) == ("launch-plan-definition", "v1", made_by)
    refusal = refused(api.delete(f"{API}/pools/gpu"), 409, "in_use", "launch_plans")
    words = "nightly version v1 names it (registered by anonymous (says ana), 1 min ago, 'more speed')."
    detail = next(detail for detail in refusal["details"] if detail["field"] == "launch_plans")
    assert words in detail["reason"]
    assert words in refusal["message"]
    assert detail["provenance"] == made_by


# Where would this run


def test_a_placement_says_what_creation_then_does_and_writes_nothing(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", {"a": 1, "b": 2, "c": 3})
    put_attribute(api, "project", "cluster_assignment", {"cluster_pool_name": "gpu"})
    with nothing_stored(context):
        previews = [place(api, f"e{number}") for number in range(10)]
    for number, preview in enumerate(previews):
        assert created(api, f"e{number}")["cluster"] == preview["cluster"]
        then = explanation(api, f"e{number}")
        for key in ("cluster", "reason", "rungs", "candidates", "settings", "job", "pool", "strategy", "revision"):
            assert then[key] == preview[key], key
    assert place(api)["id"]["name"] != place(api)["id"]["name"]


def test_a_placement_shows_what_a_change_would_do(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a"])
    row = {"resource_type": "CLUSTER_ASSIGNMENT", "domain": DOMAIN}
    change = [{**row, "payload": {"cluster_pool_name": "new"}}, {"pool_definition": {"name": "new", **group(["n"])}}]
    with nothing_stored(context):
        assert place(api, "e")["rungs"][-1]["state"] == "wins"
        after = place(api, "e", changes=change)
        assert (after["cluster"], after["pool"]) == ("n", "new")
        wrong = {**asked("e"), "changes": [{**row, "payload": {"cluster_pool_name": 5}}]}
        refused(api.post(f"{API}/placements", json=wrong), 400, "invalid_request", "cluster_pool_name")
        unknown = {**asked("e"), "changes": [{**row, "payload": {"cluster_pool_name": "gpuu"}}]}
        refused(api.post(f"{API}/placements", json=unknown), 400, "unknown_pool")
    assert ok(api.post(f"{API}/attribute_changes", json={"changes": change}))["changed"] is True
    assert created(api, "e")["cluster"] == "n"


def test_a_simulation_compares_todays_answers_with_the_proposed_ones(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a"])
    put_pool(api, "base", ["b"])
    put_cluster(api, "small", capacity={"cpu": "1"})
    put_pool(api, "tiny", ["small"])
    put_attribute(api, "project", "cluster_assignment", {"cluster_pool_name": "gpu"})
    ok(register_workflow(api, "wf"))
    created(api, "moves")
    created(api, "stays", **pool("base"))
    created(api, "too", launch_plan={"name": "wf", "resource_type": "WORKFLOW"})
    created(api, "elsewhere", domain="staging")
    row = {"resource_type": "CLUSTER_ASSIGNMENT", "project": PROJECT, "domain": DOMAIN}

    def simulated(payload: Any, **more: Any) -> Any:
        body = {"changes": [{**row, "payload": payload}], "since": "24h", **more}
        return ok(api.post(f"{API}/simulations", json=body))

    with nothing_stored(context):
        simulation = simulated({"cluster_pool_name": "base"})
        assert (simulation["compared"], simulation["moved"], simulation["refused"]) == (4, 2, 0)
        assert {execution["id"]["name"] for execution in simulation["executions"]} == {"moves", "too"}
        assert simulation["executions"][0]["before"]["cluster"] == "a"
        assert (simulation["executions"][0]["after"]["cluster"], simulation["executions"][0]["after"]["pool"]) == (
            "b",
            "base",
        )
        assert simulation["by_cluster"] == {"a": {"before": 3, "after": 1}, "b": {"before": 1, "after": 3}}
        assert simulated({"cluster_pool_name": "gpu"})["moved"] == 0
        assert simulated({"cluster_pool_name": "base"}, domain="staging")["compared"] == 1
        assert len(simulated({"cluster_pool_name": "base"}, limit=1)["executions"]) == 1
        tiny = simulated({"cluster_pool_name": "tiny"})
        assert (tiny["moved"], tiny["refused"]) == (2, 2)
        assert tiny["executions"][0]["after"]["reason"] == "no_cluster_large_enough"
        counts = {"before": 0, "after": 2}
        assert tiny["by_cluster"] == {"": counts, "a": {"before": 3, "after": 1}, "b": {"before": 1, "after": 1}}
        assert tiny["by_refusal"] == {"no_cluster_large_enough": counts}
        assert simulation["by_refusal"] == {}
        gone = simulated({"cluster_pool_name": "nowhere"})
        assert (gone["refused"], gone["executions"][0]["after"]["reason"]) == (2, "unknown_pool")
        body = {"changes": [{"pool_definition": {"name": "gpu", **group(["z"])}}], "since": "24h"}
        fleet = ok(api.post(f"{API}/simulations", json=body))
        assert (fleet["moved"], fleet["by_cluster"]["z"]) == (3, {"before": 0, "after": 3})
        refused(api.post(f"{API}/simulations", json={**body, "since": "soon"}), 400, "invalid_request", "since")
        refused(api.post(f"{API}/simulations", json={"since": "1h"}), 400, "invalid_request", "changes")


@pytest.mark.parametrize("limits", [{"simulated": 2}, {"drawn": 1}])
def test_a_simulation_compares_a_limited_number_and_tells_how_to_go_on(
    api: FlaskClient, app: Flask, context: Context, limits: dict[str, int]
) -> None:
    put_pool(api, "gpu", ["a", "c"])
    put_pool(api, "base", ["b", "c"])
    put_attribute(api, "project", "cluster_assignment", {"cluster_pool_name": "gpu"})
    for number in range(5):
        created(api, f"e{number}")
    row = {"resource_type": "CLUSTER_ASSIGNMENT", "project": PROJECT, "payload": {"cluster_pool_name": "base"}}
    body: dict[str, Any] = {"changes": [row], "since": "24h"}
    whole = ok(api.post(f"{API}/simulations", json=body))
    assert (whole["compared"], whole["complete"], "token" in whole) == (5, True, False)
    app.extensions["rainbow"] = replace(context, list_limits=ListLimits(**limits))
    with nothing_stored(context):
        pages = [ok(api.post(f"{API}/simulations", json=body))]
        while "token" in pages[-1]:
            assert "the others are compared with the token" in pages[-1]["not_counted"]
            pages.append(ok(api.post(f"{API}/simulations", json={**body, "token": pages[-1]["token"]})))
    assert [page["compared"] for page in pages] == ([2, 2, 1] if "simulated" in limits else [1] * 5)
    assert [page["complete"] for page in pages] == [*[False] * (len(pages) - 1), True]
    assert [move for page in pages for move in page["executions"]] == whole["executions"]
    for name, sides in whole["by_cluster"].items():
        for side, number in sides.items():
            assert sum(page["by_cluster"].get(name, {}).get(side, 0) for page in pages) == number
    refused(api.post(f"{API}/simulations", json={**body, "token": "x"}), 400, "invalid_request", "token")


# Strategies


def test_a_simulation_says_which_fleet_it_assumed_and_can_take_the_one_that_was_recorded(
    api: FlaskClient, context: Context
) -> None:
    put_pool(api, "both", ["a", "b"], strategy="spill")
    put_pool(api, "other", ["b", "a"], strategy="spill")
    switch(api, "a", "cordon")
    created(api, "early", **pool("both"))
    switch(api, "a", "uncordon")
    created(api, "late", **pool("both"))
    switch(api, "b", "drain")
    changes = [{"pool_definition": {"name": "both", **group(["b", "a"], strategy="spill")}}]

    def simulated(**more: Any) -> Any:
        return ok(api.post(f"{API}/simulations", json={"changes": changes, "since": "24h", **more}))

    with nothing_stored(context):
        current, recorded = simulated(), simulated(fleet="recorded")
    assumed = current["fleet"]
    assert (assumed["state"], assumed["clusters"], assumed["off"]) == ("current", 3, {"b": "draining"})
    assert assumed["revision"] == get(api, "revisions?limit=1")["head"]
    assert current["by_cluster"] == {"a": {"before": 2, "after": 2}}
    assert recorded["fleet"] == {**assumed, "state": "recorded", "at": recorded["fleet"]["at"]}
    # Of the first a was cordoned, of the second nothing: it would have gone to b, which comes first in the new pool.
    assert recorded["by_cluster"] == {"a": {"before": 1, "after": 0}, "b": {"before": 1, "after": 2}}
    assert [move["id"]["name"] for move in recorded["executions"]] == ["late"]
    answer = api.post(f"{API}/simulations", json={"changes": changes, "since": "24h", "fleet": "past"})
    refused(answer, 400, "invalid_request", "fleet")


def test_a_full_cluster_has_no_eta_whatever_its_agent_reports(api: FlaskClient) -> None:
    put_cluster(api, "full")
    put_cluster(api, "free")
    put_pool(api, "soon", ["full", "free"], strategy="soonest")
    report(api, "full", capacity={"executions": 1}, free={"executions": 0}, eta="1ms")
    report(api, "free", capacity={"executions": 1}, free={"executions": 1}, eta="1ms")
    assert "eta" not in get(api, "clusters/full")
    assert get(api, "clusters/free")["eta"] == "1ms"
    for number in range(20):
        preview = place(api, f"run-{number}", **pool("soon"))
        scores = {candidate["cluster"]: candidate.get("score") for candidate in preview["candidates"]}
        assert (preview["cluster"], scores) == ("free", {"full": None, "free": 0.001})
    # What waits for the last slot counts too, although no report has it yet.
    assert created(api, "last", **pool("soon"))["cluster"] == "free"
    assert "eta" not in get(api, "clusters/free")


def test_each_strategy_places_as_it_says_and_explains_the_scores(api: FlaskClient) -> None:
    clusters: dict[str, dict[str, Any]] = {"a": {"cost": 3}, "b": {"cost": 1}, "c": {}}
    for name, payload in clusters.items():
        put_cluster(api, name, **payload)
    report(api, "a", capacity={"executions": 10}, free={"executions": 1}, eta="5s")
    report(api, "b", capacity={"executions": 10}, free={"executions": 5}, eta="9s")
    report(api, "c")
    expected: dict[str, tuple[str, dict[str, Any]]] = {
        "spill": ("a", {"a": 0.0, "b": 1.0, "c": 2.0}),
        "least-loaded": ("b", {"a": 0.9, "b": 0.5, "c": None}),
        "cheapest": ("b", {"a": 3, "b": 1, "c": None}),
        "soonest": ("a", {"a": 5.0, "b": 9.0, "c": None}),
    }
    for strategy in expected:
        put_pool(api, strategy, list(clusters), strategy=strategy)
    for strategy, (cluster, scores) in expected.items():
        preview = place(api, strategy, **pool(strategy))
        assert (
            preview["cluster"],
            {candidate["cluster"]: candidate.get("score") for candidate in preview["candidates"]},
        ) == (cluster, scores)
        assert created(api, strategy, **pool(strategy))["cluster"] == cluster
        assert explanation(api, strategy)["candidates"] == preview["candidates"]
        ok(api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/{strategy}", json={}))


def test_a_pool_of_configuration_takes_its_strategy_from_there(make_app: Any) -> None:
    members = [{"id": "z"}, {"id": "a"}]
    sections = {"poolNameClusterMap": {"p": members}, "poolStrategies": {"p": "spill"}, "clusterConfigs": []}
    api = make_app(clusters=sections).test_client()
    assert get(api, "pools/p")["strategy"] == "spill"
    assert {created(api, f"e{number}", **pool("p"))["cluster"] for number in range(8)} == {"z"}


def test_a_cluster_without_a_gpu_takes_no_job_that_wants_one_and_an_unknown_one_is_warned_of(api: FlaskClient) -> None:
    job = {"command": ["true"], "resources": {"requests": {"gpu": "1"}}}
    for name in ("plain", "unknown", "declared"):
        put_cluster(api, name, **({"capacity": {"gpu": "2"}} if name == "declared" else {}))
        put_pool(api, name, [name])
    report(api, "plain", capacity={"cpu": "4", "memory": "8Gi"})
    report(api, "declared", capacity={"cpu": "4", "memory": "8Gi"})
    report(api, "unknown", capacity={"executions": 10})
    put_pool(api, "both", ["plain", "unknown"], strategy="spill")
    refusal = refused(
        api.post(f"{API}/placements", json=asked("e", **pool("plain"), job=job)), 400, "no_cluster_large_enough"
    )
    assert "'plain' has no gpu by its last report, 1 wanted" in refusal["message"]
    answer = ok(api.post(f"{API}/placements", json=asked("e", **pool("both"), job=job)))
    assert answer["cluster"] == "unknown"
    assert [warning["code"] for warning in answer["warnings"]] == ["unknown_capacity"]
    assert "'unknown' has a gpu is not known" in answer["warnings"][0]["message"]
    sure = ok(api.post(f"{API}/placements", json=asked("e", **pool("declared"), job=job)))
    assert (sure["cluster"], sure["warnings"]) == ("declared", [])
    plain = ok(api.post(f"{API}/placements", json=asked("e", **pool("plain"))))
    assert (plain["cluster"], plain["warnings"]) == ("plain", [])
