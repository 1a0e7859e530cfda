"""Following: how old what is known may be, who waits for a look, and what is forgotten while one is under way."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy.exc import OperationalError

from admin.store.cache.following import CACHE_SECONDS, LOOK_SECONDS, Following
from tests.support.waiting import wait_until


class Counted:
    """A value that says how often somebody looked."""

    def __init__(self) -> None:
        self.now = 100.0
        self.looks = 0
        self.following = Following[int](lambda: self.now)

    def look(self, _known: int | None) -> int:
        self.looks += 1
        return self.looks

    def current(self) -> int:
        return self.following.current(self.look)


def test_what_is_known_is_looked_at_twice_a_second_at_most() -> None:
    counted = Counted()
    assert [counted.current() for _ in range(3)] == [1, 1, 1]
    counted.now += LOOK_SECONDS - 0.01
    assert counted.current() == 1
    counted.now += 0.01
    assert [counted.current() for _ in range(3)] == [2, 2, 2]


def test_while_one_looks_the_others_go_on_and_after_a_second_they_wait() -> None:
    counted = Counted()
    counted.current()
    is_looking, may_end = threading.Event(), threading.Event()

    def slow(_known: int | None) -> int:
        is_looking.set()
        may_end.wait()
        return 2

    counted.now += LOOK_SECONDS
    looking = threading.Thread(target=counted.following.current, args=(slow,))
    looking.start()
    is_looking.wait()
    assert counted.current() == 1
    counted.now += CACHE_SECONDS - LOOK_SECONDS
    answers: list[int] = []
    waiting = threading.Thread(target=lambda: answers.append(counted.current()))
    waiting.start()
    may_end.set()
    for thread in (looking, waiting):
        thread.join()
    # What the first one saw may be as old as its beginning, which is not a second ago yet but more than half of one.
    assert answers == [2]
    assert counted.looks == 2


def test_what_is_forgotten_during_a_look_is_looked_at_again() -> None:
    counted = Counted()

    def look(known: int | None) -> int:
        counted.following.forget()  # somebody has changed something since this look began
        return counted.look(known)

    assert counted.following.current(look) == 1
    assert counted.current() == 2
    assert counted.current() == 2
    counted.following.forget()
    assert counted.current() == 3


def test_those_who_wait_for_a_look_that_fails_do_not_look_themselves() -> None:
    counted = Counted()
    is_looking, may_fail, looks = threading.Event(), threading.Event(), []

    def fail(_known: int | None) -> int:
        looks.append(1)
        is_looking.set()
        may_fail.wait()
        raise OperationalError("", {}, Exception("gone"))

    def refused() -> None:
        with pytest.raises(OperationalError):
            counted.following.current(fail)

    threads = [threading.Thread(target=refused) for _ in range(4)]
    threads[0].start()
    is_looking.wait()
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: all(thread.is_alive() for thread in threads))
    may_fail.set()
    for thread in threads:
        thread.join()
    assert len(looks) < len(threads)
    counted.now += 0.01
    assert counted.current() == 1  # whoever asks later does
