"""Clusters that fall silent or are drained, and what becomes of their work; on both databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.errors import Unauthenticated
from admin.loops.evictions import EvictionLoop
from admin.metrics import StateCollector, exposition
from admin.services.context import Context
from admin.services.evictions import end_drained, evict_from_lost, judge_health
from admin.services.exchanges import Sync
from admin.services.redecisions import decide_undecided, decide_waiting
from admin.services.state import StateSummary
from admin.services.syncs import sync
from admin.store import executions, fleet
from admin.store.executions import ExecutionId
from tests.support.agents import (
    Clock,
    PlayedAgent,
    attempts,
    event_types,
    names,
    phase,
    played_agent,
    settled_after,
    watched_clock,
)
from tests.support.copies import copy_execution
from tests.support.placing import API, DOMAIN, created, execution, get, ok, pool, put_pool, refused, switch

UNREACHABLE, LOST, LEASE = 20, 100, 60
SECTIONS = {
    "agents": {
        "unreachableSeconds": UNREACHABLE,
        "lostSeconds": LOST,
        "leaseSeconds": LEASE,
        "waitSeconds": 5,
        "evictionsPerSecond": 5,
    }
}
FAILS = {"on_lost": "fail"}
Play = Callable[..., PlayedAgent]


clock = watched_clock()
context = settled_after(LOST + LEASE)


@pytest.fixture
def play(shared: FlaskClient, context: Context, project: str) -> Play:
    """Plays agents of clusters of the test's own, which are all in one pool, in the order they come."""
    members: list[str] = []

    def make(word: str) -> PlayedAgent:
        member = played_agent(shared, context, f"{word}-{project}", project=project)
        members.append(member.cluster)
        put_pool(shared, project, members, strategy="spill")
        return member

    return make


def add(agent: PlayedAgent, *execution_names: str, **spec: Any) -> None:
    """New executions for the pool of an agent's cluster."""
    for name in execution_names:
        created(agent.client, name, project=agent.project, **pool(agent.project), **spec)


def place(agent: PlayedAgent, name: str) -> tuple[str | None, int]:
    """Where an execution is, and its attempt."""
    answer = execution(agent.client, name, agent.project)
    return answer.get("cluster"), answer["attempt"]


def heard_at(context: Context, cluster: str) -> datetime | None:
    """When the agent of a cluster synced last."""
    with context.database.reading() as connection:
        return fleet.heard(connection, [cluster])[cluster].last_sync_at


def health(agent: PlayedAgent) -> str:
    state: str = get(agent.client, f"clusters/{agent.cluster}")["state"]
    return state


def look(context: Context, *agents: PlayedAgent) -> dict[str, str]:
    """One look at who is silent, and at all that waits; answers what clusters have become."""
    health = dict(judge_health(context))
    decide_waiting(context)
    return {agent.cluster: health[agent.cluster] for agent in agents if agent.cluster in health}


def evict(context: Context, most: int = 1000) -> list[str]:
    """One round of evictions; answers the names of what was taken away."""
    taken = [row.name for row in evict_from_lost(context, most)]
    decide_undecided(context)
    return taken


# Silence


def test_a_silent_cluster_is_unreachable_then_lost_and_ready_again_as_soon_as_it_is_heard(
    play: Play, context: Context, clock: Clock
) -> None:
    agent = play("a")
    clock.advance(UNREACHABLE)
    assert (look(context, agent), health(agent)) == ({}, "ready")
    clock.advance(1)
    assert (look(context, agent), health(agent)) == ({agent.cluster: "unreachable"}, "unreachable")
    assert look(context, agent) == {}
    clock.advance(LOST - UNREACHABLE)
    assert (look(context, agent), health(agent)) == ({agent.cluster: "lost"}, "lost")
    assert look(context, agent) == {}
    agent.sync()
    assert (look(context, agent), health(agent)) == ({}, "ready")
    clock.advance(LOST + 1)
    assert look(context, agent) == {agent.cluster: "lost"}  # where nobody looked for long
    agent.sync()
    events = get(agent.client, f"clusters/{agent.cluster}/events")["events"]
    assert [event["type"] for event in reversed(events)] == ["READY", "UNREACHABLE", "LOST", "READY", "LOST", "READY"]
    first, unreachable, lost, back, *_ = [event["reason"] for event in reversed(events)]
    assert first == "Its agent synced for the first time."
    assert unreachable.startswith("Its agent had been silent since 20")
    assert unreachable.endswith(", for more than 20 s (agents.unreachableSeconds).")
    assert lost.endswith(", for more than 1 min 40 s (agents.lostSeconds).")
    assert back == "Its agent is heard again, after 1 min 41 s without a sync; the cluster was lost."


def test_a_cluster_that_was_never_seen_is_not_lost(shared: FlaskClient, context: Context, clock: Clock) -> None:
    ok(shared.put(f"{API}/clusters/never-seen", json={"cluster": {}}))
    clock.advance(10 * LOST)
    judge_health(context)
    assert get(shared, "clusters/never-seen")["state"] == "expected"


def test_a_silent_cluster_is_free_capacity_nowhere(play: Play, context: Context, clock: Clock) -> None:
    agent, other = play("a"), play("b")
    report = {"capacity": {"executions": 4}, "free": {"executions": 3}}
    agent.sync(report=report)
    other.sync(report=report)
    add(agent, "waits")

    def free() -> tuple[Any, ...]:
        cluster = get(agent.client, f"clusters/{agent.cluster}")
        pool = get(agent.client, f"pools/{agent.project}")
        [listed] = [
            listed
            for listed in get(agent.client, f"clusters?pool={agent.project}")["clusters"]
            if listed["name"] == agent.cluster
        ]
        lines = exposition(StateCollector(StateSummary(context))).decode().splitlines()
        [gauge] = [line for line in lines if line.startswith(f'rainbow_cluster_free{{cluster="{agent.cluster}"')]
        assert listed["free"] == cluster["free"]
        assert cluster["by_pool"] == {agent.project: pool["total"]}
        assert (cluster["reported_free"], cluster["assigned"]["executions"]) == ({"executions": 3}, 1)
        total = pool["total"]
        assert (total["capacity"], total["members"]) == ({"executions": 8}, 2)
        return cluster["free"]["executions"], total["free"]["executions"], total["able"], float(gauge.split(" ")[1])

    assert free() == (2, 5, 2, 2)
    synced = get(agent.client, f"clusters/{agent.cluster}")
    assert "unreachable_since" not in synced
    clock.advance(UNREACHABLE + 1)
    other.sync()
    look(context, agent)
    assert free() == (0, 3, 1, 0)
    silent = get(agent.client, f"clusters/{agent.cluster}")
    assert silent["unreachable_since"] == synced["last_sync_at"]
    assert silent["unreachable_reason"].startswith("Its agent does not sync: ")
    [token] = get(agent.client, f"clusters/{agent.cluster}/tokens")["tokens"]
    ok(agent.client.delete(f"{API}/clusters/{agent.cluster}/tokens/{token['prefix']}"))
    assert "none of its tokens is valid" in get(agent.client, f"clusters/{agent.cluster}")["unreachable_reason"]


def test_metrics_show_how_long_a_cluster_is_silent_and_that_it_is_not_able(
    play: Play, context: Context, clock: Clock
) -> None:
    agent = play("a")

    def gauges() -> tuple[float, float]:
        lines = exposition(StateCollector(StateSummary(context))).decode().splitlines()
        of_cluster = f'{{cluster="{agent.cluster}"}}'
        values = dict(line.split(" ") for line in lines if of_cluster in line)
        return (
            float(values[f"rainbow_cluster_able{of_cluster}"]),
            float(values[f"rainbow_cluster_sync_age_seconds{of_cluster}"]),
        )

    assert gauges() == (1, 0)
    clock.advance(UNREACHABLE + 1)
    look(context, agent)
    assert gauges() == (0, UNREACHABLE + 1)
    clock.advance(LOST)
    look(context, agent)
    assert gauges() == (0, UNREACHABLE + 1 + LOST)
    agent.sync()
    assert gauges() == (1, 0)
    switch(agent.client, agent.cluster, "drain")
    assert gauges() == (0, 0)


def test_an_unreachable_cluster_gets_no_new_work_and_keeps_what_waits(
    play: Play, context: Context, clock: Clock
) -> None:
    agent, other = play("a"), play("b")
    add(agent, "runs", "waits")
    agent.start()
    clock.advance(UNREACHABLE + 1)
    other.sync()
    look(context, agent)
    add(agent, "new")
    assert [place(agent, name)[0] for name in ("runs", "waits", "new")] == [agent.cluster, agent.cluster, other.cluster]
    assert evict(context) == []
    created(agent.client, "only", project=agent.project, cluster=agent.cluster)
    assert phase(agent, "only") == ("QUEUED", "CLUSTERS_UNREACHABLE")
    assert agent.take() == ["waits"]  # heard again: nothing has happened
    assert other.take(5) == ["new"]
    look(context, agent)
    assert agent.take() == ["only"]
    agent.finish(["runs", "waits", "only"])


def test_the_work_of_a_lost_cluster_is_given_away_by_what_may_have_started(
    play: Play, context: Context, clock: Clock
) -> None:
    agent, other = play("a"), play("b")
    again = {"on_lost": "retry", "backoff": "1s"}
    add(agent, "plain-runs", "plain-held", retry=FAILS)
    add(agent, "retry-runs", "retry-held", retry=again)
    add(agent, "counted", retry={**FAILS, "attempts": 2, "retry_on": ["CLUSTER_LOST"], "backoff": "30s"})
    add(agent, "ends", retry=again)
    agent.take(6)
    for name in ("plain-runs", "retry-runs", "counted", "ends"):
        agent.report(name, "RUNNING")
    add(agent, "offered", "waits")
    assert agent.offered() == {"offered": 1}
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/ends", json={}))
    clock.advance(LOST + 1)
    other.sync()
    assert look(context, agent) == {agent.cluster: "lost"}
    assert place(agent, "waits") == (other.cluster, 1)  # decided again at once: nobody had it
    held = ["plain-runs", "plain-held", "retry-runs", "retry-held", "counted", "ends", "offered"]
    assert sorted(evict(context)) == sorted(held)
    assert evict(context) == []
    for name in ("plain-runs", "plain-held"):
        assert (phase(agent, name), place(agent, name)) == (("FAILED", "CLUSTER_LOST"), (agent.cluster, 1))
        message = execution(agent.client, name, agent.project)["closure"]["reason"]["message"]
        assert agent.cluster in message
    assert phase(agent, "ends") == ("ABORTED", "TERMINATED")
    for name in ("retry-runs", "retry-held", "counted", "offered"):
        assert (phase(agent, name)[0], place(agent, name)) == ("QUEUED", (other.cluster, 2))
    assert other.offered(10) == {"offered": 2, "waits": 1}
    clock.advance(1)
    offered = other.offered(10)
    assert offered == {"retry-runs": 2, "retry-held": 2, "offered": 2, "waits": 1}  # the counted one backs off
    clock.advance(29)
    assert other.offered(10) == offered | {"counted": 2}
    assert event_types(agent.client, "retry-runs", agent.project) == ["CREATED", "RUNNING", "RETRY", "DECIDED"]
    assert event_types(agent.client, "offered", agent.project) == ["CREATED", "EVICTED", "DECIDED"]
    # The lost one comes back, and is told that nothing of it is its own any more.
    answer = agent.sync(agent.event("retry-runs", "SUCCEEDED"), agent.event("plain-runs", "SUCCEEDED"), want=10)
    assert [refusal["reason"] for refusal in answer["refused"]] == ["OLD_ATTEMPT", "PHASE"]
    assert sorted(names(answer["lost"])) == sorted(agent.holding)
    assert (answer["confirmed"], answer["leases"], health(agent)) == ([], [], "ready")
    assert phase(agent, "plain-runs") == ("FAILED", "CLUSTER_LOST")
    assert event_types(agent.client, "retry-runs", agent.project)[-1] == "CONFIRMED"
    message = execution(agent.client, "plain-runs", agent.project)["closure"]["reason"]["message"]
    assert f"Cluster '{agent.cluster}' confirmed at " in message
    assert " that its job has ended, and had succeeded." in message
    look(context)
    assert set(other.offered(10)) == {*offered, "counted"}  # and nothing moves back


def test_nothing_is_given_away_before_its_lease_is_over(play: Play, context: Context, clock: Clock) -> None:
    """Even if a lease should outlast the cluster, as one given by a configuration with longer leases does."""
    agent, other = play("a"), play("b")
    add(agent, "e", retry={"on_lost": "retry"})
    agent.start()
    clock.advance(LOST + 1)
    look(context, agent)
    _set_lease(context, agent, "e", clock() + timedelta(seconds=10))
    assert evict(context) == []
    assert (phase(agent, "e")[0], place(agent, "e")) == ("RUNNING", (agent.cluster, 1))
    clock.advance(10)
    other.sync()
    assert evict(context) == ["e"]
    assert place(agent, "e") == (other.cluster, 2)


def _set_lease(context: Context, agent: PlayedAgent, name: str, until: datetime) -> None:
    with context.database.writing() as connection:
        row = executions.get(connection, ExecutionId(**agent.key(name)))
        assert row is not None
        executions.change_many(connection, [{"id": row.id, "lease_expires_at": until}])


def test_a_cluster_that_is_heard_in_time_keeps_everything(play: Play, context: Context, clock: Clock) -> None:
    agent = play("a")
    play("b")
    add(agent, "e", retry=FAILS)
    agent.start()
    for _ in range(3):
        clock.advance(LOST - 1)  # its lease is long over, but nobody has it
        look(context)
        assert evict(context) == []
        assert attempts(agent.sync()["confirmed"]) == {"e": 1}
    agent.finish(["e"])
    assert phase(agent, "e")[0] == "SUCCEEDED"


def test_a_cluster_that_flaps_moves_nothing_twice(play: Play, context: Context, clock: Clock) -> None:
    agent, other = play("a"), play("b")
    add(agent, *(f"e{number}" for number in range(6)), retry=FAILS)
    agent.take(2)
    for silence in (UNREACHABLE + 1, UNREACHABLE + 1, LOST + 1, UNREACHABLE + 1, LOST + 1, LOST + 1):
        clock.advance(silence)
        other.sync()
        look(context)
        evict(context)
        agent.holding = {
            name: attempt for name, attempt in agent.holding.items() if place(agent, name)[0] == agent.cluster
        }
        agent.sync()
        look(context)
    moves = {
        f"e{number}": event_types(agent.client, f"e{number}", agent.project).count("DECIDED") for number in range(6)
    }
    assert moves == {"e0": 0, "e1": 0, "e2": 1, "e3": 1, "e4": 1, "e5": 1}
    assert [phase(agent, name) for name in ("e0", "e1")] == [("FAILED", "CLUSTER_LOST")] * 2
    assert sorted(other.take(10)) == ["e2", "e3", "e4", "e5"]


def test_evictions_are_limited_by_the_second(play: Play, context: Context, clock: Clock) -> None:
    agent, other = play("a"), play("b")
    add(agent, *(f"e{number:02}" for number in range(12)), retry={"on_lost": "retry"})
    agent.start(12)
    now = [100.0]
    loop = EvictionLoop(context, clock=lambda: now[0])
    clock.advance(LOST + 1)
    other.sync()

    def moved() -> int:
        loop()
        return sum(place(agent, f"e{number:02}")[0] == other.cluster for number in range(12))

    counts = []
    for _ in range(12):
        counts.append(moved())
        now[0] += 0.25
    assert counts == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 12]
    now[0] += 60
    assert moved() == 12


def test_what_is_waited_for_takes_no_evictions_from_others(play: Play, context: Context, clock: Clock) -> None:
    agent, other = play("a"), play("b")
    waiting, moving = [f"w{number}" for number in range(12)], [f"m{number}" for number in range(5)]
    add(agent, *waiting, retry={"on_lost": "wait"})
    add(agent, *moving, retry={"on_lost": "retry"})
    agent.start(17)
    now = [100.0]
    loop = EvictionLoop(context, clock=lambda: now[0])
    clock.advance(LOST + 1)
    other.sync()
    now[0] += 1  # in which five may be evicted
    loop()
    assert {phase(agent, name) for name in waiting} == {("RUNNING", "CLUSTER_SILENT")}
    assert {place(agent, name) for name in moving} == {(other.cluster, 2)}


def test_a_long_pause_saves_up_no_more_than_a_second_of_evictions(play: Play, context: Context, clock: Clock) -> None:
    agent, other = play("a"), play("b")
    add(agent, *(f"e{number}" for number in range(8)), retry=FAILS)
    agent.start(8)
    now = [100.0]
    loop = EvictionLoop(context, clock=lambda: now[0])
    clock.advance(LOST + 1)
    other.sync()
    now[0] += 3600
    loop()
    assert [phase(agent, f"e{number}")[0] for number in range(8)] == ["FAILED"] * 5 + ["RUNNING"] * 3


def test_a_cluster_that_is_deleted_by_force_loses_its_work_when_the_leases_are_over(
    play: Play, context: Context, clock: Clock
) -> None:
    agent, other = play("a"), play("b")
    add(agent, "runs", "waits", retry={"on_lost": "retry"})
    agent.start()
    put_pool(agent.client, agent.project, [other.cluster])
    refused(agent.client.delete(f"{API}/clusters/{agent.cluster}"), 409, "in_use")
    ok(agent.client.delete(f"{API}/clusters/{agent.cluster}?force=true"))
    refused(agent.post(), 401, "unauthenticated")
    look(context)
    assert place(agent, "waits") == (other.cluster, 1)
    assert evict(context) == []
    clock.advance(LEASE + 1)
    other.sync()
    assert evict(context) == ["runs"]
    assert place(agent, "runs") == (other.cluster, 2)


def test_a_cluster_that_is_deleted_by_force_is_said_to_be_and_not_to_be_lost(
    play: Play, context: Context, clock: Clock
) -> None:
    agent, other = play("a"), play("b")
    add(agent, "runs")
    agent.start()
    put_pool(agent.client, agent.project, [other.cluster])
    body = {"claimed_by": "ana", "message": "sold"}
    revision = ok(agent.client.delete(f"{API}/clusters/{agent.cluster}?force=true", json=body))["revision"]
    late = Sync(cluster=agent.cluster, agent=agent.id, sequence=agent.sequence + 1)
    for arrived in (late, replace(late, last_sync_at=heard_at(context, agent.cluster))):
        with pytest.raises(Unauthenticated, match="was deleted"):  # it came, or waited, before the token was revoked
            sync(context, arrived)
    explanation = get(agent.client, f"executions/{agent.project}/{DOMAIN}/runs/explanation")
    deleted = f"It was deleted by revision {revision}, anonymous (says ana), 0 s ago, 'sold': its agent can no longer "
    assert f"{deleted}report until the cluster is defined and registered again. " in explanation["status"]["message"]
    assert explanation["lease"]["health"] == "deleted"
    clock.advance(LOST + 1)
    look(context)
    events = get(agent.client, f"timeline?limit=100&cluster={agent.cluster}&source=cluster-event")["entries"]
    assert [event["type"] for event in events] == ["DELETED", "READY"]
    again = played_agent(agent.client, context, agent.cluster, project=agent.project)
    newest = get(again.client, f"clusters/{agent.cluster}/events?reports=false")["events"][0]
    assert newest["reason"] == "Its agent synced for the first time since the cluster was deleted."


# Drains


def test_a_drain_lets_fifty_finish_and_sends_five_hundred_elsewhere(play: Play, context: Context, clock: Clock) -> None:
    agent, other = play("a"), play("b")
    running = [f"r{number:03}-{agent.project}" for number in range(50)]
    waiting = [f"w{number:03}" for number in range(500)]
    add(agent, running[0])
    copy_execution(context, running[0], [*running[1:], *waiting])
    assert agent.start(50) == running
    answer = switch(agent.client, agent.cluster, "drain", reason="new disks")
    assert (answer["cluster"]["draining"], answer["cluster"]["cordoned"], answer["changed"]) == (True, True, True)
    assert agent.sync(want=100)["leases"] == []
    moved = [move for move in decide_waiting(context) if move.id.project == agent.project]
    assert {move.cluster for move in moved} == {other.cluster}
    assert len(moved) == 500
    assert agent.sync(want=100)["leases"] == []
    cluster = get(agent.client, f"clusters/{agent.cluster}")
    assert (cluster["running"], cluster["waiting"], cluster["leases"]) == (50, 0, 50)
    assert get(agent.client, f"clusters/{other.cluster}")["waiting"] == 500
    clock.advance(10_000)  # no deadline: it may take as long as it takes
    agent.sync()
    other.sync()
    end_drained(context)
    look(context)
    agent.finish(running)
    assert get(agent.client, f"clusters/{agent.cluster}")["leases"] == 0
    listed = get(agent.client, f"executions/{agent.project}/{DOMAIN}?limit=1000")["executions"]
    ended = {execution["closure"]["phase"] for execution in listed if execution["id"]["name"] in running}
    assert (ended, len(listed)) == ({"SUCCEEDED"}, 550)
    taken = other.offered(1000)
    assert sorted(taken) == waiting
    assert set(taken.values()) == {1}


def test_at_the_deadline_of_a_drain_work_is_ended_or_moved_by_its_policy(
    play: Play, context: Context, clock: Clock
) -> None:
    agent, other = play("a"), play("b")
    add(agent, "plain", "late")
    add(agent, "moves", retry={"on_lost": "retry", "backoff": "1s"})
    agent.start(3)
    add(agent, "offered", "ended")
    agent.take()
    assert agent.holding.keys() == {"plain", "late", "moves", "offered"}
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/late", json={"cause": "mine"}))
    assert agent.offered() == {"ended": 1}
    switch(agent.client, agent.cluster, "drain", deadline="10m", reason="disks", claimed_by="ana")
    rows = {row["id"]["name"]: row for row in get(agent.client, f"clusters/{agent.cluster}")["leased_executions"]}
    running = {name: row for name, row in rows.items() if row["phase"] == "RUNNING"}
    deadline = get(agent.client, f"clusters/{agent.cluster}")["drain_deadline"]
    assert {row["ends_by"] for row in running.values()} == {deadline}
    ended = f"Is ended at {deadline[:19]}Z, unless it has ended by then"
    assert all(row["outlook"].startswith(ended) for row in running.values())
    again = ok(agent.client.post(f"{API}/clusters/{agent.cluster}/drain?dry_run=true", json={}))
    assert (again["changed"], {effect["id"]["name"] for effect in again["effects"]} >= set(running)) == (False, True)
    number = get(agent.client, f"clusters/{agent.cluster}/events?limit=1")["events"][0]["number"]
    at = clock().isoformat(timespec="seconds").replace("+00:00", "Z")
    drained = f"Its cluster was drained (event {number}, anonymous (says ana), at {at}, 'disks')."
    clock.advance(599)
    end_drained(context)
    assert phase(agent, "plain")[0] == "RUNNING"
    clock.advance(1)
    end_drained(context)
    assert phase(agent, "plain") == ("ABORTING", "DRAINED")
    assert phase(agent, "late") == ("ABORTING", "TERMINATED")
    other.sync()
    decide_undecided(context)
    assert place(agent, "ended") == (other.cluster, 2)  # nobody had started it
    clock.advance(1)
    answer = agent.sync(want=5)
    assert sorted(names(answer["cancels"])) == ["late", "moves", "offered", "plain"]
    assert answer["leases"] == []
    switch(agent.client, agent.cluster, "uncordon")
    agent.finish(["plain", "late", "moves", "offered"], "ABORTED")
    switch(agent.client, agent.cluster, "cordon")
    decide_undecided(context)
    assert phase(agent, "plain") == ("ABORTED", "DRAINED")
    path = f"executions/{agent.project}/{DOMAIN}"
    closure, explanation = get(agent.client, f"{path}/plain")["closure"], get(agent.client, f"{path}/plain/explanation")
    assert (closure["reason"]["message"], closure["abort_metadata"]["claimed_by"]) == (drained, "ana")
    assert f" 0 s ago: {drained} No other attempt follows" in explanation["status"]["message"]
    for name in ("plain", "moves"):
        attempt = get(agent.client, f"{path}/{name}/explanation")["attempts"][0]
        by = attempt["drained_by"]
        assert (by["event"], by["claimed_by"], by["message"]) == (number, "ana", "disks")
        assert drained in attempt["reason"]["message"]
    assert phase(agent, "late") == ("ABORTED", "TERMINATED")
    assert (phase(agent, "moves")[0], place(agent, "moves")) == ("QUEUED", (other.cluster, 2))
    assert "abort_metadata" not in execution(agent.client, "moves", agent.project)["closure"]
    clock.advance(1)
    other.start(5)
    assert set(other.holding) == {"moves", "ended"}


def test_what_had_succeeded_before_a_drain_reached_its_silent_cluster_has_succeeded(
    play: Play, context: Context, clock: Clock
) -> None:
    agent = play("a")
    add(agent, "done", "runs", "unwanted")
    agent.start(3)
    switch(agent.client, agent.cluster, "drain", deadline="10m", claimed_by="ana")
    clock.advance(650)
    judge_health(context)
    end_drained(context)
    path = f"executions/{agent.project}/{DOMAIN}"
    for name in ("done", "runs", "unwanted"):
        assert phase(agent, name) == ("ABORTING", "DRAINED")
        message = get(agent.client, f"{path}/{name}/events")["events"][-1]["reason"]["message"]
        assert "Nobody has confirmed that its job has ended. " in message
        assert message.endswith("it is ended when the agent returns, unless it has succeeded by then.")
        note = get(agent.client, f"{path}/{name}")["silence"]
        assert note.startswith("Nobody has confirmed that its job has ended. ")
    ok(agent.client.delete(f"{API}/{path}/unwanted", json={"cause": "mine"}))
    ended = (clock() - timedelta(seconds=640)).isoformat()
    agent.finish(["done", "unwanted"], finished_at=ended)  # before it hears of the drain
    assert phase(agent, "done") == ("SUCCEEDED", "SUCCEEDED")
    assert phase(agent, "unwanted") == ("ABORTED", "TERMINATED")
    closure = get(agent.client, f"{path}/done")["closure"]
    assert closure["reason"]["message"] == "It had succeeded before the drain of its cluster reached it."
    assert "abort_metadata" not in closure
    explanation = get(agent.client, f"{path}/done/explanation")
    assert [attempt["phase"] for attempt in explanation["attempts"]] == ["SUCCEEDED"]
    assert explanation["status"]["times"]["unreported_seconds"] == 640
    assert names(agent.sync()["cancels"]) == ["runs"]
    agent.finish(["runs"], "ABORTED")
    assert phase(agent, "runs") == ("ABORTED", "DRAINED")


def test_what_had_not_started_when_its_cluster_is_drained_goes_elsewhere(
    play: Play, context: Context, clock: Clock
) -> None:
    agent, other = play("a"), play("b")
    add(agent, "early", "late")
    agent.take(2)
    switch(agent.client, agent.cluster, "drain", deadline="10m")
    assert agent.sync()["state"]["draining"] is True
    agent.finish(["early"], "RELEASED")  # its agent has withdrawn it
    decide_undecided(context)
    assert (phase(agent, "early")[0], place(agent, "early")) == ("QUEUED", (other.cluster, 2))
    clock.advance(600)
    end_drained(context)
    assert phase(agent, "late") == ("ABORTING", "DRAINED")
    [cancel] = agent.sync()["cancels"]
    assert (cancel["id"]["name"], cancel["code"]) == ("late", "DRAINED")
    agent.finish(["late"], "RELEASED")
    other.sync()
    decide_undecided(context)
    assert (phase(agent, "late")[0], place(agent, "late")) == ("QUEUED", (other.cluster, 2))
    assert "abort_metadata" not in execution(agent.client, "late", agent.project)["closure"]
    assert set(other.take(2)) == {"early", "late"}


def test_what_a_user_ends_while_its_cluster_is_drained_goes_nowhere(play: Play, context: Context, clock: Clock) -> None:
    agent = play("a")
    play("b")
    add(agent, "e")
    agent.take()
    switch(agent.client, agent.cluster, "drain", deadline="10m")
    clock.advance(600)
    end_drained(context)
    assert phase(agent, "e") == ("ABORTING", "DRAINED")
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/e", json={"cause": "not wanted"}))
    [cancel] = agent.sync()["cancels"]
    assert cancel["code"] == "TERMINATED"
    agent.finish(["e"], "RELEASED")  # withdrawn before it was told
    assert phase(agent, "e") == ("ABORTED", "TERMINATED")


def test_a_drain_can_be_taken_back_and_given_another_deadline(play: Play, context: Context, clock: Clock) -> None:
    agent = play("a")
    add(agent, "e")
    agent.start()
    for deadline in ("1m", "1h"):
        assert switch(agent.client, agent.cluster, "drain", deadline=deadline)["changed"] is True
    assert switch(agent.client, agent.cluster, "drain")["changed"] is False
    clock.advance(61)
    agent.sync()
    end_drained(context)
    assert phase(agent, "e")[0] == "RUNNING"
    answer = switch(agent.client, agent.cluster, "undrain")
    assert (answer["changed"], answer["cluster"]["draining"], answer["cluster"]["cordoned"]) == (True, False, False)
    assert "drain_deadline" not in answer["cluster"]
    clock.advance(3600)
    agent.sync()
    end_drained(context)
    assert phase(agent, "e")[0] == "RUNNING"
    for wrong in ("yesterday", "-1h", "999999999999h"):
        path = f"{API}/clusters/{agent.cluster}/drain"
        answer = agent.client.post(path, json={"deadline": wrong})
        refused(answer, 400, "invalid_request", "deadline")
        assert " is not a length of time" in answer.get_json()["message"] or "longer than a year" in str(answer.json)
