"""JSON texts, written quickly."""

from __future__ import annotations

import json
from typing import Any

import orjson


def json_text(value: Any, *, sort_keys: bool = False) -> bytes:
    """A value as JSON in UTF-8; times as ISO 8601 has them."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:  # a number with more than 64 bits
        text = json.dumps(
            value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False, default=lambda one: one.isoformat()
        )
        return text.encode()
