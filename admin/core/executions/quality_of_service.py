"""Quality of service: the tier of an execution, and how long it may wait."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from admin.core.quantities import parse_duration
from admin.core.settings.resolution import Resolved

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
