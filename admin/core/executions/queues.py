"""Queues: which one an execution waits in, in which tier, and how long it may wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from admin.core.placement.choice import WeightedChoice
from admin.core.problems import Problem, Refused, closest, did_you_mean
from admin.core.quantities import parse_duration
from admin.core.settings.resolution import Resolved


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue and the tags it serves."""

    name: str
    tags: tuple[str, ...]


def find_queues(queues: Iterable[Queue], resolved: Resolved) -> WeightedChoice | None:
    """The queues to draw from; None without tags, Refused where no queue serves any of the tags."""
    tags = resolved.value.get("tags", [])
    if not tags:
        return None
    configured = list(queues)
    for tag in tags:
        serving = [queue.name for queue in configured if tag in queue.tags]
        if serving:
            return WeightedChoice((name, 1) for name in serving)
    near = closest(tags[0], [tag for queue in configured for tag in queue.tags])
    listed = ", ".join(f"'{tag}'" for tag in tags)
    origin = resolved.origins["tags",]
    raise Refused(
        "unknown_queue_tag",
        Problem(
            field="tags",
            reason=f"No queue serves {listed}, set {origin}.{did_you_mean(near)} "
            "Change the attribute, or configure a queue for the tag.",
            closest=near,
            setting=origin.setting(resolved.kind.name, "tags"),
        ),
    )


#: The most urgent first.
TIERS = ("HIGH", "MEDIUM", "LOW", "UNDEFINED")


def resolve_quality(resolved: Resolved, budgets: Mapping[str, str]) -> dict[str, Any]:
    """The tier and the queueing budget in force; a tier's own budget from configuration where none is set."""
    tier = resolved.value.get("tier")
    budget = resolved.value.get("spec", {}).get("queueing_budget") or budgets.get(tier or "")
    quality = {"tier": tier, "queueing_budget": budget}
    return {name: value for name, value in quality.items() if value is not None}


def queue_deadline(quality: Mapping[str, Any], now: datetime) -> datetime | None:
    """Until when an execution queued now may wait; None for as long as it takes."""
    budget = quality.get("queueing_budget")
    if budget is None:
        return None
    try:
        return now + _duration(budget)
    except OverflowError:
        return None  # beyond the last date


@lru_cache(maxsize=256)
def _duration(text: str) -> timedelta:
    return timedelta(seconds=float(parse_duration(text)))
