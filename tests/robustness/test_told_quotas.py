"""What callers are told of quotas and token pools that others fill, in projects that they may not know of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.settings.scopes import Scope
from tests.integration.test_execution_quotas import quota
from tests.robustness.test_told_names import made_user
from tests.support.agents import PlayedAgent, add, closure, played_agent
from tests.support.apps import context_of
from tests.support.people import Person
from tests.support.placing import (
    API,
    DOMAIN,
    JOB,
    PROJECT,
    asked,
    created,
    new_project,
    ok,
    put_attribute,
    register_plan,
    register_workflow,
)

#: Names of another project that are in no word of an answer.
HIDDEN, HIDDEN_RUN, HIDDEN_TOKEN, HIDDEN_FLOW, HIDDEN_PLAN = "kumquat", "tamarind", "rambutan", "durian", "persimmon"
SECRETS = (HIDDEN, HIDDEN_RUN, HIDDEN_TOKEN, HIDDEN_FLOW, HIDDEN_PLAN)
RUN = f"executions/{PROJECT}/{DOMAIN}/mine"


@pytest.fixture
def root(app: Flask) -> FlaskClient:
    """Who may do everything, as long as there are no users."""
    api = app.test_client()
    new_project(api, HIDDEN)
    return api


@pytest.fixture
def agent(app: Flask, root: FlaskClient) -> PlayedAgent:
    return played_agent(root, context_of(app), "east")


def caller_of(app: Flask, role: str = "editor") -> Person:
    made_user(app, "root", "admin", Scope())
    return made_user(app, "ada", role, Scope(project=PROJECT))


def told(caller: Person, method: str, path: str, status: int = 200, body: Any = None) -> Any:
    """An answer, which has no hidden name."""
    answer = caller.call(method, path, body)
    text = answer.get_data(as_text=True)
    assert answer.status_code == status, text
    assert [word for word in SECRETS if word in text] == [], path
    return json.loads(text)


def is_as_unknown(caller: Person, method: str, path: str, **body: Any) -> bool:
    """Whether the hidden project is answered as one that there is not; `{}` in the path stands for its name."""
    answers = []
    for project in (HIDDEN, "nowhere"):
        named = {key: {**part, "project": project} for key, part in body.items()}
        answer = caller.call(method, path.format(project), named or None)
        document = {key: value for key, value in answer.get_json().items() if key != "request_id"}
        answers.append((answer.status_code, json.dumps(document).replace(project, "")))
    return answers[0] == answers[1] and answers[0][0] >= 400


def run_hidden(agent: PlayedAgent, **spec: Any) -> None:
    created(agent.client, HIDDEN_RUN, project=HIDDEN, cluster=agent.cluster, **spec)
    agent.project = HIDDEN
    assert agent.start() == [HIDDEN_RUN]
    agent.project = PROJECT


def test_a_quota_that_another_project_fills(app: Flask, root: FlaskClient, agent: PlayedAgent) -> None:
    quota(root, "domain", running=1, waiting=1)
    put_attribute(root, "project", "execution_quota", {"running": 1}, project=HIDDEN)
    run_hidden(agent)
    add(agent, "mine")
    assert agent.offered() == {}
    assert closure(root, "mine") == ("QUEUED", "QUOTA_FULL")
    assert HIDDEN_RUN in ok(root.get(f"{API}/{RUN}/explanation"))["status"]["message"]
    caller = caller_of(app)
    refusal = told(caller, "POST", "executions", 429, asked("more", cluster="east"))
    assert refusal["details"][0]["level"] == "domain"
    message = told(caller, "GET", f"{RUN}/explanation")["status"]["message"]
    assert "1 of 1 executions run, by running of the execution-quota at domain" in message
    for path in (RUN, f"{RUN}?with_status=true", f"{RUN}/events", "executions", "execution_counts?by=reason"):
        told(caller, "GET", path)
    usage = told(caller, "GET", f"quota_usage?project={PROJECT}&domain={DOMAIN}")["quotas"]
    assert {use["level"] for use in usage} == {"domain"}
    assert [use["used_by"] for use in usage] == [[{"used": "1"}], [{"user": "anonymous", "used": "1"}]], "not by whom"
    for path in ("quota_usage?project={}", f"quota_usage?project={{}}&domain={DOMAIN}"):
        assert is_as_unknown(caller, "GET", path)
    told(caller, "POST", "placements", body=asked(None))


def test_a_token_pool_that_another_project_fills(app: Flask, root: FlaskClient, agent: PlayedAgent) -> None:
    ok(root.put(f"{API}/token_pools/hive", json={"token_pool": {"capacity": 3}}))
    put_attribute(root, "project", "token_pool_quota", {"pools": {"hive": 3}}, project=HIDDEN)
    needs: dict[str, Any] = {"token_pools": {"hive": 1}}
    ok(register_workflow(root, HIDDEN_FLOW, project=HIDDEN, job={**JOB, **needs}))
    flow = {"project": HIDDEN, "domain": DOMAIN, "name": HIDDEN_FLOW, "version": "v1"}
    ok(register_plan(root, HIDDEN_PLAN, HIDDEN_FLOW, project=HIDDEN, workflow_id=flow, **needs))
    run_hidden(agent, **needs)
    claim = {"pools": {"hive": 2}, "project": HIDDEN, "domain": DOMAIN, "execution": HIDDEN_RUN}
    granted = ok(root.post(f"{API}/token_allocations", json={"claim": {**claim, "token": HIDDEN_TOKEN}}))
    waiting = {**claim, "token": f"{HIDDEN_TOKEN}-2", "wait_seconds": 60}
    assert ok(root.post(f"{API}/token_allocations", json={"claim": waiting}))["status"] == "exhausted"
    add(agent, "mine", **needs)
    assert agent.offered() == {}
    caller = caller_of(app)
    shown = told(caller, "GET", "token_pools/hive")
    assert (shown["used"], len(shown["holders"])) == (3, 2)
    for entry in [*shown["holders"], *shown["waiters"]]:
        assert (
            not {"token", "number", "execution", "holder", "workflow"} & entry.keys() or entry.get("project") == PROJECT
        )
    status = told(caller, "GET", f"{RUN}/explanation")["status"]
    assert status["tokens"]
    mine = {"pools": {"hive": 1}, "project": PROJECT, "domain": DOMAIN, "token": "own"}
    assert told(caller, "POST", "token_allocations", body={"claim": mine})["status"] == "exhausted"
    for path in (RUN, f"{RUN}?with_status=true", f"{RUN}/events", "token_pools", "token_pools/hive/explanation"):
        told(caller, "GET", path)
    told(caller, "GET", f"token_pools/hive/explanation?project={PROJECT}&domain={DOMAIN}")
    assert is_as_unknown(caller, "GET", f"token_pools/hive/explanation?project={{}}&domain={DOMAIN}")
    release = {"token": HIDDEN_TOKEN, "pools": {"hive": 2}, "domain": DOMAIN, "number": granted["number"]}
    assert is_as_unknown(caller, "POST", "token_releases", release=release)
    assert is_as_unknown(caller, "POST", "token_allocations", claim={**mine, "token": "other"})
    assert told(caller, "GET", "token_pools/hive")["used"] == 3
    uses = told(caller, "GET", "uses?token_pool=hive&reach=true")
    assert (uses["uses"], uses["token_requests"]["requests"], uses["executions"]["phases"]) == ([], [], {"QUEUED": 1})
    assert (uses["known"], uses["partial"], uses["token_requests"]["refused"]) == (True, True, 0)


def test_names_of_token_pools_are_not_told_to_who_may_not_read_them(make_app: Any) -> None:
    permissions = ["attributes.read", "executions.read", "workflows.read", "projects.read"]
    app = make_app(roles={"local": {"permissions": permissions}})
    root = app.test_client()
    ok(root.put(f"{API}/token_pools/{HIDDEN}", json={"token_pool": {"capacity": 3}}))
    ok(root.delete(f"{API}/token_pools/{HIDDEN}"))
    ok(root.put(f"{API}/token_pools/{HIDDEN}s", json={"token_pool": {"capacity": 3}}))
    caller = caller_of(app, "local")
    answers = [caller.get(f"uses?token_pool={name}") for name in (HIDDEN, f"{HIDDEN}s", f"{HIDDEN}ss")]
    for answer in answers:
        assert (answer["known"], answer.get("closest"), "deleted_by" in answer) == (True, None, False)
