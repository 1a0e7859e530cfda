"""Lines: how much of a cluster goes to what is before something."""

from __future__ import annotations

import random

from admin.core.placement.lines import Entry, Lines, Position


def test_what_is_before_something_is_its_tier_then_its_priority_then_its_age() -> None:
    entries = [
        Entry(Position.of(0, 0, 9), {"cpu": 1}),
        Entry(Position.of(1, 50, 8), {"cpu": 10}),
        Entry(Position.of(1, 10, 3), {"cpu": 100}),
        Entry(Position.of(1, 10, 7), {"cpu": 1000, "gpu": 1}),
    ]
    lines = Lines({"a": entries})
    assert lines.before("a", Position.of(0, 99, 1)) == {}
    assert lines.before("a", Position.of(1, 50, 1)) == {"cpu": 1}
    assert lines.before("a", Position.of(1, 10, 3)) == {"cpu": 11}
    assert lines.before("a", Position.of(1, 10, 7)) == {"cpu": 111}
    assert lines.before("a", Position.of(1, 10)) == {"cpu": 1111, "gpu": 1}
    assert lines.before("b", Position.of(9, 0)) == {}


def test_lines_are_the_sums_of_their_entries_whatever_is_added_and_removed() -> None:
    draw = random.Random(7)
    for size in (0, 1, 63, 64, 65, 300):
        line = [
            Entry(Position.of(draw.randrange(3), draw.randrange(4), id), {draw.choice("xyz"): draw.randrange(5)})
            for id in range(size)
        ]
        lines = Lines({"a": draw.sample(line, len(line))})
        for id in range(size, size + 40):
            if line and draw.random() < 0.4:
                gone = line.pop(draw.randrange(len(line)))
                lines.remove("a", gone)
            entry = Entry(Position.of(draw.randrange(3), draw.randrange(4), id), {"x": draw.randrange(5)})
            line.append(entry)
            lines.add("a", entry)
            at = Position.of(draw.randrange(3), draw.randrange(4), draw.randrange(size + 40))
            before = lines.before("a", at)
            for name in "xyz":
                amount = sum(entry.takes.get(name, 0) for entry in line if entry.position < at)
                assert before.get(name, 0) == amount
