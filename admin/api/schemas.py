"""What requests and answers look like: the shared parts, and how a marshmallow error becomes one of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from marshmallow import RAISE, Schema, ValidationError, fields, pre_load, validate

from admin.core import names
from admin.core.problems import Invalid, Problem, closest, unknown_word
from admin.core.scopes import Level

#: Free text that people write for people; no control characters but a line break or a tab.
_PRINTABLE = validate.Regexp(r"^[^\x00-\x08\x0b-\x1f\x7f]*\Z", error="control characters are not allowed.")


class RequestSchema(Schema):
    """A query or a body; snake_case and camelCase names are welcome, unknown ones are not."""

    class Meta:
        unknown = RAISE

    @pre_load
    def to_snake_case(self, data: Any, **_: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        spelling = {names.camel(name): name for name in self.fields}
        renamed: dict[str, Any] = {}
        for key, value in data.items():
            name = str(spelling.get(key, key))
            if name in renamed:
                raise ValidationError({name: ["is given twice, in two spellings."]})
            renamed[name] = value
        return renamed


def load(schema: RequestSchema, data: Any) -> dict[str, Any]:
    """What a request says, checked; Invalid with every problem."""
    try:
        loaded: dict[str, Any] = schema.load(data)
    except ValidationError as error:
        raise Invalid(*_problems(error.messages, schema)) from error
    return loaded


def _problems(messages: Any, schema: Schema | None, path: str = "") -> Iterator[Problem]:
    if isinstance(messages, list):
        yield Problem(field=path, reason=" ".join(str(message) for message in messages))
        return
    for key, below in messages.items():
        name = str(key)
        where = path if name == "_schema" else f"{path}.{name}".lstrip(".")
        field = schema.fields.get(name) if schema else None
        if below == ["Unknown field."] and schema is not None:
            known = list(schema.fields)
            yield Problem(field=where, reason=unknown_word("field", name, known), closest=closest(name, known))
        else:
            yield from _problems(below, field.schema if isinstance(field, fields.Nested) else None, where)


class MatchingAttributes(fields.Raw):
    """One kind's payload under its payload key; the registry of kinds checks it."""


class Payload(fields.Raw):
    """A payload, or a part of one; the registry of kinds checks it."""


class AuthorshipFields(RequestSchema):
    """Who changes something, and why."""

    message = fields.String(
        validate=[validate.Length(max=1000), _PRINTABLE], metadata={"description": "Why, for the history."}
    )
    claimed_by = fields.String(
        validate=[validate.Length(max=255), _PRINTABLE], metadata={"description": "Who, by their own word."}
    )


class Flag(fields.Boolean):
    """true or false, and no other spelling."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(truthy={"true", True}, falsy={"false", False}, **kwargs)


class ResourceType(fields.String):
    """A kind by number, name or noun."""

    def __init__(self, **kwargs: Any) -> None:
        description = "A kind: its number, name or noun, as /api/v1/kinds lists them."
        super().__init__(metadata={"description": description}, validate=validate.Length(min=1, max=100), **kwargs)


class ScopeQuery(RequestSchema):
    """A scope in a query."""

    domain = fields.String()
    project = fields.String()
    workflow = fields.String()
    launch_plan = fields.String()


class PageQuery(RequestSchema):
    """A page of a list."""

    limit = fields.Integer(load_default=100, validate=validate.Range(min=1, max=1000))
    token = fields.String(metadata={"description": "The token of the page before."}, validate=validate.Length(max=4096))


class ScopeAnswer(Schema):
    """The keys of a scope; the ones that do not apply are left out."""

    domain = fields.String()
    project = fields.String()
    workflow = fields.String()
    launch_plan = fields.String()


class OriginAnswer(ScopeAnswer):
    """Where a value comes from."""

    level = fields.String(required=True, validate=validate.OneOf([level.value for level in Level]))
    version = fields.Integer(metadata={"description": "Of the stored row."})
    key = fields.String(metadata={"description": "The configuration key, for the platform's own values."})


class WarningAnswer(ScopeAnswer):
    """Something stored that is questionable."""

    code = fields.String(required=True)
    message = fields.String(required=True)
    resource_type = fields.String(required=True)
    level = fields.String(required=True)
    field = fields.String(required=True)
    closest = fields.List(fields.String())


class ErrorDetail(Schema):
    """One field that is wrong, or a fact that helps."""

    field = fields.String()
    reason = fields.String()
    closest = fields.List(fields.String())
    current_version = fields.Integer()


class ErrorAnswer(Schema):
    """Every error."""

    code = fields.Integer(required=True, metadata={"description": "gRPC's number for this sort of error."})
    error = fields.String(required=True, metadata={"description": "A stable name for programs."})
    message = fields.String(required=True, metadata={"description": "What is wrong and how to mend it, for people."})
    details = fields.List(fields.Nested(ErrorDetail), required=True)
    request_id = fields.String(required=True)
