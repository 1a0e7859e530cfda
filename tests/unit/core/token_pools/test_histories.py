"""The model that races of token pools are checked with finds what could not have happened."""

from __future__ import annotations

import pytest

from admin.core.settings.scopes import Scope
from tests.support.token_histories import Call, History

CAPS = {"pool": 2, "project": 2, "namespace": 1, "execution": 1}


def call(begin: float, end: float, result: str, token: str, number: int = 0, project: str = "ads") -> Call:
    return Call(begin, end, result, token, {"hive": 1}, Scope("prod", project), "", number)


def replayed(*calls: Call) -> History:
    history = History(CAPS)
    history.replay(calls)
    return history


def test_calls_that_overlap_may_have_happened_in_any_order() -> None:
    history = replayed(
        call(0, 1, "granted", "a", 1),
        call(2, 5, "freed", "a"),
        call(3, 4, "granted", "b", 2),  # after a was given back, whose answer came later
        call(3, 6, "refused", "c"),  # before, or after b
        call(7, 8, "freed", "b"),
    )
    assert (history.wrong, history.unexplained, history.is_empty) == ([], 0, True)


def test_a_refusal_is_not_explained_by_a_grant_whose_predecessors_came_later() -> None:
    history = replayed(
        call(0, 9, "granted", "a", 2),  # after b, by its number, and so after the refusal
        call(1, 2, "refused", "c", project="maps"),
        call(3, 4, "granted", "b", 1, "maps"),
        call(10, 11, "freed", "a"),
        call(10, 11, "freed", "b"),
    )
    assert (history.wrong, history.unexplained, history.is_empty) == ([], 1, True)


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([call(0, 1, "granted", "a", 1), call(2, 3, "granted", "b", 2)], "does not fit"),
        ([call(0, 1, "granted", "a", 2), call(2, 3, "granted", "b", 1, "maps")], "which began later"),
        ([call(0, 1, "granted", "a", 1), call(0, 1, "granted", "b", 1, "maps")], "gave before"),
        ([call(0, 1, "granted", "a", 1), call(2, 3, "freed", "a"), call(4, 5, "freed", "a")], "what is not held"),
    ],
)
def test_what_could_not_have_happened_is_found(calls: list[Call], reason: str) -> None:
    [wrong] = replayed(*calls).wrong
    assert reason in wrong


def test_a_refusal_without_a_reason_and_what_is_left_are_found() -> None:
    history = replayed(call(0, 1, "granted", "a", 1), call(2, 3, "refused", "b", project="maps"))
    assert (history.unexplained, history.is_empty) == (1, False)
    in_line = replayed(
        call(0, 1, "granted", "a", 1),
        call(2, 3, "waits", "b"),
        call(4, 5, "refused", "c", project="maps"),  # b stands before it
        call(6, 7, "left", "b"),
        call(8, 9, "freed", "a"),
    )
    assert (in_line.wrong, in_line.unexplained, in_line.is_empty) == ([], 0, True)
