"""Rules of pools and executions: as flags write them, and as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctl.client.answers import Document
from ctl.client.facts import SCHEMAS
from ctl.client.kinds import Schema

#: The strategy that has rules.
CONSTRAINT = "constraint"
STRATEGIES: Sequence[str] = SCHEMAS["pool"]["properties"]["strategy"]["enum"]
RULES_SCHEMA: Schema = SCHEMAS["pool"]["properties"]["rules"]


def typed_strategy(values: Mapping[str, Any], strategy: str | None, rules: Sequence[str]) -> Document:
    """A pool or a request with the strategy and the rules that flags give; rules go with their strategy."""
    changed = dict(values)
    if strategy or rules:
        changed["strategy"] = strategy or CONSTRAINT
    if strategy and strategy != CONSTRAINT:
        changed.pop("rules", None)
    if rules:
        from ctl.files.attributes import parse_flow

        changed["rules"] = [parse_flow(text, RULES_SCHEMA["items"], "--rule") for text in rules]
    return changed


def show_rule(rule: Mapping[str, Any]) -> str:
    """A rule in words: `calculate cost = 2 * nodes`, `sort cost, descending`."""
    calculated = ", ".join(f"{name} = {text}" for name, text in (rule.get("calculate") or {}).items())
    words = {"calculate": calculated, **{key: rule.get(key) for key in ("filter", "sort", "pick")}}
    text = ", ".join(f"{key} {value}" for key, value in words.items() if value)
    return f"{text}, descending" if rule.get("descending") else text
