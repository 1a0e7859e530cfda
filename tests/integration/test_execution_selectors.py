"""Which executions: by creator, by the scopes that decide, by how long they run; and names that nothing has."""

from __future__ import annotations

import base64
import json
import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from admin.services.context import Context
from tests.support.agents import Clock, PlayedAgent, add, names, played_agent
from tests.support.placing import (
    API,
    DOMAIN,
    asked,
    created,
    execution,
    explanation,
    get,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_pool,
    refused,
    register_plan,
    register_workflow,
    switch,
)

SLOW_ON = ("postgresql",)


def creator(api: FlaskClient, name: str, project: str, claimed_by: str | None, **spec: Any) -> Any:
    """An execution that somebody creates, under the name that they give."""
    body = asked(name, project=project, **spec) | ({"claimed_by": claimed_by} if claimed_by else {})
    return ok(api.post(f"{API}/executions", json=body))["execution"]


def listed(api: FlaskClient, project: str, **query: str) -> list[str]:
    parts = "&".join(f"{key}={quote(text)}" for key, text in query.items())
    return sorted(names(get(api, f"executions?project={project}&{parts}")["executions"]))


def counted(api: FlaskClient, project: str, by: str, **query: str) -> dict[str, int]:
    parts = "".join(f"&{key}={quote(text)}" for key, text in query.items())
    answer = get(api, f"execution_counts?by={by}&project={project}{parts}")
    assert answer["by"] == by.replace("-", "_") or by.startswith("labels.")
    return {group["value"]: group["count"] for group in answer["counts"]}


@pytest.fixture
def created_by_many(shared: FlaskClient, project: str) -> str:
    creator(shared, "by-nobody", project, None)
    creator(shared, "by-otto", project, "otto")
    creator(shared, "by-ann", project, "ann (admin")
    return project


def test_the_claimed_name_of_a_creator_is_kept_and_shown(shared: FlaskClient, created_by_many: str) -> None:
    project = created_by_many
    answer = execution(shared, "by-otto", project)
    assert (answer["created_by"], answer["claimed_by"]) == ("anonymous", "otto")
    assert "claimed_by" not in execution(shared, "by-nobody", project)
    explained = explanation(shared, "by-otto", project=project)
    assert (explained["created_by"], explained["claimed_by"]) == ("anonymous", "otto")
    assert explained["created_at"] == answer["closure"]["created_at"]
    [first, *_] = get(shared, f"executions/{project}/development/by-otto/events")["events"]
    assert (first["type"], first["author"], first["claimed_by"], first["by"]) == (
        "CREATED",
        "anonymous",
        "otto",
        "otto",
    )
    again = ok(
        shared.post(
            f"{API}/executions/relaunch",
            json={"id": {"project": project, "domain": "development", "name": "by-otto"}, "claimed_by": "eve"},
        )
    )["execution"]
    assert again["claimed_by"] == "eve"


def test_the_same_request_of_another_name_creates_nothing(shared: FlaskClient, project: str) -> None:
    creator(shared, "one", project, "otto")
    answer = ok(shared.post(f"{API}/executions", json=asked("one", project=project) | {"claimed_by": "ann"}))
    assert (answer["created"], answer["execution"]["claimed_by"]) == (False, "otto")


def test_many_at_once_have_the_name_beside_them_unless_they_have_their_own(shared: FlaskClient, project: str) -> None:
    requests = [asked("a", project=project), asked("b", project=project) | {"claimed_by": "ann"}]
    body = {"executions": requests, "claimed_by": "otto"}
    assert ok(shared.post(f"{API}/executions", json=body))["created"] == 2
    assert [execution(shared, name, project)["claimed_by"] for name in ("a", "b")] == ["otto", "ann"]
    refused(
        shared.post(f"{API}/executions", json=asked("c", project=project) | {"claimed_by": "a\nb"}),
        400,
        "invalid_request",
        "claimed_by",
    )


def test_executions_are_found_by_any_name_of_their_creator(shared: FlaskClient, created_by_many: str) -> None:
    project = created_by_many
    everybody = ["by-ann", "by-nobody", "by-otto"]
    assert listed(shared, project, created_by="otto") == ["by-otto"]
    assert listed(shared, project, created_by="anonymous (says otto)") == ["by-otto"]
    assert listed(shared, project, created_by="anonymous") == everybody
    assert listed(shared, project, filters="ne(created_by,anonymous (says otto))") == ["by-ann", "by-nobody"]
    assert listed(shared, project, filters='eq(created_by,"ann (admin")') == ["by-ann"]
    assert listed(shared, project, filters="value_not_in(created_by,otto;nobody)") == ["by-ann", "by-nobody"]
    assert listed(shared, project, filters='contains(created_by,"(says")') == ["by-ann", "by-otto"]
    assert counted(shared, project, "creator") == {
        "anonymous": 1,
        "anonymous (says otto)": 1,
        "anonymous (says ann (admin)": 1,
    }


def test_who_ended_executions_is_selected_and_counted_as_it_is_shown(shared: FlaskClient, project: str) -> None:
    for name, body in (("a", {"claimed_by": "ada"}), ("b", {}), ("c", {"claimed_by": "ada"})):
        created(shared, name, project=project)
        ok(shared.delete(f"{API}/executions/{project}/development/{name}", json=body))
    created(shared, "d", project=project)
    assert counted(shared, project, "aborted-by") == {"anonymous (says ada)": 2, "anonymous": 1, "": 1}
    assert listed(shared, project, abort_principal="ada") == ["a", "c"]
    assert listed(shared, project, abort_principal="anonymous (says ada)") == ["a", "c"]
    assert listed(shared, project, abort_principal="anonymous") == ["a", "b", "c"]
    assert listed(shared, project, filters="ne(abort_principal,ada)") == ["b", "d"]


def test_executions_are_selected_by_the_scope_that_said_where_they_go(shared: FlaskClient, project: str) -> None:
    put_pool(shared, f"p-{project}", [f"c-{project}"])
    created(shared, "everywhere", project=project)
    put_attribute(
        shared, "project-domain", "cluster_assignment", {"cluster_pool_name": f"p-{project}"}, project=project
    )
    created(shared, "by-setting", project=project)
    created(shared, "by-request", project=project, **pool(f"p-{project}"))
    scope = f"project-domain {project}/development"
    assert counted(shared, project, "origin-scope") == {"everywhere": 1, scope: 1, "request": 1}
    assert counted(shared, project, "origin_scope", phase="RUNNING") == {}
    for word in (scope, f"{project}/development"):
        assert listed(shared, project, origin_scope=word) == ["by-setting"]
    assert listed(shared, project, filters=f"value_in(origin-scope,{project}/development;request)") == [
        "by-request",
        "by-setting",
    ]
    assert listed(shared, project, filters="ne(origin_scope,request)", **{"sort_by.key": "updated_at"}) == [
        "by-setting",
        "everywhere",
    ]
    assert counted(shared, project, "pool", origin_scope="request") == {f"p-{project}": 1}
    assert counted(shared, project, "origin", origin_scope="request") == {"request": 1}
    answer = refused(shared.get(f"{API}/executions?origin_scope=a/b/c/d/e"), 400, "invalid_request", "origin_scope")
    assert "PROJECT/DOMAIN" in answer["message"]


def test_executions_are_selected_by_the_scope_whose_limit_ended_them(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    put_attribute(shared, "project", "task_resource_attributes", {"defaults": {"memory": "64Mi"}}, project=project)
    job = {"command": ["true"], "resources": {"limits": {"memory": "1Gi"}}}
    for name, spec, phase, reason in (
        ("swells", {}, "FAILED", "OUT_OF_MEMORY"),
        ("asked-for-it", {"job": job}, "FAILED", "OUT_OF_MEMORY"),
        ("lasts", {}, "TIMED_OUT", "TIME_LIMIT"),
        ("exits", {}, "FAILED", "FAILED"),
    ):
        add(agent, name, **spec)
        agent.finish(agent.start(), phase, reason=reason)
    assert counted(shared, project, "limit-scope") == {"job": 2, f"project {project}": 1, "": 1}
    assert listed(shared, project, limit_scope=project) == ["swells"]
    assert listed(shared, project, limit_scope="job") == ["asked-for-it", "lasts"]
    executions = get(shared, f"executions/{project}/{DOMAIN}")["executions"]
    assert {execution["id"]["name"]: execution.get("limit_scope") for execution in executions} == {
        "swells": f"project {project}",
        "asked-for-it": "job",
        "lasts": "job",
        "exits": None,
    }
    assert get(shared, f"executions/{project}/{DOMAIN}/swells")["limit_scope"] == f"project {project}"
    assert listed(shared, project, filters="value_not_in(limit_scope,job;)") == ["swells"]
    assert counted(shared, project, "reason", limit_scope="job") == {"OUT_OF_MEMORY": 1, "TIME_LIMIT": 1}


def test_the_scope_of_a_limit_is_that_of_the_setting_for_a_workflow_that_sets_none(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    put_attribute(shared, "project", "task_resource_attributes", {"defaults": {"memory": "64Mi"}}, project=project)
    sized = {"command": ["true"], "resources": {"limits": {"memory": "64Mi"}}}
    ok(register_workflow(shared, "plain", project=project))
    ok(register_workflow(shared, "sized", project=project, job=sized))
    for workflow in ("plain", "sized"):
        ok(register_plan(shared, f"{workflow}-plan", workflow, project=project))
        add(agent, workflow, launch_plan={"name": f"{workflow}-plan"})
        agent.finish(agent.start(), "FAILED", reason="OUT_OF_MEMORY")
    assert listed(shared, project, limit_scope=project) == ["plain"]
    assert listed(shared, project, limit_scope="job") == ["sized"]
    messages = {
        name: get(shared, f"executions/{project}/{DOMAIN}/{name}?with_status=true")["status"]["message"]
        for name in ("plain", "sized")
    }
    assert f"Its limit 64Mi is the default set at project {project}" in messages["plain"]
    registered = r"Its limit 64Mi is set by workflow 'sized', version v1 \(registered by anonymous, \d+ s ago\)\."
    assert re.search(registered, messages["sized"])


def test_executions_are_selected_by_the_nodes_that_they_ran_on(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    for name, nodes in (("wide", ["n-1", "n-2"]), ("small", ["n-12"])):
        add(agent, name)
        agent.finish(agent.start(), nodes=nodes)
    add(agent, "waits")
    assert listed(shared, project, node="n-1") == ["wide"]
    assert listed(shared, project, node="n-2,n-12") == ["small", "wide"]
    assert listed(shared, project, filters="ne(node,n-1)") == ["small", "waits"]
    assert listed(shared, project, filters="value_not_in(nodes,n-1;)") == ["small"]
    assert listed(shared, project, filters="eq(node,)") == ["waits"]
    assert listed(shared, project, filters="contains(node,-1)") == ["small", "wide"]
    assert listed(shared, project, filters="gt(node,n-12)", **{"sort_by.key": "updated_at"}) == ["wide"]
    assert counted(shared, project, "phase", node="n-2") == {"SUCCEEDED": 1}


def test_executions_are_selected_by_the_revision_of_their_settings_and_the_time_of_their_last_decision(
    shared: FlaskClient, shared_context: Context, clock: Clock, project: str
) -> None:
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    add(agent, "before")
    decided_at = shared_context.clock()
    clock.advance(60)
    answer = put_attribute(
        shared, "project", "task_resource_attributes", {"defaults": {"memory": "64Mi"}}, project=project
    )
    revision = str(answer["revision"])
    add(agent, "after")
    assert listed(shared, project, revision=revision) == ["after"]
    assert listed(shared, project, filters=f"gte(revision,{revision})") == ["after"]
    assert listed(shared, project, filters=f"lt(decision_revision,{revision})") == ["before"]
    assert listed(shared, project, filters=f"gt(decided_at,{decided_at.isoformat()})") == ["after"]
    assert listed(shared, project, filters=f"lte(decided_at,{decided_at.isoformat()})") == ["before"]
    assert counted(shared, project, "phase", filters="gt(decided_at,1h)") == {"QUEUED": 2}
    refused(shared.get(f"{API}/executions?revision=last"), 400, "invalid_request", "filters")


def test_executions_are_selected_by_native_id_exit_code_and_decisions(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    for name, code in (("a", 0), ("b", 3), ("c", 137)):
        add(agent, name)
        agent.finish(agent.start(), "FAILED" if code else "SUCCEEDED", native_id=f"job-{name}", exit_code=code)
    add(agent, "waits")
    assert listed(shared, project, native_id="job-b") == ["b"]
    assert listed(shared, project, exit_code="3,137") == ["b", "c"]
    assert listed(shared, project, filters="gt(exit_code,3)") == ["c"]
    assert listed(shared, project, filters="gt(decisions,1)") == []
    assert counted(shared, project, "exit-code") == {"0": 1, "3": 1, "137": 1, "": 1}
    assert counted(shared, project, "launch-plan", exit_code="3") == {"": 1}


def test_while_the_next_attempt_waits_executions_are_selected_by_the_native_id_node_and_exit_code_of_the_one_before(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    for name, end in (("again", {"exit_code": 4, "native_id": "job-1", "nodes": ["n-1"]}), ("plain", {})):
        add(agent, name, retry={"attempts": 2, "backoff": "600s"})
        agent.finish(agent.start(), "FAILED", **end)
    add(agent, "waits")
    assert listed(shared, project, native_id="job-1") == ["again"]
    assert listed(shared, project, node="n-1") == ["again"]
    assert listed(shared, project, exit_code="4") == ["again"]
    assert listed(shared, project, filters="ne(node,n-1)") == listed(shared, project, filters="eq(node,)")
    assert listed(shared, project, filters="eq(node,)") == listed(shared, project, native_id="") == ["plain", "waits"]
    assert listed(shared, project, filters="gt(exit_code,3)", **{"sort_by.key": "updated_at"}) == ["again"]
    assert counted(shared, project, "exit-code") == {"4": 1, "": 2}
    [shown] = get(shared, f"executions?project={project}&native_id=job-1")["executions"]
    assert (shown["native_id"], shown["nodes"], shown["exit_code"]) == ("job-1", ["n-1"], 4)


def test_executions_are_selected_and_sorted_by_what_they_request(shared: FlaskClient, project: str) -> None:
    limits = {"limits": {"cpu": "8", "memory": "64Gi", "gpu": "16"}}
    put_attribute(shared, "project", "task_resource_attributes", limits, project=project)
    requests = {
        "small": {"cpu": "250m", "memory": "1536Mi"},
        "large": {"cpu": "4", "memory": "32Gi", "gpu": "1"},
        "middle": {"cpu": "1.5", "memory": "4G", "gpu": "2"},
    }
    for name, requested in requests.items():
        tasks = 2 if name == "large" else 1
        job = {"command": ["true"], "resources": {"tasks": tasks, "requests": requested}}
        created(shared, name, project=project, job=job)
    assert listed(shared, project, filters="gt(memory,32Gi)") == ["large"]
    assert listed(shared, project, filters="lte(memory,4000M)+gt(memory,1.5Gi)") == ["middle"]
    assert listed(shared, project, cpu="250m,8") == ["large", "small"]
    assert listed(shared, project, filters="gte(cpu,1500m)") == ["large", "middle"]
    assert listed(shared, project, filters="ne(memory,64Gi)+lt(cpu,1)") == ["small"]
    path = f"executions?project={project}&limit=1&sort_by.key"
    for key, expected in (
        ("cpu", ["large", "middle", "small"]),
        ("memory", ["large", "middle", "small"]),
        ("gpu", ["middle", "large", "small"]),  # of as many, the newest first
    ):
        in_order, token = list[str](), ""
        while len(in_order) < len(expected):
            answer = get(shared, f"{path}={key}{token}")
            in_order += [row["id"]["name"] for row in answer["executions"]]
            token = f"&token={answer.get('token')}"
        assert in_order == expected
    rows = {row["id"]["name"]: row for row in get(shared, f"executions?project={project}")["executions"]}
    shown = {name: (row["cpu"], row["memory"], row.get("gpu")) for name, row in rows.items()}
    assert shown == {"small": ("250m", "1536Mi", None), "large": ("8", "64Gi", 2), "middle": ("1500m", "4G", 2)}
    for wrong in ("gt(memory,32GB)", "gt(cpu,-1)", "contains(memory,Gi)"):
        assert "quantity" in refused(shared.get(f"{API}/executions?filters={wrong}"), 400, "invalid_request")["message"]


def test_executions_are_selected_by_their_policy_time_limit_and_gpus(shared: FlaskClient, project: str) -> None:
    put_attribute(shared, "project", "task_resource_attributes", {"limits": {"gpu": "16"}}, project=project)
    resources: dict[str, Any] = {"duration": "90m", "tasks": 2, "requests": {"gpu": "2"}}
    runs: dict[str, dict[str, Any]] = {
        "plain": {},
        "fails": {"retry": {"on_lost": "fail"}, "job": {"command": ["true"], "resources": {"duration": "1h"}}},
        "again": {"retry": {"on_lost": "retry"}, "job": {"command": ["true"], "resources": resources}},
    }
    for name, spec in runs.items():
        created(shared, name, project=project, **spec)
    assert listed(shared, project, on_lost="wait") == ["plain"]
    assert listed(shared, project, on_lost="fail,retry") == ["again", "fails"]
    assert listed(shared, project, filters="ne(on_lost,wait)+gt(time_limit,1h)") == ["again"]
    assert listed(shared, project, filters="lte(time_limit,90m)") == ["again", "fails"]
    assert listed(shared, project, time_limit="60m") == ["fails"]
    assert listed(shared, project, time_limit="none") == ["plain"]
    assert listed(shared, project, filters="ne(time_limit,none)") == ["again", "fails"]
    assert listed(shared, project, gpu="4") == listed(shared, project, filters="gt(gpu,0)") == ["again"]
    assert listed(shared, project, gpu="0") == ["fails", "plain"]
    assert counted(shared, project, "phase", time_limit="1h") == {"QUEUED": 1}
    rows = {row["id"]["name"]: row for row in get(shared, f"executions?project={project}")["executions"]}
    terms = ("on_lost", "time_limit_seconds", "gpu")
    assert {name: tuple(row.get(key) for key in terms) for name, row in rows.items()} == {
        "plain": ("wait", None, None),
        "fails": ("fail", 3600.0, None),
        "again": ("retry", 5400.0, 4),
    }
    for name, row in rows.items():
        single = execution(shared, name, project)
        assert [single.get(key) for key in terms] == [row.get(key) for key in terms]
    problem = refused(shared.get(f"{API}/executions?on_lost=waits"), 400, "invalid_request", "on_lost")
    assert "Did you mean 'wait'?" in problem["message"]


def test_executions_are_sorted_by_the_time_of_their_next_attempt(
    shared: FlaskClient, shared_context: Context, clock: Clock, project: str
) -> None:
    agent: PlayedAgent = played_agent(shared, shared_context, f"c-{project}", project=project)
    for name, backoff in (("runs", "1s"), ("soon", "60s"), ("late", "300s")):
        add(agent, name, retry={"attempts": 2, "backoff": backoff})
        agent.finish(agent.start(), "FAILED", exit_code=1)
    clock.advance(2)
    agent.start()
    for direction, order in (("ASCENDING", ["soon", "late", "runs"]), ("DESCENDING", ["late", "soon", "runs"])):
        query = f"executions?project={project}&sort_by.key=not_before&sort_by.direction={direction}&limit=2"
        pages = [get(shared, query)]
        pages.append(get(shared, f"{query}&token={quote(pages[0]['token'])}"))
        assert [name for page in pages for name in names(page["executions"])] == order
    soon = execution(shared, "soon", project)["not_before"]
    assert listed(shared, project, filters=f"lte(next_attempt,{soon})") == ["soon"]
    assert listed(shared, project, filters="lt(not_before,+2m)") == ["soon"]
    assert sorted(listed(shared, project, filters="lt(not_before,+10m)")) == ["late", "soon"]
    assert listed(shared, project, filters="lt(not_before,-2m)") == []
    refused(
        shared.get(f"{API}/executions?project={project}&filters=lt(not_before,2m)"), 400, "invalid_request", "filters"
    )


def test_executions_are_counted_by_the_day_of_their_creation(shared: FlaskClient, clock: Clock, project: str) -> None:
    today = clock().date()
    for name in ("a", "b"):
        created(shared, name, project=project)
    clock.advance(24 * 3600)
    created(shared, "c", project=project)
    tomorrow = (today + timedelta(days=1)).isoformat()
    assert list(counted(shared, project, "day").items()) == [(tomorrow, 1), (today.isoformat(), 2)]


def test_executions_are_counted_by_the_days_of_their_start_and_end(
    shared: FlaskClient, shared_context: Context, clock: Clock, project: str
) -> None:
    first, second = clock().date().isoformat(), (clock().date() + timedelta(days=1)).isoformat()
    agent: PlayedAgent = played_agent(shared, shared_context, f"c-{project}", project=project)
    for name in ("ends", "runs", "waits"):
        add(agent, name)
    agent.start()
    clock.advance(24 * 3600)
    agent.finish(agent.start(), "SUCCEEDED")
    answer = get(shared, f"execution_counts?project={project}&by=day,day-started,day_finished")
    assert {tuple(group["values"]): group["count"] for group in answer["counts"]} == {
        (first, first, ""): 1,
        (first, second, second): 1,
        (first, "", ""): 1,
    }
    assert counted(shared, project, "day_finished") == {second: 1, "": 2}
    four = f"{API}/execution_counts?by=day,day_started,day_finished,phase"
    refused(shared.get(four), 400, "invalid_request", "by")


def test_what_runs_is_sorted_by_its_start(
    shared: FlaskClient, shared_context: Context, clock: Clock, project: str
) -> None:
    agent: PlayedAgent = played_agent(shared, shared_context, f"c-{project}", project=project)
    for name in ("first", "second", "third"):
        add(agent, name)
        agent.start()
        clock.advance(5)
    add(agent, "waits")
    query = f"executions?project={project}&sort_by.key=started_at&limit=2"
    pages = [get(shared, query)]
    pages.append(get(shared, f"{query}&token={quote(pages[0]['token'])}"))
    assert [names(page["executions"]) for page in pages] == [["third", "second"], ["first", "waits"]]


def test_executions_are_counted_by_a_label(shared: FlaskClient, project: str) -> None:
    for name, labels in (("a", {"team": "ml"}), ("b", {"team": "ml"}), ("c", {"team": "search"}), ("d", {})):
        created(shared, name, project=project, job={"command": ["true"], "labels": labels})
    assert counted(shared, project, "labels.team") == {"ml": 2, "search": 1, "": 1}
    refused(shared.get(f"{API}/execution_counts?by=labels.-"), 400, "invalid_request", "by")


def test_what_still_runs_has_run_until_now(
    shared: FlaskClient, shared_context: Context, clock: Clock, project: str
) -> None:
    agent: PlayedAgent = played_agent(shared, shared_context, f"c-{project}", project=project)
    add(agent, "ended")
    held = agent.start()
    clock.advance(10)
    agent.finish(held)
    add(agent, "runs")
    agent.start()
    add(agent, "waits")
    clock.advance(20)
    assert listed(shared, project, filters="gt(duration,5)") == ["ended", "runs"]
    assert listed(shared, project, filters="gte(duration,20s)") == ["runs"]
    assert listed(shared, project, filters="lt(duration,15)") == ["ended"]
    assert listed(shared, project, filters="gt(duration,1h)") == []
    assert listed(shared, project, filters="lt(duration,100y)") == ["ended", "runs"]
    assert counted(shared, project, "phase", filters="gt(duration,5)") == {"SUCCEEDED": 1, "RUNNING": 1}


@pytest.mark.parametrize("direction", ["ASCENDING", "DESCENDING"])
def test_what_still_runs_is_sorted_by_its_time_until_the_first_page(
    shared: FlaskClient, shared_context: Context, clock: Clock, project: str, direction: str
) -> None:
    agent: PlayedAgent = played_agent(shared, shared_context, f"c-{project}", project=project)
    add(agent, "long")
    held = agent.start()
    clock.advance(30)
    agent.finish(held)
    for name in ("first", "second"):
        add(agent, name)
        agent.start()
        clock.advance(0.000001)
    clock.advance(20)
    add(agent, "third")
    agent.start()
    clock.advance(1)
    add(agent, "waits")
    query = f"executions?project={project}&sort_by.key=duration&sort_by.direction={direction}&limit=1"
    order: list[str] = []
    page = get(shared, query)
    while True:
        order += names(page["executions"])
        clock.advance(15)  # by now what runs has taken longer than what ended
        if "token" not in page:
            break
        page = get(shared, f"{query}&token={quote(page['token'])}")
    expected = ["long", "first", "second", "third", "waits"]
    assert order == (expected if direction == "DESCENDING" else expected[::-1])
    newest = names(get(shared, query.replace("limit=1", "limit=9"))["executions"])
    expected = ["first", "second", "third", "long", "waits"]
    assert newest == (expected if direction == "DESCENDING" else expected[::-1])
    token = base64.urlsafe_b64encode(json.dumps([f"duration {direction}", "1.0", "1", "noon"]).encode()).decode()
    refused(shared.get(f"{API}/{query}&token={token}"), 400, "invalid_request", "token")


def unknown(api: FlaskClient, path: str) -> list[tuple[str, str, list[str]]]:
    answer = get(api, path)
    assert all(name["message"].startswith("No") for name in answer.get("unknown_names", []))
    return [(name["field"], name["value"], name["closest"]) for name in answer.get("unknown_names", [])]


def test_an_empty_list_says_which_names_nothing_has(shared: FlaskClient, project: str) -> None:
    put_pool(shared, f"gpu-{project}", [f"c-{project}"])
    ok(register_workflow(shared, f"train-{project}", project=project))
    creator(shared, "e", project, f"otto-{project}")
    created(shared, "ended", project=project)
    ok(shared.delete(f"{API}/executions/{project}/{DOMAIN}/ended", json={"claimed_by": f"ada-{project}"}))
    path = f"executions?project={project}"
    for query, expected in (
        (f"pool=gup-{project}", [("pool", f"gup-{project}", f"gpu-{project}")]),
        (f"filters=eq(cluster,x-{project})", [("cluster", f"x-{project}", f"c-{project}")]),
        (f"workflow=trian-{project}", [("workflow", f"trian-{project}", f"train-{project}")]),
        (f"created_by=oto-{project}", [("created_by", f"oto-{project}", f"otto-{project}")]),
        (f"filters=eq(abort_principal,ad-{project})", [("abort_principal", f"ad-{project}", f"ada-{project}")]),
        ("reason=OUT_OF_MEMRY", [("reason", "OUT_OF_MEMRY", "OUT_OF_MEMORY")]),
        ("reason=OUT_OF_MEMORY", []),
        ("origin_scope=requst", []),
        (f"pool=gpu-{project}", []),
        ("filters=ne(pool,gup)%2Beq(phase,RUNNING)", []),
        ("phase=RUNNING", []),
    ):
        unknown_names = unknown(shared, f"{path}&{query}")
        if query.startswith("origin_scope"):
            assert [name[:2] for name in unknown_names] == [("origin_scope", "project requst")]
            continue
        assert [(field, value) for field, value, _ in unknown_names] == [(field, value) for field, value, _ in expected]
        for (_, _, near), (_, _, closest) in zip(unknown_names, expected, strict=True):
            assert closest in near, (query, near)
        assert unknown(shared, f"execution_counts?by=phase&project={project}&{query}") == unknown_names
    message = get(shared, f"{path}&pool=gup-{project}")["unknown_names"][0]["message"]
    assert message == f"No pool is called 'gup-{project}'. Did you mean 'gpu-{project}'?"


def test_the_nearest_name_of_an_execution_is_told_for_short_names_too(shared: FlaskClient, project: str) -> None:
    created(shared, "e-1", project=project)
    answer = refused(shared.get(f"{API}/executions/{project}/{DOMAIN}/e-2"), 404, "execution_not_found")
    assert "Did you mean 'e-1'?" in answer["message"]


def test_an_agent_is_told_no_names_that_it_may_not_read(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    put_pool(shared, f"gpu-{project}", [f"c-{project}"])
    agent = played_agent(shared, shared_context, f"c-{project}", project=project)
    headers = {"Authorization": f"Bearer {agent.token}"}
    for path in ("executions?", "execution_counts?by=phase&"):
        answer = ok(shared.get(f"{API}/{path}project={project}&pool=gup-{project}", headers=headers))
        assert "unknown_names" not in answer


@pytest.mark.parametrize("since", ["100y", "2w", "7d", "1y6h"])
def test_long_windows_are_taken_everywhere(shared: FlaskClient, project: str, since: str) -> None:
    created(shared, "e", project=project)
    assert listed(shared, project, created_after=since) == ["e"]
    assert listed(shared, project, filters=f"gt(created_at,{since})") == ["e"]
    assert counted(shared, project, "phase", created_after=since) == {"QUEUED": 1}
    assert get(shared, f"placement_counts?by=phase&since={since}&project={project}")["total"] == 1
    for path in ("revisions?", "timeline?"):
        assert get(shared, f"{path}after={since}&project={project}")


def test_what_is_no_time_is_refused_with_what_is(shared: FlaskClient) -> None:
    for query, field in (
        ("executions?created_after=99999y", "created_after"),
        ("executions?filters=gt(created_at,99999y)", "filters"),
        ("revisions?after=soon", "after"),
        ("executions?filters=" + "%2B".join(["eq(phase,QUEUED)"] * 60), "filters"),
    ):
        refused(shared.get(f"{API}/{query}"), 400, "invalid_request", field)


def test_executions_are_selected_by_the_cluster_that_their_request_names(shared: FlaskClient, project: str) -> None:
    there, other = f"oak-{project}", f"elm-{project}"
    for cluster in (there, other):
        put_cluster(shared, cluster)
    put_pool(shared, f"oaks-{project}", [there])
    switch(shared, there, "cordon")
    created(shared, "named", project=project, cluster=there)
    switch(shared, there, "uncordon")
    created(shared, "there", project=project, cluster=there)
    created(shared, "pooled", project=project, **pool(f"oaks-{project}"))
    created(shared, "other", project=project, cluster=other)
    assert listed(shared, project, requested_cluster=there) == ["named", "there"]
    assert listed(shared, project, cluster=there) == ["pooled", "there"]
    assert listed(shared, project, filters=f"eq(requested_cluster,{there})+eq(cluster,)") == ["named"]
    assert listed(shared, project, filters="eq(requested_cluster,)") == ["pooled"]
    assert listed(shared, project, filters=f"ne(requested_cluster,{there})") == ["other", "pooled"]
    [unknown] = get(shared, f"executions?project={project}&requested_cluster=ok-{project}")["unknown_names"]
    assert (unknown["field"], there in unknown["closest"]) == ("requested_cluster", True)
    assert unknown["message"].startswith(f"No cluster is called 'ok-{project}'.")
