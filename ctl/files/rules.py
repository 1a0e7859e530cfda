"""Rules of pools and executions: as flags write them, and as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctl.client.answers import Document
from ctl.client.facts import SCHEMAS
from ctl.client.kinds import Schema

#: The strategy that has rules.
CONSTRAINT = "constraint"
#: The strategy that asks clusters for bids.
ASK = "ask"
#: The fields of a request for that strategy, and their flags.
ASKING = {
    "ask_deadline": "--askDeadline",
    "choose_by": "--chooseBy",
    "seconds_weight": "--secondsWeight",
    "cost_weight": "--costWeight",
}
STRATEGIES: Sequence[str] = SCHEMAS["pool"]["properties"]["strategy"]["enum"]
RULES_SCHEMA: Schema = SCHEMAS["pool"]["properties"]["rules"]
#: The same fields in an execution file.
ASKING_SCHEMAS: Schema = {flag.removeprefix("--"): SCHEMAS["pool"]["properties"][name] for name, flag in ASKING.items()}


def typed_request_strategy(values: Mapping[str, Any], flags: Mapping[str, Any]) -> Document:
    """A request with the strategy that flags give, and what belongs to it; fields for asking mean the strategy ask."""
    changed = typed_strategy(values, flags["strategy"], flags["rules"])
    given = {key: flags[key] for key in ASKING if flags[key]}
    if given:
        from ctl.files.fleet import parse_weight

        changed |= {
            key: parse_weight(value, ASKING[key]) if key.endswith("_weight") else value for key, value in given.items()
        }
        changed.setdefault("strategy", ASK)
    return changed


def typed_strategy(values: Mapping[str, Any], strategy: str | None, rules: Sequence[str]) -> Document:
    """A pool or a request with the strategy and the rules that flags give; what belongs to another strategy goes."""
    changed = dict(values)
    if strategy or rules:
        changed["strategy"] = strategy or CONSTRAINT
        others = [] if changed["strategy"] == ASK else [*ASKING, "rebalance"]
        others += [] if changed["strategy"] == CONSTRAINT else ["rules"]
        changed = {name: value for name, value in changed.items() if name not in others}
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
