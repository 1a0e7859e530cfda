"""What msgspec's messages look like in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

_TEMPLATE = "#/components/schemas/{name}"


def reference(message: type[Struct]) -> dict[str, str]:
    """Where the document describes a message."""
    return {"$ref": _TEMPLATE.format(name=message.__name__)}


def components(messages: Iterable[type[Struct]]) -> dict[str, dict[str, Any]]:
    """The schemas of messages and of all that they consist of, by name."""
    listed = list(messages)
    is_open = {message.__name__ for message in listed if getattr(message, "has_other_fields", False)}
    _, schemas = msgspec.json.schema_components(listed, ref_template=_TEMPLATE)
    return {name: {**_tidy(schema), "additionalProperties": name in is_open} for name, schema in schemas.items()}


def _tidy(schema: Any) -> Any:
    """A schema without titles, and with optional fields that are left out and never null."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {name: schema[name] for name in ("$ref", "description") if name in schema}
    tidy = {name: _tidy(value) for name, value in schema.items() if name not in ("title", "default")}
    if tidy.get("required") == []:
        del tidy["required"]
    if "type" in tidy:
        tidy.pop("anyOf", None)  # the definition gives a type in place of what msgspec derives
    if "pattern" in tidy:
        tidy["pattern"] = tidy["pattern"].replace(r"(?!\n)$", "$")  # in JSON Schema, $ is the very end
    choices = [choice for choice in tidy.pop("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        return {**tidy, **choices[0]}
    return {**tidy, "anyOf": choices} if choices else tidy
