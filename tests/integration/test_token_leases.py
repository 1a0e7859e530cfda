"""Tokens of executions: granted with the lease, held as long, and given back however it ends; on every backend."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.executions.tokens import WAITING_FOR_TOKENS
from admin.services.context import Context
from admin.services.evictions import evict_from_lost, judge_health
from admin.services.execution_tokens import take_back_from_silent
from admin.services.queueing_budgets import end_overdue
from admin.services.redecisions import decide_waiting
from admin.store.token_backends.redis import TAG
from admin.store.token_backends.redis_client import RedisSettings, connect
from tests.support.agents import Clock, PlayedAgent, WatchedClock, add, phase, played_agent, shown, types
from tests.support.apps import context_of, opened_app
from tests.support.placing import (
    API,
    DOMAIN,
    create,
    created,
    explanation,
    get,
    new_project,
    ok,
    put_attribute,
    put_label,
    refused,
    register_plan,
    register_workflow,
    switch,
)
from tests.support.statements import statements
from tests.support.token_backends import open_redis
from tests.support.waiting import wait_until

DATABASES = ("sqlite", "postgresql", "redis")
SECTIONS: dict[str, dict[str, Any]] = {
    "agents": {"leaseSeconds": 60},
    "resourcemanager": {"taskTypes": {"hive": {"by-type": 1}}},
}
Play = Callable[..., PlayedAgent]


@pytest.fixture(scope="module")
def shared_app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """One admin for all tests, which keeps grants in either database, or in Redis."""
    manager: dict[str, Any] = dict(SECTIONS["resourcemanager"])
    if request.param == "redis":
        address = request.getfixturevalue("redis").address
        open_redis(connect(RedisSettings(host_paths=(address,))), TAG)
        manager |= {"type": "redis", "redis": {"hostPaths": [address]}}
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_databases").set_up()
    else:
        url = request.getfixturevalue("sqlite_databases").set_up(tmp_path_factory.mktemp("shared"))
    with opened_app(url, agents=SECTIONS["agents"], resourcemanager=manager) as app:
        yield app


@pytest.fixture
def context(shared_app: Flask, clock: Clock) -> Context:
    return context_of(shared_app)


@pytest.fixture
def play(shared: FlaskClient, context: Context, project: str) -> Play:
    def make(word: str = "a", **more: Any) -> PlayedAgent:
        return played_agent(shared, context, f"{word}-{project}", **{"project": project, **more})

    return make


@pytest.fixture
def agent(play: Play) -> PlayedAgent:
    return play()


@pytest.fixture
def hive(shared: FlaskClient, project: str) -> str:
    """A pool of the test's own with one token."""
    return define(shared, f"hive-{project}", 1)


def define(api: FlaskClient, name: str, capacity: int, **caps: int) -> str:
    pool = {"name": name, "capacity": capacity, "caps": caps}
    ok(api.put(f"{API}/token_pools/{name}", json={"token_pool": pool}))
    return name


def usage(agent: PlayedAgent, pool: str) -> tuple[int, int]:
    """How many tokens are held, and how many wait."""
    usage = get(agent.client, f"token_pools/{pool}")
    return usage["used"], usage["waiting"]


def need(pool: str, amount: int = 1) -> dict[str, dict[str, int]]:
    return {"token_pools": {pool: amount}}


# Who gets tokens


def test_tokens_are_granted_with_the_lease_and_given_back_at_the_end(agent: PlayedAgent, hive: str) -> None:
    add(agent, "e", "f", **need(hive))
    assert usage(agent, hive) == (0, 0)  # nothing is held before an agent has room
    answer = agent.sync(want=5)
    [lease] = answer["leases"]
    assert lease["id"]["name"] == "e"
    number = lease["job"]["environment"]["RAINBOW_TOKEN_NUMBER"]
    [holder] = get(agent.client, f"token_pools/{hive}")["holders"]
    assert (holder["execution"], str(holder["number"])) == ("e", number)
    assert phase(agent, "f") == ("QUEUED", WAITING_FOR_TOKENS)
    agent.holding = {"e": 1}
    agent.sync(agent.event("e", "RUNNING"))
    agent.finish(["e"])
    assert usage(agent, hive)[0] == 0
    assert agent.start(5) == ["f"]
    assert phase(agent, "f") == ("RUNNING", "RUNNING")
    assert types(agent, "f") == ["CREATED", "WAITING", "TOKENS_GRANTED", "RUNNING"]
    events = get(agent.client, f"executions/{agent.project}/{DOMAIN}/f/events?limit=100")["events"]
    assert [event["reason"]["code"] for event in events if event["type"] == "TOKENS_GRANTED"] == ["TOKENS_GRANTED"]


def test_what_waits_for_tokens_blocks_nothing_else_at_its_cluster(agent: PlayedAgent, hive: str) -> None:
    add(agent, *(f"t{number}" for number in range(6)), **need(hive))
    add(agent, "plain1", "plain2")
    assert agent.start(3) == ["t0", "plain1", "plain2"]
    add(agent, "plain3")
    assert agent.start(1) == ["plain3"]
    counts = get(agent.client, f"execution_counts?project={agent.project}&domain={DOMAIN}&by=reason")["counts"]
    assert [entry["count"] for entry in counts if WAITING_FOR_TOKENS in str(entry)] == [5]


def test_an_agent_without_room_gets_no_tokens(agent: PlayedAgent, hive: str) -> None:
    add(agent, "e", **need(hive))
    agent.sync(want=0)
    assert usage(agent, hive) == (0, 0)
    assert phase(agent, "e") == ("QUEUED", "ASSIGNED")


def test_a_full_cluster_leaves_the_line(play: Play, hive: str) -> None:
    here, there = play("a"), play("b")
    add(here, "first", **need(hive))
    assert here.start(1) == ["first"]
    add(here, "second", **need(hive))
    here.offered(1)
    assert usage(here, hive) == (1, 1)
    add(here, "plain")
    assert here.start(1) == ["plain"]
    assert usage(here, hive) == (1, 1)  # its room went to another execution: it waits, and asks for nothing
    add(there, "elsewhere", **need(hive))
    here.finish(["first"])
    assert there.start(1) == ["elsewhere"]


@pytest.mark.parametrize("way", ["has no room", "cordoned", "sent elsewhere", "ended"])
def test_what_is_not_asked_for_any_more_leaves_the_line_at_once(
    play: Play, context: Context, project: str, way: str
) -> None:
    here, there, full = play("a"), play("b"), play("c")
    pool = define(here.client, f"left-{project}", 1)
    put_label(here.client, f"moves-{project}", [here.cluster])
    add(there, "first", **need(pool))
    assert there.start(1) == ["first"]
    created(here.client, "waits", project=project, execution_cluster_label={"value": f"moves-{project}"}, **need(pool))
    assert here.offered(1) == {}
    assert here.cluster in context.clusters_in_line
    add(there, "younger", **need(pool))
    if way == "has no room":
        here.sync(want=0)
    elif way == "cordoned":
        switch(here.client, here.cluster, "cordon")
        here.sync(want=1)
    elif way == "sent elsewhere":
        put_label(here.client, f"moves-{project}", [full.cluster])
        decide_waiting(context)
        assert shown(here, "waits")["cluster"] == full.cluster
    else:
        ok(here.client.delete(f"{API}/executions/{project}/{DOMAIN}/waits", json={"cause": "enough"}))
    there.finish(["first"])
    assert there.start(1) == ["younger"]
    there.finish(["younger"])


def test_a_sync_looks_for_a_line_to_leave_only_where_it_stood_in_one(
    agent: PlayedAgent, context: Context, hive: str
) -> None:
    with statements(context) as before:
        agent.sync(want=0)
    add(agent, "first", "second", **need(hive))
    assert agent.offered(1) == {"first": 1}
    assert agent.offered(2) == {"first": 1}
    agent.sync(want=0)
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/first", json={"cause": "enough"}))
    with statements(context) as after:
        agent.sync(want=0)
    assert not any(
        "execution_quota" in statement.lower() or "is_bounded" in statement for statement in [*before, *after]
    )


def test_the_line_goes_over_all_clusters_by_age(play: Play, hive: str) -> None:
    here, there = play("a"), play("b")
    add(here, "first", **need(hive))
    assert here.start(1) == ["first"]
    add(there, "second", **need(hive))
    assert there.offered(1) == {}
    add(here, "third", **need(hive))
    assert here.offered(1) == {}
    here.finish(["first"])
    assert here.offered(1) == {}  # it is kept for the one ahead
    assert there.start(1) == ["second"]
    there.finish(["second"])
    assert here.start(1) == ["third"]


def test_what_waits_for_a_quota_keeps_no_place_in_line(shared: FlaskClient, play: Play, project: str) -> None:
    pool = define(shared, f"left-{project}", 1)
    here, there = play("a"), play("b", project=new_project(shared, f"t{project}"))
    add(there, "first", **need(pool))
    assert there.start(1) == ["first"]
    add(here, "plain")
    add(here, "second", **need(pool))
    assert here.start(2) == ["plain"]
    put_attribute(shared, "project", "execution_quota", {"running": 1}, project=project)
    assert here.offered(1) == {}
    assert phase(here, "second") == ("QUEUED", "QUOTA_FULL")
    there.finish(["first"])
    add(there, "third", **need(pool))
    assert there.start(1) == ["third"]


def test_priority_goes_first_then_the_smallest_share_then_age(shared: FlaskClient, play: Play, project: str) -> None:
    pool = define(shared, f"shared-{project}", 2)
    agent = play()
    other = new_project(shared, f"o{project}")
    add(agent, "old1", "old2", "old3", **need(pool))
    for name, more in (("young", {}), ("urgent", {"quality_of_service": {"tier": "HIGH"}})):
        created(shared, name, project=other, cluster=agent.cluster, **more, **need(pool))
    assert list(agent.offered(3)) == ["urgent", "old1"]  # of the projects without the urgent one none has a share
    waiters = get(shared, f"token_pools/{pool}")["waiters"]
    assert [waiter["execution"] for waiter in waiters] == ["old2", "old3", "young"]  # each project has one token
    agent.holding = {"old1": 1}
    agent.finish(["old1"])
    assert list(agent.offered(3)) == ["urgent", "old2"]  # one is offered again, and the other's project has none


def test_what_needs_several_pools_gets_all_or_none(shared: FlaskClient, agent: PlayedAgent, hive: str) -> None:
    other = define(shared, f"licences-{agent.project}", 1)
    add(agent, "holder", **need(other))
    assert agent.start(1) == ["holder"]
    add(agent, "both", token_pools={hive: 1, other: 1})
    assert agent.offered(1) == {}
    assert usage(agent, hive)[0] == 0
    agent.finish(["holder"])
    assert agent.start(1) == ["both"]
    assert (usage(agent, hive), usage(agent, other)) == ((1, 0), (1, 0))


# How they are given back


@pytest.mark.parametrize("type", ["SUCCEEDED", "FAILED", "TIMED_OUT"])
def test_every_end_gives_tokens_back(agent: PlayedAgent, hive: str, type: str) -> None:
    add(agent, "e", **need(hive))
    agent.start()
    agent.finish(["e"], type)
    assert usage(agent, hive) == (0, 0)


def test_a_decline_gives_tokens_back(agent: PlayedAgent, hive: str) -> None:
    add(agent, "e", **need(hive))
    [name] = agent.offered(1)
    assert agent.report(name, "DECLINED", message="no gpu") is None
    assert usage(agent, hive) == (0, 0)


def test_what_backs_off_holds_none(agent: PlayedAgent, hive: str) -> None:
    add(agent, "e", retry={"attempts": 2, "backoff": "1h"}, **need(hive))
    add(agent, "f", **need(hive))
    agent.start()
    agent.finish(["e"], "FAILED")
    assert phase(agent, "e") == ("QUEUED", "RETRY")
    assert agent.start() == ["f"]
    assert usage(agent, hive) == (1, 0)


def test_what_is_aborted_holds_its_tokens_until_its_agent_has_ended_it(agent: PlayedAgent, hive: str) -> None:
    add(agent, "e", "f", **need(hive))
    agent.start(2)
    assert usage(agent, hive) == (1, 1)
    for name in ("f", "e"):
        ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/{name}", json={"cause": "enough"}))
    assert usage(agent, hive) == (1, 0)  # the one that waited has left the line
    assert phase(agent, "e")[0] == "ABORTING"
    agent.finish(["e"], "ABORTED")
    assert usage(agent, hive) == (0, 0)


def test_an_offer_that_never_arrived_is_made_again_with_the_same_grant(agent: PlayedAgent, hive: str) -> None:
    add(agent, "e", **need(hive))
    [first] = agent.sync(want=1)["leases"]
    [again] = agent.sync(want=1)["leases"]
    assert again["job"] == first["job"]
    assert agent.sync(want=0)["leases"] == []
    assert usage(agent, hive) == (0, 0)


def test_what_waited_too_long_leaves_the_line(agent: PlayedAgent, context: Context, clock: Clock, hive: str) -> None:
    add(agent, "holder", **need(hive))
    agent.start()
    budget = {"spec": {"queueing_budget": "10s"}}
    add(agent, "e", quality_of_service=budget, **need(hive))
    agent.offered(1)
    assert usage(agent, hive) == (1, 1)
    clock.advance(11)
    end_overdue(context)
    assert phase(agent, "e")[0] == "TIMED_OUT"
    assert usage(agent, hive) == (1, 0)


def test_leases_and_tokens_are_renewed_together(agent: PlayedAgent, clock: Clock, hive: str) -> None:
    add(agent, "e", "f", **need(hive))
    agent.start()
    for _ in range(4):
        clock.advance(30)
        agent.sync(want=1)
    [holder] = get(agent.client, f"token_pools/{hive}")["holders"]
    assert holder["execution"] == "e"
    assert phase(agent, "f") == ("QUEUED", WAITING_FOR_TOKENS)


# Lost clusters


def test_tokens_at_a_lost_cluster_come_back_with_an_event(make_app: Any) -> None:
    app = make_app(agents={"leaseSeconds": 60, "unreachableSeconds": 30, "lostSeconds": 90, "waitSeconds": 10})
    clock = WatchedClock(app)
    context = context_of(app)
    client = app.test_client()
    pool = define(client, "hive", 1)
    gone, here = played_agent(client, context, "gone"), played_agent(client, context, "here")
    add(gone, "e", **need(pool))
    gone.start()
    add(here, "f", **need(pool))
    assert here.offered(1) == {}
    clock.advance(100)
    judge_health(context)
    evict_from_lost(context, 100)
    assert "TOKENS_LOST" in types(gone, "e")
    events = get(client, f"executions/{gone.project}/{DOMAIN}/e/events?limit=100")["events"]
    [lost] = [event for event in events if event["type"] == "TOKENS_LOST"]
    back = "Its lease was over while 'gone' was silent, and 1 token of hive came back for others."
    assert lost["reason"]["message"] == f"{back} It may still be running."
    assert here.start(1) == ["f"]
    add(here, "g", **need(pool))
    assert here.offered(1) == {}
    gone.sync()  # it is heard again, and goes on without tokens
    assert phase(gone, "e")[0] == "RUNNING"
    assert usage(here, pool) == (1, 2)
    assert [waiter["execution"] for waiter in get(client, f"token_pools/{pool}")["waiters"]] == ["e", "g"]
    here.finish(["f"])
    assert here.offered(1) == {}  # what runs already is before what waits
    clock.advance(5)
    gone.sync()
    assert usage(here, pool) == (1, 1)  # it has them again
    gone.finish(["e"])
    assert here.start(1) == ["g"]
    here.finish(["g"])
    assert usage(here, pool) == (0, 0)


@pytest.mark.usefixtures("clock")
def test_a_run_is_told_as_soon_as_its_tokens_came_back_from_a_silent_cluster(
    shared_app: Flask, play: Play, hive: str
) -> None:
    clock = WatchedClock(shared_app)
    context = context_of(shared_app)
    gone, here = play("gone"), play("here")
    add(gone, "e", **need(hive))
    gone.start()
    add(here, "f", **need(hive))
    assert here.offered(1) == {}
    clock.advance(60)
    take_back_from_silent(context)
    assert "TOKENS_LOST" not in types(gone, "e")
    clock.advance(2)
    for _ in range(2):
        take_back_from_silent(context)
    assert here.start(1) == ["f"]
    gone.sync()  # it is not unreachable yet, and goes on without tokens
    events = get(gone.client, f"executions/{gone.project}/{DOMAIN}/e/events?limit=100")["events"]
    [lost] = [event for event in events if event["type"] == "TOKENS_LOST"]
    back = f"Its lease was over while '{gone.cluster}' was silent, and 1 token of {hive} came back for others."
    assert lost["reason"]["message"] == f"{back} It may still be running."
    assert phase(gone, "e")[0] == "RUNNING"
    assert usage(here, hive) == (1, 1)
    here.finish(["f"])
    clock.advance(5)
    gone.sync()
    assert types(gone, "e")[-2:] == ["TOKENS_LOST", "TOKENS_GRANTED"]
    gone.finish(["e"])
    assert usage(here, hive) == (0, 0)


def test_what_was_not_confirmed_in_time_starts_with_tokens_only(play: Play, clock: Clock, hive: str) -> None:
    gone, here = play("gone"), play("here")
    add(gone, "e", **need(hive))
    gone.holding = gone.offered(1)
    add(here, "f", **need(hive))
    clock.advance(62)
    answer = gone.sync()
    assert (answer["confirmed"], [lost["id"]["name"] for lost in answer["lost"]]) == ([], ["e"])
    assert here.start(1) == ["f"]
    gone.holding = {}
    assert gone.offered(1) == {}
    assert "TOKENS_LOST" not in types(gone, "e")
    here.finish(["f"])
    assert gone.start(1) == ["e"]
    gone.finish(["e"])
    assert usage(here, hive) == (0, 0)


@pytest.mark.usefixtures("clock")
def test_tokens_at_a_silent_cluster_stay_where_the_clock_has_jumped(
    shared_app: Flask, agent: PlayedAgent, hive: str
) -> None:
    clock = WatchedClock(shared_app)
    add(agent, "e", **need(hive))
    agent.start()
    clock.advance(30)
    clock.step(1000)
    take_back_from_silent(context_of(shared_app))
    assert usage(agent, hive) == (1, 0)
    agent.finish(["e"])


# Pools that change


def test_capacity_may_be_lowered_under_use_and_raised_again(
    shared: FlaskClient, agent: PlayedAgent, project: str
) -> None:
    pool = define(shared, f"shrinking-{project}", 2)
    add(agent, "a", "b", "c", **need(pool))
    assert agent.start(3) == ["a", "b"]
    define(shared, pool, 1)
    agent.finish(["a"])
    assert agent.offered(1) == {}
    agent.finish(["b"])
    assert agent.start(3) == ["c"]
    define(shared, pool, 0)
    add_while = create(shared, "d", project=project, cluster=agent.cluster, **need(pool))
    refused(add_while, 400, "invalid_request", f"spec.token_pools.{pool}")


def test_what_can_never_fit_any_more_says_so(shared: FlaskClient, agent: PlayedAgent, project: str) -> None:
    pool = define(shared, f"shrunk-{project}", 2)
    add(agent, "e", **need(pool, 2))
    define(shared, pool, 1)
    assert agent.offered(1) == {}
    message = shown(agent, "e")["closure"]["reason"]["message"]
    assert message.startswith(f"2 of token pool '{pool}' can never fit: the most is 1")


def test_a_pool_that_is_deleted_while_held_is_held_to_the_end(
    shared: FlaskClient, agent: PlayedAgent, hive: str
) -> None:
    add(agent, "e", "f", **need(hive))
    agent.start(1)
    problem = refused(shared.delete(f"{API}/token_pools/{hive}"), 409, "in_use")
    assert "/e holds 1 of it." in problem["details"][0]["reason"]
    ok(shared.delete(f"{API}/token_pools/{hive}?force=true"))
    agent.sync(want=1)
    assert shown(agent, "f")["closure"]["reason"]["message"].startswith(f"There is no token pool '{hive}' any more")
    agent.finish(["e"])
    define(shared, hive, 1)
    assert agent.start(1) == ["f"]


# What is refused at creation


@pytest.mark.parametrize(
    ("amount", "reason"),
    [(-1, "-1 is out of range"), (1.5, "whole number"), ("many", "number"), (3, "can never fit: the most is 1")],
)
def test_bad_amounts_are_refused_by_field(agent: PlayedAgent, hive: str, amount: Any, reason: str) -> None:
    answer = create(agent.client, "e", project=agent.project, cluster=agent.cluster, token_pools={hive: amount})
    problem = refused(answer, 400, "invalid_request", f"spec.token_pools.{hive}")
    assert reason in problem["message"]


def test_an_unknown_pool_is_refused_with_the_closest_name(agent: PlayedAgent, hive: str) -> None:
    answer = create(agent.client, "e", project=agent.project, cluster=agent.cluster, token_pools={f"{hive}x": 1})
    problem = refused(answer, 400, "invalid_request", f"spec.token_pools.{hive}x")
    assert f"There is no token pool '{hive}x'. Did you mean '{hive}'" in problem["message"]


def test_a_cap_is_named_by_its_level(shared: FlaskClient, agent: PlayedAgent, project: str) -> None:
    pool = define(shared, f"capped-{project}", 9, namespace=2)
    problem = refused(create(shared, "e", project=project, token_pools={pool: 3}), 400, "invalid_request")
    assert f"the most is 2, by the caps of token pool '{pool}' (namespace)" in problem["message"]


# Where the amounts come from


def test_the_most_specific_statement_counts_pool_by_pool(shared: FlaskClient, agent: PlayedAgent, hive: str) -> None:
    spark, presto = (define(shared, f"{word}-{agent.project}", 9) for word in ("spark", "presto"))
    define(shared, "by-type", 5)
    job = {"command": ["true"], "task_type": "hive", "token_pools": {spark: 1, presto: 1}}
    ok(register_workflow(shared, f"w-{hive}", project=agent.project, job=job))
    plan: dict[str, Any] = {"token_pools": {presto: 2}}
    ok(register_plan(shared, f"p-{hive}", f"w-{hive}", project=agent.project, **plan))

    def needed(name: str, **more: Any) -> dict[str, int]:
        spec = {"cluster": agent.cluster, "launch_plan": {"name": f"p-{hive}"}, **more}
        ok(
            shared.post(
                f"{API}/executions", json={"project": agent.project, "domain": DOMAIN, "name": name, "spec": spec}
            )
        )
        [lease] = agent.sync(want=1)["leases"]
        agent.holding = {name: 1}
        agent.sync()
        agent.finish([name])
        return dict(lease["job"].get("token_pools", {}))

    assert needed("a") == {spark: 1, presto: 2, "by-type": 1}
    assert needed("b", token_pools={spark: 3, "by-type": 0}) == {spark: 3, presto: 2}


# Waking, and what costs nothing


def test_an_agent_that_waits_is_woken_when_tokens_come_free(play: Play, hive: str) -> None:
    here, there = play("a"), play("b")
    add(here, "first", **need(hive))
    here.start(1)
    add(there, "second", **need(hive))
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(there.sync(want=1, wait_seconds=10)))
    waiting.start()
    wait_until(lambda: phase(there, "second")[1] == WAITING_FOR_TOKENS)
    here.finish(["first"])
    waiting.join(timeout=8)
    assert [lease["id"]["name"] for lease in answers[0]["leases"]] == ["second"]


def test_where_no_tokens_are_asked_for_nothing_is_asked_of_the_database(agent: PlayedAgent, context: Context) -> None:
    add(agent, "a", "b")
    with statements(context) as seen:
        add(agent, "c")
        assert agent.start(2) == ["a", "b"]
        agent.finish(["a", "b"])
    assert not [statement for statement in seen if re.search(r"(FROM|INTO|UPDATE|JOIN) token_", statement)]
    assert not [statement for statement in seen if "row_number" in statement]


def test_the_explanation_names_the_pool_the_level_the_holder_and_the_place(agent: PlayedAgent, hive: str) -> None:
    add(agent, "e", "f", "g", **need(hive))
    agent.start(3)
    told = explanation(agent.client, "g", project=agent.project)
    sentence = told["status"]["message"]
    full = f"the pool is full (1 of 1 held), by the capacity of token pool '{hive}'"
    by = f"held by {agent.project}/{DOMAIN}/e"
    assert sentence == (
        f"QUEUED for 0 s at {agent.cluster}, second of 2 in line for tokens: it waits for 1 token of {hive}: "
        f"{full}; {by}."
    )
    tokens = told["status"]["tokens"]
    assert tokens["place"] == 2
    statuses = [explanation(agent.client, name, project=agent.project)["status"] for name in ("e", "g")]
    assert [(status["token_pools"], status["holds_tokens"]) for status in statuses] == [
        ({hive: 1}, True),
        ({hive: 1}, False),
    ]
    assert [holder["execution"] for holder in tokens["full"][0]["holders"]] == ["e"]
    assert shown(agent, "g")["closure"]["reason"]["code"] == WAITING_FOR_TOKENS


def test_what_is_not_asked_about_yet_is_told_what_it_will_wait_for(agent: PlayedAgent, hive: str) -> None:
    add(agent, "e", **need(hive))
    assert explanation(agent.client, "e", project=agent.project)["status"].get("tokens") is None  # it gets its token
    agent.start(1)
    add(agent, "f", **need(hive))
    assert phase(agent, "f")[1] != WAITING_FOR_TOKENS
    told = explanation(agent.client, "f", project=agent.project)["status"]
    full = f"it waits for 1 token of {hive}: the pool is full (1 of 1 held), by the capacity of token pool '{hive}'"
    assert full in told["message"]
    assert told["message"].endswith(f"held by {agent.project}/{DOMAIN}/e.")
    assert (told["tokens"]["place"], told["tokens"]["waiting"]) == (1, 1)


def test_everything_that_waits_is_counted_the_same_wherever_one_looks(agent: PlayedAgent, hive: str) -> None:
    names = [f"e{number}" for number in range(9)]  # of which only the first few ask
    add(agent, *names, **need(hive))
    agent.start(9)
    pool = get(agent.client, f"token_pools/{hive}")
    places = {waiter["execution"]: waiter["place"] for waiter in pool["waiters"]}
    assert (pool["waiting"], places) == (8, {name: place for place, name in enumerate(names[1:], 1)})
    assert {waiter["holder"] for waiter in pool["waiters"]} == {f"cluster {agent.cluster}"}
    tokens = explanation(agent.client, "e7", project=agent.project)["status"]["tokens"]
    assert (tokens["place"], tokens["waiting"]) == (places["e7"], 8)
    [line] = [line for line in metrics_of(agent) if line.startswith(f'rainbow_token_pool_waiting{{pool="{hive}"}}')]
    assert line.endswith(" 8.0")
    listed = get(agent.client, "token_pools?limit=1000")["token_pools"]
    assert [entry["waiting"] for entry in listed if entry["name"] == hive] == [8]


def metrics_of(agent: PlayedAgent) -> list[str]:
    return agent.client.get("/metrics").get_data(as_text=True).splitlines()


def test_a_wait_is_counted_as_one_refusal_however_often_it_asks(agent: PlayedAgent, hive: str) -> None:
    add(agent, "e", "f", **need(hive))
    agent.start(2)
    for _ in range(3):
        agent.sync(want=1)
    assert get(agent.client, f"token_pools/{hive}")["refusals"] == {"pool": 1}


def test_a_run_whose_tokens_were_released_is_told_so(agent: PlayedAgent, clock: Clock, hive: str) -> None:
    add(agent, "e", "f", **need(hive))
    assert agent.start(1) == ["e"]
    [holder] = get(agent.client, f"token_pools/{hive}")["holders"]
    place = {"project": agent.project, "domain": DOMAIN}
    release = {"token": holder["token"], "pools": {hive: 1}, "force": True, **place}
    ok(agent.client.post(f"{API}/token_releases", json={"release": release}))
    assert agent.start(1) == ["f"]
    for _ in range(3):
        clock.advance(10)
        agent.sync()
    events = get(agent.client, f"executions/{agent.project}/{DOMAIN}/e/events?limit=100")["events"]
    [lost] = [event for event in events if event["type"] == "TOKENS_LOST"]
    loss = f"It no longer holds 1 token of {hive}: released by force, or lost by Redis. It goes on without."
    assert loss in str(lost)
    assert usage(agent, hive) == (1, 1)  # it waits for others
    told = explanation(agent.client, "e", project=agent.project)["status"]["message"]
    assert f"It runs without the 1 token of {hive} that it needs." in told
    assert get(agent.client, f"token_pools/{hive}").get("refusals") is None
    agent.finish(["e"])
    assert usage(agent, hive) == (1, 0)


def test_a_run_whose_tokens_came_back_when_its_lease_was_over_is_told_so(
    agent: PlayedAgent, clock: Clock, hive: str
) -> None:
    add(agent, "e", **need(hive))
    assert agent.start(1) == ["e"]
    [holder] = get(agent.client, f"token_pools/{hive}")["holders"]
    clock.advance(1000)
    place = {"project": agent.project, "domain": DOMAIN}
    release = {"token": holder["token"], "pools": {hive: 1}, "force": True, **place}
    ok(agent.client.post(f"{API}/token_releases", json={"release": release}))
    agent.sync()
    events = get(agent.client, f"executions/{agent.project}/{DOMAIN}/e/events?limit=100")["events"]
    [lost] = [event for event in events if event["type"] == "TOKENS_LOST"]
    assert "Its lease was over" in str(lost)
    agent.finish(["e"])
