"""Values that processes share: kept from one to the next, read by all, and never a reason to fail."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable

from admin.shared_values import Key, memory_file, read_values, take_segment


def key(name: str) -> Key:
    return Key("counter", "runs", "Runs.", "runs_total", (("name", name), ("empty", "")))


def in_another_process(act: Callable[[], bool]) -> bool:
    """What a function returns in a forked process."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if act() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_counts_on_where_one_that_has_ended_left_off() -> None:
    files = [memory_file("test") for _ in range(2)]

    def count() -> bool:
        segment = take_segment(files)
        assert segment is not None
        offset = segment.offset(key("a"))
        assert offset is not None
        segment.write(offset, segment.read(offset) + 1)
        return dict(read_values(files[0])) == {key("a"): segment.read(offset)}

    assert in_another_process(count)
    assert in_another_process(count)
    assert dict(read_values(files[0])) == {key("a"): 2.0}
    assert dict(read_values(files[1])) == {}


def test_each_process_has_a_segment_of_its_own_while_there_are_any() -> None:
    files = [memory_file("test") for _ in range(2)]
    mine = take_segment(files)
    assert mine is not None
    mine.offset(key("mine"))

    def take_the_rest() -> bool:
        theirs = take_segment(files)
        assert theirs is not None
        theirs.offset(key("theirs"))
        return in_another_process(lambda: take_segment(files) is None)

    assert in_another_process(take_the_rest)
    assert [dict(read_values(file)) for file in files] == [{key("mine"): 0.0}, {key("theirs"): 0.0}]


def test_values_are_kept_when_a_segment_grows_and_when_it_cannot() -> None:
    file = memory_file("test")

    def count() -> bool:
        segment = take_segment([file])
        assert segment is not None
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**17 + 100, 2**17 + 100))
        offsets = [segment.offset(key(f"{number:03}" * 100)) for number in range(500)]
        for offset in offsets:
            if offset is not None:
                segment.write(offset, 1.0)
        return offsets[0] is not None and offsets[-1] is None

    assert in_another_process(count)
    values = dict(read_values(file))
    assert 100 < len(values) < 400, "more than a block holds, and fewer than were asked for"
    assert set(values.values()) == {1.0}
