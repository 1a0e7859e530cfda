"""Who speaks for a cluster, and of which execution; on both databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import delete, select

from admin.core.times import show_time
from admin.services.clocks import may_judge_silence
from admin.services.context import Context
from admin.services.evictions import judge_health
from admin.store.decisions import decisions
from admin.store.execution_tables import execution_events, executions
from admin.store.logs import execution_logs
from tests.conftest import MakeApp
from tests.support.agents import (
    PlayedAgent,
    WatchedClock,
    add,
    attempts,
    names,
    phase,
    played_agent,
    shown,
    types,
    watched_clock,
)
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, explanation, get, ok, refused

SLOW_ON = ("postgresql",)

LEASE, UNREACHABLE, LOST = 60, 90, 300
SECTIONS = {"agents": {"leaseSeconds": LEASE, "lostSeconds": LOST, "unreachableSeconds": UNREACHABLE}}
Play = Callable[..., PlayedAgent]


clock = watched_clock()


@pytest.fixture
def context(shared_app: Flask, clock: WatchedClock) -> Context:
    return context_of(shared_app)


@pytest.fixture
def agent(shared: FlaskClient, context: Context, project: str) -> PlayedAgent:
    """The agent of a cluster, which has a state directory."""
    return played_agent(shared, context, f"a-{project}", project=project, instance="first")


def process(agent: PlayedAgent, instance: str, id: str = "agent-2") -> PlayedAgent:
    """Another process with the same token."""
    return replace(agent, id=id, instance=instance, sequence=0, holding={})


def judge_silence(context: Context, agent: PlayedAgent) -> str:
    """The state of a cluster, after the background work has looked for silent ones."""
    if may_judge_silence(context):
        judge_health(context)
    state: str = get(agent.client, f"clusters/{agent.cluster}")["state"]
    return state


def cluster_events(agent: PlayedAgent) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = get(agent.client, f"clusters/{agent.cluster}/events")["events"]
    return events


# A second process


def test_a_cluster_shows_the_agent_that_speaks_for_it(agent: PlayedAgent, clock: WatchedClock) -> None:
    def speaker() -> list[Any]:
        cluster = get(agent.client, f"clusters/{agent.cluster}")
        return [cluster.get(f"agent{part}") for part in ("", "_instance", "_host", "_version")]

    agent.sync(report={"properties": {"agent_version": "1.2"}})
    assert speaker() == ["agent-1", "first", "host-of-first", "1.2"]
    since = get(agent.client, f"clusters/{agent.cluster}")["agent_since"]
    clock.advance(30)
    agent.sync()
    cluster = get(agent.client, f"clusters/{agent.cluster}")
    assert cluster["agent_since"] == since < cluster["last_sync_at"]
    process(agent, "second").sync(take_over=True, report={"properties": {"agent_version": 2}})
    assert speaker() == ["agent-2", "second", "host-of-second", None]  # a version is text
    assert get(agent.client, f"clusters/{agent.cluster}")["agent_since"] == cluster["last_sync_at"]


def test_a_second_process_with_the_same_token_is_refused_while_the_first_is_heard(
    agent: PlayedAgent, clock: WatchedClock
) -> None:
    add(agent, "e", retry={"attempts": 3, "on_lost": "retry"})
    agent.start()
    clock.advance(LEASE - 1)
    second = process(agent, "second")
    answer = refused(second.post(events=[second.event("e", "UNKNOWN", 1)], want=1), 409, "agent_present")
    for part in (agent.cluster, "host-of-first", "since", "last heard", f"silent for {UNREACHABLE} s", "--take-over"):
        assert part in answer["message"]
    assert (phase(agent, "e")[0], shown(agent, "e")["attempt"]) == ("RUNNING", 1)
    assert names(agent.sync()["confirmed"]) == ["e"]  # nothing has changed for the first one
    agent.finish(["e"])
    assert types(agent, "e") == ["CREATED", "RUNNING", "SUCCEEDED"]


@pytest.mark.parametrize("first", [True, False])
def test_a_second_process_is_refused_however_much_it_has_seen(
    agent: PlayedAgent, clock: WatchedClock, first: bool
) -> None:
    add(agent, "e")
    agent.start()
    clock.advance(LEASE - 1)
    second = process(agent, "second")
    second.sequence = 0 if first else 5
    refused(second.post(seen=900_000), 409, "agent_present")
    answer = agent.sync()
    assert names(answer["confirmed"]) == ["e"]
    assert answer["position"] < 900_000
    assert "database_restored" not in {warning["code"] for warning in get(agent.client, "warnings")["warnings"]}


def test_a_position_that_no_cluster_can_reach_is_refused(agent: PlayedAgent) -> None:
    position = agent.sync()["position"]
    answer = refused(agent.post(seen=2**62), 400, "invalid_request", "seen")
    assert "'position'" in str(answer)
    assert agent.sync()["position"] == position + 1


@pytest.mark.parametrize("instance", ["second", ""])
def test_one_forged_sync_changes_nothing(agent: PlayedAgent, context: Context, instance: str) -> None:
    add(agent, "runs", "held", "offered")
    agent.start()
    agent.take()
    agent.offered()
    with context.database.reading() as connection:
        before = connection.execute(select(executions).where(executions.c.project == agent.project)).all()
    forged = process(agent, instance)
    events = [forged.event(name, "UNKNOWN", 1) for name in ("runs", "held", "offered")]
    refused(forged.post(events=events, want=9, report={"free": {"cpu": "0"}}), 409, "agent_present")
    with context.database.reading() as connection:
        assert connection.execute(select(executions).where(executions.c.project == agent.project)).all() == before
    assert names(agent.sync()["confirmed"]) == ["runs", "held"]


def test_the_same_state_directory_is_a_restart_and_takes_over_at_once(agent: PlayedAgent) -> None:
    add(agent, "e", "f")
    agent.start(2)
    restarted = process(agent, "first")
    assert attempts(restarted.sync()["questions"]) == {"e": 1, "f": 1}
    restarted.holding = {"e": 1}
    assert restarted.report("f", "UNKNOWN", 1) is None  # it held the lease before, so it knows
    assert (phase(agent, "e")[0], phase(agent, "f")[0]) == ("RUNNING", "FAILED")
    refused(agent.post(), 409, "agent_replaced")
    assert "AGENT_CHANGED" not in [event["type"] for event in cluster_events(agent)]


def test_one_told_to_take_over_does_but_is_not_believed_that_nothing_runs_before_the_lease_is_over(
    agent: PlayedAgent, clock: WatchedClock
) -> None:
    add(agent, "e", retry={"attempts": 2, "on_lost": "retry", "backoff": "1s"})
    add(agent, "adopted")
    agent.start(2)
    second = process(agent, "second")
    questions = second.sync(take_over=True)["questions"]
    assert attempts(questions) == {"e": 1, "adopted": 1}
    # The job that it adopts goes by the policy of its execution.
    assert {question["id"]["name"]: question["on_lost"] for question in questions} == {"e": "retry", "adopted": "wait"}
    event = cluster_events(agent)[0]
    assert event["type"] == "AGENT_CHANGED"
    assert "host-of-second" in event["reason"]
    assert "host-of-first" in event["reason"]
    second.holding = {"adopted": 1}  # it finds that job
    assert second.report("e", "UNKNOWN", 1) == "LEASE_NOT_OVER"
    assert second.sync()["questions"] == []  # not asked again at once, which would never end
    assert (phase(agent, "e")[0], shown(agent, "e")["attempt"], types(agent, "e")) == (
        "RUNNING",
        1,
        ["CREATED", "RUNNING"],
    )
    assert second.report("adopted", "UNKNOWN", 1) is None  # it holds that lease by now
    second.holding = {}
    clock.advance(LEASE)
    assert attempts(second.sync()["questions"]) == {"e": 1}
    assert second.report("e", "UNKNOWN", 1) is None
    assert (phase(agent, "e")[0], shown(agent, "e")["attempt"]) == ("QUEUED", 2)
    refused(agent.post(), 409, "agent_replaced")


def test_a_replacement_gets_in_when_the_first_is_found_silent(
    agent: PlayedAgent, context: Context, clock: WatchedClock
) -> None:
    add(agent, "e", retry={"on_lost": "fail"})
    agent.start()
    second = process(agent, "second")
    clock.advance(UNREACHABLE - 1)
    assert judge_silence(context, agent) == "ready"
    refused(second.post(), 409, "agent_present")
    second.sequence = 0  # nothing was answered yet
    clock.advance(2)
    assert judge_silence(context, agent) == "unreachable"
    assert attempts(second.sync()["questions"]) == {"e": 1}
    assert second.report("e", "UNKNOWN", 1) is None  # its lease is over, too


def test_an_admin_that_has_just_started_gives_the_first_agent_time_to_be_heard(
    agent: PlayedAgent, context: Context, clock: WatchedClock, shared_app: Flask
) -> None:
    add(agent, "e")
    agent.start()
    clock.advance(LEASE + LOST + 1)
    assert judge_silence(context, agent) == "lost"
    shared_app.extensions["rainbow"] = replace(context)  # which has begun now
    second = process(agent, "second")
    answer = refused(second.post(events=[second.event("e", "UNKNOWN", 1)], want=1), 409, "agent_present")
    assert f"up for {LEASE} s" in answer["message"]
    assert names(agent.sync()["confirmed"]) == ["e"]
    clock.advance(LEASE + LOST + 1)
    judge_silence(context, agent)
    second.sequence = 0
    assert attempts(second.sync()["questions"]) == {"e": 1}


@pytest.mark.parametrize("seconds", [7200, -7200])
def test_a_step_of_the_clock_lets_no_second_process_in(
    agent: PlayedAgent, context: Context, clock: WatchedClock, seconds: int
) -> None:
    add(agent, "e", retry={"attempts": 2, "on_lost": "retry"})
    agent.start()
    clock.advance(1)
    clock.step(seconds)
    second = process(agent, "second")
    judge_silence(context, agent)
    refused(second.post(events=[second.event("e", "UNKNOWN", 1)], want=1), 409, "agent_present")
    assert names(agent.sync()["confirmed"]) == ["e"]
    clock.step(-seconds)
    second.sequence = 0
    refused(second.post(), 409, "agent_present")
    for _ in range(4):  # also that the first was last heard in what is now the future, or long ago, keeps nobody out
        clock.advance(LEASE)
        judge_silence(context, agent)
    second.sequence = 0
    assert attempts(second.sync()["questions"]) == {"e": 1}


def test_a_silence_that_is_shorter_than_a_lease_lets_nobody_in(
    make_app: MakeApp,
) -> None:
    app = make_app(agents={"leaseSeconds": LEASE, "unreachableSeconds": 30, "waitSeconds": 10, "lostSeconds": LOST})
    clock = WatchedClock(app)
    context = context_of(app)
    agent = played_agent(app.test_client(), context, "a", instance="first")
    agent.sync()
    clock.advance(LEASE)
    assert judge_silence(context, agent) == "unreachable"
    second = process(agent, "second")
    answer = refused(second.post(), 409, "agent_present")
    assert f"silent for {LOST} s" in answer["message"]
    clock.advance(LOST)
    assert judge_silence(context, agent) == "lost"
    second.sequence = 0
    second.sync()


def test_what_waits_is_not_ended_because_another_agent_does_not_know_it(
    agent: PlayedAgent, context: Context, clock: WatchedClock
) -> None:
    add(agent, "e", "f", "g")
    agent.start(3)
    heard_at = clock()
    clock.advance(LEASE + LOST + 1)
    judge_silence(context, agent)
    second = process(agent, "second")
    assert attempts(second.sync()["questions"]) == {"e": 1, "f": 1, "g": 1}
    assert second.report("e", "UNKNOWN", 1) == "LEASE_NOT_OVER"
    for _ in range(LOST // 50 + 2):  # nor because it does not answer
        clock.advance(50)
        assert second.sync()["questions"] == []
    assert [phase(agent, name) for name in "efg"] == [("RUNNING", "CLUSTER_SILENT")] * 3
    message = explanation(agent.client, "e", project=agent.project)["silence"]["message"]
    start = f"Another agent serves cluster '{agent.cluster}'; the one that has it has been silent since "
    assert message.startswith(start)
    assert show_time(heard_at) in message
    refused(agent.post(), 409, "agent_replaced", "instance")  # so that it ends nothing that waits
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/f", json={"give_up": True, "cause": "gone"}))
    assert phase(agent, "f") == ("FAILED", "CLUSTER_LOST")
    returned = replace(agent, id="agent-3", sequence=0, holding={"e": 1, "g": 1})
    assert names(returned.sync(take_over=True)["confirmed"]) == ["e", "g"]
    assert phase(agent, "e") == ("RUNNING", "RUNNING")
    returned.finish(["e", "g"])
    assert phase(agent, "e")[0] == "SUCCEEDED"


@pytest.mark.parametrize("on_lost", ["wait", "fail"])
def test_one_that_was_told_to_take_over_is_believed_when_the_lease_is_over(
    agent: PlayedAgent, clock: WatchedClock, on_lost: str
) -> None:
    add(agent, "e", retry={"on_lost": on_lost})
    agent.start()
    second = process(agent, "second")
    assert attempts(second.sync(take_over=True)["questions"]) == {"e": 1}
    assert second.report("e", "UNKNOWN", 1) == "LEASE_NOT_OVER"
    clock.advance(LEASE)
    assert attempts(second.sync()["questions"]) == {"e": 1}
    assert second.report("e", "UNKNOWN", 1) is None
    assert phase(agent, "e") == ("FAILED", "CLUSTER_LOST")
    assert refused(agent.post(), 409, "agent_replaced")["details"] == []  # so that it ends what it has


def test_one_that_just_arrived_is_asked_before_it_counts_as_having_lost_anything(
    agent: PlayedAgent, context: Context, clock: WatchedClock
) -> None:
    add(agent, "e", retry={"on_lost": "fail"})
    agent.start()
    clock.advance(LEASE + LOST + 1)
    judge_silence(context, agent)
    second = process(agent, "second")
    assert attempts(second.sync()["questions"]) == {"e": 1}
    assert phase(agent, "e")[0] == "RUNNING"
    for _ in range(LOST // 50):
        clock.advance(50)
        assert attempts(second.sync()["questions"]) == {"e": 1}
    second.sync()  # judged by the time of the sync before
    assert phase(agent, "e")[0] == "FAILED"


# Agents of before


def test_agents_without_ids_go_on_as_before(shared: FlaskClient, context: Context, project: str) -> None:
    old = played_agent(shared, context, f"a-{project}", project=project)
    add(old, "e", "f", "g")
    old.start(3)
    restarted = process(old, "")
    assert attempts(restarted.sync()["questions"]) == {"e": 1, "f": 1, "g": 1}
    restarted.holding = {"e": 1, "g": 1}
    assert restarted.report("f", "UNKNOWN", 1) is None
    upgraded = process(old, "first", id="agent-3")
    assert attempts(upgraded.sync()["questions"]) == {"e": 1, "g": 1}
    upgraded.holding = {"e": 1}
    assert names(upgraded.sync()["confirmed"]) == ["e"]
    assert upgraded.report("g", "UNKNOWN", 1) == "LEASE_NOT_OVER"
    refused(process(old, "", id="agent-4").post(), 409, "agent_present")
    upgraded.finish(["e"])


# Names that are used again


def forget(context: Context, agent: PlayedAgent, name: str) -> None:
    """Delete an execution, as retention does."""
    with context.database.writing() as connection:
        id = connection.execute(
            select(executions.c.id).where(executions.c.project == agent.project, executions.c.name == name)
        ).scalar_one()
        for table in (execution_events, execution_logs, decisions):
            connection.execute(delete(table).where(table.c.execution_id == id))
        connection.execute(delete(executions).where(executions.c.id == id))


def test_a_name_used_again_gets_neither_result_nor_log_nor_event_of_the_first(
    agent: PlayedAgent, context: Context
) -> None:
    add(agent, "e")
    first = shown(agent, "e")["uid"]
    agent.start()
    forget(context, agent, "e")
    add(agent, "e")
    second = shown(agent, "e")["uid"]
    assert first != second
    held = {"id": agent.key("e"), "attempt": 1}
    answer = agent.sync(holding=[{**held, "uid": first}], want=1)
    assert [(lost["uid"], lost["reason"]) for lost in answer["lost"]] == [(first, "NOT_YOURS")]
    assert [lease["uid"] for lease in answer["leases"]] == [second]
    agent.sync(holding=[{**held, "uid": second}])
    for type in ("SUCCEEDED", "UNKNOWN", "RUNNING"):
        assert agent.report("e", type, uid=first) == "OTHER_EXECUTION"
    piece = agent.log("e", 0, b"of the first", uid=first)
    assert agent.sync(logs=[piece])["log_offsets"][0]["full"] is True  # the agent may drop it
    assert (phase(agent, "e")[0], types(agent, "e")) == ("QUEUED", ["CREATED"])
    assert agent.report("e", "RUNNING", uid=second) is None
    agent.sync(logs=[agent.log("e", 0, b"of the second", uid=second)])
    assert agent.report("e", "SUCCEEDED", uid=second) is None
    log = get(agent.client, f"executions/{agent.project}/{DOMAIN}/e/logs?stream=stdout")
    assert log["data"] == "of the second"


def test_an_id_cannot_be_chosen(agent: PlayedAgent) -> None:
    body = {"project": agent.project, "domain": DOMAIN, "name": "e", "uid": "1", "spec": {"job": {"command": ["x"]}}}
    refused(agent.client.post(f"{API}/executions", json=body), 400, "invalid_request", "uid")


# Events on others' executions


def test_a_cluster_adds_at_most_one_event_to_an_execution_of_another(
    agent: PlayedAgent, context: Context, project: str
) -> None:
    other = played_agent(agent.client, context, f"b-{project}", project=project, instance="other")
    add(agent, "e", "f")
    agent.start()
    for _ in range(3):
        answer = other.sync(*(other.event("e", type, 1) for type in ("FAILED", "UNKNOWN", "RUNNING")))
        assert [refusal["reason"] for refusal in answer["refused"]] == ["NOT_YOURS"] * 3
        assert other.report("e", "FAILED", 7) == "OLD_ATTEMPT"
        assert other.report("f", "FAILED", 1) == "NOT_YOURS"
    assert types(agent, "e") == ["CREATED", "RUNNING", "REFUSED"]
    assert types(agent, "f") == ["CREATED", "REFUSED"]
    events = get(agent.client, f"executions/{project}/{DOMAIN}/e/events")["events"]
    assert events[-1]["cluster"] == other.cluster
    assert ok(agent.post(events=[agent.event("e", "RUNNING")]))["refused"] == []
