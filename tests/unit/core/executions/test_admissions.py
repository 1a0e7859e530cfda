"""The order in which executions are asked for, and what a refusal of one means for those like it."""

from __future__ import annotations

from dataclasses import dataclass

from admin.core.executions.admissions import MOST_IN_LINE, Line, Refusal, admitted, hold_back
from admin.core.executions.tokens import WAITING_FOR_TOKENS

REFUSAL = Refusal(code=WAITING_FOR_TOKENS, message="It waits.", retry_seconds=1)


@dataclass(eq=False)
class Waiting:
    id: int
    kind: str = "a"
    tier: int = 3
    priority: int = 50


def ids(line: Line[Waiting]) -> list[int]:
    return [waiting.id for waiting in line]


def test_the_order_is_tier_priority_and_age() -> None:
    candidates = [Waiting(1, "a"), Waiting(2, "b", tier=0), Waiting(3, "c", priority=60), Waiting(4, "d")]
    assert ids(Line(candidates, lambda _: None)) == [2, 3, 1, 4]


def test_among_those_that_share_the_smallest_share_goes_first_as_it_changes() -> None:
    held = {"a": 0.0, "b": 0.0}
    line = Line([Waiting(1, "a"), Waiting(2, "a"), Waiting(3, "b")], lambda waiting: held[waiting.kind])
    order = []
    for waiting in line:
        order.append(waiting.id)
        held[waiting.kind] += 1
    assert order == [1, 3, 2]


def test_those_that_share_do_not_stand_behind_younger_ones_that_share_nothing() -> None:
    line = Line([Waiting(1, "a"), Waiting(2, "b")], lambda waiting: 9.0 if waiting.kind == "a" else None)
    assert ids(line) == [1, 2]


def test_after_some_refusals_the_others_of_a_kind_are_not_asked_for() -> None:
    line = Line([*(Waiting(number) for number in range(9)), Waiting(10, "b")], lambda _: None)
    asked, spared = [], []
    for waiting in line:
        asked.append(waiting.id)
        if waiting.kind == "a":
            spared += [other.id for other in line.refuse(waiting, REFUSAL)]
    assert asked == [*range(MOST_IN_LINE), 10]
    assert spared == list(range(MOST_IN_LINE, 9))
    assert (line.refusal_of("a"), line.refusal_of("b"), line.rest) == (REFUSAL, None, [])


def test_only_what_was_held_back_is_told_that_it_is_admitted() -> None:
    assert hold_back(REFUSAL).values == {"reason": WAITING_FOR_TOKENS, "reason_message": "It waits."}
    assert admitted(WAITING_FOR_TOKENS, "alpha")["reason"] == "ASSIGNED"
    assert admitted("RETRY", "alpha") == {}
