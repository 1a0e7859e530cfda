"""Outcomes: how a candidate of a stored decision compares with the one that its rules chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admin.core.json_text import JsonObject
from admin.core.placement.constraints.ranking import show_value
from admin.core.placement.constraints.rules import FIRST, PICK, RANDOM, SORT


def describe_loss(candidate: Mapping[str, Any], winner: Mapping[str, Any], rules: Sequence[JsonObject]) -> str | None:
    """The sort by which a candidate stands behind the winner: `rule 3: cost 12.5 against 8`; None for equal ones."""
    values, best = candidate.get("values", {}), winner.get("values", {})
    for number, rule in enumerate(rules, 1):
        name = rule.get(SORT)
        if name is not None and values.get(name) != best.get(name):
            order = "highest" if rule.get("descending") else "lowest"
            own, other = show_value(values.get(name)), show_value(best.get(name))
            return f"rule {number}: {name} {own} against {other}, and the {order} is best"
    if any(rule.get(PICK) == FIRST for rule in rules):
        return f"rule {len(rules)}: as good as '{winner['cluster']}', which is listed first"
    return None


def draws_evenly(rules: Sequence[JsonObject]) -> bool:
    """Whether each of the best has the same chance, whatever its weight."""
    return any(rule.get(PICK) == RANDOM for rule in rules)
