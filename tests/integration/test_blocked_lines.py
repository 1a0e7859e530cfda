"""What waits holds up nothing else: hundreds at a cluster, and those whose agents ask no more; on both databases."""

from __future__ import annotations

from uuid import uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select

from admin.services import execution_tokens
from admin.services.context import Context
from admin.store.execution_tables import executions
from tests.support.agents import Clock, PlayedAgent, add, phase, played_agent
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, created, get, new_project, ok, put_attribute
from tests.support.waiting import wait_until

SECTIONS = {"agents": {"leaseSeconds": 60}}
#: More than are looked at together.
BLOCKED = 510


@pytest.fixture
def context(shared_app: Flask, clock: Clock) -> Context:
    return context_of(shared_app)


@pytest.fixture
def agent(shared: FlaskClient, context: Context, project: str) -> PlayedAgent:
    return played_agent(shared, context, f"a-{project}", project=project)


@pytest.fixture
def hive(agent: PlayedAgent) -> str:
    """A pool of the test's own, all of whose tokens are held."""
    name, pool = f"hive-{agent.project}", {"capacity": 100}
    ok(agent.client.put(f"{API}/token_pools/{name}", json={"token_pool": {"name": name, **pool}}))
    holding = {"token": name, "pools": {name: 100}, "lease_seconds": 86400}
    ok(agent.client.post(f"{API}/token_allocations", json={"claim": holding}))
    return name


def multiply(context: Context, project: str, name: str, number: int) -> None:
    """Have an execution that waits there so often more, each as it is but for its name."""
    with context.database.writing() as connection:
        query = select(executions).where(executions.c.project == project, executions.c.name == name)
        row = connection.execute(query).one()._mapping
        rows = [{**row, "name": f"{name}-{copy}", "uid": str(uuid4())} for copy in range(number)]
        connection.execute(executions.insert(), [{key: row[key] for key in row if key != "id"} for row in rows])


def waiting(agent: PlayedAgent, project: str, reason: str) -> int:
    counts = get(agent.client, f"execution_counts?project={project}&domain={DOMAIN}&by=reason")["counts"]
    return sum(entry["count"] for entry in counts if reason in str(entry))


def test_hundreds_of_one_kind_that_wait_for_tokens_hold_up_nothing_else(
    context: Context, agent: PlayedAgent, hive: str
) -> None:
    add(agent, "first", token_pools={hive: 1})
    multiply(context, agent.project, "first", BLOCKED)
    add(agent, "plain")
    add(agent, "urgent", quality_of_service={"tier": "HIGH"})
    assert agent.start(BLOCKED + 100) == ["urgent", "plain"]
    assert waiting(agent, agent.project, "WAITING_FOR_TOKENS") == BLOCKED + 1


def test_dozens_of_kinds_that_wait_for_tokens_hold_up_nothing_else(
    context: Context, agent: PlayedAgent, hive: str
) -> None:
    for amount in range(1, 53):
        add(agent, f"of-{amount}", token_pools={hive: amount})
        multiply(context, agent.project, f"of-{amount}", 9)
    other = f"free-{agent.project}"
    ok(agent.client.put(f"{API}/token_pools/{other}", json={"token_pool": {"name": other, "capacity": 1}}))
    add(agent, "free1", "free2", token_pools={other: 1})
    add(agent, "plain")
    assert agent.start(10) == ["free1", "plain"]
    assert phase(agent, "free2") == ("QUEUED", "WAITING_FOR_TOKENS")
    assert get(agent.client, f"token_pools/{other}")["used"] == 1


def test_what_waits_for_a_quota_holds_up_nothing_else(context: Context, agent: PlayedAgent) -> None:
    bounded = new_project(agent.client, f"b{agent.project}")
    put_attribute(agent.client, "project", "execution_quota", {"running": 1}, project=bounded)
    created(agent.client, "bounded", project=bounded, cluster=agent.cluster)
    multiply(context, bounded, "bounded", BLOCKED)
    add(agent, "plain")
    assert set(agent.offered(BLOCKED + 100)) == {"bounded", "plain"}
    assert waiting(agent, bounded, "QUOTA_FULL") == BLOCKED


def test_a_silent_agent_keeps_its_place_in_line_for_seconds(
    shared: FlaskClient, context: Context, agent: PlayedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_tokens, "_WAIT_SECONDS", 0.5)
    silent = played_agent(shared, context, f"s-{agent.project}", project=agent.project)
    pool = f"one-{agent.project}"
    ok(shared.put(f"{API}/token_pools/{pool}", json={"token_pool": {"name": pool, "capacity": 1}}))
    add(agent, "first", token_pools={pool: 1})
    assert agent.start(1) == ["first"]
    add(silent, "second", token_pools={pool: 1})
    assert silent.offered(1) == {}
    add(agent, "third", token_pools={pool: 1})
    agent.finish(["first"])
    assert agent.offered(1) == {}  # it is kept for the other cluster
    wait_until(lambda: agent.start(1) == ["third"])
