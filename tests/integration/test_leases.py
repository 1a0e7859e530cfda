"""Leases: offered, confirmed, renewed, reported on, given back and run again; on both databases."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.queueing_budgets import end_overdue
from admin.services.redecisions import decide_undecided, decide_waiting
from admin.store import cluster_events
from admin.store.cluster_events import ClusterEventFilter
from tests.support.agents import Clock, PlayedAgent, add, attempts, names, phase, played_agent, shown, types
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    created,
    explanation,
    get,
    ok,
    pool,
    put_attribute,
    put_pool,
    refused,
    switch,
)
from tests.support.waiting import wait_until

SECTIONS = {"agents": {"leaseSeconds": 60, "logLimitBytes": 1000}}
Play = Callable[..., PlayedAgent]


@pytest.fixture
def context(shared_app: Flask, clock: Clock) -> Context:
    return context_of(shared_app)


@pytest.fixture
def play(shared: FlaskClient, context: Context, project: str) -> Play:
    """Plays agents of clusters of the test's own; the same word is the same cluster."""

    def make(word: str = "a") -> PlayedAgent:
        return played_agent(shared, context, f"{word}-{project}", project=project)

    return make


@pytest.fixture
def agent(play: Play) -> PlayedAgent:
    return play()


def terminate(agent: PlayedAgent, name: str, cause: str = "enough") -> Any:
    return ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/{name}", json={"cause": cause}))


# Offers


def test_the_explanation_of_what_was_taken_does_not_say_that_it_waits(agent: PlayedAgent) -> None:
    def message() -> str:
        return str(explanation(agent.client, "e", project=agent.project)["reason"]["message"])

    add(agent, "e")
    assert message() == f"Waits for cluster '{agent.cluster}' to take it."
    agent.take(1)
    agent.finish(["e"])
    assert message() == f"Cluster '{agent.cluster}' was chosen."


def test_leases_come_by_tier_then_priority_then_age(agent: PlayedAgent) -> None:
    def prefer(priority: int) -> None:
        put_attribute(
            agent.client, "project-domain", "workflow_priority", {"priority": priority}, project=agent.project
        )

    add(agent, "plain-old", "plain-new")
    add(agent, "low", quality_of_service={"tier": "LOW"})
    prefer(90)
    add(agent, "plain-dear")
    add(agent, "high-dear", quality_of_service={"tier": "HIGH"})
    prefer(10)
    add(agent, "high-cheap", quality_of_service={"tier": "HIGH"})
    add(agent, "medium-cheap", quality_of_service={"tier": "MEDIUM"})
    add(agent, "plain-cheap")
    in_order = ["high-dear", "high-cheap", "medium-cheap", "low", "plain-dear", "plain-old", "plain-new", "plain-cheap"]
    assert agent.take(3) + agent.take(2) + agent.take(99) == in_order


def test_a_lease_carries_all_that_the_engine_needs(agent: PlayedAgent) -> None:
    job = {"command": ["run", "x"], "image": "i", "resources": {"requests": {"cpu": "2"}, "duration": "90s"}}
    add(agent, "e", job=job, labels={"values": {"team": "red"}}, quality_of_service={"tier": "LOW"})
    [lease] = agent.sync(want=9)["leases"]
    assert (lease["id"], lease["attempt"]) == (agent.key("e"), 1)
    assert (lease["lease_seconds"], lease["log_limit_bytes"], lease["time_limit_seconds"]) == (60, 1000, 90)
    assert lease["job"] == shown(agent, "e")["job"]
    assert lease["config"]["labels"] == {"values": {"team": "red"}}
    assert lease["quality_of_service"]["tier"] == "LOW"
    assert lease["attributes"] == shown(agent, "e")["attributes"]
    assert (lease["inputs"], "plugins" in lease) == ({}, "plugins" in shown(agent, "e"))
    assert (lease["uid"], lease["on_lost"]) == (shown(agent, "e")["uid"], "wait")
    intervals = agent.sync()["intervals"]
    assert (intervals["lease_seconds"], 0 < intervals["retry_seconds"] <= 15) == (60, True)


def test_each_execution_has_a_random_id_and_each_sync_a_position(agent: PlayedAgent) -> None:
    add(agent, "e", "f")
    uids = [shown(agent, name)["uid"] for name in "ef"]
    assert [len(uid) for uid in uids] == [16, 16]
    assert uids[0] != uids[1]
    agent.holding = agent.offered(2)
    first, second = agent.sync(), agent.sync(seen=1, instance="i", host="h")
    assert [lease["uid"] for lease in first["confirmed"]] == uids
    assert second["position"] == first["position"] + 1


def test_an_offer_is_no_lease_to_start_until_it_is_held_and_confirmed(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "e")
    assert agent.offered(5) == {"e": 1}
    assert agent.offered(5) == {"e": 1}  # the answer was lost: the same once more
    assert get(agent.client, f"clusters/{agent.cluster}")["leases"] == 1
    agent.holding = {"e": 1}
    answer = agent.sync(want=5)
    assert (attempts(answer["confirmed"]), answer["leases"], answer["questions"]) == ({"e": 1}, [], [])
    first = shown(agent, "e")["lease_expires_at"]
    clock.advance(30)
    assert attempts(agent.sync()["confirmed"]) == {"e": 1}  # and each time it is renewed
    assert shown(agent, "e")["lease_expires_at"] > first
    assert (shown(agent, "e")["attempt"], phase(agent, "e"), types(agent, "e")) == (
        1,
        ("QUEUED", "ASSIGNED"),
        ["CREATED"],
    )


def test_an_agent_takes_fewer_than_offered_and_what_it_does_not_want_waits_again(
    agent: PlayedAgent, context: Context
) -> None:
    add(agent, "e0", "e1", "e2")
    assert agent.offered(3) == {"e0": 1, "e1": 1, "e2": 1}
    agent.holding = {"e1": 1}
    answer = agent.sync(want=1)
    assert (attempts(answer["confirmed"]), attempts(answer["leases"])) == ({"e1": 1}, {"e0": 1})
    agent.sync(want=0)
    assert [("lease_expires_at" in shown(agent, name)) for name in ("e0", "e1", "e2")] == [False, True, False]
    switch(agent.client, agent.cluster, "cordon")
    decide_waiting(context)  # what nobody has is decided again like everything that waits
    assert [phase(agent, name)[1] for name in ("e0", "e1", "e2")] == [
        "CLUSTERS_CORDONED",
        "ASSIGNED",
        "CLUSTERS_CORDONED",
    ]


def test_two_clusters_never_have_the_same_lease(play: Play) -> None:
    first, second = play("a"), play("b")
    put_pool(first.client, first.project, [first.cluster, second.cluster])
    expected = {f"e{number}" for number in range(20)}
    for name in expected:
        created(first.client, name, project=first.project, **pool(first.project))
    taken = [set(agent.take(100)) for agent in (first, second)]
    assert taken[0] | taken[1] == expected
    assert not taken[0] & taken[1]
    second.holding = dict(first.holding)
    answer = second.sync()
    assert {lost["reason"] for lost in answer["lost"]} == {"NOT_YOURS"}
    assert set(names(answer["lost"])) == taken[0]
    assert set(names(answer["questions"])) == taken[1]


@pytest.mark.parametrize("word", ["cordon", "disable", "drain"])
def test_a_cluster_that_takes_no_work_gets_none_and_keeps_what_it_has(play: Play, context: Context, word: str) -> None:
    agent, other = play("a"), play("b")
    put_pool(agent.client, agent.project, [agent.cluster, other.cluster], strategy="spill")
    for name in ("kept", "offered", "waits"):
        created(agent.client, name, project=agent.project, **pool(agent.project))
    agent.start()
    assert agent.offered() == {"offered": 1}
    switch(agent.client, agent.cluster, word)
    answer = agent.sync(want=5)
    assert (answer["leases"], names(answer["confirmed"]), answer["questions"]) == ([], ["kept"], [])
    assert answer["state"] | {"admitted": True} == {
        "enabled": word != "disable",
        "cordoned": word != "disable",
        "draining": word == "drain",
        "admitted": True,
        "description": "",
    }
    decide_waiting(context)
    decide_undecided(context)
    assert sorted(other.take(5)) == ["offered", "waits"]
    agent.finish(["kept"])
    assert phase(agent, "kept")[0] == "SUCCEEDED"
    switch(agent.client, agent.cluster, {"cordon": "uncordon", "disable": "enable", "drain": "undrain"}[word])
    created(agent.client, "new", project=agent.project, **pool(agent.project))
    assert agent.take() == ["new"]


def test_uncordon_ends_a_drain_too(agent: PlayedAgent) -> None:
    switch(agent.client, agent.cluster, "drain", deadline="1h")
    cluster = switch(agent.client, agent.cluster, "uncordon")["cluster"]
    assert (cluster["draining"], cluster["cordoned"], "drain_deadline" in cluster) == (False, False, False)
    add(agent, "e")
    assert agent.take() == ["e"]


# Reports


def test_an_execution_runs_and_succeeds_as_its_agent_says(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "e")
    agent.take()
    clock.advance(5)
    assert agent.report("e", "RUNNING", native_id="4711", nodes=["n1", "n2"], message="on two nodes") is None
    execution = shown(agent, "e")
    assert (execution["native_id"], execution["nodes"]) == ("4711", ["n1", "n2"])
    assert execution["closure"]["phase"] == "RUNNING"
    assert execution["closure"]["started_at"] > execution["closure"]["created_at"]
    assert get(agent.client, f"clusters/{agent.cluster}")["running"] == 1
    clock.advance(7)
    assert agent.report("e", "SUCCEEDED", exit_code=0) is None
    execution = shown(agent, "e")
    assert (execution["closure"]["phase"], execution["closure"]["duration"]) == ("SUCCEEDED", 7)
    assert execution["exit_code"] == 0
    assert "lease_expires_at" not in execution
    assert types(agent, "e") == ["CREATED", "RUNNING", "SUCCEEDED"]
    answer = agent.sync()
    assert [(lost["id"]["name"], lost["reason"]) for lost in answer["lost"]] == [("e", "NOT_YOURS")]


def test_a_signal_is_told_of_where_nothing_else_is(agent: PlayedAgent) -> None:
    add(agent, "silent", "told")
    agent.start(2)
    agent.finish(["silent"], "FAILED", signal=9)
    agent.finish(["told"], "FAILED", signal=9, message="out of memory")
    messages = [shown(agent, name)["closure"]["reason"]["message"] for name in ("silent", "told")]
    assert messages == ["Signal 9 ended it.", "out of memory"]


@pytest.mark.parametrize("type", ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"])
def test_what_has_ended_never_changes_again(agent: PlayedAgent, context: Context, type: str) -> None:
    add(agent, "e", retry={"attempts": 1})
    agent.start()
    agent.finish(["e"], type, reason="MINE", message="so it is", exit_code=3)
    before = shown(agent, "e")
    assert (before["closure"]["phase"], before["closure"]["reason"]) == (type, {"code": "MINE", "message": "so it is"})
    for other in ("RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "DECLINED", "RELEASED", "UNKNOWN"):
        assert agent.report("e", other, 1, exit_code=9) == (None if other == type else "PHASE")
    assert agent.report("e", "RUNNING", 2) == "OLD_ATTEMPT"
    assert terminate(agent, "e")["changed"] is False
    decide_waiting(context)
    after = shown(agent, "e")
    assert {**after, "events": 0} == {**before, "events": 0}
    refusals = get(agent.client, f"executions/{agent.project}/{DOMAIN}/e/events")["events"][3:]
    assert {refusal["type"] for refusal in refusals} == {"REFUSED"}
    assert [refusal["reason"]["code"] for refusal in refusals] == ["PHASE"] * 7 + ["OLD_ATTEMPT"]
    assert "reported RUNNING for attempt 2" in refusals[-1]["reason"]["message"]
    assert {refusal["phase"] for refusal in refusals} == {type}


def test_reports_that_come_twice_or_in_the_wrong_order_change_nothing(agent: PlayedAgent) -> None:
    add(agent, "e")
    agent.take()
    running, done = agent.event("e", "RUNNING"), agent.event("e", "SUCCEEDED")
    answer = agent.sync(running, running, done, done, running)
    assert answer["accepted"] == [running["event"]] * 2 + [done["event"]] * 2
    assert answer["refused"] == [{"event": running["event"], "reason": "PHASE"}]
    assert types(agent, "e") == ["CREATED", "RUNNING", "SUCCEEDED", "REFUSED"]
    assert agent.sync(done)["accepted"] == [done["event"]]
    assert types(agent, "e") == ["CREATED", "RUNNING", "SUCCEEDED", "REFUSED"]


def test_a_report_on_what_is_not_the_agents_is_refused_and_noted(play: Play) -> None:
    agent, other = play("a"), play("b")
    add(agent, "mine", "waits")
    add(other, "theirs")
    assert agent.take() == ["mine"]
    other.start()
    assert agent.report("theirs", "FAILED", 1) == "NOT_YOURS"
    assert agent.report("waits", "RUNNING", 1) == "NOT_YOURS"
    assert agent.report("nothing", "RUNNING", 1) == "UNKNOWN_EXECUTION"
    assert agent.report("mine", "RUNNING", 7) == "OLD_ATTEMPT"
    assert (phase(agent, "theirs")[0], phase(agent, "waits")[0], phase(agent, "mine")[0]) == (
        "RUNNING",
        "QUEUED",
        "QUEUED",
    )
    assert types(agent, "theirs") == ["CREATED", "RUNNING", "REFUSED"]
    assert types(agent, "mine") == types(agent, "waits") == ["CREATED", "REFUSED"]
    agent.holding["waits"] = agent.holding["theirs"] = agent.holding["nothing"] = 1
    answer = agent.sync()
    assert sorted(names(answer["lost"])) == ["nothing", "theirs", "waits"]


@pytest.mark.parametrize("minutes", [-5, 5])
def test_an_agents_clock_counts_for_nothing(agent: PlayedAgent, clock: Clock, minutes: int) -> None:
    add(agent, "e")
    agent.take()
    before = clock()

    def wrong() -> str:
        return (clock() + timedelta(minutes=minutes)).isoformat()

    agent.report("e", "RUNNING", at=wrong(), started_at=wrong())
    clock.advance(3)
    agent.report("e", "FAILED", at=wrong(), started_at=wrong(), finished_at=wrong())
    closure = shown(agent, "e")["closure"]
    assert closure["duration"] == 3
    times = [datetime.fromisoformat(closure[name]) for name in ("created_at", "started_at", "finished_at")]
    assert times == [before, before, clock()]
    events = get(agent.client, f"executions/{agent.project}/{DOMAIN}/e/events")["events"]
    assert [datetime.fromisoformat(event["at"]) for event in events] == times


def test_a_character_that_no_database_keeps_does_not_hold_a_report_up(agent: PlayedAgent) -> None:
    add(agent, "e")
    agent.take()
    agent.id, agent.sequence = "process\0one", 0
    agent.report("e", "RUNNING", native_id="1\x002", nodes=["n\0"])
    outputs = [{"path": "a\0b", "content_base64": "", "size": 0}] * 2
    assert agent.report("e", "FAILED", reason="X\0", message="bad \0 bytes \x1b", outputs=outputs) is None
    assert shown(agent, "e")["closure"]["reason"] == {"code": "X\ufffd", "message": "bad \ufffd bytes \x1b"}


def test_a_report_that_makes_no_sense_is_refused_as_a_whole_and_by_field(agent: PlayedAgent) -> None:
    add(agent, "e")
    agent.take()
    for field, wrong in {
        "type": "DONE",
        "attempt": 0,
        "exit_code": "1",
        "message": "x" * 4001,
        "nodes": "n1",
        "duration": -1,
    }.items():
        answer = refused(agent.post(events=[agent.event("e", "FAILED") | {field: wrong}]), 400, "invalid_request")
        assert f"events.0.{field}" in [detail["field"] for detail in answer["details"]] or field in str(
            answer["details"]
        )
    refused(agent.post(want=-1), 400, "invalid_request", "want")
    refused(agent.post(wait_seconds=3600), 400, "invalid_request", "wait_seconds")
    refused(agent.post(report={"free": {"cpu": "lots"}}), 400, "invalid_request")
    assert phase(agent, "e")[0] == "QUEUED"


def test_what_ended_is_counted_once_with_its_reason(agent: PlayedAgent) -> None:
    add(agent, "e", "cancelled")
    agent.start(2)
    agent.finish(["e"], "FAILED", reason="OUT_OF_MEMORY")
    terminate(agent, "cancelled")
    agent.finish(["cancelled"], "ABORTED")
    lines = agent.client.get("/metrics").get_data(as_text=True).splitlines()
    mine = [
        line.partition("{")[2]
        for line in lines
        if line.startswith("rainbow_executions_finished_total") and agent.cluster in line
    ]
    assert len(mine) == 2
    assert {line.rpartition(" ")[2] for line in mine} == {"1.0"}
    assert [line for line in mine if 'phase="FAILED",' in line and 'reason="OUT_OF_MEMORY"' in line]
    assert [line for line in mine if 'phase="ABORTED",' in line and 'reason="TERMINATED"' in line]


# Giving back


def test_what_is_declined_goes_elsewhere_until_nobody_will_have_it(play: Play, context: Context) -> None:
    first, second = play("a"), play("b")
    put_pool(first.client, first.project, [first.cluster, second.cluster], strategy="spill")
    created(first.client, "e", project=first.project, **pool(first.project))
    first.take()
    assert first.report("e", "DECLINED", reason="NO_LICENCE", message="no licence left") is None
    assert attempts(first.sync(want=1)["lost"]) == {"e": 1}
    first.holding = {}
    [change] = decide_undecided(context)
    assert change.cluster == second.cluster
    with context.database.reading() as connection:
        [event] = cluster_events.events(connection, ClusterEventFilter(types=["REDECIDED"]), None, 1)
    assert (event.reason or "").endswith(f"/e). Cluster '{first.cluster}' declined it: no licence left.")
    assert second.offered() == {"e": 2}
    assert first.report("e", "RUNNING", 1) == "OLD_ATTEMPT"
    second.holding = {"e": 2}
    second.sync()
    assert second.report("e", "DECLINED", 2) is None
    second.holding = {}
    decide_undecided(context)
    execution = shown(first, "e")
    assert (execution.get("cluster"), execution["closure"]["phase"]) == (None, "QUEUED")
    assert execution["closure"]["reason"]["code"] == "CLUSTERS_DECLINED"
    assert f"'{second.cluster}' declined it" in execution["closure"]["reason"]["message"]
    explanation = get(first.client, f"executions/{first.project}/{DOMAIN}/e/explanation")
    why = {candidate["cluster"]: candidate["why_not"] for candidate in explanation["candidates"]}
    assert re.fullmatch(r"declined it at [-0-9T:]+Z: no licence left", why[first.cluster])
    assert f"'{first.cluster}' declined it at " in explanation["status"]["message"]
    assert ": no licence left" in explanation["status"]["message"]
    assert (first.offered(), second.offered()) == ({}, {})
    third = play("c")
    put_pool(first.client, first.project, [first.cluster, second.cluster, third.cluster])
    decide_waiting(context)
    assert third.offered() == {"e": 3}
    assert types(first, "e") == ["CREATED", "DECLINED", "DECIDED", "REFUSED", "DECLINED", "DECIDED", "DECIDED"]


def test_what_is_released_goes_back_with_a_new_attempt(play: Play, context: Context) -> None:
    agent, other = play("a"), play("b")
    put_pool(agent.client, agent.project, [agent.cluster, other.cluster], strategy="spill")
    for name in ("e", "f"):
        created(agent.client, name, project=agent.project, **pool(agent.project))
    agent.take(2)
    assert agent.report("e", "RELEASED") is None
    del agent.holding["e"]
    assert agent.offered() == {"e": 2}  # at the same cluster: it might take it once more
    switch(agent.client, agent.cluster, "cordon")
    assert agent.report("f", "RELEASED") is None  # and elsewhere, where it takes nothing
    del agent.holding["f"]
    decide_undecided(context)
    assert other.offered(5) == {"e": 3, "f": 2}


def test_what_an_agent_knows_nothing_of_is_run_again_only_if_its_policy_says_so(
    play: Play, context: Context, clock: Clock
) -> None:
    agent = play()
    again = {"attempts": 2, "retry_on": ["CLUSTER_LOST"], "backoff": "1s"}
    add(agent, "plain")
    add(agent, "retries", retry={"on_lost": "retry", "backoff": "1ms"})
    add(agent, "counts", retry=again)
    add(agent, "offered")
    agent.take(3)
    agent.report("counts", "RUNNING")
    assert agent.offered() == {"offered": 1}
    for name in ("offered", "plain", "retries", "counts"):
        assert agent.report(name, "UNKNOWN", 1) is None
    assert phase(agent, "plain") == ("FAILED", "CLUSTER_LOST")
    assert [phase(agent, name)[0] for name in ("retries", "counts", "offered")] == ["QUEUED"] * 3
    decide_undecided(context)
    agent.holding = {}
    clock.advance(0.5)
    assert agent.offered(5) == {"retries": 2, "offered": 2}  # the other one backs off
    assert shown(agent, "counts")["attempt"] == 2


def test_a_new_process_is_asked_for_what_the_old_one_had(agent: PlayedAgent) -> None:
    add(agent, "started", "held", "offered")
    agent.start()
    agent.take()
    agent.offered()
    new = PlayedAgent(client=agent.client, cluster=agent.cluster, token=agent.token, id="new", project=agent.project)
    answer = new.sync(want=1)
    assert attempts(answer["questions"]) == {"started": 1, "held": 1}
    assert attempts(answer["leases"]) == {"offered": 1}
    new.holding = {"started": 1, "offered": 1}
    answer = new.sync(new.event("held", "UNKNOWN", 1))
    assert (attempts(answer["confirmed"]), answer["questions"]) == ({"started": 1, "offered": 1}, [])
    assert phase(agent, "held") == ("FAILED", "CLUSTER_LOST")
    new.finish(["started"])
    assert phase(agent, "started")[0] == "SUCCEEDED"


def test_one_agent_a_cluster_the_newer_one_wins(agent: PlayedAgent) -> None:
    add(agent, "e")
    agent.start()
    new = PlayedAgent(client=agent.client, cluster=agent.cluster, token=agent.token, id="new", project=agent.project)
    new.sync()
    answer = refused(agent.post(events=[agent.event("e", "FAILED")]), 409, "agent_replaced")
    assert agent.cluster in answer["message"]
    assert phase(agent, "e")[0] == "RUNNING"
    assert get(agent.client, f"clusters/{agent.cluster}")["agent"] == "new"
    new.holding = {"e": 1}
    assert attempts(new.sync()["confirmed"]) == {"e": 1}


def test_a_first_sync_that_waits_does_not_take_the_cluster_back(shared_app: Flask, agent: PlayedAgent) -> None:
    """Nor does it act on what its agent held and wanted when it began to wait."""
    old = PlayedAgent(
        client=shared_app.test_client(), cluster=agent.cluster, token=agent.token, id="old", project=agent.project
    )
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(old.post(want=5, wait_seconds=20)))
    waiting.start()
    wait_until(lambda: get(agent.client, f"clusters/{agent.cluster}")["agent"] == "old")
    new = PlayedAgent(client=agent.client, cluster=agent.cluster, token=agent.token, id="new", project=agent.project)
    new.sync()
    add(agent, "e")  # news, by which the old one looks again
    waiting.join(15)
    refused(answers[0], 409, "agent_replaced")
    assert get(agent.client, f"clusters/{agent.cluster}")["agent"] == "new"
    assert new.take(5) == ["e"]


def test_a_sync_that_is_overtaken_while_it_waits_gives_no_leases(
    shared_app: Flask, agent: PlayedAgent, clock: Clock
) -> None:
    other_call = PlayedAgent(
        client=shared_app.test_client(), cluster=agent.cluster, token=agent.token, sequence=1, project=agent.project
    )
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(other_call.sync(want=5, wait_seconds=20)))
    began = get(agent.client, f"clusters/{agent.cluster}")["last_sync_at"]
    clock.advance(1)
    waiting.start()
    wait_until(lambda: get(agent.client, f"clusters/{agent.cluster}")["last_sync_at"] > began)
    clock.advance(1)
    agent.sync(want=0)  # the same process says meanwhile that it wants nothing
    add(agent, "e")
    waiting.join(15)
    assert [(answer["leases"], answer["questions"]) for answer in answers] == [([], [])]
    assert "lease_expires_at" not in shown(agent, "e")


# Ending


def test_what_is_cancelled_ends_when_its_agent_says_so(agent: PlayedAgent) -> None:
    add(agent, "waits", "offered", "held", "runs", "finishes")
    assert terminate(agent, "waits")["phase"] == "ABORTED"
    agent.take(3)
    assert agent.holding.keys() == {"offered", "held", "runs"}
    agent.report("runs", "RUNNING")
    assert agent.offered() == {"finishes": 1}
    agent.holding["finishes"] = 1
    del agent.holding["offered"]
    for name in ("offered", "held", "runs", "finishes"):
        assert terminate(agent, name)["phase"] == "ABORTING"
        assert terminate(agent, name)["changed"] is False
    answer = agent.sync(want=5)
    assert sorted(names(answer["cancels"])) == ["finishes", "held", "runs"]
    assert {cancel["reason"] for cancel in answer["cancels"]} == {"enough"}
    assert (names(answer["questions"]), answer["confirmed"]) == (["offered"], [])
    assert agent.report("held", "RUNNING") is None  # it had started already: no news
    assert phase(agent, "held") == ("ABORTING", "TERMINATED")
    for name, kind in {"held": "ABORTED", "runs": "FAILED", "finishes": "SUCCEEDED", "offered": "UNKNOWN"}.items():
        assert agent.report(name, kind, 1, exit_code=137) is None
        assert phase(agent, name) == ("ABORTED", "TERMINATED")
    assert shown(agent, "finishes")["closure"]["reason"]["message"] == "enough. It had succeeded by then."
    by = {"principal": "anonymous", "author": "anonymous"}
    abort = shown(agent, "runs")["closure"]["abort_metadata"]
    requested_at = abort.pop("requested_at")
    assert abort == {"cause": "enough", **by}
    events = get(agent.client, f"executions/{agent.project}/development/runs/events")["events"]
    assert requested_at == next(event["at"] for event in events if event["type"] == "ABORTING")


def test_what_is_cancelled_is_not_run_again_whatever_its_policy(agent: PlayedAgent) -> None:
    for name, kind in {"f": "FAILED", "t": "TIMED_OUT", "u": "UNKNOWN", "d": "DECLINED", "r": "RELEASED"}.items():
        add(agent, name, retry={"attempts": 9, "on_lost": "retry"})
        agent.take()
        terminate(agent, name)
        assert agent.report(name, kind) is None
        del agent.holding[name]
        assert (phase(agent, name), shown(agent, name)["attempt"]) == (("ABORTED", "TERMINATED"), 1)


# Running again


def test_attempts_follow_each_other_with_a_wait_that_doubles(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "e", retry={"attempts": 4, "backoff": "10s", "retry_on": ["FAILED"]})
    for number, wait in ((1, 10), (2, 20), (3, 40)):
        assert agent.start() == ["e"]
        assert agent.holding == {"e": number}
        agent.finish(["e"], "FAILED", reason="CRASHED", message="oh", exit_code=number, native_id=str(number))
        execution = shown(agent, "e")
        assert (execution["attempt"], execution["cluster"]) == (number + 1, agent.cluster)
        assert execution["closure"]["phase"] == "QUEUED"
        assert execution["closure"]["reason"] == {
            "code": "RETRY",
            "message": f"Attempt {number} ended FAILED (CRASHED): oh",
        }
        assert (execution["exit_code"], execution["native_id"]) == (number, str(number))
        assert "lease_expires_at" not in execution
        assert not execution["closure"].keys() & {"started_at", "finished_at"}
        assert agent.report("e", "SUCCEEDED", number) == "OLD_ATTEMPT"
        clock.advance(wait - 1)
        assert agent.offered() == {}
        clock.advance(1)
    agent.start()
    agent.finish(["e"], "FAILED", reason="CRASHED")
    assert (phase(agent, "e"), shown(agent, "e")["attempt"]) == (("FAILED", "CRASHED"), 4)
    assert types(agent, "e") == [*["CREATED"], *["RUNNING", "RETRY", "REFUSED"] * 3, "RUNNING", "FAILED"]


def test_only_what_the_policy_lists_is_run_again(agent: PlayedAgent, clock: Clock) -> None:
    for name, kind, follows in (
        ("e0", "TIMED_OUT", False),
        ("e1", "FAILED", True),
        ("e2", "ABORTED", False),
        ("e3", "SUCCEEDED", False),
    ):
        add(agent, name, retry={"attempts": 2, "backoff": "1s", "retry_on": ["FAILED"]})
        agent.start()
        agent.finish([name], kind)
        assert (phase(agent, name)[0], shown(agent, name)["attempt"]) == (("QUEUED", 2) if follows else (kind, 1))


def test_a_next_attempt_has_its_whole_queueing_budget_and_goes_where_work_is_taken(
    play: Play, context: Context, clock: Clock
) -> None:
    agent, other = play("a"), play("b")
    put_pool(agent.client, agent.project, [agent.cluster, other.cluster], strategy="spill")
    retry = {"attempts": 2, "backoff": "5s"}
    quality = {"spec": {"queueing_budget": "30s"}}
    created(agent.client, "e", project=agent.project, retry=retry, quality_of_service=quality, **pool(agent.project))
    agent.start()
    clock.advance(100)  # it ran for longer than it might have waited
    switch(agent.client, agent.cluster, "cordon")
    decide_waiting(context)
    agent.finish(["e"], "FAILED")
    decide_undecided(context)
    end_overdue(context)
    execution = shown(agent, "e")
    assert (execution["closure"]["phase"], execution["cluster"]) == ("QUEUED", other.cluster)
    clock.advance(5 + 29)
    end_overdue(context)
    assert phase(agent, "e")[0] == "QUEUED"
    clock.advance(2)
    end_overdue(context)
    assert phase(agent, "e") == ("TIMED_OUT", "QUEUEING_BUDGET_EXCEEDED")


def test_what_an_agent_has_is_not_ended_by_its_queueing_budget(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "e", quality_of_service={"spec": {"queueing_budget": "10s"}})
    agent.take()
    clock.advance(11)
    end_overdue(context)
    assert agent.report("e", "RUNNING") is None
    agent.finish(["e"])
    assert phase(agent, "e")[0] == "SUCCEEDED"
