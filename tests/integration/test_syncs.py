"""Syncs: what they cost the database, and what becomes of those that wait; on both databases."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask

from admin.errors import AgentReplaced
from admin.services import agents
from admin.services.context import Context
from admin.services.exchange_batches import exchange_all
from admin.services.exchanges import Exchange, Sync, SyncResult
from admin.services.logs import LogPiece
from admin.services.reports import Held, Report
from admin.services.switches import switch_clusters
from admin.services.syncs import sync
from admin.store import fleet
from admin.store.cache.cluster_wakeups import ClusterWakeups
from admin.store.executions import ExecutionId
from admin.store.logs import OutputFile
from admin.store.tokens import CACHE_SECONDS, TokenCache
from tests.conftest import MakeApp
from tests.robustness.lease_histories import checked
from tests.support.agents import Clock, closure, event_types, played_agent, set_clock
from tests.support.apps import context_of
from tests.support.copies import copy_execution
from tests.support.placing import API, DOMAIN, PROJECT, created, execution, get, ok, put_cluster, put_pool, refused
from tests.support.statements import statements
from tests.support.waiting import wait_until


def key(name: str) -> ExecutionId:
    return ExecutionId(project=PROJECT, domain=DOMAIN, name=name)


def report(name: str, type: str, attempt: int = 1, **more: Any) -> Report:
    return Report(event=f"{name}-{type}", id=key(name), attempt=attempt, type=type, **more)


# What they cost


def life(context: Context, cluster: str, first: int, count: int) -> list[int]:
    """Statements for the leases of so many executions, their confirmation, and both reports of each."""
    names = [f"{cluster}{number}" for number in range(first, first + count)]
    holding = tuple(Held(key(name), 1) for name in names)
    pieces = tuple(LogPiece(id=key(name), attempt=1, stream="stdout", offset=0, data=b"x") for name in names)
    files = [OutputFile(path="a", attempt=1, size=1, truncated=False, content=b"x")]
    calls: list[dict[str, Any]] = [
        {"want": count},
        {"holding": holding},
        {"holding": holding, "events": tuple(report(name, "RUNNING", native_id=name) for name in names)},
        {"logs": pieces, "events": tuple(report(name, "FAILED", exit_code=1, outputs=files) for name in names)},
        {"events": tuple(report(name, "SUCCEEDED") for name in names)},  # refused, and noted
    ]
    counts = []
    for fields in calls:
        with statements(context) as seen:
            answer = sync(context, Sync(cluster=cluster, agent="a", sequence=2, **fields))
        assert not fields.get("want") or sorted(execution.name for execution in answer.leases) == sorted(names)
        counts.append(len([statement for statement in seen if not statement.startswith(("BEGIN", "COMMIT"))]))
    return counts


def test_a_sync_costs_as_many_statements_for_a_hundred_executions_as_for_two(app: Flask, context: Context) -> None:
    put_pool(app.test_client(), "all", ["c"])
    sync(context, Sync(cluster="c", agent="a", sequence=1))
    created(app.test_client(), "c0", cluster="c")
    copy_execution(context, "c0", [f"c{number}" for number in range(1, 102)])
    few, many = life(context, "c", 0, 2), life(context, "c", 2, 100)
    assert many == few
    assert max(few) <= 13  # with a question whether refused reports confirm an end
    assert {row.phase for row in checked(context).values()} == {"FAILED"}


def test_what_is_held_is_not_read_with_all_that_it_carries(app: Flask, context: Context) -> None:
    put_pool(app.test_client(), "all", ["c"])
    created(app.test_client(), "e", cluster="c")
    sync(context, Sync(cluster="c", agent="a", sequence=1, want=1))
    with statements(context) as seen:
        holding = (Held(key("e"), 1),)  # what is not named is asked about, with its policy
        sync(context, Sync(cluster="c", agent="a", sequence=2, holding=holding))
        sync(context, Sync(cluster="c", agent="a", sequence=3, holding=holding, events=(report("e", "RUNNING"),)))
        sync(context, Sync(cluster="c", agent="a", sequence=4, events=(report("e", "SUCCEEDED"),)))
    assert not [statement for statement in seen if "content" in statement or "request" in statement]


def test_a_lease_that_was_just_renewed_is_not_written_again(app: Flask, make_app: MakeApp) -> None:
    clock = Clock()
    context = set_clock(app, clock)
    put_pool(app.test_client(), "all", ["c"])
    created(app.test_client(), "e", cluster="c")
    sync(context, Sync(cluster="c", agent="a", sequence=1, want=1))
    request = Sync(cluster="c", agent="a", sequence=2, holding=(Held(key("e"), 1),))
    sync(context, request)
    first = execution(app.test_client(), "e")["lease_expires_at"]
    with statements(context) as seen:
        clock.advance(0.5)
        assert [execution.name for execution in sync(context, request).confirmed] == ["e"]
    assert not [statement for statement in seen if statement.startswith("UPDATE executions")]
    assert execution(app.test_client(), "e")["lease_expires_at"] == first
    clock.advance(1)
    sync(context, request)
    assert execution(app.test_client(), "e")["lease_expires_at"] > first


# Several reports on one execution


def test_reports_on_one_execution_in_one_sync_all_count_in_their_order(app: Flask, context: Context) -> None:
    api = app.test_client()
    put_pool(api, "all", ["c"])
    created(api, "e", cluster="c", retry={"attempts": 2, "backoff": "1ms"})
    sync(context, Sync(cluster="c", agent="a", sequence=1, want=1))
    reports = (
        report("e", "RUNNING"),
        report("e", "FAILED", message="first"),
        report("e", "FAILED", message="once more"),
        report("e", "RUNNING", 2),
    )
    answer = sync(context, Sync(cluster="c", agent="a", sequence=2, events=reports))
    assert answer.accepted == ["e-RUNNING", "e-FAILED"]
    assert answer.refused == [("e-FAILED", "OLD_ATTEMPT"), ("e-RUNNING", "NOT_YOURS")]
    assert event_types(api, "e") == ["CREATED", "RUNNING", "RETRY", "REFUSED", "REFUSED"]
    row = checked(context)["e"]
    assert (row.phase, row.attempt, row.started_at, row.reason_message) == (
        "QUEUED",
        2,
        None,
        "Attempt 1 ended FAILED (FAILED): first",
    )


# Questions


def test_what_an_agent_never_answers_for_is_thought_to_be_lost(make_app: MakeApp) -> None:
    app = make_app(agents={"leaseSeconds": 60, "lostSeconds": 300})
    clock = Clock()
    context = set_clock(app, clock)
    api = app.test_client()
    agent = played_agent(api, context, "c")
    created(api, "plain", cluster="c")
    created(api, "moves", cluster="c", retry={"on_lost": "retry"})
    created(api, "ends", cluster="c", retry={"on_lost": "retry"})
    agent.start(3)
    ok(api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/ends", json={}))
    agent.holding = {}
    for _ in range(5):
        clock.advance(70)
        assert len(agent.sync(want=1)["questions"]) == 3
    clock.advance(11)
    assert len(agent.sync(want=1)["questions"]) == 3  # judged by the time of the sync before
    answer = agent.sync(want=0)
    assert (answer["questions"], answer["leases"]) == ([], [])
    assert closure(api, "plain") == ("FAILED", "CLUSTER_LOST")
    assert (closure(api, "moves")[0], execution(api, "moves")["attempt"]) == ("QUEUED", 2)
    assert closure(api, "ends")[0] == "ABORTED"
    checked(context)


# Waiting


@contextmanager
def waiting(context: Context, *clusters: str, seconds: float = 30) -> Iterator[dict[str, Future[SyncResult]]]:
    """Agents that wait, each for itself."""

    def wait(cluster: str) -> SyncResult:
        return sync(context, Sync(cluster=cluster, agent="old", sequence=1, want=1, wait_seconds=seconds))

    with ThreadPoolExecutor(len(clusters)) as pool:
        answers = {cluster: pool.submit(wait, cluster) for cluster in clusters}
        wait_until(lambda: _is_idle(context, len(clusters)))
        try:
            yield answers
        finally:
            context.cluster_wakeups.close()


def _is_idle(context: Context, count: int) -> bool:
    """Whether so many agents wait; the first poll, which wakes all of them, is over."""
    return context.cluster_wakeups.polls > 0 and context.cluster_wakeups.waiting == count


def _wait_for_polls(context: Context, count: int) -> None:
    last = context.cluster_wakeups.polls + count
    wait_until(lambda: context.cluster_wakeups.polls >= last)


def test_nobody_asks_the_database_for_one_that_waits(app: Flask, context: Context) -> None:
    names = [f"c{number}" for number in range(20)]
    put_pool(app.test_client(), "all", names)
    for name in names:
        sync(context, Sync(cluster=name, agent="old", sequence=1))  # that it is there is news by itself
    with waiting(context, *names) as answers:
        with context.database.reading() as connection:
            before = fleet.heard(connection)
        first = context.cluster_wakeups.polls
        with statements(context) as seen:
            _wait_for_polls(context, 50)  # more than two seconds, which some queries are made after
        polls = context.cluster_wakeups.polls - first + 1
        writes = [statement for statement in seen if statement.startswith(("UPDATE", "INSERT", "DELETE"))]
        assert writes == []
        assert len(seen) <= polls * 5  # one thread polls for all of them
        with context.database.reading() as connection:
            assert fleet.heard(connection) == before
        assert not any(answer.done() for answer in answers.values())


def test_a_newer_process_ends_the_wait_of_an_older_one(app: Flask, context: Context) -> None:
    put_pool(app.test_client(), "all", ["c", "d"])
    with waiting(context, "c", "d") as answers:
        sync(context, Sync(cluster="c", agent="new", sequence=1))
        with pytest.raises(AgentReplaced):
            answers["c"].result(10)
        sync(context, Sync(cluster="d", agent="old", sequence=2))  # the same process says something else meanwhile
        answer = answers["d"].result(10)
        assert (answer.has_news, answer.pause_seconds) == (False, 0)
    with context.database.reading() as connection:
        assert fleet.states(connection)["c"].agent == "new"


def test_a_change_of_its_definition_wakes_an_agent(app: Flask, context: Context) -> None:
    api = app.test_client()
    put_cluster(api, "c")
    with waiting(context, "c") as answers:
        ok(api.put(f"{API}/clusters/c", json={"cluster": {"enabled": False}}))
        assert answers["c"].result(10).enabled is False


def test_a_wait_is_shorter_than_what_depends_on_the_next_sync(make_app: MakeApp) -> None:
    app = make_app(agents={"waitSeconds": 3, "leaseSeconds": 4, "unreachableSeconds": 5})
    context = context_of(app)
    put_pool(app.test_client(), "all", ["c"])
    created(app.test_client(), "e", cluster="c")
    holding = (Held(key("e"), 1),)
    now = [100.0]

    def wait(event: threading.Event, seconds: float) -> bool:
        now[0] += seconds
        return event.is_set()

    wakeups = ClusterWakeups(context.database, wait=wait)
    context = replace(context, monotonic=lambda: now[0], cluster_wakeups=wakeups)

    def waited(**more: Any) -> float:
        began = now[0]
        sync(context, Sync(cluster="c", agent="a", sequence=1, wait_seconds=60, **more))
        return now[0] - began

    assert waited() == 2.5  # half of the time after which the cluster is unreachable
    assert waited(want=1) == 0
    assert waited(holding=holding) == 0  # the lease is confirmed
    assert waited(holding=holding) == 2  # half of the lease
    wakeups.close()


def test_where_too_many_wait_others_are_sent_away_and_nobody_else_is_kept(make_app: MakeApp) -> None:
    app = make_app(server={"threads": 4})
    context = context_of(app)
    names = ["a", "b", "c", "d"]
    api = app.test_client()
    put_pool(api, "all", names)
    tokens = {name: agents.rotate(context, name, 0).token for name in names}

    def call(name: str) -> Any:
        body = {"agent": "x", "sequence": 2, "want": 1, "wait_seconds": 30}
        headers = {"Authorization": f"Bearer {tokens[name]}"}
        return ok(app.test_client().post(f"{API}/clusters/{name}/sync", json=body, headers=headers))

    with ThreadPoolExecutor(3) as pool:
        waits = [pool.submit(call, name) for name in names[:3]]
        wait_until(lambda: _is_idle(context, 3))
        away = call("d")
        assert (away["leases"], away["intervals"]["pause_seconds"]) == ([], 5)
        created(api, "e", cluster="d")
        assert [lease["id"]["name"] for lease in call("d")["leases"]] == ["e"]
        created(api, "f", cluster="a")
        answer = waits[0].result(10)
        assert ([lease["id"]["name"] for lease in answer["leases"]], answer["intervals"]["pause_seconds"]) == (["f"], 0)
        context.cluster_wakeups.close()


# Tokens


def test_a_token_that_is_revoked_elsewhere_stops_counting_within_a_second(make_app: MakeApp) -> None:
    here, elsewhere = make_app(), make_app()
    now = [100.0]
    cache = TokenCache(monotonic=lambda: now[0])
    here.extensions["rainbow"] = replace(here.extensions["rainbow"], token_cache=cache)
    agent = played_agent(here.test_client(), here.extensions["rainbow"], "c")
    for _ in range(3):
        agent.sync()
    with statements(here.extensions["rainbow"]) as seen:
        agent.sync()
    assert not [statement for statement in seen if "cluster_tokens" in statement]
    assert agents.revoke(elsewhere.extensions["rainbow"], "c", agent.token[4:12])
    assert agent.post().status_code == 200
    now[0] += CACHE_SECONDS
    refused(agent.post(), 401, "unauthenticated")


def test_a_token_that_is_known_expires_at_its_time(make_app: MakeApp) -> None:
    app, clock = make_app(), Clock()
    context = set_clock(app, clock)
    agent = played_agent(app.test_client(), context, "c")
    agents.rotate(context, "c", 10)
    for _ in range(3):
        agent.sync()
    clock.advance(9)
    agent.sync()
    clock.advance(2)
    refused(agent.post(), 401, "unauthenticated")


# Reports on the cluster


def test_how_busy_a_cluster_is_changes_the_fleet_only_where_a_pool_looks_at_it(app: Flask, context: Context) -> None:
    api = app.test_client()
    put_pool(api, "even", ["plain", "watched"])
    put_pool(api, "full", ["watched"], strategy="spill")

    def generation_after(cluster: str, **report: Any) -> int:
        sync(context, Sync(cluster=cluster, agent="a", sequence=2, report=report))
        with context.database.reading() as connection:
            return fleet.generation(connection)

    for cluster, counts in (("plain", False), ("watched", True)):
        first = generation_after(cluster, plugins=["mpi"], free={"executions": 9})
        busier = generation_after(cluster, plugins=["mpi"], free={"executions": 3}, eta="5s")
        assert (busier > first) is counts
        assert generation_after(cluster, plugins=["mpi"], free={"executions": 3}, eta="5s") == busier
        shown = get(api, f"clusters/{cluster}")
        assert (shown["free"]["executions"], shown["eta"]) == (3, "5s")
        assert get(api, f"clusters/{cluster}/events")["events"][0]["type"] == "REPORTED"
        assert generation_after(cluster, plugins=[], free={"executions": 3}) > busier
    switch_clusters(context, "cordon", ["plain"])
    shown = get(api, "clusters/plain")
    assert (shown["reported_free"]["executions"], shown["free"]["executions"]) == (3, 0)


def test_why_an_agent_cannot_use_its_engine_is_shown_beside_what_it_reported_before(
    app: Flask, context: Context
) -> None:
    api = app.test_client()
    put_pool(api, "all", ["alpha"])

    def report(**report: Any) -> Any:
        sync(context, Sync(cluster="alpha", agent="a", sequence=2, report=report))
        return get(api, "clusters/alpha")

    assert "problem" not in report(engine="kubernetes", capacity={"cpu": "8"})
    shown = report(engine="kubernetes", problem="cannot list resource pods")
    assert (shown["problem"], shown["capacity"]["cpu"]) == ("cannot list resource pods", "8")
    shown = report(engine="kubernetes", capacity={"cpu": "4"}, problem="no answer")
    assert (shown["problem"], shown["capacity"]["cpu"]) == ("no answer", "4")
    created(api, "waits", cluster="alpha")
    explanation = f"executions/{PROJECT}/{DOMAIN}/waits/explanation"
    status = str(get(api, explanation)["status"])
    assert "alpha cannot use its engine (no answer)" in status
    assert "The agent of alpha takes it once it can use its engine." in status
    assert "problem" not in report(engine="kubernetes", capacity={"cpu": "4"})
    assert "its engine" not in str(get(api, explanation)["status"])


def test_many_syncs_of_many_clusters_at_once_each_count(app: Flask, context: Context) -> None:
    """Several are one transaction; what is wrong with one of them is not the others' fault."""
    names = [f"c{number}" for number in range(12)]
    put_pool(app.test_client(), "all", names)
    for name in names:
        created(app.test_client(), f"e-{name}", cluster=name)
        sync(context, Sync(cluster=name, agent="new", sequence=1))
    barrier = threading.Barrier(24)

    def call(number: int) -> Any:
        name, is_old = names[number % 12], number >= 12
        barrier.wait()
        try:
            return sync(context, Sync(cluster=name, agent="old" if is_old else "new", sequence=2, want=1)).leases
        except AgentReplaced:
            return None

    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(call, range(24)))
    assert [[execution.name for execution in some] for some in answers[:12]] == [[f"e-{name}"] for name in names]
    assert answers[12:] == [None] * 12


def test_syncs_that_come_together_cost_hardly_more_statements_than_one(app: Flask) -> None:
    context = set_clock(app, Clock())  # which stands still: no lease is old enough to be renewed
    names = [f"c{number}" for number in range(8)]
    put_pool(app.test_client(), "all", names)
    for name in names:
        created(app.test_client(), f"e-{name}", cluster=name)
        sync(context, Sync(cluster=name, agent="a", sequence=1, want=1))

    def cost(clusters: list[str]) -> int:
        requests = [
            Sync(cluster=name, agent="a", sequence=2, holding=(Held(key(f"e-{name}"), 1),)) for name in clusters
        ]
        exchanges = [Exchange(context=context, request=request) for request in requests]
        with statements(context) as seen, context.database.writing() as connection:
            answers = exchange_all(connection, exchanges)
        assert [isinstance(answer, SyncResult) and len(answer.confirmed) for answer in answers] == [1] * len(clusters)
        return len(seen)

    assert cost(names[1:]) == cost(names[:1])


def test_two_syncs_of_one_cluster_in_one_transaction_do_not_get_the_same_lease(app: Flask, context: Context) -> None:
    put_pool(app.test_client(), "all", ["c"])
    sync(context, Sync(cluster="c", agent="a", sequence=1))
    for name in ("e", "f"):
        created(app.test_client(), name, cluster="c")
    requests = [Sync(cluster="c", agent="a", sequence=2, want=1), Sync(cluster="c", agent="a", sequence=3, want=2)]
    with context.database.writing() as connection:
        exchanges = [Exchange(context=context, request=request) for request in requests]
        first, second = exchange_all(connection, exchanges)
    assert isinstance(first, SyncResult)
    assert isinstance(second, SyncResult)
    assert [execution.name for execution in first.leases] == ["e"]
    assert [execution.name for execution in second.leases] == ["e", "f"]  # the first may never have arrived


def test_what_was_looked_at_in_vain_is_looked_at_anew(app: Flask, context: Context) -> None:
    """A transaction may fail for all that it was for; each of them is then tried again."""
    put_pool(app.test_client(), "all", ["c"])
    created(app.test_client(), "e", cluster="c")
    sync(context, Sync(cluster="c", agent="new", sequence=1))
    exchanges = [Exchange(context=context, request=Sync(cluster="c", agent="old", sequence=2, want=1))]
    with context.database.writing() as connection:
        [first] = exchange_all(connection, exchanges)
    sync(context, Sync(cluster="c", agent="old", sequence=1))
    with context.database.writing() as connection:
        [second] = exchange_all(connection, exchanges)
    assert isinstance(first, AgentReplaced)
    assert isinstance(second, SyncResult)
    assert [execution.name for execution in second.leases] == ["e"]
