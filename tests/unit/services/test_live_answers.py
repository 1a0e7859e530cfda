"""One answer for all pages that show the same: made once, by the first that asks, and not for those told later."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from admin.services.live_answers import LiveAnswers

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Given:
    """Answers that are numbered as they are made, under a clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.made = 0
        self.answers = LiveAnswers(lambda: _BEGIN + timedelta(seconds=self.seconds), clock=lambda: self.seconds)

    def ask(self, shown: str = "page", told_at: float | None = 0.0) -> str:
        since = None if told_at is None else _BEGIN.timestamp() + told_at
        return self.answers.give(shown, since, self.make)[0]

    def make(self) -> str:
        self.made += 1
        return str(self.made)


def test_pages_that_were_told_before_an_answer_was_begun_share_it() -> None:
    given = Given()
    given.seconds = 2
    assert [given.ask(told_at=seconds) for seconds in (1, 2, 2.1, 2)] == ["1", "1", "2", "2"]
    assert [given.ask(told_at=None), given.ask("another page")] == ["3", "4"]


def test_an_answer_is_forgotten_after_a_while_and_where_there_are_many() -> None:
    given = Given()
    assert given.ask() == "1"
    given.seconds = 11
    assert given.ask() == "2"
    for number in range(64):
        given.ask(f"page {number}")
    assert given.ask() == "67"


def test_pages_that_ask_at_the_same_time_wait_for_one_answer() -> None:
    given, is_asked = Given(), threading.Event()

    def make() -> str:
        assert is_asked.wait(10)
        return given.make()

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(given.answers.give, "page", _BEGIN.timestamp(), make) for _ in range(8)]
        is_asked.set()
        answers = [each.result() for each in asked]
    assert [body for body, _ in answers] == ["1"] * 8
    assert sorted(is_shared for _, is_shared in answers) == [False] + [True] * 7


def test_an_answer_that_failed_is_made_by_the_next_that_asks() -> None:
    given = Given()

    def fail() -> str:
        raise RuntimeError("nothing to show")

    with pytest.raises(RuntimeError):
        given.answers.give("page", 0.0, fail)
    assert given.ask() == "1"
