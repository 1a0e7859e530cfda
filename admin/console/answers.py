"""What pages show: the answers of REST's operations, asked for within the same request and with the caller's rights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from flask import current_app, g, request

from admin.api import operations
from admin.api.operations import Operation
from admin.core.problems import invalid
from admin.errors import PermissionDenied, RainbowError
from admin.gate import PARAMETER
from admin.messages.errors import ErrorAnswer
from admin.messages.shared import encode

#: Where the app keeps the operations of REST by their ids.
OPERATIONS = "rainbow-operations"


def ask(
    id: str,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    *,
    path: Mapping[str, str] | None = None,
    version: int | None = None,
    idempotency_key: str | None = None,
    is_new: bool = False,
) -> Any:
    """The JSON that an operation of REST answers, by its id in the OpenAPI document.

    Its query is given as REST takes it; what is None or empty is left out. `path` has the parts of its path that are
    names. A write may say which `version` it expects, or that what it makes `is_new`; a creation the key under which it
    is done once.
    The errors are those of REST, PermissionDenied among them.
    """
    operation: Operation = current_app.extensions[OPERATIONS][id]
    parts = dict(path or {})
    texts = {name: _text(value) for name, value in (query or {}).items() if value not in (None, "")}
    sent = {"If-None-Match": "*"} if is_new else {}
    sent |= {} if version is None else {"If-Match": f'"{version}"'}
    _note(operation, parts, texts, body, sent)
    headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in sent.items()}
    headers |= {"HTTP_IDEMPOTENCY_KEY": idempotency_key} if idempotency_key else {}
    request.environ.update(headers)
    try:
        response = operations.ask(operation, parts, texts, body)
    finally:
        for name in headers:
            del request.environ[name]
    return msgspec.json.decode(response.get_data())


def ask_if_allowed(
    id: str, query: Mapping[str, Any] | None = None, *, path: Mapping[str, str] | None = None
) -> Any | None:
    """The same; None where the caller may not ask for it, so that a page leaves that part out."""
    try:
        return ask(id, query, path=path)
    except PermissionDenied:
        return None


def error_answer(error: RainbowError, request_id: str = "") -> Any:
    """The JSON by which REST answers an error."""
    return msgspec.json.decode(encode(ErrorAnswer.from_error(error, request_id)))


def asked_query(*names: str) -> dict[str, str]:
    """The query of the page's address, of which it takes some names; empty values of forms are left out."""
    for name, values in request.args.lists():
        if name not in names:
            raise invalid(name, f"this page does not take it; it takes {', '.join(names) or 'no query'}.")
        if len(values) > 1:
            raise invalid(name, "is given several times; give it once.")
    return {name: value for name, value in request.args.items() if value}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _note(
    operation: Operation, path: Mapping[str, str], query: Mapping[str, str], body: Any, headers: Mapping[str, str]
) -> None:
    """Remember a request, which the page shows as one of REST."""
    url = PARAMETER.sub(lambda parameter: quote(path[parameter[2]], safe=""), operation.path)
    if query:
        url += f"?{urlencode(query)}"
    line = {
        "method": operation.method,
        "url": url,
        "body": None if body is None else json.dumps(body, sort_keys=True),
        "headers": dict(headers),
    }
    asked = g.setdefault("asked", [])
    if line not in asked:
        asked.append(line)
