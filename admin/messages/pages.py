"""Page tokens: where a list goes on, opaque to clients."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from admin.core.problems import Invalid, Problem
from admin.core.quantities import is_whole_number


def token_of(key: tuple[str, ...]) -> str:
    """The token for the page after a key."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def key_of(token: str | None, length: int) -> tuple[str, ...] | None:
    """The key in a token, None for the first page; Invalid for a token that no list gave."""
    if not token:
        return None
    try:
        key: Any = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        key = None
    if not isinstance(key, list) or len(key) != length or not all(map(_is_clean, key)):
        raise Invalid(Problem(field="token", reason="is not a token that a list gave; leave it out to start anew."))
    return tuple(key)


def number_of(token: str | None) -> int | None:
    """The number in a token whose key is one; None for the first page."""
    key = key_of(token, 1)
    if key is None:
        return None
    if not is_whole_number(key[0]):
        raise Invalid(Problem(field="token", reason="is not a token that a list gave; leave it out to start anew."))
    return int(key[0])


def _is_clean(part: Any) -> bool:
    return isinstance(part, str) and part.isprintable()
