"""JSON, encoded and decoded by orjson, which is faster than the standard library."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

JsonObject = dict[str, Any]  #: what a JSON object holds is checked where it is read, not by its type

#: Digits that may be a number of more than 64 bits, which orjson does not read.
_LONG, _LONG_BYTES = re.compile(r"[0-9]{19}"), re.compile(rb"[0-9]{19}")


def json_text(value: Any, *, sort_keys: bool = False) -> bytes:
    """A value as JSON in UTF-8, times in ISO 8601."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:  # a number of more than 64 bits
        text = json.dumps(
            value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False, default=lambda time: time.isoformat()
        )
        return text.encode()


def json_string(value: Any) -> str:
    """The same as text, as JSON columns take it."""
    return json_text(value).decode()


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text that was checked when it was received."""
    is_long = _LONG.search(text) if isinstance(text, str) else _LONG_BYTES.search(text)
    return json.loads(text) if is_long else orjson.loads(text)
