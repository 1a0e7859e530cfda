"""Asking: what is counted beside bids, so that what is decided together does not follow one cluster."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select

from admin.services.bid_decisions import decide_due_rounds, decide_rounds
from admin.store import bids
from admin.store.bid_tables import bid_rounds
from tests.support.asking import Asker, Document, MakeAsker
from tests.support.descriptions import pooled
from tests.support.placing import API, DOMAIN, asked, create, created, get, label, ok, pool, put_label, put_pool
from tests.support.small_fleets import group

#: One core for ten minutes.
JOB = {"command": ["true"], "resources": {"requests": {"cpu": "1"}, "duration": "10m"}}


def report(test: Asker, cluster: str, cpu: int, free: int) -> None:
    test.agents[cluster].sync(can_bid=True, report={"capacity": {"cpu": str(cpu)}, "free": {"cpu": str(free)}})


def promises(test: Asker, cluster: str) -> Counter[float]:
    """How many starts in how many seconds a cluster was chosen for."""
    query = select(bid_rounds.c.promised_seconds, func.count()).where(bid_rounds.c.cluster == test.full(cluster))
    with test.context.database.reading() as connection:
        return Counter({row[0]: row[1] for row in connection.execute(query.group_by(bid_rounds.c.promised_seconds))})


@pytest.mark.parametrize("route", ["pool", "label"])
def test_requests_that_ask_where_the_pool_does_not_count_what_others_were_given(asker: MakeAsker, route: str) -> None:
    """Three workers decide a third of them each, at once."""
    test = asker("idle", "later", "silent")
    members = [test.full(name) for name in test.agents]
    if route == "pool":
        put_pool(test.api, test.pool, members)
        place = pool(test.pool)
    else:
        put_label(test.api, test.pool, members)
        place = label(test.pool)
    for name in ("idle", "later"):
        report(test, name, 8, 8)
    for number in range(30):
        created(test.api, f"e{number}", project=test.project, job=JOB, strategy="ask", **place)
    test.bid("idle", start_seconds=0)
    test.bid("later", start_seconds=30)
    test.clock.advance(3)
    context = test.context
    with context.database.reading() as connection:
        is_open = bid_rounds.c.decided_at.is_(None)
        ids = list(connection.execute(select(bid_rounds.c.id).where(is_open).order_by(bid_rounds.c.id)).scalars())
    barrier = threading.Barrier(3)

    def decide(part: int) -> int:
        barrier.wait(10)
        return len(decide_rounds(context, ids[part::3]))

    with ThreadPoolExecutor(3) as threads:
        assert sum(threads.map(decide, range(3))) == 30
    listed = get(test.api, f"executions?project={test.project}&domain={DOMAIN}&limit=100")["executions"]
    counts = Counter(test.short(execution["cluster"]) for execution in listed)
    assert counts.keys() == {"idle", "later"}
    assert min(counts.values()) >= 10
    assert promises(test, "idle")[0.0] == 8


def test_what_has_none_before_it_stays_and_what_has_moves(asker: MakeAsker) -> None:
    """Ten wait at one cluster; the other would start one of them a little later, which is sooner for those behind."""
    test = asker("a", "b", rebalance="better-by 5m")
    for name in ("a", "b"):
        report(test, name, 1, 0)
    names = [f"e{number}" for number in range(10)]
    for name in names:
        test.create(name, job=JOB)
    test.bid("a", start_seconds=300)
    test.bid("b", "not-now")
    assert {test.place(name)[0] for name in names} == {"a"}
    test.pass_time(300)
    test.bid("a", start_seconds=300)
    test.bid("b", start_seconds=400)
    places = [test.place(name)[0] for name in names]
    assert places[:4] == ["a", "b", "a", "b"]
    assert test.rounds("e0")[-1]["outcome"] == "stays"
    assert test.rounds("e1")[-1]["promised_seconds"] == 400.0


def test_what_goes_first_is_not_delayed_by_what_waits_behind_it(asker: MakeAsker) -> None:
    test = asker("a", "b")
    for name in ("a", "b"):
        report(test, name, 1, 0)
    for number in range(5):
        test.create(f"e{number}", job=JOB)
    test.bid("a", start_seconds=100)
    test.bid("b", "not-now")
    for name, tier in (("plain", None), ("first", {"tier": "HIGH"})):
        test.create(name, job=JOB, **({} if tier is None else {"quality_of_service": tier}))
        test.bid("a", start_seconds=100)
        test.bid("b", start_seconds=600)
    assert (test.place("plain")[0], test.place("first")[0]) == ("b", "a")
    assert test.rounds("first")[-1]["promised_seconds"] == 100.0


def test_each_bid_counts_what_was_decided_before_it_whatever_others_were_made_earlier(asker: MakeAsker) -> None:
    test = asker("a", "b", "silent")
    for name in ("a", "b"):
        report(test, name, 1, 0)
    test.create("early", job=JOB)
    test.bid("a", start_seconds=500)
    test.bid("b", start_seconds=0)
    test.clock.advance(1)
    created(test.api, "held", project=test.project, job=JOB, cluster=test.full("a"))
    assert test.agents["a"].take() == ["held"]
    test.agents["a"].sync(can_bid=True)
    test.clock.advance(1)
    test.create("late", job=JOB)
    test.bid("a", start_seconds=60)  # its queue has what it was given a second ago
    test.bid("b", start_seconds=400)
    test.clock.advance(3)
    decide_due_rounds(test.context)
    assert (test.place("early")[0], test.place("late")[0]) == ("b", "a")
    assert test.rounds("late")[0]["promised_seconds"] == 57.0
    assert {candidate["cluster"]: candidate.get("score") for candidate in test.explain("early")["candidates"]}[
        test.full("a")
    ] == 1095


def test_place_counts_what_agents_have_by_their_bids_alone(asker: MakeAsker) -> None:
    test = asker("a", "b")
    for name in ("a", "b"):
        report(test, name, 1, 0)
    test.create("held", job=JOB)
    test.bid("a", start_seconds=0)
    test.bid("b", "not-now")
    assert test.agents["a"].take() == ["held"]
    test.agents["a"].sync(can_bid=True)
    test.clock.advance(1)
    test.create("other", job=JOB)
    test.bid("a", start_seconds=100)
    test.bid("b", start_seconds=130)
    ok(test.api.delete(f"{API}/executions/{test.project}/{DOMAIN}/other", json={"cause": "not needed"}))
    body = asked(project=test.project, job=JOB, **pool(test.pool))
    placed = ok(test.api.post(f"{API}/placements", json=body))
    assert test.short(placed["cluster"]) == "a"
    again = create(test.api, "again", project=test.project, job=JOB, **pool(test.pool))
    assert again.status_code == 200
    test.bid("a", start_seconds=100)
    test.bid("b", start_seconds=130)
    assert test.place("again")[0] == "a"


def test_simulate_goes_by_the_last_bids_where_only_a_request_asks(asker: MakeAsker) -> None:
    test = asker("a", "b")
    members = [test.full("a"), test.full("b")]
    put_pool(test.api, test.pool, members)
    test.create("e", strategy="ask")
    test.bid("a", start_seconds=600)
    test.bid("b", start_seconds=300)
    assert test.place("e")[0] == "b"
    changes: list[Document] = [{"pool_definition": {"name": test.pool, **group(members)}}]
    body = {"changes": changes, "since": "24h", "project": test.project}
    simulated = ok(test.api.post(f"{API}/simulations", json=body))
    assert simulated["by_cluster"] == {test.full("b"): {"before": 1, "after": 1}}
    assert simulated["by_last_bids"] == 1


def test_a_bid_is_the_last_of_its_cluster_however_many_others_followed(
    asker: MakeAsker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bids, "_RECENT", 1)
    test = asker("a", "b")
    for start in (900, 300):
        test.create(f"e{start}")
        test.bid("a", start_seconds=start + 10)
        test.bid("b", start_seconds=start)
    body = asked(project=test.project, **pool(test.pool))
    placed = ok(test.api.post(f"{API}/placements", json=body))
    assert "by the last bids of 2 of 2" in placed["reason"]["message"]
    assert {test.short(entry["cluster"]): entry.get("score") for entry in placed["candidates"]} == {"a": 370, "b": 360}


# Who said never


def test_who_said_never_is_asked_again_once_it_has_something_else(asker: MakeAsker) -> None:
    test = asker("a", "b", "c")
    for name in "abc":
        report(test, name, 4, 4)
    test.create("e", job=JOB)
    for name in "abc":
        test.bid(name, "not-now" if name == "c" else "never", **({} if name == "c" else {"reason": "no gpu"}))
    report(test, "a", 4, 2)  # busier, and the same
    test.pass_time(1)
    assert [len(test.questions(name)) for name in "abc"] == [0, 0, 1]
    test.bid("c", "not-now")
    test.clock.advance(0.5)
    report(test, "a", 8, 8)
    description = ok(test.api.put(f"{API}/clusters/{test.full('b')}/description", json=pooled(1, 4)))
    assert description["changed"]
    test.pass_time(1.5)
    assert [len(test.questions(name)) for name in "abc"] == [1, 1, 1]
    test.bid("a", "never")
    test.bid("b", "never")
    test.bid("c", "not-now")
    test.pass_time(4)
    assert [len(test.questions(name)) for name in "abc"] == [0, 0, 1]  # it has not changed again


def test_redecide_asks_at_once_and_also_who_said_never(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e", job=JOB)
    test.bid("a", "never")
    test.bid("b", "not-now")
    assert [len(test.questions(name)) for name in "ab"] == [0, 0]
    selector = {"project": test.project, "phase": "QUEUED"}
    ok(test.api.post(f"{API}/executions/redecide?dry_run=true", json={"selector": selector}))
    assert len(test.rounds("e")) == 1
    ok(test.api.post(f"{API}/executions/redecide", json={"selector": selector}))
    assert [len(test.questions(name)) for name in "ab"] == [1, 1]
    test.bid("a", start_seconds=5)
    test.bid("b", "not-now")
    assert test.place("e") == ("a", "QUEUED", "ASSIGNED")
