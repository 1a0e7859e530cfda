"""JSON that others send, read strictly: one meaning, or an error."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn

from admin.core.problems import invalid, shorten

_DEEPEST = 64
_CONTAINERS = (dict, list)


def parse_body(raw: bytes) -> dict[str, Any]:
    """The mapping that the bytes of a body hold; Invalid where they are no JSON, or JSON with two meanings."""
    body = _parsed(raw)
    if not isinstance(body, dict):
        raise invalid("", "The body is not a JSON object.")
    return body


def _parsed(raw: bytes) -> object:
    try:
        body = _DECODER.decode(raw.decode("utf-8"))
        if _depth_exceeds(body, _DEEPEST):
            raise invalid("", f"The body is nested deeper than {_DEEPEST} levels.")
        if b"\\u" in raw:  # an escape may name half a character, which no database can store
            json.dumps(body, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        reason = f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        raise invalid("", reason) from error
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):04x}"
        raise invalid(
            "", f"The body has half a character, {escape}: send both halves, or another character."
        ) from error
    except UnicodeError as error:
        raise invalid("", "The body is not UTF-8 text.") from error
    except RecursionError as error:
        raise invalid("", f"The body is nested deeper than {_DEEPEST} levels.") from error
    except ValueError as error:
        raise invalid("", "The body holds a number that is too long.") from error
    return body


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise invalid(shorten(twice), "this key stands twice in one object.")
    return mapping


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise invalid("", f"The number {shorten(text)} is too large.")
    return number


def _no_constant(name: str) -> NoReturn:
    raise invalid("", f"{name} is not a JSON number.")


#: Built once, which takes longer than decoding a short body.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)


def _depth_exceeds(value: Any, most: int) -> bool:
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(most):
        if not level:
            return False
        inside = [value.values() if type(value) is dict else value for value in level]
        level = [item for items in inside for item in items if type(item) in _CONTAINERS]
    return bool(level)
