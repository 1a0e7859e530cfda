"""Bids: what the admin asks about, and what the engine answers; nothing is kept free for any of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import Bid, EngineError, Task, is_exclusive
from agent.engines.requirements import required_fields
from agent.engines.safe import SafeEngine

#: How long one round of the loop may take for bids: leases are watched between two.
_STEP_SECONDS = 0.5
#: How long an answer counts for jobs that ask for the same: hundreds may be asked about at once.
_SAME_SECONDS = 1.0
#: Bids in one sync.
_MOST_BIDS = 1000
#: What of a job its start depends on.
_SHAPE = ("image", "resources", "requires", "task_type")


class Bids:
    """The questions that are open, and the answers that the admin has not got yet."""

    def __init__(self, engine: SafeEngine, jobs: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        #: Whether the admin's last answer came from one that asks.
        self.is_asked = False
        self._engine = engine
        self._jobs = jobs
        self._clock = clock
        self._questions: dict[int, dict[str, Any]] = {}
        self._due: dict[int, float] = {}  #: when each answer is too late
        self._answers: dict[int, dict[str, Any]] = {}
        self._known: dict[str, tuple[float, Bid]] = {}  #: by what the jobs ask for
        self._work: dict[str, int] = {}

    @property
    def has_questions(self) -> bool:
        """Whether something is not answered yet."""
        return bool(self._questions)

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What the next sync brings."""
        return list(self._answers.values())[:_MOST_BIDS]

    def take(self, answer: Mapping[str, Any]) -> None:
        """Take the questions of an answer of the admin; one of an earlier version has none."""
        self.is_asked = "bid_requests" in answer
        for question in answer.get("bid_requests", ()):
            number = int(question["question"])
            if number not in self._answers:
                self._questions[number] = dict(question)
                self._due[number] = self._clock.steady() + float(question["seconds"])

    def forget(self, sent: Iterable[Mapping[str, Any]]) -> None:
        """Forget answers that have arrived."""
        for bid in sent:
            self._answers.pop(bid["question"], None)
            self._due.pop(bid["question"], None)

    def step(
        self, obstacle: str, work: Mapping[str, int], slot_seconds: float = 0.0, held_back: Sequence[Task] = ()
    ) -> None:
        """Answer questions, as many as there is time for; with an obstacle none is a yes.

        `work` counts what the agent has: where that has changed, the engine is asked anew. `slot_seconds` is how long
        the agent has no slot for another execution, and `held_back` what starts before it: its engine knows neither.
        """
        now = self._clock.steady()
        if work != self._work:
            self._work = dict(work)
            self._known.clear()
        for number in [number for number, due in self._due.items() if due <= now]:
            for entries in (self._questions, self._answers, self._due):
                entries.pop(number, None)
        if not self._questions:
            return
        self._known = {shape: known for shape, known in self._known.items() if known[0] > now}
        for number, question in list(self._questions.items()):
            if self._clock.steady() > now + _STEP_SECONDS:
                break
            bid = Bid.not_now(obstacle) if obstacle else self._ask(question, held_back)
            if bid.start_seconds is not None:
                bid = replace(bid, start_seconds=max(bid.start_seconds, slot_seconds))
            del self._questions[number]
            start = bid.start_seconds if bid.answer == "yes" else None
            fields = {"start_seconds": start, "cost": bid.cost, "reason": bid.reason[:4000] or None}
            given = {name: value for name, value in fields.items() if value is not None}
            self._answers[number] = {"question": number, "uid": question["uid"], "answer": bid.answer, **given}

    def _ask(self, question: Mapping[str, Any], held_back: Sequence[Task]) -> Bid:
        """What the engine says; the same as before of a job that asks for the same as one a moment ago."""
        job, queue, limit = question["job"], question.get("queue") or "", question.get("time_limit_seconds")
        needs = [*(job.get(name) for name in _SHAPE), required_fields(job), bool(job.get("command"))]
        shape = json.dumps([needs, queue, limit], sort_keys=True)
        known = self._known.get(shape)
        if known is not None:
            return known[1]
        task = Task(
            key="rb-bid",
            job=job,
            directory=self._jobs / "rb-bid",
            queue=queue,
            time_limit_seconds=limit,
            answer_seconds=max(0.0, self._due[int(question["question"])] - self._clock.steady()),
        )
        try:
            bid = self._behind(held_back, task, self._engine.bid(task))
        except EngineError as error:
            bid = Bid.not_now(str(error))
        self._known[shape] = self._clock.steady() + _SAME_SECONDS, bid
        return bid

    def _behind(self, held_back: Sequence[Task], task: Task, bid: Bid) -> Bid:
        """A bid for a task that starts only after others: exclusive ones run one by one, the rest side by side."""
        if not held_back or bid.start_seconds is None:
            return bid
        first = [self._engine.bid(held) for held in held_back]
        starts = [held.start_seconds for held in first if held.start_seconds is not None]
        alone = [held.time_limit_seconds for held in held_back if is_exclusive(held.job)]
        beside = [held.time_limit_seconds for held in held_back if not is_exclusive(held.job)]
        limits = alone + (beside if is_exclusive(task.job) else [])
        if len(starts) < len(first) or None in limits:
            return Bid.not_now("what waits here to run before it has no time limit, or waits for something without one")
        seconds = sum(limit for limit in alone if limit is not None)
        if is_exclusive(task.job):
            seconds += max((limit for limit in beside if limit is not None), default=0.0)
        return replace(bid, start_seconds=max(bid.start_seconds, *starts) + seconds)
