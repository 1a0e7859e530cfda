"""Page tokens: where a list goes on, opaque to clients."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable

from admin.core.problems import Invalid, invalid
from admin.core.quantities import is_whole_number


def token_of(key: Iterable[str | int] | None) -> str | None:
    """The token for the page after a key; None where there is no such page."""
    if key is None:
        return None
    return base64.urlsafe_b64encode(json.dumps([str(part) for part in key]).encode()).decode().rstrip("=")


def number_token(number: int | None) -> str | None:
    """The token for the page after a number; None where there is no such page."""
    return None if number is None else token_of((number,))


def key_of(token: str | None, *lengths: int) -> tuple[str, ...] | None:
    """The key in a token, of one of some lengths; None for the first page. Invalid for a token that no list gave."""
    if not token:
        return None
    try:
        key: object = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        key = None
    parts = key if isinstance(key, list) else []
    if len(parts) not in lengths or not all(isinstance(part, str) and part.isprintable() for part in parts):
        raise wrong_token()
    return tuple(parts)


def number_of(token: str | None) -> int | None:
    """The number in a token whose key is one; None for the first page."""
    key = key_of(token, 1)
    return None if key is None else parse_number(key[0], wrong_token())


def parse_number(text: str, error: Invalid) -> int:
    """A number that is not negative and fits a database; raises the error for any other text."""
    if not is_whole_number(text):
        raise error
    return int(text)


def wrong_token(giver: str = "a list") -> Invalid:
    """The error for a token that was not given by what is asked."""
    return invalid("token", f"is not a token that {giver} gave; leave it out to start anew.")
