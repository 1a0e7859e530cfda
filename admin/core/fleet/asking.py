"""Asking: how a pool whose strategy is `ask` chooses among the bids of its clusters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from admin.core.fields.leaves import Choice, Duration, Number, Text
from admin.core.problems import Path, Problem
from admin.core.quantities import DURATION, parse_duration

#: The strategy that asks clusters for bids.
ASK = "ask"
SOONEST, CHEAPEST, MIX = "soonest", "cheapest", "mix"
_NEVER, _BETTER_BY = "never", "better-by"
#: A deadline is at most this long: executions wait without a cluster meanwhile.
_LONGEST_DEADLINE_SECONDS = 600


class Asking(NamedTuple):
    """What a pool says of asking; the defaults are those of pools that say nothing."""

    choose_by: str = SOONEST
    seconds_weight: float = 1  #: what a second of waiting counts in a mix
    cost_weight: float = 1  #: what a unit of cost counts in a mix
    deadline_seconds: float | None = None  #: how long clusters have for an answer; None as configured
    better_by_seconds: float | None = None  #: how much sooner something must start to move; None where nothing moves


NOTHING_SAID = Asking()


@dataclass(frozen=True, kw_only=True)
class _Rebalance(Text):
    """A policy as text; a mapping, as files may have it, means the same."""

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if isinstance(value, Mapping) and list(value) == [_BETTER_BY]:
            value = f"{_BETTER_BY} {value[_BETTER_BY]}"
        return super().parse(value, path, problems)


#: The fields of a pool's definition that only the strategy `ask` reads.
FIELDS = {
    "ask_deadline": Duration(description="With `ask`: how long clusters have for a bid; as configured."),
    "choose_by": Choice(
        words=(SOONEST, CHEAPEST, MIX), description="With `ask`: which bid is the best; soonest by default."
    ),
    "seconds_weight": Number(minimum=0, maximum=1e12, description="In a `mix`: what a second of waiting counts; 1."),
    "cost_weight": Number(minimum=0, maximum=1e12, description="In a `mix`: what a unit of cost counts; 1."),
    "rebalance": _Rebalance(
        pattern=rf"{_NEVER}|{_BETTER_BY}:? {DURATION}",
        rule="`never`, or `better-by` and a duration, such as `better-by 5m`",
        max_length=64,
        description="With `ask`: whether what no agent has leased is asked about again, and moves; never by default.",
    ),
}


#: Those that a request may give too; whether what waits may move is the pool's to say.
REQUEST_FIELDS = {name: field for name, field in FIELDS.items() if name != "rebalance"}


def read_asking(definition: Mapping[str, Any]) -> Asking:
    """What a valid definition of a pool says of asking."""
    rebalance, deadline = definition.get("rebalance", _NEVER), definition.get("ask_deadline")
    return Asking(
        choose_by=definition.get("choose_by", SOONEST),
        seconds_weight=definition.get("seconds_weight", 1),
        cost_weight=definition.get("cost_weight", 1),
        deadline_seconds=None if deadline is None else float(parse_duration(deadline)),
        better_by_seconds=None
        if rebalance == _NEVER
        else float(parse_duration(rebalance.partition(" ")[2], zero=True)),
    )


def asking_problems(definition: Mapping[str, Any], fields: Collection[str] = tuple(FIELDS)) -> dict[str, str]:
    """What is wrong with the fields of a definition or a request that are valid by themselves, by field."""
    definition = {name: definition[name] for name in (*fields, "strategy") if definition.get(name) is not None}
    given = definition.keys() - {"strategy"}
    if definition.get("rebalance") == _NEVER:  # as of every pool
        given -= {"rebalance"}
    if given and definition.get("strategy") != ASK:
        return dict.fromkeys(sorted(given), "is for the strategy ask alone: set strategy to ask, or leave it out.")
    problems = {}
    asking = read_asking(definition)
    if asking.deadline_seconds is not None and asking.deadline_seconds > _LONGEST_DEADLINE_SECONDS:
        problems["ask_deadline"] = f"is longer than {_LONGEST_DEADLINE_SECONDS} s: executions wait for it."
    if asking.better_by_seconds == 0:
        problems["rebalance"] = "is zero: give a duration above zero, such as `better-by 5m`."
    weights = {"seconds_weight", "cost_weight"}
    if weights & given and asking.choose_by != MIX:
        for name in sorted(weights & given):
            problems[name] = "counts in a mix alone: set choose_by to mix, or leave it out."
    elif not asking.seconds_weight and not asking.cost_weight:
        problems["seconds_weight"] = "and cost_weight are both 0: all bids would be equal."
    return problems
