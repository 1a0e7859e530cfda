"""Bids of an agent: each question is answered once, from the engine, and nothing is kept free for it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from agent.bids import Bids
from agent.engines.base import Bid, EngineUnavailable, Task, bid_of
from agent.engines.safe import SafeEngine
from agent.testing import FakeClock, FakeEngine

Document = dict[str, Any]


def question(number: int = 1, *, seconds: float = 3, cpu: str = "1", **more: Any) -> Document:
    job = {"command": ["train", str(number)], "resources": {"requests": {"cpu": cpu}}}
    return {"question": number, "uid": f"u{number}", "round": 1, "seconds": seconds, "job": job, **more}


class Asked:
    """An agent's bids on a fake engine."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine, self.clock = engine, FakeClock()
        self.bids = Bids(SafeEngine(engine), Path("/jobs"), self.clock)
        self.work: dict[str, int] = {}

    def ask(self, *questions: Document, obstacle: str = "") -> list[Document]:
        self.bids.take({"bid_requests": list(questions)})
        self.bids.step(obstacle, self.work)
        return self.bids.answers


@pytest.mark.parametrize(
    ("bid", "answer"),
    [
        (Bid.yes(5.0), {"answer": "yes", "start_seconds": 5.0}),
        (Bid.yes(0.0, cost=2.0), {"answer": "yes", "start_seconds": 0.0, "cost": 2.0}),
        (Bid.not_now("full"), {"answer": "not-now", "reason": "full"}),
        (Bid.never("no gpu"), {"answer": "never", "reason": "no gpu"}),
    ],
)
def test_an_answer_says_what_the_engine_does(bid: Bid, answer: Document) -> None:
    asked = Asked(FakeEngine(next_bid=bid))
    assert asked.ask(question(7, queue="batch", time_limit_seconds=60.0)) == [{"question": 7, "uid": "u7", **answer}]
    [task] = asked.engine.asked
    assert (task.queue, task.time_limit_seconds, task.job["command"]) == ("batch", 60.0, ["train", "7"])
    assert asked.engine.submitted == []


@pytest.mark.parametrize(
    ("bid", "answer"),
    [
        (Bid.yes(5.0), {"answer": "yes", "start_seconds": 50.0}),
        (Bid.yes(90.0, cost=2.0), {"answer": "yes", "start_seconds": 90.0, "cost": 2.0}),
        (Bid.not_now("full"), {"answer": "not-now", "reason": "full"}),
    ],
)
def test_nothing_starts_before_the_agent_has_a_slot(bid: Bid, answer: Document) -> None:
    asked = Asked(FakeEngine(next_bid=bid))
    asked.bids.take({"bid_requests": [question(7)]})
    asked.bids.step("", {}, 50.0)
    assert asked.bids.answers == [{"question": 7, "uid": "u7", **answer}]


@pytest.mark.parametrize(
    ("held", "asks", "start"),
    [
        ([], False, 30.0),
        ([(True, 100.0)], False, 130.0),
        ([(True, 100.0), (True, 50.0), (False, 70.0)], False, 180.0),
        ([(True, 100.0), (False, 70.0), (False, 20.0)], True, 200.0),
        ([(True, None)], False, None),
        ([(True, 100.0), (False, None)], False, 130.0),
        ([(True, 100.0), (False, None)], True, None),
    ],
)
def test_what_waits_at_the_agent_runs_before_what_is_asked_about(
    held: list[tuple[bool, float | None]], asks: bool, start: float | None
) -> None:
    asked = Asked(FakeEngine(next_bid=Bid.yes(30.0)))
    held_back = [
        Task(
            key=f"t{number}", job={"resources": {"exclusive": alone}}, directory=Path("/jobs"), time_limit_seconds=limit
        )
        for number, (alone, limit) in enumerate(held)
    ]
    job = {"command": ["true"], "resources": {"exclusive": asks}}
    asked.bids.take({"bid_requests": [{**question(1), "job": job}]})
    asked.bids.step("", {}, 0.0, held_back)
    [answer] = asked.bids.answers
    assert answer.get("start_seconds") == start
    assert answer["answer"] == ("yes" if start is not None else "not-now")


def test_answers_are_sent_until_they_have_arrived_and_no_longer_than_they_are_waited_for() -> None:
    asked = Asked(FakeEngine())
    sent = asked.ask(question(1), question(2, seconds=30))
    asked.clock.advance(5)
    asked.bids.step("", asked.work)
    assert [bid["question"] for bid in asked.bids.answers] == [2]
    asked.bids.forget(sent)
    assert asked.bids.answers == []
    assert asked.ask(question(3, seconds=0)) == []


def test_many_that_ask_for_the_same_cost_one_call_of_the_engine_a_second() -> None:
    asked = Asked(FakeEngine())
    assert len(asked.ask(*(question(number) for number in range(1, 301)), question(301, cpu="2"))) == 301
    assert len(asked.engine.asked) == 2
    asked.clock.advance(1.1)
    asked.ask(question(302))
    assert len(asked.engine.asked) == 3
    asked.work = {"running": 1}  # which takes room
    asked.ask(question(303))
    assert len(asked.engine.asked) == 4


def test_an_engine_that_takes_long_is_not_asked_for_longer_than_leases_can_wait() -> None:
    asked = Asked(FakeEngine())

    class SlowEngine(FakeEngine):
        def bid(self, task: Task) -> Bid:
            asked.clock.advance(0.4)
            return super().bid(task)

    asked.bids = Bids(SafeEngine(SlowEngine()), Path("/jobs"), asked.clock)
    assert len(asked.ask(*(question(number, seconds=30, cpu=str(number)) for number in range(1, 6)))) == 2
    assert asked.bids.has_questions
    asked.bids.step("", asked.work)
    asked.bids.step("", asked.work)
    assert (len(asked.bids.answers), asked.bids.has_questions) == (5, False)


@pytest.mark.parametrize("bid", [Bid.yes(-1.0), Bid.yes(math.nan), Bid.yes(math.inf), Bid.yes(0, -2.0), Bid("yes")])
def test_a_bid_that_is_none_is_never_sent(bid: Bid) -> None:
    [answer] = Asked(FakeEngine(next_bid=bid)).ask(question())
    assert answer["answer"] == "not-now"
    assert "start_seconds" not in answer


def test_an_engine_that_does_not_answer_and_an_agent_that_stops_say_not_now() -> None:
    silent = Asked(FakeEngine(unavailable="the controller does not answer"))
    assert silent.ask(question())[0]["reason"] == "the controller does not answer"
    broken = Asked(FakeEngine(failures={"bid": ValueError("bug")}))
    assert broken.ask(question())[0]["answer"] == "not-now"
    stopping = Asked(FakeEngine())
    assert stopping.ask(question(), obstacle="the agent is stopping")[0]["answer"] == "not-now"
    assert stopping.engine.asked == []


def test_an_admin_of_an_earlier_version_asks_nothing() -> None:
    asked = Asked(FakeEngine())
    asked.bids.take({"leases": []})
    assert not asked.bids.is_asked
    asked.bids.take({"bid_requests": []})
    assert asked.bids.is_asked


def test_an_engine_without_bids_is_asked_what_it_declines_and_when_it_would_start() -> None:
    class PlainEngine(FakeEngine):
        bid = None  # type: ignore[assignment]

    task = Task(key="k", job={"command": ["true"]}, directory=Path("/jobs"))
    assert bid_of(PlainEngine(eta_seconds=4.0), task) == Bid.yes(4.0)
    assert bid_of(PlainEngine(eta_seconds=None), task).answer == "not-now"
    assert bid_of(PlainEngine(decline_reason="no"), task) == Bid.never("no")
    with pytest.raises(EngineUnavailable):
        bid_of(PlainEngine(unavailable="away"), task)
