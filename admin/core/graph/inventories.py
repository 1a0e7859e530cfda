"""Inventories: how much a description has of each type, and in what two of them differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from admin.core.graph.summaries import Summary
from admin.core.graph.units import NODE, plural, show_amount


def inventory_of(summary: Summary, subsystems: Mapping[str, int]) -> dict[str, Any]:
    """How many vertices of each type a graph has and what they amount to, and how many each subsystem has."""
    return {
        "types": {
            type_: {"vertices": count, "amount": show_amount(type_, summary.totals.get(type_, 0))}
            for type_, count in summary.vertices.items()
        },
        "subsystems": dict(subsystems),
    }


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[str]:
    """In what a description differs from the one before it, each in a few words: `cores: 36 → 48`."""
    if before is None or after is None:
        return [] if before is after else ["first description" if before is None else "removed"]
    return list(_differences(before, after)) or ["the same amounts, arranged or named differently"]


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    none = {"vertices": 0, "amount": "0"}
    for type_ in sorted({*before["types"], *after["types"]}, key=lambda type_: (type_ != NODE, type_)):
        old, new = (inventory["types"].get(type_, none) for inventory in (before, after))
        if old["amount"] != new["amount"]:
            yield f"{plural(type_)}: {old['amount']} → {new['amount']}"
        elif old["vertices"] != new["vertices"]:
            yield f"{plural(type_)}: {new['amount']} in {new['vertices']} vertices, before in {old['vertices']}"
    for name in sorted({*before["subsystems"], *after["subsystems"]}):
        old_count, new_count = (inventory["subsystems"].get(name) for inventory in (before, after))
        if old_count is None:
            yield f"subsystem {name}: added"
        elif new_count is None:
            yield f"subsystem {name}: removed"
        elif old_count != new_count:
            yield f"subsystem {name}: {old_count} → {new_count} vertices"
