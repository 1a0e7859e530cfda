"""Inventories: how much a description has of each type, and in what two of them differ."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.requirements import CONTAINMENT, IDENTITY
from admin.core.graph.summaries import summarize
from admin.core.graph.units import NODE, plural, show_amount
from admin.core.quantities import parse_quantity

#: Fields of which an inventory keeps what they say: nodes of Kubernetes have dozens of labels.
_MOST_FIELDS = 200
#: Names of nodes that are not their own, of which an inventory keeps how many have them.
_MOST_NAMES = 5


def inventory_of(graph: ClusterGraph, subsystems: Mapping[str, int]) -> dict[str, Any]:
    """How many vertices of each type a graph has and what they amount to, what their fields say, in short, and how
    many vertices each subsystem has.
    """
    summary = summarize(graph)
    repeated = dict(sorted(graph.repeated_names.items())[:_MOST_NAMES])
    return {
        **({"repeated_names": repeated} if repeated else {}),
        "types": {
            type_: {"vertices": count, "amount": show_amount(type_, summary.totals.get(type_, 0))}
            for type_, count in summary.vertices.items()
        },
        "subsystems": dict(subsystems),
        "fields": _fields(graph),
    }


def _fields(graph: ClusterGraph) -> dict[str, dict[str, Any]]:
    """How many vertices have each field, or are linked to one that has it, and a digest of its values."""
    values: dict[str, Counter[str]] = {}
    for shape, times in graph.root.occurrences().items():
        for feature in shape.features:
            own = ("type", "size") if feature.subsystem == CONTAINMENT else ()
            for field, value in feature.fields.items():
                if field not in IDENTITY and field not in own:
                    values.setdefault(f"{feature.subsystem} {field}", Counter())[repr(value)] += times
    return {
        name: {
            "vertices": counts.total(),
            "values": hashlib.sha256(repr(sorted(counts.items())).encode()).hexdigest()[:12],
        }
        for name, counts in sorted(values.items())[:_MOST_FIELDS]
    }


def warnings_of(inventory: Mapping[str, Any] | None) -> list[str]:
    """What is questionable about a description, though it is stored."""
    if inventory is None:
        return []
    repeated: Mapping[str, int] = inventory.get("repeated_names", {})
    warnings = [
        f"{count} nodes are called '{name}': what a report tells of '{name}' counts for one of them alone. Give each "
        "node a name of its own."
        for name, count in repeated.items()
    ]
    if NODE not in inventory["types"]:
        warnings.append(
            "No vertex is a node, so that all of it counts as one machine: a task may get cores of several racks. "
            "Describe its nodes."
        )
    return warnings


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[str]:
    """In what a description differs from the one before it, each in a few words: `cores: 36 → 48`."""
    if before is None or after is None:
        return [] if before is after else ["first description" if before is None else "removed"]
    of_amounts = list(_differences(before, after))
    return of_amounts or list(_field_differences(before, after)) or ["the same amounts, arranged or named differently"]


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    none = {"vertices": 0, "amount": "0"}
    for type_ in sorted({*before["types"], *after["types"]}, key=lambda type_: (type_ != NODE, type_)):
        old, new = (inventory["types"].get(type_, none) for inventory in (before, after))
        if parse_quantity(old["amount"]) != parse_quantity(new["amount"]):
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


def _field_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The fields that are on other vertices, or have other values; nothing where an earlier version kept none."""
    if "fields" not in before or "fields" not in after:
        return
    for name in sorted({*before["fields"], *after["fields"]}):
        old, new = (inventory["fields"].get(name, {"vertices": 0}) for inventory in (before, after))
        if old["vertices"] != new["vertices"]:
            yield f"{name}: on {old['vertices']} → {new['vertices']} vertices"
        elif old != new:
            yield f"{name}: other values"
