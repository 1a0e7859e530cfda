"""Asking: rounds of bids from the creation of an execution to its decision; on both databases."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event, func, select, update

from admin.core.fleet.silence import Watch
from admin.core.retention import Retention
from admin.loops.asking import AskingLoop
from admin.services import asking_again
from admin.services.asking_again import schedule_rebalancing
from admin.services.bid_decisions import decide_due_rounds, decide_rounds
from admin.services.bid_records import compare_promises
from admin.services.clocks import may_judge_silence
from admin.services.context import Context
from admin.services.redecisions import decide_undecided, decide_waiting
from admin.services.retention import prune
from admin.store import execution_queue, fleet
from admin.store.bid_tables import bid_rounds, bids
from admin.store.decisions import decisions
from admin.store.execution_tables import executions
from admin.store.fleet_tables import cluster_events, moved_clusters
from tests.support.agents import PlayedAgent, own_clock, played_agent
from tests.support.apps import context_of
from tests.support.asking import Asker, Document, MakeAsker
from tests.support.placing import (
    API,
    DOMAIN,
    asked,
    create,
    created,
    get,
    ok,
    pool,
    put_cluster,
    put_pool,
    refused,
    switch,
)
from tests.support.small_fleets import group
from tests.support.statements import transactions
from tests.support.waiting import wait_until

SLOW_ON = ("postgresql",)


def losses(test: Asker, name: str, query: str = "") -> dict[str, str]:
    """Why each candidate of an execution's decision was not chosen."""
    candidates = test.explain(name, query)["candidates"]
    return {test.short(candidate["cluster"]): candidate["why_not"] for candidate in candidates}


# From the question to the decision


def test_a_creation_answers_at_once_and_the_last_answer_decides(asker: MakeAsker) -> None:
    test = asker("a", "b")
    job = {"command": ["train"], "environment": {"KEY": "secret"}, "resources": {"duration": "10m"}}
    execution = test.create("e", job=job)
    assert (execution["closure"]["phase"], execution["closure"]["reason"]["code"]) == ("QUEUED", "ASKING")
    assert "cluster" not in execution
    repeated = ok(create(test.api, "e", project=test.project, job=job, **pool(test.pool)))
    assert (repeated["created"], repeated["execution"]["uid"]) == (False, execution["uid"])
    [question] = test.questions("a")
    assert question["id"]["name"] == "e"
    assert (question["round"], question["seconds"], question["time_limit_seconds"]) == (1, 3.0, 600.0)
    assert question["job"]["resources"]["duration"] == "10m"
    assert "environment" not in question["job"]
    assert test.agents["a"].sync(want=1)["bid_requests"] == []  # of one that says nothing of bids
    test.bid("a", start_seconds=60)
    assert test.place("e") == (None, "QUEUED", "ASKING")
    assert losses(test, "e") == {
        "a": "said yes, and would start it in 1 min",
        "b": "has not answered yet",
    }
    test.bid("b", start_seconds=5, cost=2.5)
    assert test.place("e") == ("b", "QUEUED", "ASSIGNED")
    assert test.agents["a"].sync(want=1, can_bid=True)["leases"] == []
    assert test.agents["b"].take() == ["e"]
    explained = test.explain("e")
    assert explained["because"] == "by bids: 2 of 2 clusters answered"
    losing = next(candidate for candidate in explained["candidates"] if candidate["cluster"] == test.full("a"))
    assert losing["why_not"] == (
        "able; would start it in 1 min, counting what goes first there, and the chosen one in 5 s"
    )
    [told] = explained["rounds"]
    assert (told["number"], told["outcome"], told["decision"], told["promised_seconds"]) == (1, "chosen", 2, 5.0)
    assert [(test.short(bid["cluster"]), bid["answer"], bid["start_seconds"]) for bid in told["bids"]] == [
        ("a", "yes", 60.0),
        ("b", "yes", 5.0),
    ]


def test_who_does_not_answer_is_out_at_the_deadline_with_that_reason(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("b", start_seconds=600)
    test.pass_time(2.9)
    assert test.place("e") == (None, "QUEUED", "ASKING")
    assert [bid.get("answer") for bid in test.rounds("e")[0]["bids"]] == ["yes", None]
    test.pass_time(0.1)
    assert test.place("e") == ("b", "QUEUED", "ASSIGNED")
    silent = next(entry for entry in test.explain("e")["candidates"] if entry["cluster"] == test.full("a"))
    assert silent["why_not"] == "did not answer within 3 s"
    late = test.answer("a", {"question": 1, "uid": "none"})
    assert late["refused"] == [{"event": "bid 1", "reason": "NOT_ASKED"}]


def test_a_pool_has_a_deadline_of_its_own(asker: MakeAsker) -> None:
    test = asker("a", "b", ask_deadline="20s")
    test.create("e")
    assert test.questions("a")[0]["seconds"] == 20.0
    test.bid("a")
    test.pass_time(19)
    assert test.place("e")[0] is None
    test.pass_time(1)
    assert test.place("e")[0] == "a"


def test_nobody_yes_asks_again_with_back_off_and_who_said_never_is_not_asked_again(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    assert test.next_attempt() > test.clock()
    test.bid("a", "not-now", reason="all nodes are taken")
    test.bid("b", "never", reason="no such partition")
    assert test.place("e") == (None, "QUEUED", "ASKING")
    assert test.next_attempt() == test.clock() + timedelta(seconds=1)
    message = test.execution("e")["closure"]["reason"]["message"]
    assert f"'{test.full('a')}' said not now (all nodes are taken)" in message
    assert losses(test, "e") == {
        "a": "said not now (all nodes are taken)",
        "b": "said never (no such partition)",
    }
    test.pass_time(0.9)
    assert test.questions("a") == []
    test.pass_time(0.1)
    assert test.questions("b") == []
    [question] = test.bid("a", "not-now")
    assert question["round"] == 2
    test.pass_time(1.9)
    assert test.questions("a") == []
    test.pass_time(0.1)
    test.bid("a")
    assert test.place("e") == ("a", "QUEUED", "ASSIGNED")
    assert [told["outcome"] for told in test.rounds("e")] == ["nobody", "nobody", "chosen"]
    assert len(test.explain("e")["history"]) == 2  # no decision for rounds without one
    assert losses(test, "e", "?decision=1") == dict.fromkeys("ab", "was asked")


def test_who_said_never_is_asked_again_once_an_operator_has_changed_its_definition(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("a", "not-now")
    test.bid("b", "never", reason="no such partition")
    assert test.place("e")[2] == "ASKING"
    test.pass_time(1)
    test.bid("a", "not-now")
    assert test.questions("b") == []
    test.clock.advance(1)
    put_cluster(test.api, test.full("b"), capacity={"executions": 9})
    test.pass_time(2)
    [question] = test.questions("b")
    test.answer("b", question, answer="never")
    test.bid("a", "not-now")
    test.place("e")
    test.pass_time(60)
    assert test.questions("b") == []  # by what it has now it said never too


def test_room_that_comes_free_ends_the_pause_before_the_next_question(asker: MakeAsker) -> None:
    test = asker("a", "b")
    loop = AskingLoop(test.context, interval=0)
    for number in range(1, 6):  # pauses of 1, 2, 4, 8 and 16 s
        if number == 1:
            test.create("e")
        else:
            test.pass_time(2 ** (number - 2))
        test.agents["a"].sync(can_bid=True, report={"free": {"executions": 0}})
        test.bid("a", "not-now")
        test.bid("b", "never")
    loop()
    test.clock.advance(2)
    for free in ({"executions": 0}, {"executions": 0, "cpu": "0"}):
        test.agents["a"].sync(can_bid=True, report={"free": free})
        loop()
        assert test.questions("a") == []
    test.agents["b"].sync(can_bid=True, report={"free": {"executions": 5}})
    loop()
    assert test.questions("a") == []  # room where it can never run is no room
    test.agents["a"].sync(can_bid=True, report={"free": {"executions": 1}})
    loop()
    [question] = test.questions("a")
    assert question["round"] == 6
    test.bid("a", "not-now")
    test.agents["a"].sync(can_bid=True, report={"free": {"executions": 2}})
    loop()
    assert test.questions("a") == []  # asked a moment ago


def test_what_cannot_be_asked_about_now_is_tried_again_later_and_not_at_every_look(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("a", start_seconds=0)
    test.bid("b", start_seconds=500)
    assert test.place("e")[0] == "a"
    put_pool(test.api, test.pool, [test.full(name) for name in "ab"], strategy="ask", rebalance="better-by 1m")
    for name in "ab":
        switch(test.api, test.full(name), "cordon")
    assert schedule_rebalancing(test.context) == 1
    test.pass_time(61)
    assert schedule_rebalancing(test.context) == 0
    for name in "ab":
        switch(test.api, test.full(name), "uncordon")
    test.pass_time(61)
    assert [question["round"] for question in test.questions("a")] == [2]


def test_if_all_say_never_it_fails_with_the_reason_of_each(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("a", "never", reason="no gpu")
    test.bid("b", "never", reason="runs no images")
    assert test.place("e") == (None, "FAILED", "NO_CLUSTER_CAN")
    message = test.execution("e")["closure"]["reason"]["message"]
    assert "said never (no gpu)" in message
    assert "said never (runs no images)" in message
    assert test.rounds("e")[0]["outcome"] == "never"


def test_agents_that_cannot_bid_are_scored_by_what_they_report(asker: MakeAsker) -> None:
    test = asker("old-far", "old-near", "new")
    test.agents["old-far"].sync(report={"eta": "10m"})
    test.agents["old-near"].sync(report={"eta": "10s"})
    test.create("e")
    assert test.agents["old-near"].sync()["bid_requests"] == []
    test.bid("new", start_seconds=60)
    assert test.place("e")[0] == "old-near"
    answers = {test.short(bid["cluster"]): bid["answer"] for bid in test.rounds("e")[0]["bids"]}
    assert answers == {"old-far": "reported", "old-near": "reported", "new": "yes"}
    test.create("f")
    test.bid("new", start_seconds=0)
    assert test.place("f")[0] == "new"


def test_a_pool_of_older_agents_alone_is_decided_by_the_next_look(asker: MakeAsker) -> None:
    test = asker("old-a")
    test.create("e")
    assert test.place("e") == (None, "QUEUED", "ASKING")
    AskingLoop(test.context)()
    assert test.place("e") == ("old-a", "QUEUED", "ASSIGNED")


# What agents send


def test_a_bid_that_does_not_count_is_refused_and_the_sync_is_not(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    [question] = test.questions("a")
    bid = {"question": question["question"], "uid": question["uid"], "answer": "yes", "start_seconds": 0}
    wrong: list[tuple[Any, str]] = [
        ({**bid, "start_seconds": -5}, "INVALID_BID: start_seconds"),
        ({**bid, "start_seconds": "NaN"}, "INVALID_BID: start_seconds"),
        ({**bid, "start_seconds": None}, "INVALID_BID: start_seconds"),
        ({**bid, "cost": -1}, "INVALID_BID: cost"),
        ({**bid, "answer": "perhaps"}, "INVALID_BID: answer"),
        ({**bid, "uid": "00"}, "NOT_ASKED"),
        ({**bid, "question": 4_000_000}, "NOT_ASKED"),
        ({**bid, "question": 2**80}, "INVALID_BID: question"),
        (None, "INVALID_BID"),
        ("yes", "INVALID_BID"),
        ({}, "INVALID_BID"),
        ({"question": []}, "INVALID_BID"),
    ]
    report = {"free": {"cpu": "1"}}
    not_of_it = [entry for entry in wrong if "uid" not in (entry[0] or ()) or entry[1] == "NOT_ASKED"]
    for entries in (not_of_it, wrong):
        assert test.questions("a") == [question]
        answer = test.agents["a"].sync(can_bid=True, bids=[document for document, _ in entries], report=report)
        reasons = [refusal["reason"] for refusal in answer["refused"]]
        assert [reason.startswith(start) for reason, (_, start) in zip(reasons, entries, strict=True)] == [True] * len(
            entries
        )
    assert get(test.api, f"clusters/{test.full('a')}")["reported_free"] == {"cpu": "1"}
    assert test.questions("a") == []


def test_a_refused_bid_is_told_and_its_round_is_not_waited_for(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    [question] = test.questions("a")
    [refusal] = test.answer("a", question, start_seconds=-1)["refused"]
    assert refusal["reason"].startswith("INVALID_BID: start_seconds: -1 is out of range")
    assert test.answer("a", question)["refused"][0]["reason"] == "ALREADY_ANSWERED"
    test.bid("b", answer="not-now")
    explained = test.explain("e")
    [round_] = explained["rounds"]
    assert (round_["outcome"], [bid["answer"] for bid in round_["bids"]]) == ("nobody", ["refused", "not-now"])
    assert round_["bids"][0]["reason"].startswith("start_seconds: -1 is out of range")
    message = test.execution("e")["closure"]["reason"]["message"]
    assert f"'{test.full('a')}' made a bid that was refused (start_seconds: -1 is out of range" in message
    test.pass_time(1)
    [again] = test.questions("a")
    test.agents["a"].sync(can_bid=True, bids=[{"question": again["question"], "answer": "yes"}])  # names no execution
    test.bid("b", start_seconds=60)
    assert test.place("e")[0] == "b"
    why = {candidate["cluster"]: candidate.get("why_not") for candidate in test.explain("e")["candidates"]}
    assert why[test.full("a")] == "made a bid that was refused (uid: is missing)"


def test_only_the_first_answer_of_the_cluster_that_was_asked_counts(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    [question], [other] = test.questions("a"), test.questions("b")
    assert test.answer("b", question)["refused"][0]["reason"] == "NOT_ASKED"
    assert test.answer("a", question, start_seconds=60)["refused"] == []
    assert test.answer("a", question, start_seconds=60)["refused"] == []  # sent twice, since an answer was lost
    assert test.answer("a", question, start_seconds=1)["refused"][0]["reason"] == "ALREADY_ANSWERED"
    test.clock.advance(4)
    assert test.answer("b", other)["refused"][0]["reason"] == "TOO_LATE"
    decide_due_rounds(test.context)
    assert test.answer("b", other)["refused"][0]["reason"] == "TOO_LATE"
    assert test.place("e")[0] == "a"


# What happens meanwhile


def test_a_cancelled_execution_is_not_asked_about_and_its_round_leads_to_nothing(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    [question] = test.questions("a")
    ok(test.api.delete(f"{API}/executions/{test.project}/{DOMAIN}/e", json={"cause": "no more"}))
    assert test.questions("b") == []
    assert test.rounds("e")[0]["outcome"] == "withdrawn"
    test.answer("a", question)
    test.pass_time(3)
    assert test.place("e")[1:] == ("ABORTED", "TERMINATED")
    assert test.rounds("e")[0]["outcome"] == "withdrawn"
    test.pass_time(120)
    assert len(test.rounds("e")) == 1


def test_a_cluster_that_is_cordoned_after_its_answer_is_not_chosen(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("a")
    switch(test.api, test.full("a"), "cordon")
    test.bid("b", start_seconds=600)
    assert test.place("e") == ("b", "QUEUED", "ASSIGNED")


def test_where_all_are_cordoned_it_waits_and_is_asked_about_again(asker: MakeAsker) -> None:
    test = asker("a")
    test.create("e")
    switch(test.api, test.full("a"), "cordon")
    assert test.questions("a") == []
    decide_waiting(test.context)
    assert test.place("e") == (None, "QUEUED", "CLUSTERS_CORDONED")
    test.pass_time(3)
    assert test.rounds("e")[0]["outcome"] == "withdrawn"
    switch(test.api, test.full("a"), "uncordon")
    decide_waiting(test.context)
    assert test.place("e") == (None, "QUEUED", "ASKING")
    test.bid("a")
    assert test.place("e") == ("a", "QUEUED", "ASSIGNED")
    assert [told["number"] for told in test.rounds("e")] == [1, 2]


def test_a_cordon_that_is_over_before_anybody_looked_leaves_nothing_unasked(asker: MakeAsker) -> None:
    test = asker("a")
    test.create("e")
    switch(test.api, test.full("a"), "cordon")
    test.pass_time(3)  # the round finds no cluster
    switch(test.api, test.full("a"), "uncordon")
    decide_waiting(test.context)
    test.pass_time(2)
    test.bid("a")
    assert test.place("e") == ("a", "QUEUED", "ASSIGNED")


def test_a_round_that_is_still_open_when_the_next_one_begins_is_withdrawn_and_says_so(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("b", start_seconds=600)
    [question] = test.questions("a")
    for name in ("a", "b"):
        switch(test.api, test.full(name), "cordon")
    decide_waiting(test.context)
    switch(test.api, test.full("a"), "uncordon")
    decide_waiting(test.context)
    first, second = test.rounds("e")
    assert (first["outcome"], "decided_at" in first) == ("withdrawn", True)
    assert {test.short(bid["cluster"]): bid["answer"] for bid in first["bids"]} == {"a": "silent", "b": "yes"}
    assert "outcome" not in second
    assert test.answer("a", question)["refused"][0]["reason"] == "TOO_LATE"
    test.bid("a")
    assert test.place("e")[0] == "a"


def test_what_an_agent_has_in_its_queue_is_not_counted_beside_the_bid_that_knows_it(asker: MakeAsker) -> None:
    test = asker("a", "b")
    report = {"capacity": {"executions": 1}, "free": {"executions": 1}}
    for name in ("a", "b"):
        test.agents[name].sync(can_bid=True, report=report)
    job = {"command": ["true"], "resources": {"duration": "60s"}}
    test.create("leased", job=job)
    test.bid("a")
    test.bid("b", start_seconds=600)
    assert test.agents["a"].take() == ["leased"]
    test.agents["a"].sync(can_bid=True)
    test.clock.advance(1)
    test.create("e", job=job)
    test.bid("a", start_seconds=100)  # it is known to the cluster's queue
    test.bid("b", start_seconds=130)
    assert (test.place("e")[0], test.rounds("e")[0]["promised_seconds"]) == ("a", 100.0)
    test.create("f", job=job)
    test.bid("a", start_seconds=100)  # which knows nothing of the one that waits at the admin
    test.bid("b", start_seconds=130)
    assert (test.place("f")[0], test.rounds("f")[0]["promised_seconds"]) == ("b", 130.0)


def test_rounds_go_on_after_the_clock_went_back(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("open")
    test.create("again")
    for name in ("a", "b"):
        questions = {question["id"]["name"]: question for question in test.questions(name)}
        test.answer(name, questions["again"], answer="not-now")
    test.clock.advance(-7200)
    may_judge_silence(replace(test.context, watch=Watch()))  # as the background work does when the clock has jumped
    test.pass_time(1)
    assert [question["round"] for question in test.questions("a") if question["id"]["name"] == "again"] == [2]
    test.pass_time(2)
    assert test.rounds("open")[0]["outcome"] == "nobody"


def test_what_waits_at_a_drained_cluster_is_asked_about_again(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("a")
    test.bid("b", start_seconds=60)
    assert test.place("e")[0] == "a"
    switch(test.api, test.full("a"), "drain", deadline="10m")
    decide_waiting(test.context)
    assert test.place("e") == (None, "QUEUED", "ASKING")
    [question] = test.bid("b", start_seconds=30)
    assert question["round"] == 2
    assert test.place("e")[0] == "b"


def test_what_an_agent_gives_back_is_asked_about_again(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("a")
    test.bid("b", start_seconds=60)
    agent = test.agents["a"]
    agent.take()
    assert agent.report("e", "DECLINED", message="no licence") is None
    agent.holding.clear()
    decide_undecided(test.context)
    assert test.questions("a") == []
    test.bid("b")
    assert test.place("e")[0] == "b"


def test_a_lost_cluster_does_not_win_by_what_it_said_before(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("a")
    with test.context.database.writing() as connection:
        fleet.lose(connection, [test.full("a")])
        fleet.bump_generation(connection)
    test.bid("b", start_seconds=600)
    assert test.place("e")[0] == "b"


def test_a_changed_strategy_decides_what_was_asked(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    put_pool(test.api, test.pool, [test.full("b")], strategy="weighted")
    decide_waiting(test.context)
    assert test.place("e") == ("b", "QUEUED", "ASSIGNED")
    test.pass_time(3)
    assert test.place("e") == ("b", "QUEUED", "ASSIGNED")


def test_two_workers_that_decide_at_once_make_one_decision(asker: MakeAsker) -> None:
    test = asker("a", "b")
    names = [f"e{number}" for number in range(6)]
    for name in names:
        test.create(name)
    test.bid("a", start_seconds=1)
    test.clock.advance(3)
    context = test.context
    with context.database.reading() as connection:
        open_rounds = list(
            connection.execute(select(bid_rounds.c.id).where(bid_rounds.c.decided_at.is_(None))).scalars()
        )
    barrier = threading.Barrier(3)

    def decide() -> int:
        barrier.wait(10)
        return len(decide_rounds(context, open_rounds))

    with ThreadPoolExecutor(3) as threads:
        counts = [future.result() for future in [threads.submit(decide) for _ in range(3)]]
    assert sorted(counts) == [0, 0, len(names)]
    assert {test.place(name)[0] for name in names} == {"a"}
    with context.database.reading() as connection:
        counted = select(decisions.c.execution_id, func.count()).group_by(decisions.c.execution_id)
        by_execution = {row[0]: row[1] for row in connection.execute(counted)}
    ids = [test.explain(name)["history"] for name in names]
    assert [len(history) for history in ids] == [2] * len(names)
    assert max(by_execution.values()) >= 2


def test_a_round_outlives_the_admin_that_asked(make_app: Callable[..., Flask]) -> None:
    first, second = make_app(), make_app()
    with own_clock(first) as clock, own_clock(second) as later:
        api = first.test_client()
        agent = played_agent(api, context_of(first), "a")
        agent.sync(can_bid=True)
        put_pool(api, "p", ["a"], strategy="ask")
        created(api, "e", **pool("p"))
        [question] = agent.sync(can_bid=True)["bid_requests"]
        later.advance((clock() - later()).total_seconds() + 1)
        again = PlayedAgent(client=second.test_client(), cluster="a", token=agent.token, sequence=10)
        assert [asked["question"] for asked in again.sync(can_bid=True)["bid_requests"]] == [question["question"]]
        later.advance(2)
        decide_due_rounds(context_of(second))
        assert get(api, f"executions/flytesnacks/{DOMAIN}/e/explanation")["rounds"][0]["outcome"] == "nobody"
        later.advance(1)
        decide_due_rounds(context_of(second))
        [question] = again.sync(can_bid=True)["bid_requests"]
        bid = {"question": question["question"], "uid": question["uid"], "answer": "yes", "start_seconds": 0}
        again.sync(can_bid=True, bids=[bid])
        assert get(api, f"executions/flytesnacks/{DOMAIN}/e")["cluster"] == "a"


def test_a_question_wakes_an_agent_that_waits(make_app: Callable[..., Flask]) -> None:
    app = make_app()
    api, context = app.test_client(), context_of(app)
    agent = played_agent(api, context, "a")
    agent.sync(can_bid=True)
    put_pool(api, "p", ["a"], strategy="ask")
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(agent.sync, can_bid=True, wait_seconds=20)
        wait_until(lambda: context.cluster_wakeups.waiting == 1)
        created(api, "e", **pool("p"))
        assert len(future.result(timeout=15)["bid_requests"]) == 1


def test_a_question_ends_the_wait_of_an_agent_once_unless_the_answer_was_lost(make_app: Callable[..., Flask]) -> None:
    app = make_app()
    api, context = app.test_client(), context_of(app)
    agent = played_agent(api, context, "a")
    agent.sync(can_bid=True)
    put_pool(api, "p", ["a"], strategy="ask", ask_deadline="60s")
    created(api, "e", **pool("p"))
    told = agent.sync(can_bid=True, wait_seconds=20)
    [question] = told["bid_requests"]
    for tells in (False, True):  # which answers it got, by positions
        seen = told["position"] if tells else 0
        with ThreadPoolExecutor(1) as threads:
            future = threads.submit(agent.sync, can_bid=True, wait_seconds=20, seen=seen)
            wait_until(lambda: context.cluster_wakeups.waiting == 1)
            created(api, f"f{seen}", **pool("p"))
            told = future.result(timeout=15)
            assert question in [{**again, "seconds": question["seconds"]} for again in told["bid_requests"]]
    assert len(told["bid_requests"]) == 3
    lost = agent.sync(can_bid=True, wait_seconds=20, seen=told["position"] - 1)
    assert len(lost["bid_requests"]) == 3
    restarted = PlayedAgent(client=api, cluster="a", token=agent.token)
    assert len(restarted.sync(can_bid=True, wait_seconds=20, seen=lost["position"])["bid_requests"]) == 3
    other = PlayedAgent(client=api, cluster="a", token=agent.token, id="agent-2")
    told = other.sync(can_bid=True, take_over=True, wait_seconds=20, seen=lost["position"] + 1)
    assert len(told["bid_requests"]) == 3
    bids = [{"question": asked["question"], "uid": asked["uid"], "answer": "never"} for asked in told["bid_requests"]]
    assert other.sync(can_bid=True, bids=bids)["bid_requests"] == []
    with context.database.reading() as connection:
        assert fleet.states(connection)["a"].asked == {}


# Many at once


def test_thirty_that_are_asked_at_once_spread_and_none_is_asked_twice(asker: MakeAsker) -> None:
    test = asker("a", "b", "busy")
    for name, free in (("a", "4"), ("b", "8"), ("busy", "0")):
        test.agents[name].sync(can_bid=True, report={"capacity": {"cpu": "8"}, "free": {"cpu": free}})
    job = {"command": ["true"], "resources": {"requests": {"cpu": "1"}, "duration": "1m"}}
    names = [f"e{number}" for number in range(30)]
    bodies = [asked(name, project=test.project, job=job, **pool(test.pool)) for name in names]
    with transactions(test.context) as begun:
        ok(test.api.post(f"{API}/executions", json={"executions": bodies}))
    assert len(begun) < 10
    for name, start in (("a", 0), ("b", 0), ("busy", 60)):
        assert len(test.bid(name, start_seconds=start)) == 30
    listed = get(test.api, f"executions?project={test.project}&domain={DOMAIN}&limit=100")["executions"]
    counts = Counter(test.short(execution["cluster"]) for execution in listed)
    assert counts.keys() == {"a", "b", "busy"}
    assert counts["a"] >= 4
    assert counts["b"] >= 8
    assert max(counts.values()) <= 16  # b has eight places, and is filled at most twice
    with test.context.database.reading() as connection:
        clusters = [test.full(name) for name in test.agents]
        asked_about = select(func.count()).where(bids.c.cluster.in_(clusters))
        assert connection.execute(asked_about).scalar_one() == 3 * len(names)


# Moving what waits


def test_what_no_agent_has_leased_moves_to_a_cluster_that_starts_it_so_much_sooner(asker: MakeAsker) -> None:
    test = asker("a", "b", rebalance="better-by 5m")
    test.create("e")
    test.bid("a", start_seconds=600)
    test.bid("b", start_seconds=900)
    assert test.place("e")[0] == "a"
    test.pass_time(299)
    assert test.questions("b") == []
    test.pass_time(1)
    test.bid("a", start_seconds=1000)
    test.bid("b", start_seconds=800)  # sooner, but not by so much
    assert test.place("e")[0] == "a"
    assert test.rounds("e")[-1]["outcome"] == "stays"
    test.pass_time(299)
    assert test.questions("b") == []
    test.pass_time(1)
    test.bid("a", start_seconds=1000)
    test.bid("b", start_seconds=60)
    assert test.place("e")[0] == "b"
    explained = test.explain("e")
    assert explained["because"].startswith(f"from {test.full('a')}, which would start it in 16 min 40 s")
    assert (explained["rounds"][-1]["outcome"], explained["rounds"][-1]["present"]) == ("chosen", test.full("a"))
    with test.context.database.reading() as connection:
        moved = select(cluster_events.c.reason).join(moved_clusters, moved_clusters.c.event == cluster_events.c.number)
        [told] = connection.execute(moved.where(moved_clusters.c.cluster == test.full("a"))).scalars()
    assert "Other clusters start them sooner." in told
    test.agents["b"].take()
    test.pass_time(300)
    assert test.questions("a") == []  # an agent has it


def test_what_waited_before_the_policy_is_asked_about_too(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("a", start_seconds=600)
    test.bid("b", start_seconds=900)
    assert schedule_rebalancing(test.context) == 0
    put_pool(test.api, test.pool, [test.full("a"), test.full("b")], strategy="ask", rebalance="better-by 5m")
    assert (schedule_rebalancing(test.context), schedule_rebalancing(test.context)) == (1, 0)
    test.pass_time(299)
    assert test.questions("b") == []
    test.pass_time(1)
    assert schedule_rebalancing(test.context) == 0  # while it is asked about
    test.bid("a", start_seconds=900)
    test.bid("b")
    assert test.place("e")[0] == "b"
    test.agents["b"].take()
    assert schedule_rebalancing(test.context) == 0


def test_what_another_strategy_gave_to_a_cluster_is_asked_about_too(asker: MakeAsker) -> None:
    test = asker("a", "b")
    members = [test.full("a"), test.full("b")]
    put_pool(test.api, test.pool, members, strategy="spill")
    test.create("e")
    assert test.place("e")[0] == "a"
    put_pool(test.api, test.pool, members, strategy="ask", rebalance="better-by 5m")
    assert schedule_rebalancing(test.context) == 0
    test.clock.advance(300)
    assert schedule_rebalancing(test.context) == 1
    assert schedule_rebalancing(test.context) == 0
    test.bid("a", "never", reason="no such partition")
    test.bid("b", start_seconds=60)
    assert test.place("e")[0] == "b"
    assert test.explain("e")["because"].startswith(
        f"from {test.full('a')}, which will never run it, since '{test.full('b')}' starts"
    )


def test_requests_with_another_strategy_keep_no_others_from_being_asked_about(
    asker: MakeAsker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking_again, "_BATCH", 2)
    test = asker("a")
    put_pool(test.api, test.pool, [test.full("a")], strategy="spill")
    for name in ("e1", "e2", "e3"):
        test.create(name, strategy="weighted")
    test.create("f")
    put_pool(test.api, test.pool, [test.full("a")], strategy="ask", rebalance="better-by 1m")
    test.clock.advance(60)
    assert schedule_rebalancing(test.context, {}) == 1
    assert len(test.rounds("f")) == 1


def test_what_has_no_agent_to_ask_is_looked_at_in_turn_and_holds_nothing(
    asker: MakeAsker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking_again, "_BATCH", 2)
    test = asker("a")
    expected = test.full("expected")
    put_cluster(test.api, expected)
    members = [test.full("a"), expected]
    put_pool(test.api, test.pool, members, strategy="spill")
    for name in ("e1", "e2", "e3"):
        test.create(name)
    with test.context.database.writing() as connection:
        declined = update(executions).where(executions.c.project == test.project)
        connection.execute(declined.values(avoid=[test.full("a")], cluster=expected))
    test.create("f")
    assert test.place("f")[0] == "a"
    put_pool(test.api, test.pool, members, strategy="ask", rebalance="better-by 1m")
    test.clock.advance(60)
    batches: list[Sequence[int]] = []
    ask_again = asking_again.ask_again

    def note(context: Context, ids: Sequence[int]) -> None:
        batches.append(ids)
        ask_again(context, ids)

    monkeypatch.setattr(asking_again, "ask_again", note)
    last_seen: dict[str, int] = {}
    assert [schedule_rebalancing(test.context, last_seen) for _ in range(4)] == [0, 1, 0, 0]
    assert [len(ids) for ids in batches] == [1]
    assert len(test.rounds("f")) == 1


def test_an_explanation_says_that_clusters_are_asked_again_only_where_they_are(asker: MakeAsker) -> None:
    test = asker("a", rebalance="better-by 5m")
    test.create("e")
    test.bid("a")
    assert "ask_again_at" in test.rounds("e")[0]
    test.agents["a"].take()
    assert "ask_again_at" not in test.rounds("e")[0]


def test_without_the_policy_nothing_moves(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e")
    test.bid("a", start_seconds=600)
    test.bid("b", start_seconds=900)
    test.pass_time(3600)
    assert test.questions("b") == []
    assert len(test.rounds("e")) == 1


# Looking ahead and back


def test_place_and_simulate_answer_from_the_last_bids_and_say_so(asker: MakeAsker) -> None:
    test = asker("a", "b")
    request = asked(project=test.project, **pool(test.pool))
    none = ok(test.api.post(f"{API}/placements", json=request))
    assert none["reason"]["code"] == "ASKING"
    assert "by what they report, since none of them has made a bid" in none["reason"]["message"]
    test.create("e")
    test.bid("a", start_seconds=600)
    test.bid("b", start_seconds=300)
    placed = ok(test.api.post(f"{API}/placements", json=request))
    assert (test.short(placed["cluster"]), placed["reason"]["code"]) == ("b", "ASKING")
    assert placed["reason"]["message"] == (
        f"Its clusters would be asked; '{test.full('b')}' is the best by the last bids of 2 of 2, up to 0 s old."
    )
    assert len(test.rounds("e")) == 1
    members = group([test.full("a"), test.full("b")], strategy="ask", choose_by="cheapest")
    body = {"changes": [{"pool_definition": {"name": test.pool, **members}}], "since": "24h"}
    [cost] = [{"cluster_definition": {"name": test.full("a"), "cost": 1}}]
    simulated = ok(
        test.api.post(f"{API}/simulations", json={**body, "changes": [*body["changes"], cost], "project": test.project})
    )
    [move] = simulated["executions"]
    assert (move["before"]["cluster"], move["after"]["cluster"]) == (test.full("b"), test.full("a"))
    assert (move["after"]["reason"], "last bids" in move["after"]["message"]) == ("ASKING", True)
    assert simulated["by_last_bids"] == 1


def test_place_goes_by_the_last_bid_of_each_cluster(asker: MakeAsker) -> None:
    test = asker("a", "b")
    request = asked(project=test.project, **pool(test.pool))
    test.create("e")
    test.bid("a")
    test.bid("b", start_seconds=300)
    test.create("busy")
    test.bid("a", "not-now", reason="maintenance")
    test.bid("b", start_seconds=300)
    placed = ok(test.api.post(f"{API}/placements", json=request))
    assert test.short(placed["cluster"]) == "b"
    reasons = {test.short(candidate["cluster"]): candidate.get("why_not") for candidate in placed["candidates"]}
    assert reasons["a"] == "said not now (maintenance)"
    test.create("none")
    test.bid("a", "not-now", reason="maintenance")
    test.bid("b", "not-now", reason="no such partition")
    placed = ok(test.api.post(f"{API}/placements", json=request))
    assert (placed.get("cluster"), placed["reason"]["code"]) == (None, "ASKING")
    assert placed["reason"]["message"] == (
        f"Its clusters would be asked; by the last bids of 2 of 2, up to 0 s old, no cluster of pool '{test.pool}' is "
        f"able: '{test.full('a')}' said not now (maintenance), '{test.full('b')}' said not now (no such partition)."
    )
    simulated = ok(test.api.post(f"{API}/simulations", json=simulation_of_nothing(test)))
    assert simulated["by_cluster"][""] == {"before": 3, "after": 3}


def test_what_says_never_to_one_job_is_no_refusal_of_another(asker: MakeAsker) -> None:
    test = asker("a")
    test.create("e")
    test.bid("a", "never", reason="no gpu")
    placed = ok(test.api.post(f"{API}/placements", json=asked(project=test.project, **pool(test.pool))))
    assert (placed["cluster"], placed["reason"]["code"]) == (test.full("a"), "ASKING")
    assert "by what they report" in placed["reason"]["message"]
    test.create("other")
    test.bid("a", start_seconds=300)
    test.create("third")
    test.bid("a", "never", reason="no gpu")
    test.create("fourth")
    test.pass_time(3)  # nobody answers, which is no bid
    placed = ok(test.api.post(f"{API}/placements", json=asked(project=test.project, **pool(test.pool))))
    assert placed["cluster"] == test.full("a")
    assert "by the last bids of 1 of 1" in placed["reason"]["message"]


def simulation_of_nothing(test: Asker) -> Document:
    """A simulation of the pool as it is, over the executions of a test."""
    members = group([test.full(name) for name in test.agents], strategy="ask")
    return {"changes": [{"pool_definition": {"name": test.pool, **members}}], "since": "24h", "project": test.project}


def test_place_takes_the_time_limit_of_the_job_into_account_as_a_round_does(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.agents["a"].sync(can_bid=True, report={"capacity": {"cpu": "1"}, "free": {"cpu": "1"}})
    job = {"command": ["true"], "resources": {"requests": {"cpu": "1"}, "duration": "10s"}}
    test.create("e", job=job)
    test.bid("a")
    test.bid("b", start_seconds=100)
    assert test.place("e")[0] == "a"
    for duration, cluster in (("10s", "a"), ("10m", "b")):
        job["resources"] = {"requests": {"cpu": "1"}, "duration": duration}
        placed = ok(test.api.post(f"{API}/placements", json=asked(project=test.project, job=job, **pool(test.pool))))
        assert test.short(placed["cluster"]) == cluster


def record(test: Asker, name: str) -> tuple[int, int, float] | None:
    """How many starts a cluster promised, how many it kept, and how late they were on average."""
    compare_promises(test.context)
    told = get(test.api, f"clusters/{test.full(name)}").get("bids")
    return told and (told["promised"], told["kept"], told["late_seconds"])


def test_the_first_attempt_after_a_promise_counts_whatever_follows_it(asker: MakeAsker) -> None:
    test = asker("a")
    agent = test.agents["a"]
    test.create("e", retry={"attempts": 2, "backoff": "5m"})
    test.bid("a")
    agent.start()
    agent.finish(["e"], "FAILED")  # and is tried again before anybody has compared
    assert test.place("e")[1] == "QUEUED"
    assert record(test, "a") == (1, 1, 0.0)
    test.clock.advance(600)
    agent.start()
    assert record(test, "a") == (1, 1, 0.0)


def test_a_start_of_which_nothing_is_heard_before_its_end_counts(asker: MakeAsker) -> None:
    test = asker("a")
    test.create("e")
    test.bid("a")
    test.agents["a"].take()
    started_at = (test.clock() + timedelta(seconds=60)).isoformat()
    test.clock.advance(100)
    test.agents["a"].finish(["e"], started_at=started_at)
    assert record(test, "a") == (1, 0, 60.0)


def test_a_promise_counts_once_after_something_came_back_to_its_cluster(asker: MakeAsker) -> None:
    test = asker("a", "b", rebalance="better-by 1m")
    test.create("e")
    for soon, late in (("a", "b"), ("b", "a"), ("a", "b")):
        test.bid(late, start_seconds=900)
        test.bid(soon, start_seconds=30)
        assert test.place("e")[0] == soon
        test.pass_time(60)
    test.clock.advance(70)
    test.agents["a"].start()
    assert (record(test, "a"), record(test, "b")) == ((1, 0, 100.0), None)


def test_what_an_agent_only_reports_is_no_promise(asker: MakeAsker) -> None:
    test = asker("old-a")
    test.agents["old-a"].sync(report={"eta": "1s"})
    test.create("e")
    decide_due_rounds(test.context)
    test.clock.advance(600)
    test.agents["old-a"].start()
    assert record(test, "old-a") is None


def test_a_start_is_promised_after_the_back_off_of_an_attempt(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("e", retry={"attempts": 2, "backoff": "5m"})
    test.bid("a")
    test.bid("b", start_seconds=60)
    test.agents["a"].start()
    switch(test.api, test.full("a"), "cordon")
    test.agents["a"].finish(["e"], "FAILED")
    decide_undecided(test.context)
    test.bid("b", start_seconds=10)
    assert test.place("e")[0] == "b"
    assert 290 <= test.rounds("e")[-1]["promised_seconds"] <= 310


def test_a_new_cluster_of_the_name_of_a_deleted_one_has_kept_and_broken_nothing(asker: MakeAsker) -> None:
    test = asker("a")
    test.create("e")
    test.bid("a")
    test.agents["a"].start()
    assert record(test, "a") == (1, 1, 0.0)
    test.agents["a"].finish(["e"])
    ok(test.api.delete(f"{API}/clusters/{test.full('a')}?force=true", json={}))
    played_agent(test.api, test.context, test.full("a"))
    assert record(test, "a") is None


def test_how_good_bids_were_is_counted_for_each_cluster(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.agents["a"].sync(can_bid=True, report={"capacity": {"cpu": "8"}, "free": {"cpu": "8"}})
    for name, start in (("kept", 30), ("late", 0)):
        test.create(name)
        test.bid("a", start_seconds=start)
        test.bid("b", start_seconds=600)
        test.clock.advance(30 if name == "kept" else 100)
        test.agents["a"].start()
        test.agents["a"].sync(can_bid=True)
    test.create("ended")
    test.bid("a")
    test.bid("b", start_seconds=60)
    ok(test.api.delete(f"{API}/executions/{test.project}/{DOMAIN}/ended", json={}))
    compare_promises(test.context)
    compare_promises(test.context)
    cluster = get(test.api, f"clusters/{test.full('a')}")
    assert (cluster["bids"]["promised"], cluster["bids"]["kept"]) == (2, 1)
    assert 45 <= cluster["bids"]["late_seconds"] <= 55
    assert "bids" not in get(test.api, f"clusters/{test.full('b')}")
    metrics = test.api.get("/metrics").get_data(as_text=True)
    assert f'rainbow_bid_starts_total{{cluster="{test.full("a")}",kept="no"}} 1.0' in metrics
    assert f'rainbow_bids_total{{answer="yes",cluster="{test.full("b")}"}} 3.0' in metrics


def test_old_rounds_are_deleted_by_their_age_and_with_their_execution(asker: MakeAsker) -> None:
    test = asker("a")
    for name in ("old", "new", "last"):
        test.create(name)
        test.bid("a")
        test.clock.advance(100)
    assert [len(test.rounds(name)) for name in ("old", "new", "last")] == [1, 1, 1]
    list(prune(test.context, Retention(bids="150s"), now=test.clock()))
    assert [len(test.rounds(name)) for name in ("old", "new", "last")] == [0, 0, 1]
    assert test.place("old")[0] == "a"
    with test.context.database.reading() as connection:
        orphans = select(func.count()).where(bids.c.round.not_in(select(bid_rounds.c.id)))
        assert connection.execute(orphans).scalar_one() == 0


def test_a_pool_tells_how_it_asks_and_a_wrong_field_changes_nothing(asker: MakeAsker) -> None:
    test = asker("a", choose_by="mix", cost_weight=2, ask_deadline="1s")
    told = get(test.api, f"pools/{test.pool}")
    fields = ("strategy", "choose_by", "cost_weight", "ask_deadline")
    assert {name: told[name] for name in fields} == dict(zip(fields, ("ask", "mix", 2, "1s"), strict=True))
    body = {"pool": {"members": [{"id": "a"}], "strategy": "ask", "rebalance": "sometimes"}}
    refused(test.api.put(f"{API}/pools/{test.pool}", json=body), 400, "invalid_request", "rebalance")
    assert get(test.api, f"pools/{test.pool}") == told


# Requests that ask in pools that do not, and the other way round


def test_a_request_that_asks_has_the_deadline_that_it_gives_or_the_configured_one(asker: MakeAsker) -> None:
    test = asker("a", "b")
    put_pool(test.api, test.pool, [test.full("a"), test.full("b")])
    test.create("plain", strategy="ask")
    test.create("slow", strategy="ask", ask_deadline="20s", choose_by="cheapest")
    assert [question["seconds"] for question in test.questions("a")] == [3.0, 20.0]
    [_, slow] = test.questions("a")
    test.answer("a", slow, start_seconds=0, cost=5)
    test.pass_time(3)
    assert test.rounds("plain")[0]["outcome"] == "nobody"
    assert test.place("slow") == (None, "QUEUED", "ASKING")
    test.bid("b", start_seconds=600, cost=1)
    assert test.place("slow") == ("b", "QUEUED", "ASSIGNED")
    assert test.explain("slow")["strategy_source"] == "request"


def test_a_creation_that_asks_withdraws_no_rounds_and_reads_no_strategy_again(
    asker: MakeAsker, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = asker("a")
    monkeypatch.delattr(execution_queue, "requested_strategies")
    statements: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, _parameters: Any, _context: Any, _many: bool) -> None:
        statements.append(statement)

    engine = test.context.database.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        test.create("e", strategy="ask", ask_deadline="5s")
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert [question["seconds"] for question in test.questions("a")] == [5.0]
    assert any(statement.startswith("INSERT INTO bid_rounds") for statement in statements)
    assert [statement for statement in statements if statement.startswith("UPDATE bid")] == []


def test_a_request_gives_single_fields_over_those_of_its_pool(asker: MakeAsker) -> None:
    test = asker("a", "b", ask_deadline="20s", choose_by="cheapest")
    test.create("as-the-pool", strategy="ask")
    test.create("own", strategy="ask", ask_deadline="5s")
    assert [question["seconds"] for question in test.questions("a")] == [20.0, 5.0]
    test.bid("a", start_seconds=0, cost=5)
    test.bid("b", start_seconds=600, cost=1)
    assert (test.place("as-the-pool")[0], test.place("own")[0]) == ("b", "b")


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"strategy": "weighted", "ask_deadline": "5s"}, "spec.ask_deadline", "is for the strategy ask alone"),
        ({"choose_by": "mix", "rules": [{"sort": "cost"}]}, "spec.choose_by", "is for the strategy ask alone"),
        (
            {"job": {"command": ["true"], "compatibility": {"libraries": None}}},
            "spec.job.compatibility.libraries",
            "null",
        ),
        ({"strategy": "spill", "choose_by": "mix"}, "spec.choose_by", "is for the strategy ask alone"),
        ({"strategy": "ask", "ask_deadline": "601s"}, "spec.ask_deadline", "is longer than 600 s"),
        ({"strategy": "ask", "ask_deadline": "soon"}, "spec.ask_deadline", "is not a duration"),
        ({"strategy": "ask", "cost_weight": 2}, "spec.cost_weight", "counts in a mix alone"),
        ({"strategy": "ask", "rebalance": "better-by 5m"}, "spec.rebalance", "unknown field"),
    ],
)
def test_what_a_request_says_of_asking_is_checked(asker: MakeAsker, spec: Document, field: str, reason: str) -> None:
    test = asker("a")
    answer = refused(create(test.api, "e", project=test.project, **pool(test.pool), **spec), 400, "invalid_request")
    assert any(detail["field"] == field and reason in detail["reason"] for detail in answer["details"]), answer


def test_what_a_request_says_of_asking_or_of_rules_means_their_strategy(asker: MakeAsker) -> None:
    test = asker("a", "b")
    test.create("cheap", choose_by="cheapest")
    test.bid("a", start_seconds=0, cost=5)
    test.bid("b", start_seconds=600, cost=1)
    assert test.place("cheap")[0] == "b"
    test.create("by-rules", rules=[{"sort": "position"}])
    assert test.place("by-rules") == ("a", "QUEUED", "ASSIGNED")
    assert test.explain("by-rules")["strategy"] == "constraint"


def test_an_explanation_says_when_clusters_are_asked_again_of_which_none_said_yes(asker: MakeAsker) -> None:
    test = asker("a")
    test.create("e")
    assert test.explain("e")["status"]["next"].startswith("The bids of its clusters decide")
    test.bid("a", "not-now")
    status = test.explain("e")["status"]
    assert status["next"].startswith("No cluster has said yes; they are asked again ")
    assert status["next_at"] == test.rounds("e")[0]["ask_again_at"]
    test.pass_time(1)
    assert test.explain("e")["status"]["next"].startswith("The bids of its clusters decide")


def test_a_bid_after_an_abort_and_a_never_with_a_start_are_refused(asker: MakeAsker) -> None:
    test = asker("a")
    test.create("e")
    [question] = test.questions("a")
    [told] = test.answer("a", question, answer="never", start_seconds=5)["refused"]
    assert told["reason"].startswith("INVALID_BID: start_seconds: is of no meaning for what will never start")
    test.create("f")
    [question] = test.questions("a")
    ok(test.api.delete(f"{API}/executions/{test.project}/{DOMAIN}/f", json={"cause": "not needed"}))
    assert test.answer("a", question)["refused"] == [{"event": f"bid {question['question']}", "reason": "TOO_LATE"}]


def test_a_property_that_rules_know_as_something_else_is_warned_of(asker: MakeAsker) -> None:
    test = asker("a")
    properties = {"nodes_free": 20, "zone": "eu"}
    answer = ok(test.api.put(f"{API}/clusters/{test.full('a')}", json={"cluster": {"properties": properties}}))
    [warning] = answer["warnings"]
    assert (warning["code"], warning["field"]) == ("shadowed_property", "properties.nodes_free")
    assert "write `properties.nodes_free` there" in warning["message"]
    told = get(test.api, "warnings")["warnings"]
    assert ("shadowed_property", test.full("a")) in [(warning["code"], warning.get("name")) for warning in told]


def test_what_is_placed_by_another_strategy_is_not_asked_about_where_the_pool_rebalances(asker: MakeAsker) -> None:
    test = asker("a", "b", rebalance="better-by 1m")
    test.create("e", strategy="weighted")
    assert test.place("e")[2] == "ASSIGNED"
    test.pass_time(120)
    assert (schedule_rebalancing(test.context), schedule_rebalancing(test.context)) == (0, 0)
    assert test.rounds("e") == []
    assert test.questions("a") + test.questions("b") == []


def test_what_was_since_placed_by_another_strategy_is_not_asked_about(asker: MakeAsker) -> None:
    """A decision by bids came first; the pool did not ask when it was decided again."""
    test = asker("a", "b")
    test.create("e")
    test.bid("a")
    test.bid("b", start_seconds=600)
    assert test.place("e")[0] == "a"
    members = [test.full("a"), test.full("b")]
    put_pool(test.api, test.pool, members)
    switch(test.api, test.full("a"), "cordon")
    ok(test.api.post(f"{API}/executions/redecide", json={"selector": {"project": test.project, "phase": "QUEUED"}}))
    assert test.place("e")[0] == "b"
    switch(test.api, test.full("a"), "uncordon")
    put_pool(test.api, test.pool, members, strategy="ask", rebalance="better-by 1m")
    assert schedule_rebalancing(test.context) == 0
    test.pass_time(120)
    assert len(test.rounds("e")) == 1


def test_a_relaunch_by_another_strategy_leaves_out_what_was_said_of_asking(asker: MakeAsker) -> None:
    test = asker("a")
    test.create("e", strategy="ask", ask_deadline="5s")
    id_ = {"project": test.project, "domain": DOMAIN, "name": "e"}
    again = ok(
        test.api.post(
            f"{API}/executions/relaunch", json={"id": id_, "name": "f", "ask_deadline": "7s", "strategy": "ask"}
        )
    )
    assert again["execution"]["spec"]["ask_deadline"] == "7s"
    kept = {"id": id_, "name": "h", "strategy": "ask", "choose_by": "cheapest"}
    spec = ok(test.api.post(f"{API}/executions/relaunch", json=kept))["execution"]["spec"]
    assert (spec["ask_deadline"], spec["choose_by"]) == ("5s", "cheapest")
    again = ok(test.api.post(f"{API}/executions/relaunch", json={"id": id_, "name": "g", "strategy": "spill"}))
    assert "ask_deadline" not in again["execution"]["spec"]
