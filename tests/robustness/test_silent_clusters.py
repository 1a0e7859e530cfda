"""What may run at a cluster that is silent: waited for, heard again, given up; on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from flask.testing import FlaskClient

from admin.core.times import show_time
from admin.services.clocks import accept_clock, follow_clock
from admin.services.context import Context
from admin.services.evictions import end_drained, evict_from_lost, judge_health
from admin.services.reconciliations import end_reconciliations
from admin.services.redecisions import decide_undecided
from admin.store import loop_leases, reconciliations
from tests.support.agents import (
    Clock,
    PlayedAgent,
    WatchedClock,
    add,
    attempts,
    names,
    phase,
    played_agent,
    settled_after,
    shown,
    types,
    watched_clock,
)
from tests.support.placing import API, DOMAIN, create, created, explanation, get, ok, pool, put_pool, refused, switch

UNREACHABLE, LOST, LEASE, GIVE_UP = 9, 30, 6, 200
SECTIONS = {
    "agents": {
        "unreachableSeconds": UNREACHABLE,
        "lostSeconds": LOST,
        "leaseSeconds": LEASE,
        "waitSeconds": 1,
        "giveUpAfter": f"{GIVE_UP}s",
    }
}


clock = watched_clock()
context = settled_after(GIVE_UP + LOST)


@pytest.fixture
def agent(shared: FlaskClient, context: Context, project: str) -> PlayedAgent:
    return played_agent(shared, context, f"a-{project}", project=project, instance="first")


def pass_time(context: Context, clock: Clock, seconds: float) -> list[str]:
    """Let time pass, and look at what is silent; returns the names of what was judged."""
    clock.advance(seconds)
    judge_health(context)
    judged = [lease.name for lease in evict_from_lost(context, 10_000)]
    decide_undecided(context)
    return judged


def end(agent: PlayedAgent, name: str, *, dry_run: bool = False, **body: Any) -> Any:
    query = "?dry_run=true" if dry_run else ""
    return agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/{name}{query}", json=body)


def preview(agent: PlayedAgent, name: str, **body: Any) -> Any:
    """Its phase now, whether ending it would change it, its phase then, and what is silent; asking changes nothing."""
    before = shown(agent, name)
    answer = ok(end(agent, name, dry_run=True, **body))
    assert answer["dry_run"] is True
    assert shown(agent, name) == before
    return answer["phase"], answer["changed"], answer.get("phase_after"), answer.get("message")


# Waiting


def test_what_runs_at_a_silent_cluster_is_waited_for_and_its_result_counts(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "runs", "held", "offered")
    agent.start()
    agent.take()
    agent.offered()
    last_heard = get(agent.client, f"clusters/{agent.cluster}")["last_sync_at"]
    assert pass_time(context, clock, LEASE) == []  # it may still be heard: the cluster is not silent yet
    assert sorted(pass_time(context, clock, UNREACHABLE)) == ["held", "runs"]
    assert phase(agent, "runs") == ("RUNNING", "CLUSTER_SILENT")
    assert phase(agent, "held") == ("QUEUED", "CLUSTER_SILENT")
    message = shown(agent, "runs")["closure"]["reason"]["message"]
    assert f"'{agent.cluster}' has been silent since {last_heard[:19]}" in message
    assert pass_time(context, clock, LOST) == ["offered"]  # nobody had started that one
    for _ in range(3):
        assert pass_time(context, clock, LOST) == []
    assert [lease["attempt"] for lease in (shown(agent, "runs"), shown(agent, "held"))] == [1, 1]
    executions = get(agent.client, f"executions/{agent.project}/{DOMAIN}?reason=CLUSTER_SILENT")["executions"]
    assert sorted(names(executions)) == ["held", "runs"]
    # The agent returns, and still has both.
    assert attempts(agent.sync()["confirmed"]) == {"runs": 1, "held": 1}
    assert (phase(agent, "runs"), phase(agent, "held")) == (("RUNNING", "RUNNING"), ("QUEUED", "ASSIGNED"))
    assert types(agent, "runs") == ["CREATED", "RUNNING", "SILENT", "HEARD"]
    agent.sync()
    assert types(agent, "runs")[-1] == "HEARD"  # once
    agent.finish(["runs"])
    agent.finish(["held"])
    assert (phase(agent, "runs")[0], phase(agent, "held")[0]) == ("SUCCEEDED", "SUCCEEDED")


def test_a_result_that_an_agent_brings_back_counts_at_once(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    add(agent, "e")
    agent.start()
    pass_time(context, clock, LOST + 1)
    assert phase(agent, "e") == ("RUNNING", "CLUSTER_SILENT")
    agent.finish(["e"], "FAILED", exit_code=3)
    assert (phase(agent, "e")[0], shown(agent, "e")["exit_code"]) == ("FAILED", 3)
    assert types(agent, "e") == ["CREATED", "RUNNING", "SILENT", "FAILED"]


def test_each_silence_is_noted_once(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    add(agent, "e")
    agent.start()
    for _ in range(2):
        pass_time(context, clock, UNREACHABLE + 1)
        pass_time(context, clock, LOST)
        agent.sync()
    assert types(agent, "e") == ["CREATED", "RUNNING", *["SILENT", "HEARD"] * 2]


def test_what_waits_for_an_agent_that_was_replaced_is_given_up_in_time(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "e")
    agent.start()
    second = replace(agent, id="agent-2", instance="second", sequence=0, holding={})
    assert pass_time(context, clock, UNREACHABLE + 1) == ["e"]
    for _ in range((GIVE_UP - UNREACHABLE - 1) // 5 - 1):
        second.sync()
        assert phase(agent, "e") == ("RUNNING", "CLUSTER_SILENT")
        assert pass_time(context, clock, 5) == []
    assert pass_time(context, clock, 5) == ["e"]
    assert phase(agent, "e") == ("FAILED", "CLUSTER_LOST")


def listed(agent: PlayedAgent, query: str) -> dict[str, Any]:
    """The executions that a query selects, by their names."""
    executions = get(agent.client, f"executions/{agent.project}/{DOMAIN}?{query}")["executions"]
    return {execution["id"]["name"]: execution for execution in executions}


def last_message(agent: PlayedAgent, name: str) -> Any:
    """What the last event of an execution says."""
    return get(agent.client, f"executions/{agent.project}/{DOMAIN}/{name}/events")["events"][-1]["reason"]["message"]


def test_what_is_waited_for_ends_when_the_cluster_is_given_up(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "runs", "aborted")
    add(agent, "again", retry={"attempts": 2, "retry_on": ["CLUSTER_LOST"]})
    agent.start(3)
    ok(end(agent, "aborted", cause="enough"))
    assert len(pass_time(context, clock, GIVE_UP - 1)) == 3
    assert phase(agent, "aborted") == ("ABORTING", "TERMINATED")
    assert types(agent, "aborted")[-1] == "SILENT"
    assert "and it is ended when the agent returns." in last_message(agent, "aborted")
    assert "and its result counts when the agent returns." in last_message(agent, "runs")
    assert sorted(listed(agent, "silent=true")) == ["aborted", "again", "runs"]
    assert sorted(listed(agent, "silent=true&phase=ABORTING")) == ["aborted"]
    assert listed(agent, "unconfirmed=true") == {}
    assert len(pass_time(context, clock, 1)) == 3
    assert listed(agent, "silent=true") == {}
    ended = listed(agent, "unconfirmed=true")
    assert {name: execution["unconfirmed"] for name, execution in ended.items()} == {
        "aborted": True,
        "runs": True,
    }
    assert sorted(listed(agent, "filters=eq(unconfirmed,false)")) == ["again"]
    assert phase(agent, "runs") == ("FAILED", "CLUSTER_LOST")
    assert phase(agent, "aborted") == ("ABORTED", "TERMINATED")
    assert (phase(agent, "again")[0], shown(agent, "again")["attempt"]) == ("QUEUED", 2)
    assert sorted(names(agent.sync()["lost"])) == ["aborted", "again", "runs"]  # and its agent ends the jobs


def test_everything_at_a_silent_cluster_is_selected_whatever_its_policy(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "waits")
    add(agent, "retries", retry={"on_lost": "retry"})
    add(agent, "fails", retry={"on_lost": "fail"})
    agent.start(3)
    add(agent, "queued")
    for name, on_lost in (("waits", "wait"), ("retries", "retry"), ("fails", "fail"), ("queued", "wait")):
        status = get(agent.client, f"executions/{agent.project}/{DOMAIN}/{name}/explanation")["status"]
        assert (status["on_lost"], "if_silent" in status) == (on_lost, name != "queued")
    assert listed(agent, "silent=true") == {}
    pass_time(context, clock, UNREACHABLE + 1)
    silent = listed(agent, "silent=true")
    assert sorted(silent) == ["fails", "queued", "retries", "waits"]
    assert all("silence" in execution for execution in silent.values())
    status = get(agent.client, f"executions/{agent.project}/{DOMAIN}/fails/explanation")["status"]
    assert (status["on_lost"], "if_silent" in status) == ("fail", False)
    agent.sync()
    assert listed(agent, "silent=true") == {}


def test_an_agent_that_returns_ends_what_was_aborted_meanwhile(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "e")
    agent.start()
    pass_time(context, clock, LOST + 1)
    assert ok(end(agent, "e", cause="enough"))["phase"] == "ABORTING"
    assert names(agent.sync()["cancels"]) == ["e"]
    agent.finish(["e"], "ABORTED")
    assert phase(agent, "e") == ("ABORTED", "TERMINATED")
    assert types(agent, "e") == ["CREATED", "RUNNING", "SILENT", "ABORTING", "HEARD", "ABORTED"]


# Retrying


def test_two_attempts_are_never_more_than_two_however_many_clusters_are_lost(
    shared: FlaskClient, context: Context, clock: Clock, project: str
) -> None:
    agents = [played_agent(shared, context, f"{word}-{project}", project=project) for word in "abcd"]
    put_pool(shared, project, [agent.cluster for agent in agents], strategy="spill")
    retry = {"attempts": 2, "on_lost": "retry", "backoff": "3s"}
    created(shared, "e", project=project, retry=retry, **pool(project))
    first, second, *others = agents
    first.start()
    clock.advance(LOST - 2)
    for agent in agents[1:]:
        agent.sync()
    pass_time(context, clock, 3)
    assert (phase(second, "e")[0], shown(second, "e")["attempt"]) == ("QUEUED", 2)
    assert second.offered() == {}  # it backs off
    clock.advance(3)
    second.start()
    assert second.holding == {"e": 2}
    pass_time(context, clock, LOST + 1)
    assert phase(second, "e") == ("FAILED", "CLUSTER_LOST")
    assert types(second, "e").count("RUNNING") == 2
    assert [agent.offered() for agent in others] == [{}, {}]


def test_what_was_given_back_before_it_started_is_no_attempt(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "e", retry={"attempts": 2, "backoff": "1s"})
    for attempt in (1, 2, 3):
        agent.take()
        assert agent.report("e", "RELEASED", attempt) is None
        agent.holding = {}
    agent.start()
    agent.finish(["e"], "FAILED")
    assert (phase(agent, "e"), shown(agent, "e")["attempt"]) == (("QUEUED", "RETRY"), 5)
    clock.advance(1)
    agent.start()
    agent.finish(["e"], "FAILED")
    assert phase(agent, "e")[0] == "FAILED"


def test_a_policy_that_cannot_be_kept_is_refused(agent: PlayedAgent) -> None:
    retry = {"attempts": 1, "on_lost": "retry"}
    answer = create(agent.client, "e", project=agent.project, cluster=agent.cluster, retry=retry)
    refused(answer, 400, "invalid_request", "spec.retry.attempts")


# Giving up


def test_an_operator_gives_up_what_is_waited_for(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    add(agent, "runs", "aborted")
    agent.start(2)
    ok(end(agent, "aborted", cause="enough", claimed_by="me"))
    pass_time(context, clock, LOST + 1)
    body: dict[str, Any] = {"give_up": True, "cause": "the rack burnt down", "claimed_by": "ops"}
    answer = ok(end(agent, "runs", **body))
    assert (answer["phase"], answer["changed"]) == ("FAILED", True)
    assert ok(end(agent, "aborted", **body))["phase"] == "ABORTED"
    assert (phase(agent, "runs"), phase(agent, "aborted")) == (("FAILED", "CLUSTER_LOST"), ("ABORTED", "TERMINATED"))
    message = shown(agent, "runs")["closure"]["reason"]["message"]
    given_up = "Given up by anonymous (says ops): the rack burnt down"
    unconfirmed = "Nobody has confirmed that its job has ended."
    assert message == f"{given_up}. {unconfirmed}"
    message = shown(agent, "aborted")["closure"]["reason"]["message"]
    assert message == f"enough. {unconfirmed} {given_up}"
    by = {"principal": "me", "author": "anonymous", "claimed_by": "me"}
    abort = shown(agent, "aborted")["closure"]["abort_metadata"]
    requested_at = abort.pop("requested_at")
    given_up_by = {"author": "anonymous", "claimed_by": "ops"}
    ended_at = shown(agent, "aborted")["closure"]["finished_at"]
    assert abort == {"cause": "enough", **by, "given_up": {**given_up_by, "at": ended_at}}
    events = get(agent.client, f"executions/{agent.project}/{DOMAIN}/aborted/events")["events"]
    assert requested_at == next(event["at"] for event in events if event["type"] == "ABORTING")
    for name in ("runs", "aborted"):
        event = get(agent.client, f"executions/{agent.project}/{DOMAIN}/{name}/events")["events"][-1]
        assert (event["type"], event["by"], event["cluster"]) == ("GIVEN_UP", "ops", agent.cluster)
        assert "the rack burnt down" in event["reason"]["message"]
    assert ok(end(agent, "runs", **body))["changed"] is False  # it has ended
    answer = agent.sync(agent.event("runs", "SUCCEEDED"))
    assert [refusal["reason"] for refusal in answer["refused"]] == ["PHASE"]
    assert sorted(names(answer["lost"])) == ["aborted", "runs"]  # its agent is told to end the jobs


def test_what_somebody_gave_up_is_found_under_their_name(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    add(agent, "given", "lost")
    agent.start(2)
    pass_time(context, clock, LOST + 1)
    actor = f"otto-{agent.project}"
    ok(end(agent, "given", give_up=True, cause="the rack burnt down", claimed_by=actor))
    pass_time(context, clock, GIVE_UP)
    assert phase(agent, "lost") == phase(agent, "given") == ("FAILED", "CLUSTER_LOST")
    by = {"principal": actor, "author": "anonymous", "claimed_by": actor}
    abort = shown(agent, "given")["closure"]["abort_metadata"]
    given_up = {"author": "anonymous", "claimed_by": actor, "at": shown(agent, "given")["closure"]["finished_at"]}
    assert abort == {"cause": "Given up: the rack burnt down", **by, "given_up": given_up}
    assert "abort_metadata" not in shown(agent, "lost")["closure"]
    for name in (actor, quote(f"anonymous (says {actor})")):
        [entry] = get(agent.client, f"timeline?actor={name}&executions=true")["entries"]
        assert (entry["execution"]["name"], entry["type"], entry["cause"]) == ("given", "FAILED", "CLUSTER_LOST")
        assert (entry["author"], entry["claimed_by"]) == ("anonymous", actor)
        [listed] = get(agent.client, f"executions?abort_principal={name}")["executions"]
        assert listed["id"]["name"] == "given"
    [unknown] = get(agent.client, f"timeline?actor={actor}x&executions=true")["unknown_names"]
    assert actor in unknown["closest"]


def test_what_one_cancelled_and_another_gave_up_is_found_under_both_names(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "both")
    agent.start()
    ana, otto = f"ana-{agent.project}", f"otto-{agent.project}"
    ok(end(agent, "both", cause="enough", claimed_by=ana))
    pass_time(context, clock, LOST + 1)
    ok(end(agent, "both", give_up=True, cause="the rack burnt down", claimed_by=otto))
    for name in (ana, otto, quote(f"anonymous (says {otto})")):
        [entry] = get(agent.client, f"timeline?actor={name}&executions=true")["entries"]
        assert (entry["claimed_by"], entry["given_up"]["claimed_by"]) == (ana, otto)
        [listed] = get(agent.client, f"executions?abort_principal={name}")["executions"]
        assert listed["closure"]["abort_metadata"]["given_up"]["claimed_by"] == otto
        excluded = f"ne(abort_principal,{name})%2Beq(project,{agent.project})"
        assert get(agent.client, f"executions?filters={excluded}")["executions"] == []
    [unknown] = get(agent.client, f"executions?abort_principal={otto}x")["unknown_names"]
    assert otto in unknown["closest"]
    explanation = get(agent.client, f"executions/{agent.project}/{DOMAIN}/both/explanation")
    asked = f"cancelled {LOST + 1} s ago by anonymous (says {ana}) and given up by anonymous (says {otto})"
    assert explanation["status"]["message"].startswith(f"ABORTED on {agent.cluster} 0 s ago, {asked}: enough.")


@pytest.mark.parametrize("is_lost_first", [True, False])
@pytest.mark.parametrize("is_given_up", [True, False])
def test_what_was_lost_before_its_cluster_was_drained_ends_for_the_loss(
    agent: PlayedAgent, context: Context, clock: Clock, is_lost_first: bool, is_given_up: bool
) -> None:
    add(agent, "runs")
    agent.start()
    if is_lost_first:
        pass_time(context, clock, LOST + 1)
    switch(agent.client, agent.cluster, "drain", deadline="40s", claimed_by="ana")
    pass_time(context, clock, 41)
    end_drained(context)
    assert phase(agent, "runs") == ("ABORTING", "DRAINED")
    if is_given_up:
        ok(end(agent, "runs", give_up=True, claimed_by="bob"))
    else:
        pass_time(context, clock, GIVE_UP)
    closure = shown(agent, "runs")["closure"]
    reason, cause = ("CLUSTER_LOST", "CLUSTER_LOST") if is_lost_first else ("DRAINED", "PLATFORM")
    assert (closure["phase"], closure["reason"]["code"], closure["cause"]) == ("ABORTED", reason, cause)
    message = closure["reason"]["message"]
    assert "Its cluster was drained (event " in message, "it is told in both cases"
    assert "Nobody has confirmed that its job has ended." in message
    ended_by = "bob" if is_lost_first and is_given_up else None if is_lost_first else "ana"
    assert closure.get("abort_metadata", {}).get("claimed_by") == ended_by
    [attempt] = explanation(agent.client, "runs", project=agent.project)["attempts"]
    assert (attempt["reason"]["code"], attempt["cause"]) == (reason, cause)
    listed = get(agent.client, f"executions/{agent.project}/{DOMAIN}?filters=eq(cause,{cause})")
    assert [row["id"]["name"] for row in listed["executions"]] == ["runs"]


def test_a_dry_run_says_what_ending_or_giving_up_does(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    add(agent, "runs", "aborted", "waits")
    agent.start(2)
    assert preview(agent, "waits") == ("QUEUED", True, "ABORTED", None)
    assert preview(agent, "runs") == ("RUNNING", True, "ABORTING", None)
    ok(end(agent, "aborted", cause="enough"))
    assert preview(agent, "aborted") == ("ABORTING", False, None, None)
    pass_time(context, clock, LOST + 1)
    notes = {name: shown(agent, name)["silence"] for name in ("runs", "aborted")}
    since = show_time(clock() - timedelta(seconds=LOST + 1))
    for name, was, after in (("runs", "RUNNING", "ABORTING"), ("aborted", "ABORTING", None)):
        command = f"`rainbowctl delete execution {agent.project}/{DOMAIN}/{name} --giveUp`"
        remedy = f"Wait, or give it up: {command} ends it without the agent, and records who asked."
        assert preview(agent, name) == (was, after is not None, after, f"{notes[name]} {remedy}")
        assert f"silent since {since}" in notes[name]
        answer = ok(end(agent, name, dry_run=True))
        assert show_time(datetime.fromisoformat(answer["silent_since"])) == since
    assert preview(agent, "aborted")[3].startswith("Nobody has confirmed that its job has ended.")
    assert preview(agent, "runs", give_up=True) == ("RUNNING", True, "FAILED", notes["runs"])
    assert preview(agent, "aborted", give_up=True) == ("ABORTING", True, "ABORTED", notes["aborted"])
    heard = ok(end(agent, "aborted", dry_run=True))["silent_since"]
    assert ok(end(agent, "aborted"))["silent_since"] == heard  # what is really ended says the same
    for name, phase_after in (("runs", "FAILED"), ("aborted", "ABORTED")):
        assert ok(end(agent, name, give_up=True))["phase"] == phase_after
        assert preview(agent, name, give_up=True) == preview(agent, name) == (phase_after, False, None, None)
    refused(end(agent, "nothing", dry_run=True), 404, "execution_not_found")


@pytest.mark.parametrize("dry_run", [False, True])
def test_nothing_is_given_up_that_an_agent_can_end(
    agent: PlayedAgent, context: Context, clock: Clock, dry_run: bool
) -> None:
    add(agent, "runs", "waits")
    agent.start()
    for name, part in (("runs", "is ready"), ("waits", "no agent has it")):
        message = refused(end(agent, name, give_up=True, dry_run=dry_run), 409, "not_silent")["message"]
        assert part in message
        assert f"rainbowctl delete execution {name}" in message
    clock.advance(LEASE + 1)  # its lease is over, but the cluster is not silent for long enough
    assert "is ready" in refused(end(agent, "runs", give_up=True, dry_run=dry_run), 409, "not_silent")["message"]
    assert types(agent, "runs") == ["CREATED", "RUNNING"]
    pass_time(context, clock, UNREACHABLE)
    answer = ok(end(agent, "runs", give_up=True, dry_run=dry_run))
    assert answer["phase_after" if dry_run else "phase"] == "FAILED"
    refused(end(agent, "nothing", give_up=True, dry_run=dry_run), 404, "execution_not_found")


def test_many_are_given_up_by_a_selector_and_others_left_alone(
    shared: FlaskClient, context: Context, clock: Clock, project: str
) -> None:
    silent, other = (played_agent(shared, context, f"{word}-{project}", project=project) for word in "ab")
    add(silent, "e0", "e1", "waits")
    add(other, "f")
    silent.start(2)
    other.start()
    clock.advance(LOST - 2)
    other.sync()
    pass_time(context, clock, 3)
    body = {"selector": {"project": project}, "give_up": True, "cause": "gone"}
    trial = ok(shared.post(f"{API}/executions/terminate?dry_run=true", json=body))
    assert (trial["matched"], sorted(names(trial["executions"]))) == (2, ["e0", "e1"])
    assert all("has been silent since" in ended["message"] for ended in trial["executions"])
    answer = ok(shared.post(f"{API}/executions/terminate", json=body))
    assert (answer["matched"], answer["terminated"]) == (2, 2)
    assert [phase(silent, name)[0] for name in ("e0", "e1", "waits", "f")] == ["FAILED", "FAILED", "QUEUED", "RUNNING"]


def test_many_that_are_ended_are_told_apart_by_whether_their_agents_are_silent(
    shared: FlaskClient, context: Context, clock: Clock, project: str
) -> None:
    silent, other = (played_agent(shared, context, f"{word}-{project}", project=project) for word in "ab")
    add(silent, "runs", "waits")
    add(other, "f")
    silent.start(1)
    other.start()
    since = seconds_after(silent, 0)
    clock.advance(LOST - 2)
    other.sync()
    pass_time(context, clock, 3)
    body = {"selector": {"project": project}, "cause": "gone"}
    for query, phases in (
        ("?dry_run=true", {"runs": "RUNNING", "waits": "QUEUED", "f": "RUNNING"}),
        ("", {"runs": "ABORTING", "waits": "ABORTED", "f": "ABORTING"}),
    ):
        ended = ok(shared.post(f"{API}/executions/terminate{query}", json=body))["executions"]
        by_name = {answer["id"]["name"]: answer for answer in ended}
        assert {name: answer["phase"] for name, answer in by_name.items()} == phases
        told = {name: answer["silent_since"] for name, answer in by_name.items() if "silent_since" in answer}
        assert told == {"runs": since}
        assert "has been silent since" in by_name["runs"]["message"]
        assert "message" not in by_name["f"] | by_name["waits"]


def test_what_a_silent_agent_has_and_has_not_started_is_told_apart_before_it_is_ended_too(
    shared: FlaskClient, context: Context, clock: Clock, project: str
) -> None:
    agent: PlayedAgent = played_agent(shared, context, f"a-{project}", project=project)
    add(agent, "held", "waits")
    assert agent.take() == ["held"]
    pass_time(context, clock, UNREACHABLE + 1)
    body = {"selector": {"project": project}, "cause": "gone"}
    for query in ("?dry_run=true", ""):
        ended = ok(shared.post(f"{API}/executions/terminate{query}", json=body))["executions"]
        assert [answer["id"]["name"] for answer in ended if "silent_since" in answer] == ["held"]


def test_an_agent_that_returns_has_its_time_to_answer_what_it_is_asked(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    """Two syncs may come at once from one that was silent for long, before it has heard what it was asked."""
    add(agent, "ended")
    agent.start()
    held, agent.holding = agent.holding, {}
    pass_time(context, clock, LEASE + LOST + 5)
    assert names(agent.sync()["questions"]) == ["ended"]
    clock.advance(1)
    assert names(agent.sync()["questions"]) == ["ended"]
    assert phase(agent, "ended")[0] == "RUNNING"
    agent.holding = held
    agent.finish(["ended"])
    assert phase(agent, "ended")[0] == "SUCCEEDED"


def test_an_agent_that_never_answers_has_lost_what_it_is_asked_about(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "gone")
    agent.start()
    agent.holding = {}
    pass_time(context, clock, LEASE + LOST + 5)
    for _ in range(LOST // (UNREACHABLE - 1) + 2):
        assert phase(agent, "gone")[0] == "RUNNING"
        agent.sync()
        clock.advance(UNREACHABLE - 1)
    agent.sync()
    assert phase(agent, "gone") == ("FAILED", "CLUSTER_LOST")


# Explaining


def silence_of(agent: PlayedAgent, name: str) -> Any:
    return explanation(agent.client, name, project=agent.project).get("silence")


def seconds_after(agent: PlayedAgent, seconds: float) -> str:
    """A time after the last sync of a cluster, as answers show it."""
    last = datetime.fromisoformat(get(agent.client, f"clusters/{agent.cluster}")["last_sync_at"])
    return (last + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def test_a_silent_cluster_says_when_it_counts_as_lost(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    def told() -> tuple[str | None, str | None]:
        cluster = get(agent.client, f"clusters/{agent.cluster}")
        return cluster.get("lost_at"), cluster.get("when_lost")

    assert told() == (None, None)
    pass_time(context, clock, LEASE)
    pass_time(context, clock, UNREACHABLE)
    at, message = told()
    assert at is not None
    assert message is not None
    assert at >= seconds_after(agent, LOST)
    assert message.startswith("It counts as lost ")
    assert "(agents.lostSeconds: " in message
    for _ in range(2):
        pass_time(context, clock, LOST)
    assert told() == (None, None)


def test_an_explanation_says_what_the_silence_of_a_cluster_means(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "waits")
    add(agent, "fails", retry={"on_lost": "fail"})
    add(agent, "again", retry={"on_lost": "retry"})
    agent.start(3)
    add(agent, "offered")
    agent.offered()
    add(agent, "unoffered")
    assert silence_of(agent, "waits") is None
    since, lease, lost, given_up = (seconds_after(agent, seconds) for seconds in (0, LEASE, LOST, GIVE_UP))
    pass_time(context, clock, UNREACHABLE + 1)
    waits = silence_of(agent, "waits")
    assert {**waits, "message": ""} == {
        "since": since,
        "on_lost": "wait",
        "lease_expires_at": lease,
        "next_at": given_up,
        "note": f"Cluster '{agent.cluster}' has been silent since {since[:19]}Z.",
        "message": "",
    }
    assert f"Cluster '{agent.cluster}' has been silent since {since[:19]}Z." in waits["message"]
    assert f"it ends FAILED (CLUSTER_LOST) at {given_up[:19]}Z (agents.giveUpAfter)" in waits["message"]
    assert f"`rainbowctl delete execution {agent.project}/{DOMAIN}/waits --giveUp` ends it" in waits["message"]
    fails, again = silence_of(agent, "fails"), silence_of(agent, "again")
    assert (fails["on_lost"], fails["next_at"], again["next_at"]) == ("fail", lost, lost)
    assert f"it ends FAILED (CLUSTER_LOST) at {lost[:19]}Z, when the cluster is lost." in fails["message"]
    assert f"another attempt follows at {lost[:19]}Z" in again["message"]
    for name in ("offered", "unoffered"):
        redecided = f"decided again at {lost[:19]}Z, when {agent.cluster} counts as lost."
        assert f"It had not started there, and is {redecided}" in silence_of(agent, name)["message"]
        status = explanation(agent.client, name, project=agent.project)["status"]
        assert (status["next"], status["next_at"]) == (f"It is {redecided}", lost)
    pass_time(context, clock, LOST)
    assert silence_of(agent, "fails") is None  # it has ended
    agent.sync()
    assert silence_of(agent, "waits") is None


def test_another_leader_counts_the_silence_anew_and_answers_say_so(
    agent: PlayedAgent, context: Context, clock: WatchedClock
) -> None:
    add(agent, "waits")
    agent.start()
    add(agent, "queued")

    def lead(holder: str, seconds: float) -> None:
        with context.database.writing() as connection:
            assert loop_leases.take(connection, loop_leases.BACKGROUND, holder, context.clock(), seconds)
            loop_leases.note_start(connection, loop_leases.BACKGROUND, holder, context.clock())

    def told() -> str:
        """When it is decided again, as every answer about it says."""
        explained = explanation(agent.client, "queued", project=agent.project)
        outlook = shown(agent, "queued")["silence_outlook"]
        selector = {"project": agent.project, "filters": "eq(silent,true)"}
        listed = get(agent.client, f"executions?{urlencode(selector)}")["executions"]
        assert [row["silence_outlook"] for row in listed if row["id"]["name"] == "queued"] == [outlook]
        assert outlook in explained["silence"]["message"]
        start, end = "It had not started there, and is decided again ", f", when {agent.cluster} counts as lost."
        return str(outlook.removeprefix(start).removesuffix(end))

    since = context.clock()
    lead("first", UNREACHABLE + 5)
    pass_time(context, clock, UNREACHABLE + 1)
    assert told() == f"at {show_time(since + timedelta(seconds=LOST))}"
    clock.advance(10)  # the leader is gone, and no other has begun
    assert told() == f"at the earliest at {show_time(context.clock() + timedelta(seconds=LOST))}"
    lead("second", 10 * LOST)
    began = context.clock()
    clock.advance(15)  # more than the limit since the last sync, not since the second one listens
    assert told() == f"at {show_time(began + timedelta(seconds=LOST))}"
    clock.advance(LOST)
    assert told() == f"within {LOST} s"
    outlook = shown(agent, "waits")["silence_outlook"]
    assert outlook.startswith("Its job may still run, and its result counts when the agent returns (on_lost: wait); ")
    with context.database.writing() as connection:  # as an older admin leads
        loop_leases.release(connection, loop_leases.BACKGROUND, "second", context.clock())
        assert loop_leases.take(connection, loop_leases.BACKGROUND, "older", context.clock(), 1)
    assert told() == f"within {LOST} s"
    with context.database.writing() as connection:
        connection.execute(loop_leases.loop_leases.delete())


def test_an_explanation_says_why_nothing_is_judged(agent: PlayedAgent, context: Context, clock: WatchedClock) -> None:
    add(agent, "e")
    agent.start()
    pass_time(context, clock, UNREACHABLE + 1)
    with context.database.writing() as connection:
        reconciliations.begin(connection, agent.cluster, clock())
    assert silence_of(agent, "e")["message"].endswith("reconciled: `rainbowctl get reconciliation`.")
    end_reconciliations(context, [], every=True)
    follow_clock(context, clock(), 0)
    clock.step(2 * 86400)
    message = silence_of(agent, "e")["message"]
    assert "it ends FAILED (CLUSTER_LOST) any moment now" in message
    assert message.endswith("while the clock is not trusted: `rainbowctl get clock`.")
    accept_clock(context)
