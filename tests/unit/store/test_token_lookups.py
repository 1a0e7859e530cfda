"""Tokens that are looked up together, and seldom, while somebody sends wrong ones."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from sqlalchemy.exc import OperationalError

from admin.store import token_lookups
from admin.store.database import Database
from admin.store.token_lookups import LOOKUP_SECONDS, TokenLookups
from admin.store.tokens import TokenTable
from tests.support.waiting import wait_until

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Stored:
    """A table of tokens, a database that holds it, and a clock that goes on while somebody waits."""

    def __init__(self, *hashes: str) -> None:
        self.hashes = set(hashes)
        self.asked: list[set[str]] = []
        self.now = 0.0
        self.is_broken = False
        self.lookups = TokenLookups(lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @contextmanager
    def reading(self) -> Iterator[None]:
        if self.is_broken:
            raise OperationalError("select", {}, Exception("gone"))
        yield None

    def live_hashes(self, _connection: object, prefixes: Iterable[str], _now: datetime) -> set[str]:
        self.asked.append(set(prefixes))
        return self.hashes

    def has(self, prefix: str) -> bool:
        table = cast(TokenTable, self)
        return self.lookups.has(cast(Database, self), table, prefix, f"hash of {prefix}", NOW)


@pytest.fixture(autouse=True)
def plain_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def answering(_connection: Any) -> Iterator[None]:
        yield

    monkeypatch.setattr(token_lookups, "answering_soon", answering)


def test_lookups_are_so_far_apart_and_one_that_was_wrong_is_remembered_for_a_second() -> None:
    stored = Stored("hash of a")
    assert [stored.has(prefix) for prefix in ("a", "b", "b", "c")] == [True, False, False, False]
    assert stored.asked == [{"a"}, {"b"}, {"c"}]
    assert stored.now == pytest.approx(2 * LOOKUP_SECONDS)
    stored.hashes.add("hash of b")
    stored.now += 1.0
    assert stored.has("b")


def test_those_that_come_together_are_looked_up_together() -> None:
    stored = Stored("hash of 3")
    have_come = threading.Event()
    stored.has("first")
    answers: dict[str, bool] = {}
    threads = [
        threading.Thread(target=lambda name=str(number): answers.update({name: stored.has(name)}))
        for number in range(5)
    ]

    def wait_for_all(seconds: float) -> None:
        assert have_come.wait(60)
        stored.now += seconds

    stored.lookups._sleep = wait_for_all
    for thread in threads:
        thread.start()
    wait_until(lambda: len(getattr(stored.lookups._open, "prefixes", {}).get(stored, ())) == 5)
    have_come.set()
    for thread in threads:
        thread.join(60)
    assert answers == {"0": False, "1": False, "2": False, "3": True, "4": False}
    assert stored.asked == [{"first"}, {"0", "1", "2", "3", "4"}]


def test_a_database_that_fails_is_told_and_asked_again() -> None:
    stored = Stored("hash of a")
    stored.is_broken = True
    with pytest.raises(OperationalError):
        stored.has("a")
    stored.is_broken = False
    assert stored.has("a")
