"""Quotas of executions that move to another cluster: nothing is counted twice or lost; on both databases."""

from __future__ import annotations

from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.redecisions import decide_undecided, decide_waiting
from tests.integration.test_execution_quotas import job, quota
from tests.support.agents import PlayedAgent, closure, played_agent
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    create,
    created,
    execution,
    get,
    ok,
    pool,
    put_pool,
    refused,
    switch,
)


def usage(api: FlaskClient) -> dict[str, str]:
    """What counts in each field of the quotas of the namespace."""
    return {use["field"]: use["used"] for use in get(api, f"quota_usage?project={PROJECT}&domain={DOMAIN}")["quotas"]}


def pooled_agents(api: FlaskClient, context: Context) -> dict[str, PlayedAgent]:
    agents = {cluster: played_agent(api, context, cluster) for cluster in ("east", "west")}
    put_pool(api, "both", list(agents))
    return agents


def test_what_waits_counts_once_wherever_it_is_moved(api: FlaskClient, context: Context) -> None:
    agents = pooled_agents(api, context)
    quota(api, "project-domain", waiting=2, running=1, cpu="2")
    for name in ("a", "b"):
        created(api, name, **pool("both"), job=job("1"))
    for gone, left in (("east", "west"), ("west", "east")):
        switch(api, gone, "cordon")
        decide_waiting(context)
        assert {execution(api, name)["cluster"] for name in ("a", "b")} == {left}
        assert usage(api) == {"running": "0", "waiting": "2", "cpu": "0"}
        refused(create(api, "c", **pool("both")), 429, "quota_exceeded", "waiting")
        switch(api, gone, "uncordon")
    # Both are at east now; one runs, the other is full, moves, and waits there for the same room.
    assert agents["east"].start(2) == ["a"]
    assert closure(api, "b") == ("QUEUED", "QUOTA_FULL")
    assert usage(api) == {"running": "1", "waiting": "1", "cpu": "1"}
    switch(api, "east", "cordon")
    decide_waiting(context)
    assert (execution(api, "a")["cluster"], execution(api, "b")["cluster"]) == ("east", "west")
    assert agents["west"].offered() == {}
    assert usage(api) == {"running": "1", "waiting": "1", "cpu": "1"}
    agents["east"].finish(["a"])
    assert agents["west"].start() == ["b"]
    assert usage(api) == {"running": "1", "waiting": "0", "cpu": "1"}
    agents["west"].finish(["b"])
    assert usage(api) == {"running": "0", "waiting": "0", "cpu": "0"}


def test_what_is_declined_counts_at_its_next_cluster_alone(api: FlaskClient, context: Context) -> None:
    agents = pooled_agents(api, context)
    quota(api, "project", running=1, waiting=1)
    first = created(api, "a", **pool("both"))["cluster"]
    other = "west" if first == "east" else "east"
    agents[first].take()
    assert usage(api) == {"running": "1", "waiting": "0"}
    assert agents[first].report("a", "DECLINED", reason="NO_LICENCE", message="no licence left") is None
    assert usage(api) == {"running": "0", "waiting": "1"}
    decide_undecided(context)
    assert execution(api, "a")["cluster"] == other
    assert usage(api) == {"running": "0", "waiting": "1"}
    assert agents[other].start() == ["a"]
    assert usage(api) == {"running": "1", "waiting": "0"}
    ok(api.post(f"{API}/executions/redecide", json={"selector": {"project": PROJECT}}))
    assert (execution(api, "a")["cluster"], usage(api)) == (other, {"running": "1", "waiting": "0"})
