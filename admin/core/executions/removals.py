"""Removals: what a query may ask to be without, and the rules that are left without a queue or a tag of queues."""

from __future__ import annotations

from dataclasses import replace

from admin.core.executions.launches import Rules

#: What is removed by its name, as queries call it; the first ones are parts of the fleet.
FLEET_NOUNS = ("pool", "label", "cluster")
NOUNS = (*FLEET_NOUNS, "queue", "queue_tag")


def rules_without(rules: Rules, noun: str, name: str) -> Rules:
    """The rules without a queue or a tag of queues; nothing else that queries ask about is part of them."""
    queues = [queue for queue in rules.queues if (noun, name) != ("queue", queue.name)]
    if noun == "queue_tag":
        queues = [replace(queue, tags=tuple(tag for tag in queue.tags if tag != name)) for queue in queues]
    return replace(rules, queues=tuple(queues))
