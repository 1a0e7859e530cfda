"""The OpenAPI document, made from the operations and the registry of kinds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import fields
from msgspec import Struct

from admin import __version__
from admin.api.operations import Operation
from admin.core.permissions import describe_requirement
from admin.core.settings.kinds import Kinds
from admin.messages.changes import ChangeBody
from admin.messages.components import COMPONENTS
from admin.messages.creations import RequestBody
from admin.messages.effective import ValueAnswer
from admin.messages.errors import ErrorAnswer, ErrorDetail
from admin.messages.reading import Body
from admin.messages.requests import PayloadField

_TEMPLATE = "#/components/schemas/{name}"
_ERRORS = {
    400: "Something in the request is wrong; the details name the field and the remedy.",
    401: "The bearer token is missing or wrong.",
    403: "The token is not for this, or a page of another site has sent it.",
    404: "There is no such thing.",
    408: "The body stopped arriving.",
    409: "It contradicts what is stored.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The admin is not called by the name in Host.",
    503: "The database does not answer right now, or too many requests are being answered or wait.",
    429: "Too many wrong tokens, attempts or requests; wait as long as Retry-After says.",
}
_HEADERS = {
    "If-Match": "The version that the row must have, in quotes, or '*' for any.",
    "Idempotency-Key": "The same key again is the same execution, where no name is given.",
    "If-None-Match": "'*' where the row must be new.",
}
#: The names that the examples of bodies use, for the parts of paths.
_PATH_EXAMPLES = {
    "project": "flytesnacks",
    "domain": "development",
    "workflow": "core.training.train",
    "launch_plan": "nightly",
    "version": "v1",
    "id": "flytesnacks",
    "number": "1",
    "prefix": "0a0a0a0a",
}
_NAME_EXAMPLES = {
    "clusters": "east",
    "reconciliations": "east",
    "pools": "gpu",
    "labels": "spare",
    "users": "ada",
    "groups": "ml",
    "cluster_groups": "racks",
    "token_pools": "hive",
    "use_grants": "pool:gpu:user:ada",
    "grants": "viewer:user:ada:flytesnacks:development",
    "executions": "hello",
    "workflows": "core.training.train",
    "launch_plans": "nightly",
    "active_launch_plans": "nightly",
}


def document(operations: Iterable[Operation], kinds: Kinds) -> dict[str, Any]:
    """The whole document."""
    plugin = MarshmallowPlugin()
    spec = APISpec(
        title="Rainbow admin",
        version=__version__,
        openapi_version="3.1.0",
        info={"description": "Settings by scope, resolved most-specific-first, and explained."},
        plugins=[plugin],
        security=[{"bearer": []}],
    )
    assert plugin.converter is not None
    plugin.converter.add_attribute_function(_references)  # type: ignore[no-untyped-call]
    spec.components.security_scheme("bearer", {"type": "http", "scheme": "bearer"})
    spec.components.schema("MatchingAttributes", _matching_attributes(kinds))
    spec.components.schema("Change", schema=ChangeBody)
    for name, schema in COMPONENTS.items():
        spec.components.schema(name, schema)
    listed = list(operations)
    messages: set[type[Struct]] = {ErrorAnswer, ErrorDetail, RequestBody, ValueAnswer}
    for operation in listed:
        messages.update(operation.answers)
        if operation.body is not None and issubclass(operation.body, Body):
            messages.add(operation.body)
    for name, schema in _components(sorted(messages, key=lambda message: message.__name__)).items():
        spec.components.schema(name, schema)
    for operation in listed:
        path, parameters = _path(operation)
        spec.path(path=path, operations={operation.method.lower(): _operation(operation, parameters)})
    return spec.to_dict()


def _references(_converter: Any, field: fields.Field[Any], **_: Any) -> dict[str, Any]:
    if not isinstance(field, PayloadField):
        return {}
    return {"type": "object"} if field.component is None else {"$ref": _TEMPLATE.format(name=field.component)}


def _matching_attributes(kinds: Kinds) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Exactly one payload, under the key of its kind.",
        "properties": {kind.payload_key: kind.payload.schema() | {"minProperties": 1} for kind in kinds},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _path(operation: Operation) -> tuple[str, list[dict[str, Any]]]:
    names = re.findall(r"<(?:rest:)?([a-z_]+)>", operation.path)
    noun = operation.path.removeprefix("/api/v1/").partition("/")[0]
    examples = {**_PATH_EXAMPLES, "name": _NAME_EXAMPLES.get(noun, "")}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "example": examples[name]}
        for name in names
    ]
    return re.sub(r"<(?:rest:)?([a-z_]+)>", r"{\1}", operation.path), parameters


def _operation(operation: Operation, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": _requirement(operation),
        "x-permission": operation.permission,
        "tags": [operation.tag],
        "parameters": parameters,
        "responses": {"200": _answer(operation), **{str(code): _error(code) for code in _error_codes(operation)}},
    }
    if operation.query is not None:
        described["parameters"].append({"in": "query", "schema": operation.query})
    described["parameters"] += [
        {"name": name, "in": "header", "schema": {"type": "string"}, "description": _HEADERS[name]}
        for name in operation.headers
    ]
    if operation.body is not None:
        schema = _reference(operation.body) if issubclass(operation.body, Body) else operation.body
        content = {"application/json": {"schema": schema, "example": operation.body.example}}
        described["requestBody"] = {"required": not operation.body_optional, "content": content}
    if operation.is_open:
        described["security"] = [{}, {"bearer": []}] if operation.guarded_with_users else []
    return described


def _requirement(operation: Operation) -> str:
    """What a caller needs for an operation."""
    parts = [describe_requirement(operation.permission)]
    if operation.also is not None:
        parts.append(f"For quotas it needs `{operation.also}` instead.")
    if operation.shows_some:
        parts.append("Answers with what the caller may see.")
    if operation.own is not None:
        parts.append("Nobody needs it for what is about themselves.")
    return " ".join(parts)


def _error_codes(operation: Operation) -> list[int]:
    is_open = operation.is_open and not operation.guarded_with_users
    always = [403, 421, 503] if is_open else [400, 401, 403, 421, 429, 503]
    writes = [] if operation.method == "GET" else [415]
    with_body = [400, 408, 413] if operation.body is not None else []
    return sorted({*operation.errors, *always, *writes, *with_body})


def _answer(operation: Operation) -> dict[str, Any]:
    if not operation.answers:
        return {"description": "As the summary says.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    shapes = [_reference(answer) for answer in operation.answers]
    schema = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    return {"description": "Done.", "content": {"application/json": {"schema": schema}}}


def _error(code: int) -> dict[str, Any]:
    return {"description": _ERRORS[code], "content": {"application/json": {"schema": _reference(ErrorAnswer)}}}


def _reference(message: type[Struct]) -> dict[str, str]:
    """Where the document describes a message."""
    return {"$ref": _TEMPLATE.format(name=message.__name__)}


def _components(messages: Iterable[type[Struct]]) -> dict[str, dict[str, Any]]:
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
