"""Group commit: items submitted during a commit share the next one, and each submission is answered for itself."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from admin.store import group_commit
from admin.store.group_commit import GroupCommit
from tests.support.waiting import wait_until


def test_a_lone_writer_commits_at_once() -> None:
    batches: list[list[int]] = []

    def write(items: list[int]) -> list[int]:
        batches.append(items)
        return [item * 2 for item in items]

    assert GroupCommit(write).submit([1, 2]) == [2, 4]
    assert batches == [[1, 2]]


def test_submissions_during_a_commit_share_the_next_one() -> None:
    batches: list[list[int]] = []
    begun, go_on = threading.Event(), threading.Event()

    def write(items: list[int]) -> list[int]:
        batches.append(items)
        begun.set()
        assert go_on.wait(10)
        return [item * 2 for item in items]

    writes = GroupCommit(write)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(writes.submit, [0])
        assert begun.wait(10)
        others = [pool.submit(writes.submit, [number]) for number in range(1, 9)]
        wait_until(lambda: writes.queued == 8)
        go_on.set()
        assert first.result(10) == [0]
        assert [result.result(10) for result in others] == [[2 * number] for number in range(1, 9)]
    assert batches[0] == [0]
    assert sorted(batches[1]) == list(range(1, 9))
    assert len(batches) == 2


def test_submissions_that_arrive_while_the_lock_is_waited_for_join_the_batch() -> None:
    batches: list[list[int]] = []

    def write(items: list[int]) -> list[int]:
        batches.append(sorted(items))
        return items

    lock = threading.Lock()
    writes = GroupCommit(write, lock=lock)
    with ThreadPoolExecutor(5) as pool:
        with lock:
            several = [pool.submit(writes.submit, [number]) for number in range(5)]
            wait_until(lambda: writes.queued == 5)
        assert [result.result(10) for result in several] == [[number] for number in range(5)]
    assert batches == [[0, 1, 2, 3, 4]]
    assert not lock.locked()


def test_a_writer_that_waited_can_take_what_has_arrived_meanwhile() -> None:
    batches: list[list[int]] = []
    begun, go_on = threading.Event(), threading.Event()

    def write(items: list[int]) -> list[int]:
        begun.set()
        assert go_on.wait(10)
        items = [*items, *writes.join()]
        assert writes.join() == []
        batches.append(sorted(items))
        if items == [0, 1]:
            raise ValueError("a batch that cannot be written")
        return [item * 2 for item in items]

    writes = GroupCommit(write, max_items=2)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(writes.submit, [0])
        assert begun.wait(10)
        others = []
        for number in range(1, 4):
            others.append(pool.submit(writes.submit, [number]))
            wait_until(lambda: writes.queued == len(others))
        go_on.set()
        assert [result.result(10) for result in (first, *others)] == [[0], [2], [4], [6]]
    assert batches == [[0, 1], [0], [1], [2, 3]]  # those that failed together are written one by one
    assert writes.join() == []  # nothing is being written


def test_a_failing_item_fails_its_own_submission_only() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def write(items: list[int]) -> list[int]:
        begun.set()
        assert go_on.wait(10)
        if 3 in items:
            raise ValueError("three")
        return items

    writes = GroupCommit(write)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(writes.submit, [0])
        assert begun.wait(10)
        others = {number: pool.submit(writes.submit, [number]) for number in range(1, 6)}
        wait_until(lambda: writes.queued == 5)
        go_on.set()
        assert first.result(10) == [0]
        for number, result in others.items():
            if number == 3:
                with pytest.raises(ValueError, match="three"):
                    result.result(10)
            else:
                assert result.result(10) == [number]
    assert writes.submit([9]) == [9]  # the next writer is not blocked


@pytest.mark.parametrize(
    ("cause", "is_tried_again"),
    [
        (psycopg.errors.DeadlockDetected, True),
        (psycopg.errors.SerializationFailure, True),
        (psycopg.errors.LockNotAvailable, False),  # each would wait for the same lock
        (psycopg.errors.AdminShutdown, False),
    ],
)
def test_a_deadlock_of_a_batch_fails_no_submission(
    monkeypatch: pytest.MonkeyPatch, cause: type[psycopg.Error], is_tried_again: bool
) -> None:
    monkeypatch.setattr(group_commit, "_TROUBLE_SECONDS", -1.0)  # as PostgreSQL finds a deadlock after a second
    lock = threading.Lock()

    def write(items: list[int]) -> list[int]:
        if len(items) > 1:
            raise OperationalError("UPDATE", None, cause())
        return items

    writes = GroupCommit(write, lock=lock)
    with ThreadPoolExecutor(3) as pool:
        with lock:
            submitted = [pool.submit(writes.submit, [number]) for number in range(3)]
            wait_until(lambda: writes.queued == 3)
        failures = [result.exception(10) for result in submitted]
    assert [failure is None for failure in failures] == [is_tried_again] * 3


def test_every_item_of_many_threads_is_written_once() -> None:
    written: list[int] = []

    def write(items: list[int]) -> list[int]:
        written.extend(items)
        return items

    writes = GroupCommit(write)

    def submit(start: int) -> bool:
        return all(writes.submit([start + step, -start - step]) == [start + step, -start - step] for step in range(50))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(submit, range(1000, 17_000, 1000)))
    assert len(written) == len(set(written)) == 16 * 100
