"""Waiting executions decided again: when the fleet changes, and when somebody asks; on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection

from admin.core.settings.scopes import Scope
from admin.loops.waiting import WaitingLoop
from admin.services.context import Context
from admin.services.redecisions import decide_waiting
from admin.services.requested_redecisions import redecide as redecide_all
from admin.store import cluster_events, executions
from admin.store.cluster_events import ClusterEventFilter
from admin.store.creations import Creation, CreationOutcome
from admin.store.execution_lists import ListLimits
from admin.store.executions import Execution, ExecutionId
from admin.store.group_commit import GroupCommit
from tests.conftest import MakeApp
from tests.robustness.pictures import sqlite_only
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    create,
    created,
    execution,
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

SLOW_ON = ("postgresql",)


def state(api: FlaskClient, name: str) -> tuple[str | None, str]:
    """Where an execution is, and why."""
    answer = execution(api, name)
    return answer.get("cluster"), answer["closure"]["reason"]["code"]


def redecide(api: FlaskClient, query: str = "", **selector: Any) -> Any:
    return ok(api.post(f"{API}/executions/redecide{query}", json={"selector": {"project": PROJECT, **selector}}))


def terminate(api: FlaskClient, name: str) -> None:
    ok(api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/{name}", json={}))


# When the fleet changes


def test_executions_of_a_cordoned_pool_wait_by_name_and_reason_and_go_when_a_cluster_is_back(
    api: FlaskClient, context: Context
) -> None:
    put_pool(api, "gpu", ["a", "b"])
    switch(api, "a", "cordon", reason="disks")
    switch(api, "b", "cordon")
    answer = created(api, "e", **pool("gpu"))
    assert (answer["closure"]["phase"], "cluster" in answer) == ("QUEUED", False)
    reason = answer["closure"]["reason"]
    assert reason["code"] == "CLUSTERS_CORDONED"
    assert "pool 'gpu'" in reason["message"]
    assert "'a' is cordoned (disks), 'b' is cordoned" in reason["message"]
    assert decide_waiting(context) == []
    assert execution(api, "e") == answer
    switch(api, "b", "uncordon")
    [changed] = decide_waiting(context)
    assert (changed.cluster, changed.reason) == ("b", "CLUSTER_EXPECTED")
    answer = execution(api, "e")
    assert (answer["cluster"], answer["decisions"], answer["events"]) == ("b", 2, 2)
    events = get(api, f"executions/{PROJECT}/{DOMAIN}/e/events")["events"]
    assert [(event["type"], event.get("cluster"), event["reason"]["code"]) for event in events] == [
        ("CREATED", None, "CLUSTERS_CORDONED"),
        ("DECIDED", "b", "CLUSTER_EXPECTED"),
    ]


@pytest.mark.parametrize("word", ["cordon", "disable"])
def test_what_waits_at_a_cluster_that_goes_out_of_use_moves_and_nothing_else_does(
    api: FlaskClient, context: Context, word: str
) -> None:
    put_pool(api, "gpu", ["a", "b", "c"])
    before = {f"e{number}": created(api, f"e{number}", **pool("gpu"))["cluster"] for number in range(24)}
    assert set(before.values()) == {"a", "b", "c"}
    switch(api, "b", word)
    decide_waiting(context)
    after = {name: execution(api, name)["cluster"] for name in before}
    assert {name for name in before if before[name] != after[name]} == {name for name in before if before[name] == "b"}
    assert "b" not in after.values()
    switch(api, "b", "uncordon" if word == "cordon" else "enable")
    assert decide_waiting(context) == []  # what has moved stays where it is
    put_pool(api, "gpu", {"a": 0, "b": 1, "c": 1})
    decide_waiting(context)
    assert {execution(api, name)["cluster"] for name in before} == {"b", "c"}


def test_a_reason_that_changes_is_told_and_kept(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a", "b"])
    for name in ("a", "b"):
        switch(api, name, "cordon")
    created(api, "e", **pool("gpu"))
    codes = []
    for cluster, word in (("a", "disable"), ("b", "disable")):
        switch(api, cluster, word)
        decide_waiting(context)
        codes.append(state(api, "e")[1])
    assert codes == ["CLUSTERS_UNABLE", "CLUSTERS_DISABLED"]
    assert [decision["reason"]["code"] for decision in explanation(api, "e")["history"]] == [
        "CLUSTERS_CORDONED",
        *codes,
    ]


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_what_found_every_cluster_full_is_placed_when_a_report_frees_room(
    api: FlaskClient, context: Context, strategy: str
) -> None:
    put_pool(api, "gpu", ["a", "b"], strategy=strategy)
    report(api, "a", capacity={"executions": 2}, free={"executions": 1})
    report(api, "b", capacity={"executions": 2}, free={"executions": 1})
    placed = {created(api, f"e{number}", **pool("gpu")).get("cluster") for number in range(2)}
    assert placed == {"a", "b"}
    for name in ("f0", "f1", "f2"):
        answer = created(api, name, **pool("gpu"))
        assert ("cluster" in answer, answer["closure"]["reason"]["code"]) == (False, "CLUSTERS_FULL")
    assert "'a' is full (2 of 2 executions taken)" in answer["closure"]["reason"]["message"]
    report(api, "b", capacity={"executions": 9}, free={"executions": 3})
    decide_waiting(context)
    assert [state(api, name) for name in ("f0", "f1", "f2")] == [
        ("b", "ASSIGNED"),
        ("b", "ASSIGNED"),
        (None, "CLUSTERS_FULL"),
    ]


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_a_node_is_shared_by_as_many_jobs_as_have_room_on_it(api: FlaskClient, context: Context, strategy: str) -> None:
    put_pool(api, "gpu", ["a"], strategy=strategy)
    report(api, "a", capacity={"cpu": "4", "nodes": 1})
    job = {"command": ["true"], "resources": {"requests": {"cpu": "1"}}}
    for number in range(4):
        assert created(api, f"e{number}", **pool("gpu"), job=job)["cluster"] == "a"
    reason = created(api, "fifth", **pool("gpu"), job=job)["closure"]["reason"]
    assert reason["message"].endswith("'a' is full (4 of 4 cpu taken).")
    terminate(api, "e0")
    decide_waiting(context)
    assert state(api, "fifth") == ("a", "ASSIGNED")


def test_an_exclusive_job_needs_whole_nodes_and_leaves_them_to_nobody(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a", "b"], strategy="spill")
    for name in ("a", "b"):
        report(api, name, capacity={"cpu": "8", "nodes": 2})
    shared = {"command": ["true"], "resources": {"requests": {"cpu": "1"}}}
    alone = {"command": ["true"], "resources": {"exclusive": True, "requests": {"cpu": "1"}}}
    assert created(api, "first", **pool("gpu"), job=alone)["cluster"] == "a"
    assert get(api, "clusters/a")["free"] == {"cpu": "4", "nodes": 1}
    for number in range(4):
        assert created(api, f"e{number}", **pool("gpu"), job=shared)["cluster"] == "a"
    assert created(api, "second", **pool("gpu"), job=shared)["cluster"] == "b"
    assert created(api, "third", **pool("gpu"), job=alone)["cluster"] == "b"
    reason = created(api, "fourth", **pool("gpu"), job=alone)["closure"]["reason"]
    assert "'b' is full (5 of 8 cpu taken, 4 wanted)" in reason["message"]
    terminate(api, "first")
    decide_waiting(context)
    assert state(api, "fourth") == ("a", "ASSIGNED")
    refused(
        create(api, "large", **pool("gpu"), job={"command": ["true"], "resources": {"nodes": 3}}),
        400,
        "no_cluster_large_enough",
    )


def test_an_execution_that_is_ended_gives_its_room_to_one_that_waits(api: FlaskClient, context: Context) -> None:
    put_cluster(api, "a", capacity={"executions": 1})
    put_pool(api, "gpu", ["a"], strategy="spill")
    loop = WaitingLoop(context, interval=0)
    created(api, "first", **pool("gpu"))
    created(api, "second", **pool("gpu"))
    loop()
    assert (state(api, "first"), state(api, "second")) == (("a", "CLUSTER_EXPECTED"), (None, "CLUSTERS_FULL"))
    terminate(api, "first")
    loop()
    assert state(api, "second") == ("a", "CLUSTER_EXPECTED")


def test_room_that_one_execution_leaves_is_taken_by_another_in_the_same_round(
    api: FlaskClient, context: Context
) -> None:
    put_cluster(api, "a", capacity={"executions": 1})
    put_pool(api, "one", ["a", "b"], strategy="spill")
    put_pool(api, "two", ["a"], strategy="spill")
    assert created(api, "leaves", **pool("one"))["cluster"] == "a"
    created(api, "waits", **pool("two"))
    assert state(api, "waits") == (None, "CLUSTERS_FULL")
    put_pool(api, "one", ["b"], strategy="spill")
    assert len(decide_waiting(context)) == 2
    assert (state(api, "leaves"), state(api, "waits")) == (("b", "CLUSTER_EXPECTED"), ("a", "CLUSTER_EXPECTED"))


class _CordonBeforeWrites(GroupCommit[Creation, CreationOutcome]):
    """Cordons the cluster of a creation between its decision and its write, so many times."""

    def __init__(self, api: FlaskClient, creations: GroupCommit[Creation, CreationOutcome], times: int) -> None:
        super().__init__(creations.submit)
        self._api = api
        self._times = times
        self.cordoned: list[str] = []

    def submit(self, items: list[Creation]) -> list[CreationOutcome]:
        cluster = items[0].cluster
        if len(self.cordoned) < self._times and cluster is not None:
            self.cordoned.append(cluster)
            switch(self._api, cluster, "cordon")
        return super().submit(items)


def _cordon_before_writes(app: Flask, times: int) -> _CordonBeforeWrites:
    context = context_of(app)
    writes = _CordonBeforeWrites(app.test_client(), context.creations, times)
    app.extensions["rainbow"] = replace(context, creations=writes)
    return writes


def test_a_creation_is_decided_again_if_the_fleet_changes_before_its_write(app: Flask) -> None:
    api = app.test_client()
    put_pool(api, "gpu", ["a", "b"])
    writes = _cordon_before_writes(app, 2)
    execution = created(api, "e", **pool("gpu"))  # both were cordoned after it was decided, one after the other
    assert set(writes.cordoned) == {"a", "b"}
    assert ("cluster" in execution, execution["closure"]["reason"]["code"]) == (False, "CLUSTERS_CORDONED")
    switch(api, "b", "uncordon")
    assert created(api, "g", **pool("gpu"))["cluster"] == "b"
    assert [candidate["cluster"] for candidate in explanation(api, "g")["candidates"] if candidate["chosen"]] == ["b"]


def test_a_creation_whose_only_cluster_is_cordoned_before_its_write_waits(app: Flask) -> None:
    api = app.test_client()
    put_pool(api, "only", ["c"])
    _cordon_before_writes(app, 1)
    execution = created(api, "f", **pool("only"))
    assert ("cluster" in execution, execution["closure"]["reason"]["code"]) == (False, "CLUSTERS_CORDONED")


def test_a_cluster_that_turns_out_too_small_is_left_and_a_large_one_awaited(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a", "b"], strategy="spill")
    job = {"command": ["x"], "resources": {"requests": {"cpu": "2"}}}
    assert created(api, "e", job=job, **pool("gpu"))["cluster"] == "a"
    report(api, "a", capacity={"cpu": "1"})
    decide_waiting(context)
    assert state(api, "e") == ("b", "CLUSTER_EXPECTED")
    report(api, "b", capacity={"cpu": "1"})
    decide_waiting(context)
    assert state(api, "e") == (None, "CLUSTERS_TOO_SMALL")
    report(api, "a", capacity={"cpu": "2"})
    decide_waiting(context)
    assert state(api, "e") == ("a", "ASSIGNED")


def test_a_plugin_that_is_offered_at_last_is_taken(api: FlaskClient, context: Context) -> None:
    put_attribute(api, "domain", "plugin_overrides", {"overrides": [{"task_type": "process", "plugin_id": ["mpi"]}]})
    put_label(api, "plugged", ["a"])
    report(api, "a", plugins=[])
    created(api, "e", **label("plugged"))
    assert state(api, "e") == (None, "PLUGIN_MISSING")
    report(api, "a", plugins=["mpi"])
    decide_waiting(context)
    assert state(api, "e") == ("a", "ASSIGNED")


def test_finished_executions_are_never_decided_again(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a", "b"], strategy="spill")
    created(api, "e", **pool("gpu"))
    terminate(api, "e")
    switch(api, "a", "cordon")
    with nothing_stored(context):
        assert decide_waiting(context) == []
    assert execution(api, "e")["cluster"] == "a"


def test_settings_that_change_later_do_not_move_what_waits(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a"])
    put_pool(api, "base", ["b"])
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    created(api, "e")
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "base"})
    switch(api, "a", "cordon")
    decide_waiting(context)
    assert state(api, "e") == (None, "CLUSTERS_CORDONED")
    assert execution(api, "e")["pool"] == "gpu"


# When somebody asks


def test_redecide_adopts_new_settings_for_what_waits(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a"])
    put_pool(api, "base", ["b"])
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    created(api, "e")
    created(api, "asked", **pool("gpu"))
    created(api, "ended")
    terminate(api, "ended")
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "base"})
    put_attribute(api, "domain", "task_resource_attributes", {"defaults": {"cpu": "1"}})
    with nothing_stored(context):
        dry = redecide(api, "?dry_run=true")
        assert (dry["matched"], dry["changed"], dry["dry_run"]) == (2, 2, True)
        refused(api.post(f"{API}/executions/redecide", json={"selector": {}}), 400, "invalid_request", "selector")
    answer = redecide(api)
    assert (answer["matched"], answer["changed"]) == (2, 2)
    moves = {move["id"]["name"]: (move["from"], move["to"], move["reason"]["code"]) for move in answer["executions"]}
    assert moves == {"e": ("a", "b", "CLUSTER_EXPECTED"), "asked": ("a", "a", "CLUSTER_EXPECTED")}
    stored = execution(api, "e")
    assert (stored["pool"], stored["cluster"], stored["decisions"]) == ("base", "b", 2)
    assert stored["job"]["resources"]["requests"]["cpu"] == "1"
    assert stored["revision"] == get(api, "revisions?limit=1")["head"]
    why = explanation(api, "e")
    assert (why["because"], why["pool"]) == ("from a: asked to decide again by anonymous", "base")
    assert explanation(api, "e", "?decision=1")["pool"] == "gpu"
    again = redecide(api)
    assert (again["matched"], again["changed"]) == (2, 0)
    assert execution(api, "e") == stored


@pytest.mark.parametrize(("claimed_by", "name"), [("ana", "anonymous (says ana)"), (None, "anonymous")])
def test_a_new_decision_names_who_asked_for_it(
    api: FlaskClient, context: Context, claimed_by: str | None, name: str
) -> None:
    put_pool(api, "gpu", ["a"])
    put_pool(api, "base", ["b"])
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    created(api, "e")
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "base"})
    body = {"selector": {"project": PROJECT}, **({"claimed_by": claimed_by} if claimed_by else {})}
    assert ok(api.post(f"{API}/executions/redecide", json=body))["changed"] == 1
    event = get(api, f"executions/{PROJECT}/{DOMAIN}/e/events")["events"][-1]
    assert (event["type"], event["author"], event.get("claimed_by")) == ("DECIDED", "anonymous", claimed_by)
    assert event["by"] == (claimed_by or "anonymous")
    assert explanation(api, "e")["because"] == f"from a: asked to decide again by {name}"
    switch(api, "b", "cordon", claimed_by="otto")
    decide_waiting(context)
    event = get(api, f"executions/{PROJECT}/{DOMAIN}/e/events")["events"][-1]
    assert (event["type"], "author" in event) == ("DECIDED", False), "nobody asked for this one"


def test_why_it_was_asked_to_decide_again_is_kept_with_the_decision(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["a"])
    created(api, "e", **pool("gpu"))
    put_pool(api, "gpu", ["b"])
    body = {"selector": {"project": PROJECT}, "claimed_by": "ana", "cause": "The disks are new."}
    assert ok(api.post(f"{API}/executions/redecide", json=body))["moved"] == 1
    expected = "from a: asked to decide again by anonymous (says ana), 'The disks are new.'"
    assert explanation(api, "e")["because"] == expected


def test_a_dry_run_of_redecide_counts_what_the_executions_before_would_take(api: FlaskClient) -> None:
    put_cluster(api, "a", capacity={"executions": 9})
    put_cluster(api, "b", capacity={"executions": 2})
    report(api, "a", capacity={"executions": 9}, free={"executions": 9})
    report(api, "b", capacity={"executions": 2}, free={"executions": 2})
    put_pool(api, "first", ["a"])
    put_pool(api, "then", ["b"], strategy="spill")
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "first"})
    for number in range(4):
        created(api, f"e{number}")
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "then"})

    def moves(query: str) -> list[tuple[str, str | None]]:
        return [(move["id"]["name"], move.get("to")) for move in redecide(api, query)["executions"]]

    expected = moves("?dry_run=true")
    assert sorted(str(target) for _, target in expected) == ["None", "None", "b", "b"]
    assert moves("") == expected


def test_a_dry_run_of_redecide_looks_at_a_limited_number_and_says_of_how_many_not(
    api: FlaskClient, app: Flask, context: Context
) -> None:
    put_pool(api, "gpu", ["a"])
    put_pool(api, "base", ["b"])
    for number in range(5):
        created(api, f"e{number}", **pool("gpu"))
    for number in range(5):
        created(api, f"f{number}")
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "base"})
    for limits, examined in ((ListLimits(decided=7), 7), (ListLimits(drawn=3), 3), (ListLimits(), 10)):
        app.extensions["rainbow"] = replace(context, list_limits=limits)
        with nothing_stored(context):
            dry = redecide(api, "?dry_run=true")
        assert (dry["matched"], dry.get("not_examined", 0), dry["complete"]) == (
            examined,
            10 - examined,
            examined == 10,
        )


@sqlite_only
def test_a_dry_run_of_redecide_draws_queue_and_cluster_of_each_of_equal_executions(make_app: MakeApp) -> None:
    queues = [{"dynamic": name, "attributes": ["both"]} for name in ("first", "second")]
    app = make_app(queues={"executionQueues": queues})
    api = app.test_client()
    put_pool(api, "gpu", ["a", "b"])
    put_attribute(api, "domain", "execution_queue_attributes", {"tags": ["both"]})
    stored = [created(api, f"e{number}", **pool("gpu")) for number in range(12)]
    assert len({execution["cluster"] for execution in stored}) == 2
    listed = get(api, "executions?limit=100")["executions"]
    assert len({execution["queue"] for execution in listed}) == 2
    dry = redecide(api, "?dry_run=true")
    assert (dry["matched"], dry["changed"]) == (12, 0)


def test_a_dry_run_of_redecide_goes_on_after_those_of_a_request_with_a_limit(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["a"])
    put_pool(api, "base", ["b"])
    for number in range(5):
        created(api, f"e{number}", **pool("gpu"))
    body: dict[str, Any] = {"selector": {"project": PROJECT}, "limit": 2}
    step = ok(api.post(f"{API}/executions/redecide", json=body))
    for limit, names, left in ((2, ["e2", "e3"], 1), (3, ["e2", "e3", "e4"], 0)):
        following = {**body, "limit": limit, "token": step["token"]}
        dry = ok(api.post(f"{API}/executions/redecide?dry_run=true", json=following))
        assert [execution["id"]["name"] for execution in dry["executions"]] == names
        assert dry.get("not_examined", 0) == left


def test_redecide_goes_on_after_those_of_a_request_with_a_limit_and_with_its_event(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["a"])
    put_pool(api, "base", ["b"])
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    for number in range(5):
        created(api, f"e{number}")
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "base"})
    body: dict[str, Any] = {"selector": {"project": PROJECT, "cluster": "a"}, "limit": 2}
    pages = [ok(api.post(f"{API}/executions/redecide", json={**body, "claimed_by": "ana"}))]
    for author in ("ana", "otto"):  # who goes on with the event of another does not change it
        step = {**body, "claimed_by": author, "token": pages[-1]["token"]}
        pages.append(ok(api.post(f"{API}/executions/redecide", json=step)))
    assert ([page["moved"] for page in pages], "token" in pages[-1]) == ([2, 2, 1], False)
    entries = get(api, "timeline?source=redecision")["entries"]
    assert [(entry["claimed_by"], entry["message"].partition(" (")[0]) for entry in entries] == [
        ("otto", "1 decided again: a -> b: 1"),
        ("ana", "4 decided again: a -> b: 4"),
    ]
    assert {state(api, f"e{number}")[0] for number in range(5)} == {"b"}
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    ok(api.post(f"{API}/executions/redecide", json={"selector": {"project": PROJECT}}))
    unnamed = get(api, "timeline?source=redecision&actor=anonymous")["entries"]
    assert (len(unnamed), unnamed[0]["author"], "claimed_by" in unnamed[0]) == (3, "anonymous", False)
    for wrong in ({"limit": 0}, {"limit": 1001}, {"token": "x"}):
        field = next(iter(wrong))
        refused(api.post(f"{API}/executions/redecide", json={**body, **wrong}), 400, "invalid_request", field)


def test_a_redecide_that_fails_midway_names_in_its_event_what_it_has_decided(
    api: FlaskClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pool(api, "gpu", ["a"])
    put_pool(api, "base", ["b"])
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    for name in ("first", "second", "third"):
        created(api, name)
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "base"})
    read, keys = executions.get, []

    def fail_at_the_third(connection: Connection, key: ExecutionId, *, lock: bool = False) -> Execution | None:
        keys.append(key)
        if len(keys) == 3:
            raise RuntimeError
        return read(connection, key, lock=lock)

    monkeypatch.setattr(executions, "get", fail_at_the_third)
    with pytest.raises(RuntimeError):
        redecide_all(context, [], scope=Scope(project=PROJECT))
    with context.database.reading() as connection:
        [event] = cluster_events.events(connection, ClusterEventFilter(types=["REDECIDED"]), None, 10)
    for key in keys[:2]:
        assert str(key) in (event.reason or "")
    assert str(keys[2]) not in (event.reason or "")
    assert (event.reason or "").endswith(" This was requested.")


def test_redecide_leaves_what_new_settings_would_refuse_and_says_why(api: FlaskClient) -> None:
    created(api, "e", job={"command": ["x"], "resources": {"requests": {"cpu": "900m"}}})
    before = execution(api, "e")
    put_attribute(api, "project", "task_resource_attributes", {"limits": {"cpu": "200m"}, "defaults": {"cpu": "100m"}})
    answer = redecide(api, domain=DOMAIN)
    assert (answer["matched"], answer["changed"]) == (1, 0)
    assert answer["executions"][0]["reason"]["code"] == "above_limit"
    put_attribute(api, "project", "task_resource_attributes", {"limits": {"cpu": "2"}})
    put_attribute(api, "project", "cluster_assignment", {"cluster_pool_name": "nowhere"})
    assert redecide(api)["executions"][0]["reason"]["code"] == "unknown_pool"
    assert execution(api, "e") == before


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_redecide_does_not_take_an_executions_own_demand_for_somebody_elses(api: FlaskClient, strategy: str) -> None:
    put_cluster(api, "a", capacity={"executions": 1})
    put_cluster(api, "b", capacity={"executions": 1})
    put_pool(api, "gpu", {"a": 1}, strategy=strategy)
    assert created(api, "e", **pool("gpu"))["cluster"] == "a"
    answer = redecide(api)
    assert (answer["matched"], answer["changed"]) == (1, 0), answer
    put_pool(api, "gpu", ["a", "b"], strategy=strategy)
    redecide(api)
    assert len([cluster for cluster in ("a", "b") if get(api, f"clusters/{cluster}")["waiting"]]) == 1
    if strategy == "spill":
        assert state(api, "e") == ("a", "CLUSTER_EXPECTED")


def test_redecide_adopts_a_new_queueing_budget(api: FlaskClient) -> None:
    created(api, "e")
    assert "quality_of_service" not in execution(api, "e")
    put_attribute(api, "domain", "quality_of_service", {"spec": {"queueing_budget": "1h"}})
    assert redecide(api)["changed"] == 1
    answer = execution(api, "e")
    assert answer["quality_of_service"]["queueing_budget"] == "1h"
    assert answer["quality_of_service"]["queue_deadline"][:13] > answer["closure"]["created_at"][:13]
    put_attribute(api, "domain", "quality_of_service", {"tier": "LOW"})
    assert redecide(api)["changed"] == 1
    assert execution(api, "e")["quality_of_service"] == {"tier": "LOW"}


def test_redecide_keeps_to_the_versions_that_were_launched(api: FlaskClient) -> None:
    ok(register_workflow(api, "wf", job={"command": ["old"]}))
    ok(register_plan(api, "lp", "wf"))
    created(api, "e", launch_plan={"name": "lp"})
    ok(register_workflow(api, "wf", "v2", job={"command": ["new"]}))
    ok(register_plan(api, "lp", "wf", "v2", workflow_id={"name": "wf", "version": "v2"}))
    put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": 2})
    assert redecide(api, launch_plan="lp")["changed"] == 1
    answer = execution(api, "e")
    assert (answer["job"]["command"], answer["config"]["max_parallelism"]) == (["old"], 2)
    assert answer["launch_plan"]["version"] == "v1"


def test_lists_and_single_executions_say_from_where_the_last_decision_took_them(
    api: FlaskClient, context: Context
) -> None:
    for name in ("oak", "elm"):
        put_cluster(api, name)
    put_pool(api, "both", {"oak": 1, "elm": 1})
    created(api, "moves", **pool("both"))
    first = execution(api, "moves")["cluster"]
    second = "elm" if first == "oak" else "oak"
    assert "previous_cluster" not in execution(api, "moves")
    for cluster, expected in ((first, second), (second, None)):
        switch(api, cluster, "cordon")
        decide_waiting(context)
        rows = {row["id"]["name"]: row for row in get(api, "executions")["executions"]}
        for row in (rows["moves"], execution(api, "moves")):
            assert (row.get("previous_cluster"), row.get("cluster")) == (cluster, expected)
            assert "previous_none" not in row
    switch(api, second, "uncordon")
    decide_waiting(context)
    [listed] = get(api, "executions")["executions"]
    for row in (listed, execution(api, "moves")):
        assert (row.get("previous_cluster"), row["previous_none"], row["cluster"]) == (None, True, second)
