"""Which executions: by cause, creator and attempts, counted by what they share, and who said where they go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.store.execution_lists import ListLimits
from tests.support.agents import Clock, PlayedAgent, add, names, played_agent
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    JOB,
    created,
    execution,
    get,
    nothing_stored,
    ok,
    pool,
    put_attribute,
    refused,
)

SLOW_ON = ("postgresql",)

SECTIONS: dict[str, Any] = {
    "clusters": {"poolNameClusterMap": {"gpu": [{"id": "gpu-1"}], "base": [{"id": "base-1"}]}},
}
ENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "exits": ("FAILED", {"exit_code": 3}),
    "crashes": ("FAILED", {"reason": "SIGNAL"}),
    "swells": ("FAILED", {"reason": "OUT_OF_MEMORY"}),
    "lasts": ("TIMED_OUT", {"reason": "TIME_LIMIT"}),
    "vanishes": ("FAILED", {"reason": "CLUSTER_LOST"}),
    "breaks": ("FAILED", {"reason": "NODE_FAIL"}),
    "works": ("SUCCEEDED", {}),
}


@pytest.fixture
def agent(shared: FlaskClient, shared_context: Context, clock: Clock, project: str) -> PlayedAgent:
    """An agent whose cluster has run something of every cause, and has something to run again."""
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    for name, (phase, details) in ENDS.items():
        add(agent, name)
        agent.finish(agent.start(), phase, **details)
    add(agent, "unwanted")
    ok(shared.delete(f"{API}/executions/{project}/development/unwanted", json={"claimed_by": "ada"}))
    for name, backoff in (("again", "60s"), ("later", "300s")):
        add(agent, name, retry={"attempts": 2, "backoff": backoff})
        agent.finish(agent.start(), "FAILED", exit_code=1)
    add(agent, "waits")
    agent.take()
    agent.report("waits", "RELEASED")
    agent.holding.clear()
    return agent


@pytest.fixture
def small_answers(shared_app: Flask, agent: PlayedAgent) -> Iterator[None]:
    """An admin that counts three executions in an answer."""
    before = context_of(shared_app)
    shared_app.extensions["rainbow"] = replace(before, list_limits=ListLimits(counted=3))
    yield
    shared_app.extensions["rainbow"] = before


def listed(agent: PlayedAgent, query: str) -> list[str]:
    return sorted(names(get(agent.client, f"executions?project={agent.project}&{query}")["executions"]))


def counts(agent: PlayedAgent, by: str, query: str = "") -> dict[str, int]:
    answer = get(agent.client, f"execution_counts?by={by}&project={agent.project}{query}")
    assert answer["by"] == by
    assert answer["total"] == sum(group["count"] for group in answer["counts"])
    sizes = [group["count"] for group in answer["counts"]]
    assert sizes == sorted(sizes, reverse=True)
    return {group["value"]: group["count"] for group in answer["counts"]}


def test_an_answer_looks_at_as_many_executions_as_it_is_asked_to(agent: PlayedAgent) -> None:
    everything = counts(agent, "project")
    answer = get(agent.client, f"execution_counts?by=project&project={agent.project}&limit=2")
    assert (answer["total"], "token" in answer) == (2, True)
    assert everything[agent.project] > 2
    refused(agent.client.get(f"{API}/execution_counts?by=project&limit=50001"), 400, "invalid_request", "limit")


def test_executions_are_selected_by_what_ended_them(agent: PlayedAgent) -> None:
    assert listed(agent, "cause=EXIT_CODE") == ["again", "crashes", "exits", "later"]  # in back-off for it, too
    assert listed(agent, "cause=EXIT_CODE&phase=QUEUED") == ["again", "later"]
    assert listed(agent, "cause=LIMIT") == ["lasts", "swells"]
    assert listed(agent, "cause=CLUSTER_LOST,CANCELLED") == ["unwanted", "vanishes"]
    assert listed(agent, "cause=PLATFORM&domain=development") == ["breaks"]
    assert listed(agent, "filters=value_in(cause,)") == ["waits", "works"]
    assert listed(agent, "filters=value_not_in(cause,EXIT_CODE;LIMIT;)") == ["breaks", "unwanted", "vanishes"]
    assert listed(agent, "cause=LIMIT&phase=FAILED") == ["swells"]
    assert listed(agent, "cause=LIMIT&sort_by.key=updated_at") == ["lasts", "swells"]
    shown = {name: execution(agent.client, name, agent.project)["closure"] for name in ("swells", "works", "again")}
    assert [closure.get("cause") for closure in shown.values()] == ["LIMIT", None, "EXIT_CODE"]


def test_what_runs_again_after_a_failure_has_its_cause_until_it_ends(agent: PlayedAgent, clock: Clock) -> None:
    clock.advance(61)
    agent.sync()
    agent.start()
    again = execution(agent.client, "again", agent.project)
    assert (again["closure"]["phase"], again["closure"]["cause"]) == ("RUNNING", "EXIT_CODE")
    assert again["last_failure"]["cause"] == "EXIT_CODE"
    assert listed(agent, "cause=EXIT_CODE") == ["again", "crashes", "exits", "later"]
    assert listed(agent, "cause=EXIT_CODE&phase=RUNNING") == ["again"]
    assert "again" not in listed(agent, "filters=value_in(cause,)")
    assert counts(agent, "cause")["EXIT_CODE"] == 4
    ok(agent.client.delete(f"{API}/executions/{agent.project}/development/again", json={}))
    assert listed(agent, "cause=CANCELLED&phase=ABORTING") == ["again"]
    agent.finish(["again"], "ABORTED")
    assert listed(agent, "cause=EXIT_CODE") == ["crashes", "exits", "later"]


def test_executions_are_selected_by_attempts_and_by_who_ended_them(agent: PlayedAgent, clock: Clock) -> None:
    assert listed(agent, "filters=gt(attempt,1)") == []  # what waits for its second attempt has begun one
    ok(agent.client.delete(f"{API}/executions/{agent.project}/development/later", json={}))
    clock.advance(61)
    agent.start()
    assert listed(agent, "filters=gt(attempt,1)") == listed(agent, "filters=eq(attempt,2)") == ["again"]
    assert listed(agent, "filters=gt(attempt_number,1)") == ["again"]  # what was given back does not count
    assert listed(agent, "filters=gte(attempt,3)") == []
    for name, number in (("again", 2), ("later", 1), ("waits", 1)):
        assert execution(agent.client, name, agent.project)["attempt_number"] == number
    assert listed(agent, "abort_principal=ada") == ["unwanted"]
    assert len(listed(agent, "created_by=anonymous")) == len(ENDS) + 4


def test_executions_in_back_off_are_selected_whatever_their_reason(agent: PlayedAgent, clock: Clock) -> None:
    put_attribute(agent.client, "project", "task_resource_attributes", {"limits": {"cpu": "4"}}, project=agent.project)
    selector = {"project": agent.project, "filters": "eq(name,later)"}
    ok(agent.client.post(f"{API}/executions/redecide", json={"selector": selector}))
    assert execution(agent.client, "later", agent.project)["closure"]["reason"]["code"] != "RETRY"
    assert listed(agent, "backoff=true") == listed(agent, "filters=ne(backoff,false)") == ["again", "later"]
    assert counts(agent, "phase", "&backoff=true") == {"QUEUED": 2}
    assert "waits" in listed(agent, "backoff=false&phase=QUEUED")
    clock.advance(61)
    assert listed(agent, "filters=eq(backoff,true)") == ["later"]
    refused(agent.client.get(f"{API}/executions?backoff=maybe"), 400, "invalid_request", "backoff")


def test_executions_are_counted_by_what_they_share(agent: PlayedAgent) -> None:
    cluster = agent.cluster
    assert counts(agent, "cause") == {
        "EXIT_CODE": 4,
        "": 2,
        "LIMIT": 2,
        "CANCELLED": 1,
        "CLUSTER_LOST": 1,
        "PLATFORM": 1,
    }
    assert counts(agent, "phase") == {"FAILED": 5, "QUEUED": 3, "ABORTED": 1, "SUCCEEDED": 1, "TIMED_OUT": 1}
    assert counts(agent, "reason", "&phase=QUEUED") == {"RETRY": 2, "ASSIGNED": 1}
    assert counts(agent, "reason", "&cause=LIMIT") == {"OUT_OF_MEMORY": 1, "TIME_LIMIT": 1}
    assert counts(agent, "cluster") == {cluster: 11}
    assert counts(agent, "pool") == counts(agent, "label") == counts(agent, "workflow") == {"": 11}
    assert counts(agent, "project") == {agent.project: 11}
    assert counts(agent, "domain", "&filters=lte(attempt,1)") == {"development": 11}
    assert counts(agent, "creator", "&created_after=1h") == {"anonymous": 11}
    assert counts(agent, "cause", "&domain=staging") == {}


def test_executions_are_counted_and_selected_by_image_and_what_becomes_of_them(
    shared: FlaskClient, project: str
) -> None:
    for name, job, on_lost in (("a", {"image": "i:1"}, "wait"), ("b", {"image": "i:1"}, "fail"), ("c", {}, "fail")):
        spec = {"job": {"command": ["true"], **job}, "retry": {"on_lost": on_lost}}
        body = {"project": project, "domain": "development", "name": name, "spec": spec}
        ok(shared.post(f"{API}/executions", json=body))
    for by, expected in (("image", {"i:1": 2, "": 1}), ("on_lost", {"wait": 1, "fail": 2})):
        counts = get(shared, f"execution_counts?by={by}&project={project}")["counts"]
        assert {group["value"]: group["count"] for group in counts} == expected
    chosen = get(shared, f"executions?project={project}&filters=contains(image,i:)%2Beq(on_lost,fail)")
    assert names(chosen["executions"]) == ["b"]


def test_what_is_archived_is_counted_when_asked_for(agent: PlayedAgent) -> None:
    ok(agent.client.put(f"{API}/executions/{agent.project}/development/works", json={"state": "ARCHIVED"}))
    assert counts(agent, "phase", "&phase=SUCCEEDED") == {}
    assert counts(agent, "phase", "&phase=SUCCEEDED&state=ALL") == {"SUCCEEDED": 1}


def test_a_group_tells_when_the_first_of_it_is_tried_again(agent: PlayedAgent, clock: Clock) -> None:
    def times() -> dict[str, str | None]:
        answer = get(agent.client, f"execution_counts?by=reason&project={agent.project}&phase=QUEUED")
        return {group["value"]: group.get("not_before") for group in answer["counts"]}

    again, later = (execution(agent.client, name, agent.project)["not_before"] for name in ("again", "later"))
    assert again == (clock() + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")
    assert times() == {"RETRY": again, "ASSIGNED": None}
    clock.advance(61)
    assert times() == {"RETRY": later, "ASSIGNED": None}
    clock.advance(300)
    assert times() == {"RETRY": None, "ASSIGNED": None}


def test_a_group_tells_how_long_those_of_it_have_waited(agent: PlayedAgent, clock: Clock) -> None:
    query = f"execution_counts?by=pool,user&project={agent.project}"
    for name in ("second", "third"):
        clock.advance(10)
        add(agent, name)
    clock.advance(20)
    [group] = get(agent.client, f"{query}&phase=QUEUED")["counts"]
    waiting = group["waiting"]
    assert (group["values"][1], group["count"]) == ("anonymous", 5)  # two of them are in back-off
    assert waiting == {"count": 3, "longest_seconds": 40, "median_seconds": 30}
    assert "waiting" not in get(agent.client, f"{query}&phase=SUCCEEDED")["counts"][0]
    clock.advance(600)  # back-off is over, and they wait since then
    assert get(agent.client, f"{query}&phase=QUEUED")["counts"][0]["waiting"]["count"] == 5


def test_executions_are_selected_and_sorted_by_how_long_they_waited(
    shared: FlaskClient, shared_context: Context, clock: Clock, project: str
) -> None:
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    add(agent, "quick", "slow", "never")
    agent.finish(agent.start(1))
    clock.advance(600)
    agent.finish(agent.start(1))
    clock.advance(60)
    ok(shared.delete(f"{API}/executions/{project}/development/never", json={}))
    add(agent, "waiting")
    clock.advance(100)
    assert listed(agent, "filters=gt(waited,9m)") == ["never", "slow"]
    assert listed(agent, "filters=eq(waited,0)") == ["quick"]
    assert listed(agent, "filters=value_in(waited,600)") == ["slow"]
    assert listed(agent, "filters=lte(waited,2m)%2Bgt(waited,99)") == ["waiting"]
    clock.advance(3600)
    assert listed(agent, "filters=gt(waited,1h)") == ["waiting"]
    for direction, expected in (("DESCENDING", ["waiting", "never"]), ("ASCENDING", ["quick", "slow"])):
        path, token = f"executions?project={agent.project}", ""
        in_order: list[str] = []
        while len(in_order) < 2:
            order = f"sort_by.key=waited&sort_by.direction={direction}&limit=1{token}"
            answer = get(agent.client, f"{path}&{order}")
            in_order += names(answer["executions"])
            token = f"&token={answer['token']}"
            clock.advance(1)  # which changes nothing: a list is as of its first page
        assert in_order == expected
    [group] = get(agent.client, f"execution_counts?by=pool&project={agent.project}")["counts"]
    assert (group["count"], group["started"]) == (4, {"count": 2, "longest_seconds": 600, "mean_seconds": 300.0})
    assert "ran" not in group, "they ended as they started"
    slow = execution(agent.client, "slow", agent.project)
    assert slow["could_start_at"] == slow["closure"]["created_at"]


def test_what_ran_is_counted_with_the_hours_of_what_it_requested(
    shared: FlaskClient, shared_context: Context, clock: Clock, project: str
) -> None:
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    resources = {"tasks": 2, "requests": {"cpu": "500m", "memory": "1Gi", "gpu": "1"}}
    add(agent, "ended", "runs", "waits", job={**JOB, "resources": resources})
    running = agent.start(1)
    clock.advance(1800)
    agent.finish(running)
    agent.start(1)
    clock.advance(3600)
    [group] = get(shared, f"execution_counts?by=workflow&project={project}")["counts"]
    assert group["ran"] == {
        "count": 2,
        "seconds": 5400.0,
        "longest_seconds": 3600,
        "mean_seconds": 2700.0,
        "cpu_hours": 1.5,
        "memory_byte_hours": 1.5 * 2 * 2**30,
        "gpu_hours": 3.0,
    }


def test_what_is_tried_again_waits_since_its_back_off(agent: PlayedAgent, clock: Clock) -> None:
    clock.advance(61)
    agent.sync()
    clock.advance(29)
    agent.start(1)
    again = execution(agent.client, "again", agent.project)
    begin, start = (datetime.fromisoformat(time) for time in (again["could_start_at"], again["closure"]["started_at"]))
    assert (start - begin).total_seconds() == 30
    assert listed(agent, "filters=eq(waited,30)") == ["again"]
    assert "again" not in listed(agent, "filters=gt(waited,30)")


def test_executions_are_counted_by_two_things_at_once(agent: PlayedAgent, small_answers: None) -> None:
    def both(by: str) -> dict[tuple[str, ...], int]:
        counts, token = Counter[tuple[str, ...]](), ""
        while True:
            answer = get(agent.client, f"execution_counts?by={by}&project={agent.project}{token}")
            assert answer["by"] == by
            for group in answer["counts"]:
                assert group["value"] == group["values"][0]
                counts[tuple(group["values"])] += group["count"]
            if "token" not in answer:
                return dict(counts)
            token = f"&token={answer['token']}"

    assert both("project,cluster") == {(agent.project, agent.cluster): 11}
    assert both("phase,cause") == {
        ("FAILED", "EXIT_CODE"): 2,
        ("FAILED", "LIMIT"): 1,
        ("FAILED", "CLUSTER_LOST"): 1,
        ("FAILED", "PLATFORM"): 1,
        ("TIMED_OUT", "LIMIT"): 1,
        ("ABORTED", "CANCELLED"): 1,
        ("SUCCEEDED", ""): 1,
        ("QUEUED", "EXIT_CODE"): 2,
        ("QUEUED", ""): 1,
    }
    assert both("origin,phase")["request", "QUEUED"] == 3
    assert both("phase,origin")["QUEUED", "request"] == 3
    assert both("phase,cause,cluster")["TIMED_OUT", "LIMIT", agent.cluster] == 1
    for by in ("phase,phase", "phase,cause,cluster,pool", "phase,", "phase,clusters"):
        refused(agent.client.get(f"{API}/execution_counts?by={by}"), 400, "invalid_request", "by")


def test_a_group_tells_what_its_executions_request_together(shared: FlaskClient, project: str) -> None:
    def requested(by: str, query: str = "") -> dict[str, dict[str, float]]:
        answer = get(shared, f"execution_counts?by={by}&project={project}{query}")
        return {group["value"]: group["requested"] for group in answer["counts"]}

    small = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    large = {"nodes": 2, "tasks": 3, "requests": {"cpu": "2", "memory": "512Mi", "gpu": "1"}}
    for name, resources, target in (("a", small, "gpu"), ("b", large, "gpu"), ("c", small, "base")):
        created(shared, name, project=project, job={"command": ["x"], "resources": resources}, **pool(target))
    assert requested("pool") == {
        "gpu": {"cpu": 6.5, "memory": 2**30 + 3 * 2**29, "gpu": 3},
        "base": {"cpu": 0.5, "memory": 2**30, "gpu": 0},
    }
    assert requested("origin") == {"request": {"cpu": 7.0, "memory": 2 * 2**30 + 3 * 2**29, "gpu": 3}}
    assert requested("cause", "&phase=QUEUED&pool=base") == {"": {"cpu": 0.5, "memory": 2**30, "gpu": 0}}
    assert requested("phase", "&phase=SUCCEEDED") == {}


@pytest.mark.usefixtures("small_answers")
def test_an_answer_counts_a_limited_number_and_tells_how_to_go_on(agent: PlayedAgent) -> None:
    path = f"execution_counts?by=phase&project={agent.project}"
    pages = [get(agent.client, path)]
    created(agent.client, "newer", project=agent.project)
    while "token" in pages[-1]:
        pages.append(get(agent.client, f"{path}&token={pages[-1]['token']}"))
    assert [page["total"] for page in pages] == [3, 3, 3, 2]
    token = pages[0]["token"]
    refused(agent.client.get(f"{API}/execution_counts?by=cause&token={token}"), 400, "invalid_request", "token")
    refused(agent.client.get(f"{API}/executions?token={token}"), 400, "invalid_request", "token")
    path = f"placement_counts?by=phase&project={agent.project}"
    pages = [get(agent.client, path)]
    while "token" in pages[-1]:
        assert "the others are counted with the token" in pages[-1]["not_counted"]
        pages.append(get(agent.client, f"{path}&token={pages[-1]['token']}"))
    assert [page["total"] for page in pages if page["total"]] == [3, 3, 3, 3]


def test_wrong_words_are_refused_by_name_and_nothing_changes(agent: PlayedAgent, shared_context: Context) -> None:
    with nothing_stored(shared_context):
        for query, field, word in (
            ("execution_counts?by=clusters", "by", "cluster"),
            ("execution_counts?by=cause&cause=LIMITS", "cause", "LIMIT"),
            ("executions?cause=canceled", "cause", "CANCELLED"),
            ("executions?filters=eq(cause,PLATFROM)", "cause", "PLATFORM"),
        ):
            answer = refused(agent.client.get(f"{API}/{query}"), 400, "invalid_request", field)
            assert word in answer["details"][0]["closest"], answer
            assert f"Did you mean '{word}'" in answer["message"]
        refused(agent.client.get(f"{API}/execution_counts"), 400, "invalid_request", "by")
        refused(agent.client.get(f"{API}/executions?filters=gt(attempt,many)"), 400, "invalid_request", "filters")


def test_a_list_tells_which_rung_decided_where_each_one_went(shared: FlaskClient, project: str) -> None:
    created(shared, "everywhere", project=project)
    put_attribute(shared, "project", "cluster_assignment", {"cluster_pool_name": "gpu"}, project=project)
    created(shared, "by-project", project=project)
    created(shared, "by-request", project=project, **pool("base"))
    path = f"executions?project={project}"
    answer = get(shared, f"{path}&with_origin=true")["executions"]
    origins = {execution["id"]["name"]: execution["origin"] for execution in answer}
    assert origins["everywhere"]["rung"] == "everywhere"
    assert (origins["by-request"]["rung"], origins["by-request"]["name"]) == ("request", "base")
    origin = origins["by-project"]
    assert (origin["rung"], origin["kind"], origin["name"], origin["project"]) == ("project", "pool", "gpu", project)
    explained = get(shared, f"executions/{project}/development/by-project/explanation")["rungs"]
    assert origin == next(rung for rung in explained if rung["state"] == "wins")
    assert not any("origin" in execution for execution in get(shared, path)["executions"])
    for query, expected in (
        ("origin=project", ["by-project"]),
        ("origin=request,everywhere", ["by-request", "everywhere"]),
        ("filters=ne(origin,request)", ["by-project", "everywhere"]),
        ("filters=value_not_in(origin,request)&sort_by.key=updated_at", ["by-project", "everywhere"]),
        ("filters=contains(origin,project)", ["by-project"]),
        ("origin=workflow", []),
    ):
        assert sorted(names(get(shared, f"{path}&{query}")["executions"])) == expected, query
    by_origin = get(shared, f"execution_counts?by=origin&project={project}")["counts"]
    assert {group["value"]: group["count"] for group in by_origin} == {"everywhere": 1, "project": 1, "request": 1}
    selected = get(shared, f"execution_counts?by=pool&origin=project&project={project}")["counts"]
    assert [(group["value"], group["count"]) for group in selected] == [("gpu", 1)]
    answer = refused(shared.get(f"{API}/{path}&origin=projekt"), 400, "invalid_request", "origin")
    assert "'project'" in answer["message"]
