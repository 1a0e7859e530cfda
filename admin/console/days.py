"""Work by day: what was created and what ended on each, what waited when it was over, and for how long."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

#: What executions are counted by, so that each of these is known.
BY = ("day", "day_started", "day_finished")


@dataclass(frozen=True, kw_only=True)
class Day:
    """One day, in UTC. All but `created` is of the executions that were counted, which earlier ones are not among."""

    day: str
    next: str
    is_counted: bool  #: whether any that were created on it can have been counted
    is_partial: bool  #: whether only some of them were
    created: int
    finished: int
    waiting: int  #: how many waited for the start of their last attempt when it was over, or now
    waited: float | None  #: for how many seconds those created on it had waited for their start, on average


def days_of(counted: Mapping[str, Any], first: date, today: date) -> list[Day]:
    """The days from the first to today, from counts by `BY` of what was created on them.

    Where there are very many executions only the newest are counted: the first of their days is counted in part, and
    the days before it are not.
    """
    groups = [(*group["values"], group) for group in counted["counts"]]
    first_counted = min((created for created, *_ in groups), default="9999") if "token" in counted else ""
    names = [(first + timedelta(days=number)).isoformat() for number in range((today - first).days + 2)]
    created, finished, starts = Counter[str](), Counter[str](), Counter[str]()
    waits: defaultdict[str, float] = defaultdict(float)
    for created_on, _, finished_on, group in groups:
        created[created_on] += group["count"]
        finished[finished_on] += group["count"]
        if started := group.get("started"):
            starts[created_on] += started["count"]
            waits[created_on] += started["count"] * started["mean_seconds"]
    return [
        Day(
            day=day,
            next=following,
            is_counted=day >= first_counted,
            is_partial=day == first_counted,
            created=created[day],
            finished=finished[day],
            waiting=sum(
                group["count"]
                for created_on, started_on, finished_on, group in groups
                if created_on <= day and not any(left and left <= day for left in (started_on, finished_on))
            ),
            waited=waits[day] / starts[day] if starts[day] else None,
        )
        for day, following in pairwise(names)
    ]


def heights(values: Sequence[float | None], highest: int) -> list[int]:
    """The heights of bars; whatever is more than nothing is seen."""
    most = max((value or 0 for value in values), default=0)
    return [max(1, round(highest * value / most)) if value else 0 for value in values]
