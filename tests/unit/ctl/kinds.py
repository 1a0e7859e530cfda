"""Kinds for the tests of the command line: built-in ones, and one that a platform team declared."""

from __future__ import annotations

from typing import Any

from ctl.client.kinds import Kind, built_in, by_word


def kind(noun: str) -> Kind:
    """A built-in kind."""
    built = by_word(built_in(), noun)
    assert built is not None
    return built


def declared(properties: dict[str, Any], noun: str = "workflow-priority") -> Kind:
    """A kind with the given fields."""
    return Kind(
        number=10,
        name=noun.upper().replace("-", "_"),
        noun=noun,
        payload_key=noun.replace("-", "_"),
        levels=("domain", "project", "project-domain", "workflow", "launch-plan"),
        merge="replace",
        declared=True,
        example={},
        schema={"type": "object", "properties": properties, "additionalProperties": False},
    )


PRIORITY = declared({"priority": {"type": ["integer", "null"], "minimum": 0, "maximum": 100}})
