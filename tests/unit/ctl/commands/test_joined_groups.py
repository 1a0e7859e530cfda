"""What one request did is joined where it goes on on the next page."""

from __future__ import annotations

from typing import Any

from ctl.commands.changes.entries import joined_groups


def group(request: str | None, *numbers: int, author: str = "ana", message: str | None = "move") -> dict[str, Any]:
    said = {key: value for key, value in (("request_id", request), ("message", message)) if value is not None}
    entries = [{"source": "revision", "number": number} for number in numbers]
    since = f"at {numbers[-1]}"
    return {**said, "author": author, "since": since, "counts": {"revision": len(numbers)}, "entries": entries}


def joined(*pages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (each.get("request_id"), [entry["number"] for entry in each["entries"]], each["since"], each["counts"])
        for each in joined_groups(pages)
    ]


def test_a_request_that_goes_on_on_the_next_page_is_one_group() -> None:
    listed = joined([group("a", 9), group("b", 8, 6)], [group("b", 5), group("c", 4)], [group("c", 3, 2)])
    assert listed == [
        ("a", [9], "at 9", {"revision": 1}),
        ("b", [8, 6, 5], "at 5", {"revision": 3}),
        ("c", [4, 3, 2], "at 2", {"revision": 3}),
    ]


def test_what_has_no_request_or_another_author_stays_apart() -> None:
    listed = joined([group(None, 9), group("b", 8)], [group(None, 7), group("b", 6, author="otto")])
    assert [numbers for _, numbers, *_ in listed] == [[9], [8], [7], [6]]


def test_a_message_that_only_some_entries_have_is_left_out() -> None:
    [one] = joined_groups([[group("a", 2)], [group("a", 1, message=None)]])
    assert "message" not in one
