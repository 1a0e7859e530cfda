"""Which nodes pods may go to, by the node selector, the affinity and the tolerations that they are created with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]


def selects(placing: Object, node: Object) -> bool:
    """Whether pods may go to a node by their node selector, and by what their affinity requires of nodes."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(label) != value for label, value in (placing.get("nodeSelector") or {}).items()):
        return False
    rule = ((placing.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return rule is None or any(_is_met(term, node, labels) for term in rule.get("nodeSelectorTerms") or ())


def _is_met(term: Object, node: Object, labels: Mapping[str, str]) -> bool:
    """Whether a node meets all of a term; one without anything is met by none."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    names = {"metadata.name": node["metadata"]["name"]}
    wanted = [(labels, entry) for entry in expressions] + [(names, entry) for entry in fields]
    return bool(wanted) and all(_holds(entry, values.get(entry["key"])) for values, entry in wanted)


def _holds(expression: Object, value: str | None) -> bool:
    operator: str = expression["operator"]
    values: Sequence[str] = expression.get("values") or ()
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    try:  # Gt or Lt
        difference = int(value or "") - int(values[0])
    except (ValueError, IndexError):
        return False
    return difference > 0 if operator == "Gt" else difference < 0


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether a toleration lets pods go to nodes with a taint."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))
