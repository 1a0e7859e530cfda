"""Joint writes: who comes while others write is written with the next batch, and answered for itself."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from admin.store.group_commit import GroupCommit


def test_one_alone_writes_at_once() -> None:
    batches: list[list[int]] = []

    def write(items: list[int]) -> list[int]:
        batches.append(items)
        return [item * 2 for item in items]

    assert GroupCommit(write).submit([1, 2]) == [2, 4]
    assert batches == [[1, 2]]


def test_those_who_come_meanwhile_are_written_together() -> None:
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
        while len(writes._waiting) < 8:
            pass
        go_on.set()
        assert first.result(10) == [0]
        assert [one.result(10) for one in others] == [[2 * number] for number in range(1, 9)]
    assert batches[0] == [0]
    assert sorted(batches[1]) == list(range(1, 9))
    assert len(batches) == 2


def test_those_who_come_while_the_right_to_write_is_waited_for_come_along() -> None:
    batches: list[list[int]] = []

    def write(items: list[int]) -> list[int]:
        batches.append(sorted(items))
        return items

    right = threading.Lock()
    writes = GroupCommit(write, right=right)
    with ThreadPoolExecutor(5) as pool:
        with right:
            several = [pool.submit(writes.submit, [number]) for number in range(5)]
            while len(writes._waiting) < 5:
                pass
        assert [one.result(10) for one in several] == [[number] for number in range(5)]
    assert batches == [[0, 1, 2, 3, 4]]
    assert not right.locked()


def test_what_one_has_spoilt_does_not_spoil_the_others() -> None:
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
        while len(writes._waiting) < 5:
            pass
        go_on.set()
        assert first.result(10) == [0]
        for number, one in others.items():
            if number == 3:
                with pytest.raises(ValueError, match="three"):
                    one.result(10)
            else:
                assert one.result(10) == [number]
    assert writes.submit([9]) == [9]  # and the next one is not kept waiting


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
