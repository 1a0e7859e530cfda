"""Attempts, the lease and the other clusters in an explanation, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import update

from admin.services.attempts import MOST_ATTEMPTS
from admin.services.context import Context
from admin.services.evictions import evict_from_lost, judge_health
from admin.services.redecisions import decide_undecided, decide_waiting
from admin.store.execution_tables import execution_events
from tests.support.agents import Clock, PlayedAgent, add, names, played_agent, settled_after, types, watched_clock
from tests.support.placing import API, DOMAIN, asked, created, explanation, get, ok, pool, put_cluster, put_pool, switch
from tests.support.small_fleets import group

SECTIONS = {
    "agents": {"unreachableSeconds": 9, "lostSeconds": 30, "leaseSeconds": 20, "waitSeconds": 1, "giveUpAfter": "200s"}
}


clock = watched_clock()
context = settled_after(300)


@pytest.fixture
def agent(shared: FlaskClient, context: Context, project: str) -> PlayedAgent:
    return played_agent(shared, context, f"birch-{project}", project=project)


def explained(agent: PlayedAgent, name: str) -> Any:
    return explanation(agent.client, name, project=agent.project)


def attempts(agent: PlayedAgent, name: str, *fields: str) -> list[Any]:
    listed = explained(agent, name)["attempts"]
    return [tuple(attempt.get(field) for field in fields) for attempt in listed]


def text(clock: Clock, seconds: float = 0) -> str:
    """A time as agents send it, so many seconds from now."""
    return (clock() + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@pytest.mark.slow
def test_what_is_in_back_off_takes_no_room_until_its_next_attempt_is_due(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    spill = f"spill-{agent.project}"
    put_pool(agent.client, spill, [agent.cluster], strategy="spill")
    room = {"capacity": {"executions": 1}, "free": {"executions": 1}}
    agent.sync(report=room)
    place: dict[str, Any] = {"project": agent.project, **pool(spill)}
    created(agent.client, "fails", **place, retry={"attempts": 2, "backoff": "1h"})
    assert "cluster" not in created(agent.client, "waits", **place)
    agent.start()
    agent.finish(["fails"], "FAILED", exit_code=3)
    agent.sync(report=room)

    def free() -> Any:
        return get(agent.client, f"clusters/{agent.cluster}")["free"]["executions"]

    assert (explained(agent, "fails")["cluster"], free()) == (agent.cluster, 1)
    decide_waiting(context)
    assert (explained(agent, "waits")["cluster"], free()) == (agent.cluster, 0)
    clock.advance(7200)
    assert "cluster" not in created(agent.client, "later", **place)


def test_each_attempt_has_its_native_id_its_times_and_what_ended_it(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "again", retry={"attempts": 3, "backoff": "10s"})
    assert explained(agent, "again")["attempts"] == []
    agent.take()
    assert attempts(agent, "again", "number", "phase", "ended_by") == [(1, "QUEUED", None)]
    agent.report("again", "RUNNING", native_id="first")
    started, ended = text(clock, -5), text(clock, -2)
    clock.advance(4)
    agent.finish(["again"], "FAILED", native_id="first", started_at=started, finished_at=ended, exit_code=3)
    [first] = explained(agent, "again")["attempts"]
    reported = first.pop("reported_at")
    assert first.pop("reason").keys() == {"code", "message"}
    assert first == {
        "number": 1,
        "attempt_number": 1,
        "cluster": agent.cluster,
        "phase": "FAILED",
        "cause": "EXIT_CODE",
        "ended_by": "exit 3",
        "native_id": "first",
        "exit_code": 3,
        "started_at": started,
        "ended_at": ended,
    }
    events = get(agent.client, f"executions/{agent.project}/{DOMAIN}/again/events")["events"]
    assert reported == events[-1]["at"] > ended
    assert events[-1]["attempt"]["native_id"] == "first"
    assert "attempt" not in events[0]
    clock.advance(11)
    agent.start()
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/again", json={"claimed_by": "ana"}))
    agent.finish(["again"], "ABORTED", native_id="second", signal=15)
    shown = attempts(agent, "again", "number", "phase", "native_id", "ended_by", "cause", "ended_at")
    assert shown[1] == (2, "ABORTED", "second", "cancelled by anonymous (says ana)", "CANCELLED", None)


def test_times_that_cannot_be_read_keep_no_report_from_arriving(agent: PlayedAgent) -> None:
    add(agent, "odd")
    agent.start()
    agent.finish(["odd"], finished_at="yesterday", started_at=["x"])
    [(phase, started_at, ended_at)] = attempts(agent, "odd", "phase", "started_at", "ended_at")
    assert (phase, started_at is None, ended_at) == ("SUCCEEDED", False, None)
    add(agent, "far")
    agent.start()
    agent.finish(["far"], finished_at="0001-01-01T00:00:00+14:00")
    assert attempts(agent, "far", "ended_at") == [(None,)]


def test_attempts_that_never_began_and_lost_ones_are_told_apart(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "lost", retry={"on_lost": "retry"})
    agent.take()
    agent.report("lost", "RELEASED", message="Not now.")
    agent.holding.clear()
    agent.take()
    agent.report("lost", "RUNNING", native_id="n2")
    clock.advance(40)
    judge_health(context)
    evict_from_lost(context, 10_000)
    assert attempts(agent, "lost", "number", "phase", "ended_by", "native_id", "ended_at") == [
        (1, "RELEASED", "released", None, None),
        (2, "FAILED", "cluster lost", "n2", None),
    ]
    assert attempts(agent, "lost", "attempt_number", "unconfirmed", "confirmed_at") == [
        (None, None, None),
        (1, True, None),
    ]
    assert explained(agent, "lost")["status"]["last_failure"]["cause"] == "CLUSTER_LOST"
    agent.holding.clear()
    clock.advance(15)
    agent.sync()
    decide_waiting(context)
    agent.start()
    clock.advance(40)
    judge_health(context)
    evict_from_lost(context, 10_000)
    why = "No other attempt follows: its 2 attempts are used up, the default with on_lost: retry."
    assert explained(agent, "lost")["status"]["message"].endswith(why)


def test_who_gave_it_up_is_said_and_that_nobody_has_confirmed(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "gone")
    agent.start()
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/gone", json={"cause": "x", "claimed_by": "ana"}))
    clock.advance(40)
    judge_health(context)
    standing = explained(agent, "gone")["status"]
    assert standing["message"].startswith(
        f"ABORTING on {agent.cluster} for 40 s, by anonymous (says ana): x. Nobody has "
    )
    assert "silent since" in standing["message"]
    path = f"executions/{agent.project}/{DOMAIN}"
    note = get(agent.client, f"{path}/gone")["silence"]
    assert note.startswith(f"Nobody has confirmed that its job has ended. Cluster '{agent.cluster}' has been silent ")
    assert [entry["silence"] for entry in get(agent.client, path)["executions"]] == [note]
    assert explained(agent, "gone")["silence"]["note"] == note
    body = {"give_up": True, "claimed_by": "ops"}
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/gone", json=body))
    assert attempts(agent, "gone", "phase", "ended_by") == [("ABORTED", "given up by anonymous (says ops)")]
    unconfirmed = "Nobody has confirmed that its job has ended."
    assert unconfirmed in explained(agent, "gone")["status"]["message"]
    assert attempts(agent, "gone", "unconfirmed") == [(True,)]
    ended = text(clock, -7)
    clock.advance(5)
    assert agent.report("gone", "ABORTED", finished_at=ended) is None
    clock.advance(1)
    assert agent.report("gone", "ABORTED", finished_at=ended) is None  # the same again changes nothing
    taken = get(agent.client, f"executions/{agent.project}/{DOMAIN}/gone")["closure"]["duration"]
    assert (taken, explained(agent, "gone")["status"]["times"]["run_seconds"]) == (33.0, 33.0)  # until it really ended
    [(unconfirmed_now, ended_at, confirmed_at)] = attempts(agent, "gone", "unconfirmed", "ended_at", "confirmed_at")
    assert (unconfirmed_now, ended_at) == (None, ended)
    message = explained(agent, "gone")["status"]["message"]
    assert unconfirmed not in message
    assert f"Cluster '{agent.cluster}' confirmed at {confirmed_at[:19]}Z that its job has ended." in message
    listed = get(agent.client, f"executions/{agent.project}/{DOMAIN}")["executions"][0]["closure"]["reason"]["message"]
    assert listed == get(agent.client, f"executions/{agent.project}/{DOMAIN}/gone")["closure"]["reason"]["message"]
    assert unconfirmed not in listed


def test_a_run_that_went_on_after_it_was_given_up_has_one_run_time(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    given_up(agent, context, clock, "gone")  # after 40 s
    clock.advance(100)
    assert agent.report("gone", "SUCCEEDED", finished_at=text(clock, 0)) == "PHASE"
    clock.advance(30)
    assert attempts(agent, "gone", "phase", "confirmed_as") == [("FAILED", "SUCCEEDED")]
    taken = get(agent.client, f"executions/{agent.project}/{DOMAIN}/gone")["closure"]["duration"]
    times = explained(agent, "gone")["status"]["times"]
    assert (taken, times["run_seconds"], times["total_seconds"]) == (140.0, 140.0, 140.0)


def test_the_end_of_a_lost_attempt_that_is_told_later_is_kept_beside_the_next_one(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "late", retry={"on_lost": "retry", "backoff": "1s"})
    agent.start()
    clock.advance(40)
    judge_health(context)
    evict_from_lost(context, 10_000)
    assert attempts(agent, "late", "unconfirmed", "confirmed_at") == [(True, None)]
    ended = text(clock, -30)
    assert agent.report("late", "FAILED", exit_code=9, finished_at=ended) == "OLD_ATTEMPT"
    shown = attempts(agent, "late", "attempt_number", "phase", "exit_code", "ended_at", "unconfirmed")
    assert shown == [(1, "FAILED", 9, ended, None)]
    assert explained(agent, "late")["attempts"][0]["confirmed_at"] is not None
    assert attempts(agent, "late", "confirmed_as") == [("FAILED",)]
    types = [event["type"] for event in get(agent.client, f"executions/{agent.project}/{DOMAIN}/late/events")["events"]]
    assert (types.count("CONFIRMED"), types.count("REFUSED")) == (1, 0)
    assert "refused_reports" not in explained(agent, "late")
    assert agent.report("late", "FAILED", exit_code=9) == "OLD_ATTEMPT"  # it is refused as before
    [refused_report] = explained(agent, "late")["refused_reports"]
    assert (refused_report["cluster"], refused_report["at"]) == (agent.cluster, text(clock, 0))
    message = f"Cluster '{agent.cluster}' reported FAILED for attempt 1; it was refused."
    assert refused_report["reason"] == {"code": "OLD_ATTEMPT", "message": message}
    types = [event["type"] for event in get(agent.client, f"executions/{agent.project}/{DOMAIN}/late/events")["events"]]
    assert (types.count("CONFIRMED"), types.count("REFUSED")) == (1, 1)


def given_up(agent: PlayedAgent, context: Context, clock: Clock, *names: str) -> None:
    """Executions that an agent has, and that are given up while it is silent."""
    add(agent, *names)
    agent.start(len(names))
    clock.advance(40)
    judge_health(context)
    for name in names:
        ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/{name}", json={"give_up": True}))
        assert attempts(agent, name, "unconfirmed") == [(True,)]


def test_an_agent_that_was_told_to_end_an_attempt_and_has_it_no_longer_has_not_confirmed_its_end(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    agent = replace(agent, instance="here")
    given_up(agent, context, clock, "silently", "still")
    assert names(agent.sync()["lost"]) == ["silently", "still"]
    assert names(agent.sync()["lost"]) == ["silently", "still"]  # while it ends the jobs
    assert attempts(agent, "silently", "unconfirmed") == [(True,)]
    del agent.holding["silently"]
    assert names(agent.sync()["lost"]) == ["still"]
    assert attempts(agent, "silently", "unconfirmed", "confirmed_at") == [(True, None)]
    path = f"executions/{agent.project}/{DOMAIN}"
    ended = get(agent.client, f"{path}/silently")
    assert ended["unconfirmed"]
    time = f"{text(clock)[:19]}Z"
    assert ended["closure"]["reason"]["message"].endswith(
        f"Nobody has confirmed that its job has ended. Cluster '{agent.cluster}' no longer had it at {time}."
    )
    event = get(agent.client, f"{path}/silently/events")["events"][-1]
    assert (event["type"], event["reason"]["message"]) == (
        "DROPPED",
        f"The agent of cluster '{agent.cluster}' was told to end attempt 1 and does not have it any more, but has "
        "not reported that its job has ended: check there whether it still runs.",
    )
    agent.sync()
    assert types(agent, "silently").count("DROPPED") == 1
    assert attempts(agent, "still", "unconfirmed") == [(True,)]
    agent.holding.clear()
    agent.sync(agent.event("still", "FAILED"))
    assert attempts(agent, "still", "unconfirmed") == [(None,)]
    assert types(agent, "still")[-1] == "CONFIRMED"


def test_an_engine_that_does_not_know_a_job_confirms_no_end(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    agent = replace(agent, instance="here")
    given_up(agent, context, clock, "unknown")
    assert names(agent.sync()["lost"]) == ["unknown"]
    agent.holding.clear()
    agent.sync(agent.event("unknown", "UNKNOWN"))
    agent.sync()
    assert attempts(agent, "unknown", "unconfirmed") == [(True,)]
    assert types(agent, "unknown")[-1] == "REFUSED"


@pytest.mark.parametrize("kind", ["RELEASED", "DECLINED"])
def test_what_had_not_started_is_not_said_to_have_ended(
    agent: PlayedAgent, context: Context, clock: Clock, kind: str
) -> None:
    add(agent, "held")
    agent.take()
    clock.advance(40)
    judge_health(context)
    path = f"executions/{agent.project}/{DOMAIN}/held"
    ok(agent.client.delete(f"{API}/{path}", json={"give_up": True}))
    assert attempts(agent, "held", "unconfirmed") == [(True,)]
    agent.holding.clear()
    agent.sync(agent.event("held", kind))
    assert attempts(agent, "held", "unconfirmed") == [(None,)]
    event = get(agent.client, f"{path}/events")["events"][-1]
    assert (event["type"], event["reason"]["message"]) == (
        "CONFIRMED",
        f"Cluster '{agent.cluster}' reported {kind}, which confirms that it had not started there.",
    )
    assert get(agent.client, path)["closure"]["reason"]["message"].endswith(" that it had not started.")


def test_an_agent_that_was_never_told_or_is_another_one_confirms_nothing(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    agent = replace(agent, instance="first")
    given_up(agent, context, clock, "untold")
    held = dict(agent.holding)
    agent.holding.clear()
    agent.sync()
    assert attempts(agent, "untold", "unconfirmed") == [(True,)]
    agent.holding |= held
    assert names(agent.sync()["lost"]) == ["untold"]
    other = replace(agent, id="agent-2", instance="second", sequence=0, holding={})
    other.sync(take_over=True)
    other.sync()
    assert attempts(agent, "untold", "unconfirmed") == [(True,)]


def test_what_no_agent_can_have_started_needs_no_confirmation(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "offered")
    assert agent.offered() == {"offered": 1}
    clock.advance(25)
    judge_health(context)
    body = {"give_up": True, "cause": "enough", "claimed_by": "ops"}
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/offered", json=body))
    ended = get(agent.client, f"executions/{agent.project}/{DOMAIN}/offered")
    assert "unconfirmed" not in ended
    assert ended["closure"]["reason"]["message"] == "Given up by anonymous (says ops): enough."
    assert attempts(agent, "offered", "unconfirmed") == [(None,)]


def test_a_late_end_confirms_the_attempt_that_it_is_of(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    add(agent, "twice", retry={"on_lost": "retry", "attempts": 2, "backoff": "1s"})

    def lose() -> None:
        agent.start()
        clock.advance(40)
        judge_health(context)
        evict_from_lost(context, 10_000)

    lose()
    agent.holding.clear()
    agent.sync()
    decide_undecided(context)
    clock.advance(5)
    lose()
    unconfirmed = "Nobody has confirmed"
    path = f"executions/{agent.project}/{DOMAIN}/twice"
    assert [entry[0] for entry in attempts(agent, "twice", "unconfirmed")] == [True, True]
    before = get(agent.client, path)["closure"]["reason"]["message"]
    for number, refused, expected in ((1, "OLD_ATTEMPT", [None, True]), (2, None, [None, None])):
        assert agent.report("twice", "FAILED", exit_code=9, attempt=number) == refused
        assert [entry[0] for entry in attempts(agent, "twice", "unconfirmed")] == expected
        after = get(agent.client, path)["closure"]["reason"]["message"]
        assert (after == before, unconfirmed in after) == ((True, True) if number == 1 else (False, False))


def test_each_attempt_has_its_nodes_and_the_status_how_the_time_was_spent(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "spread", retry={"attempts": 2, "backoff": "10s"})
    clock.advance(3)
    agent.take()
    agent.report("spread", "RUNNING", nodes=["n1", "n2"])
    clock.advance(4)
    agent.finish(["spread"], "FAILED")
    clock.advance(6)
    assert explained(agent, "spread")["status"]["times"]["backoff_seconds"] == 6.0
    clock.advance(4)
    agent.take()
    agent.report("spread", "RUNNING", nodes=["n3"])
    clock.advance(5)
    assert attempts(agent, "spread", "attempt_number", "nodes") == [(1, ["n1", "n2"]), (2, ["n3"])]
    assert explained(agent, "spread")["status"]["times"] == {
        "waiting_seconds": 13.0,
        "backoff_seconds": 10.0,
        "run_seconds": 9.0,
        "total_seconds": 22.0,
    }
    agent.finish(["spread"])
    clock.advance(100)
    assert attempts(agent, "spread", "nodes") == [(["n1", "n2"],), (["n3"],)]
    assert explained(agent, "spread")["status"]["times"]["total_seconds"] == 22.0


def test_events_from_before_records_leave_their_attempts_out(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "old", retry={"attempts": 3, "backoff": "1s"})
    agent.start()
    agent.finish(["old"], "FAILED")
    with context.database.writing() as connection:
        connection.execute(update(execution_events).values(attempt=None))
    assert (explained(agent, "old")["attempts"], explained(agent, "old")["unrecorded_attempts"]) == ([], 1)
    clock.advance(2)
    agent.start()
    assert attempts(agent, "old", "number") == [(2,)]
    assert explained(agent, "old")["unrecorded_attempts"] == 1


@pytest.mark.slow
def test_only_the_last_of_very_many_attempts_are_read(agent: PlayedAgent) -> None:
    add(agent, "restless")
    for _ in range(MOST_ATTEMPTS + 3):
        agent.take()
        agent.report("restless", "RELEASED")
        agent.holding.clear()
    numbers = attempts(agent, "restless", "number")
    assert (len(numbers), numbers[-1]) == (MOST_ATTEMPTS, (MOST_ATTEMPTS + 3,))
    assert explained(agent, "restless")["unrecorded_attempts"] == 3


def test_the_lease_says_until_when_and_when_its_agent_was_heard(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "leased")
    assert "lease" not in explained(agent, "leased")
    agent.offered()
    assert explained(agent, "leased")["lease"]["confirmed"] is False
    agent.start()
    heard = get(agent.client, f"clusters/{agent.cluster}")["last_sync_at"]
    until = get(agent.client, f"executions/{agent.project}/{DOMAIN}/leased")["lease_expires_at"]
    lease = {"expires_at": until, "confirmed": True, "heard_at": heard, "health": "ready"}
    assert explained(agent, "leased")["lease"] == lease
    clock.advance(25)
    judge_health(context)
    assert explained(agent, "leased")["lease"] == {**lease, "health": "unreachable"}
    agent.finish(["leased"])
    assert "lease" not in explained(agent, "leased")


def test_other_clusters_say_why_they_were_no_candidates(agent: PlayedAgent) -> None:
    other = f"oak-{agent.project}"
    put_cluster(agent.client, other)
    switch(agent.client, other, "disable", reason="new disks", claimed_by="otto")
    name = f"gpu-{agent.project}"
    number = put_pool(agent.client, name, [agent.cluster])["revision"]
    add(agent, "placed")
    placed = ok(agent.client.post(f"{API}/placements", json=asked("next", project=agent.project, **pool(name))))
    entries = {entry["cluster"]: entry for entry in placed["not_candidates"]}
    assert agent.cluster not in entries
    assert placed["not_candidates"][0]["why_not"].startswith("is ")
    assert entries[other]["provenance"]["claimed_by"] == "otto"
    why_not = entries[other]["why_not"]
    assert why_not.startswith("is disabled, event ")
    assert f"'new disks'; is not in pool '{name}' as defined, revision {number}, " in why_not
    disabled, absent, unseen = entries[other]["reasons"]
    assert unseen == {"reason": "is expected: no agent of it has ever been seen"}
    assert (disabled["reason"], disabled["provenance"]) == ("is disabled", entries[other]["provenance"])
    assert (absent["reason"], absent["provenance"]["revision"]) == (f"is not in pool '{name}' as defined", number)
    named = {entry["cluster"]: entry for entry in explained(agent, "placed")["not_candidates"]}
    assert f"is not cluster '{agent.cluster}', which the request names" in named[other]["why_not"]


def test_a_cluster_that_left_the_pool_says_by_which_revision(agent: PlayedAgent) -> None:
    other, name = f"oak-{agent.project}", f"gpu-{agent.project}"
    put_cluster(agent.client, other)
    put_pool(agent.client, name, [agent.cluster, other])
    body = {"pool": group([agent.cluster]), "claimed_by": "ana", "message": "oak is slow"}
    left = ok(agent.client.put(f"{API}/pools/{name}", json=body))["revision"]
    put_pool(agent.client, name, {agent.cluster: 2})
    created(agent.client, "placed", project=agent.project, **pool(name))
    entries = {entry["cluster"]: entry for entry in explained(agent, "placed")["not_candidates"]}
    by = f"revision {left}, anonymous (says ana), 0 s ago, 'oak is slow'"
    unseen = "is expected: no agent of it has ever been seen"
    assert entries[other]["why_not"] == f"left pool '{name}', {by}; {unseen}"
    assert entries[other]["provenance"]["revision"] == left


def test_a_deleted_pool_is_named_with_who_deleted_it(agent: PlayedAgent, context: Context) -> None:
    name = f"gpu-{agent.project}"
    put_pool(agent.client, name, [agent.cluster])
    created(agent.client, "runs", project=agent.project, **pool(name))
    created(agent.client, "waits", project=agent.project, **pool(name))
    agent.start()
    body = {"claimed_by": "ana", "message": "no longer needed"}
    number = ok(agent.client.delete(f"{API}/pools/{name}?force=true", json=body))["revision"]
    decide_waiting(context)
    deleted = f"revision {number}, anonymous (says ana), 0 s ago, 'no longer needed'"
    message = explained(agent, "waits")["status"]["message"]
    assert message == f"QUEUED for 0 s: The pool '{name}' is gone from the fleet, deleted by {deleted}."
    others = explained(agent, "waits")["not_candidates"]
    assert {entry["why_not"].partition("; ")[0] for entry in others if entry["cluster"] == agent.cluster} == {
        f"pool '{name}' is gone from the fleet, {deleted}"
    }


def test_a_deleted_cluster_is_named_with_who_deleted_it(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    add(agent, "runs", "waits")
    agent.start()
    body = {"claimed_by": "ana", "message": "sold"}
    number = ok(agent.client.delete(f"{API}/clusters/{agent.cluster}?force=true", json=body))["revision"]
    decide_waiting(context)
    clock.advance(2)
    deleted = f"deleted by revision {number}, anonymous (says ana), 2 s ago, 'sold'"
    assert (
        f"The cluster '{agent.cluster}' is gone from the fleet, {deleted}."
        in explained(agent, "waits")["status"]["message"]
    )
    assert f"It was {deleted}: its agent can no longer report" in explained(agent, "runs")["status"]["message"]


def fall_silent(context: Context, clock: Clock, seconds: float) -> None:
    clock.advance(seconds)
    judge_health(context)
    evict_from_lost(context, 10_000)


def test_an_end_that_is_reported_late_counts_neither_as_waiting_nor_as_running(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "late")
    clock.advance(3)
    agent.start()
    fall_silent(context, clock, 60)
    times = {"waiting_seconds": 3.0, "run_seconds": 0.0, "unknown_seconds": 60.0, "total_seconds": 63.0}
    assert explained(agent, "late")["status"]["times"] == times
    silent_since = text(clock, -60)
    agent.finish(["late"], started_at=text(clock, -60), finished_at=text(clock, -50))
    status = explained(agent, "late")["status"]
    assert status["times"] == {
        "waiting_seconds": 3.0,
        "run_seconds": 10.0,
        "unreported_seconds": 50.0,
        "total_seconds": 63.0,
    }
    late = f"its job had ended 50 s before: {agent.cluster} was silent"
    assert status["message"].startswith(f"SUCCEEDED on {agent.cluster} 0 s ago after 10 s ({late}): ")
    assert attempts(agent, "late", "silent_since") == [(silent_since,)]
    assert get(agent.client, f"executions/{agent.project}/{DOMAIN}/late")["closure"]["duration"] == 10


def test_an_end_without_a_time_after_a_silence_is_said_to_be_reported_late(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "late")
    agent.start()
    clock.advance(5)
    agent.sync()
    fall_silent(context, clock, 60)
    agent.finish(["late"], "FAILED", exit_code=3)
    status = explained(agent, "late")["status"]
    times = {"waiting_seconds": 0.0, "run_seconds": 5.0, "unknown_seconds": 60.0, "total_seconds": 65.0}
    assert status["times"] == times
    assert f"(its job may have ended before: {agent.cluster} was silent for 1 min)" in status["message"]


def test_what_starts_while_its_agent_is_silent_has_the_time_of_its_start(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "early", "wrong")
    agent.take(2)
    fall_silent(context, clock, 60)
    started = text(clock, -40)
    agent.sync(
        agent.event("early", "RUNNING", started_at=started),
        agent.event("wrong", "RUNNING", started_at=text(clock, -7200)),
    )
    path = f"executions/{agent.project}/{DOMAIN}"
    assert get(agent.client, f"{path}/early")["closure"]["started_at"] == started
    assert get(agent.client, f"{path}/wrong")["closure"]["started_at"] == text(clock, -60)  # not before it was leased
    times = {"waiting_seconds": 20.0, "run_seconds": 40.0, "total_seconds": 60.0}
    assert explained(agent, "early")["status"]["times"] == times
