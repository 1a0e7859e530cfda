"""JSON columns: how their values are written and read."""

from __future__ import annotations

from admin.core.json_text import json_text


def json_column(value: object) -> str:
    """A value as columns of JSON take it."""
    return json_text(value).decode()
