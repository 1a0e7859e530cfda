"""Request bodies, read strictly: one meaning each, or an error."""

from __future__ import annotations

from typing import Any

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from admin.api.browsers import may_be_json
from admin.api.failures import body_too_large
from admin.core.problems import invalid
from admin.core.strict_json import parse_body
from admin.errors import UnsupportedMediaType


def read_body(*, optional: bool = False, if_too_large: str = "") -> dict[str, Any]:
    """The mapping that a request carries; Invalid where it is no JSON, or JSON with two meanings."""
    raw = raw_body(optional=optional, if_too_large=if_too_large)
    return parse_body(raw) if raw else {}


def raw_body(*, optional: bool = False, if_too_large: str = "") -> bytes:
    """The bytes of a body that says that it is JSON; empty where there is none and none is needed.

    `if_too_large` says what to do about one that is larger than allowed.
    """
    raw = _raw(if_too_large)
    if not raw:
        if optional:
            return raw
        raise invalid("", "The request has no body; send a JSON object.")
    if not request.mimetype or not may_be_json(request.mimetype):
        raise UnsupportedMediaType()
    return raw


def _raw(if_too_large: str) -> bytes:
    """The bytes of the body. The size of a chunked body is known only at its end, so one byte more is read."""
    most = request.max_content_length
    if most is not None and request.content_length is None:
        request.max_content_length = most + 1
    try:
        raw = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise body_too_large(most, if_too_large) from None
    if most is not None and len(raw) > most:
        raise body_too_large(most, if_too_large)
    return raw
