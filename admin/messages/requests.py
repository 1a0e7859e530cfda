"""Queries and bodies that marshmallow reads: their shared parts, and its errors in our words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar

from marshmallow import RAISE, Schema, ValidationError, fields, pre_load, validate

from admin.core import names
from admin.core.problems import Invalid, Problem, shorten, unknown_fields, unknown_word
from admin.core.quantities import is_whole_number, parse_age
from admin.core.settings.scopes import STORED_LEVELS


class Pattern(validate.Regexp):
    """A pattern that the whole text must fit; with `$` alone a trailing line break would slip through."""

    def __call__(self, value: Any) -> Any:  # as marshmallow has it: text or bytes
        if self.regex.fullmatch(value) is None:
            raise ValidationError(self._format_error(value))
        return value


#: Free text that people write for people; no control characters but a line break or a tab.
PRINTABLE_LINES = Pattern(r"^[^\x00-\x08\x0b-\x1f\x7f]*$", error="control characters are not allowed.")
PRINTABLE = Pattern(r"^[^\x00-\x1f\x7f]*$", error="control characters are not allowed.")
NAME = [validate.Length(max=255), PRINTABLE]
#: A part of a scope.
SCOPE_KEY = [*NAME, validate.Length(min=1, error="is empty: name one, or leave it out for any.")]


class UnknownWord(str):
    """The message about a value that is none of a few words; it has the closest."""

    closest: tuple[str, ...]

    @classmethod
    def of(cls, refusal: str, value: object, words: Iterable[str]) -> UnknownWord:
        problem = unknown_word("", refusal, str(value), words)
        message = cls(problem.reason)
        message.closest = problem.closest
        return message


class OneOf(validate.OneOf):
    """One of a few words; the refusal has the closest."""

    def _format_error(self, value: Any) -> str:  # as marshmallow has it
        return UnknownWord.of(super()._format_error(value), value, map(str, self.choices))


# Said to people who cannot see our code, so: what is wrong, and what to do.
fields.Field.default_error_messages |= {"required": "is missing.", "null": "is null; leave it out instead."}
fields.String.default_error_messages |= {"invalid": "is not text: put it in quotes."}
fields.Integer.default_error_messages |= {"invalid": "is not a whole number."}
fields.Float.default_error_messages |= {"invalid": "is not a number."}
fields.Boolean.default_error_messages |= {"invalid": "is neither true nor false."}
fields.List.default_error_messages |= {"invalid": "is not a list: write [ … ], around a single one, too."}
fields.Dict.default_error_messages |= {"invalid": "is not a mapping: give one with named fields."}
_SCHEMA_MESSAGES = {"type": "is not a mapping of fields: write { … }."}


#: What a schema read: names and types are those of its fields, which a type checker does not see.
Fields = dict[str, Any]


class RequestSchema(Schema):
    """A query or a body; snake_case and camelCase names are welcome, unknown ones are not."""

    example: ClassVar[Fields]  #: an example, which the OpenAPI document shows
    error_messages = _SCHEMA_MESSAGES

    class Meta:
        unknown = RAISE

    @cached_property
    def _spelling(self) -> dict[str, str]:
        """The camelCase spelling of each field."""
        keys = (field.data_key or name for name, field in self.fields.items())
        return {names.camel(name): name for name in keys}

    @pre_load
    def to_snake_case(self, data: object, **_: object) -> object:
        if not isinstance(data, Mapping):
            return data
        renamed: dict[str, Any] = {}
        for key, value in data.items():
            name = str(self._spelling.get(key, key))
            if name in renamed:
                raise ValidationError({name: ["is given twice, in two spellings."]})
            renamed[name] = value
        return renamed


def load(schema: RequestSchema, data: Any, path: str = "") -> Fields:
    """Any data that a request may hold, checked; Invalid with every problem. `path` is where it stands in the body."""
    try:
        loaded: Fields = schema.load(data)
    except ValidationError as error:
        raise Invalid(*_problems(error.messages, schema, path)) from error
    return loaded


# Messages of marshmallow are lists of texts, or mappings of such messages by the names of fields.
def _problems(messages: object, schema: Schema | None, path: str = "") -> Iterator[Problem]:
    if isinstance(messages, list):
        near = tuple(word for message in messages if isinstance(message, UnknownWord) for word in message.closest)
        yield Problem(field=path, reason=" ".join(str(message) for message in messages), closest=near)
        return
    assert isinstance(messages, dict)
    unknown: list[str] = []
    for key, below in messages.items():
        name = str(key)
        where = path if name == "_schema" else f"{path}.{shorten(name)}".lstrip(".")
        field = schema.fields.get(name) if schema else None
        if below == ["Unknown field."] and schema is not None:
            unknown.append(name)
        else:
            inner = field.schema if isinstance(field, fields.Nested) else None
            if inner is None and isinstance(below, dict) and below.keys() <= {"key", "value"}:
                below = [message for messages in below.values() for message in messages]  # of one entry of a mapping
            yield from _problems(below, inner, where)
    yield from unknown_fields(unknown, schema.fields if schema else (), path)


# Options of marshmallow's fields, which have no type of their own, are passed on as `**kwargs: Any`.


class PayloadField(fields.Raw):
    """A part of a body that the core reads; the OpenAPI document describes it under the name of a component."""

    def __init__(self, component: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.component = component


def changes_field() -> fields.List[object]:  # of JSON that the core reads
    """Changes of rows; each is read by itself, so that its problems carry its position."""
    change = PayloadField("Change", allow_none=True)
    return fields.List(change, required=True, validate=validate.Length(min=1))


class AuthorshipFields(RequestSchema):
    """Who changes something, and why."""

    example: ClassVar[Fields] = {"message": "No longer needed.", "claimed_by": "ada"}

    message = fields.String(
        validate=[validate.Length(max=1000), PRINTABLE_LINES], metadata={"description": "Why, for the history."}
    )
    claimed_by = fields.String(validate=NAME, metadata={"description": "The name that the caller gave, unverified."})


class Flag(fields.Boolean):
    """true or false, and no other spelling."""

    def _deserialize(self, value: object, attr: str | None, data: object, **kwargs: object) -> bool:
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
        raise self.make_error("invalid", input=value)


class Word(fields.Field[object]):
    """One of a few words, or Flyte's number for it, which is its position among them."""

    def __init__(self, *words: str, prefix: str = "", read: Callable[[str], object] = str, **kwargs: Any) -> None:
        """`prefix` may stand before a word; `read` gives the value that it stands for."""
        super().__init__(metadata={"type": "string", "enum": sorted(words)}, **kwargs)
        self._words = words
        self._prefix = prefix
        self._read = read

    def _deserialize(self, value: object, attr: str | None, data: object, **kwargs: object) -> object:
        word = value.removeprefix(self._prefix) if isinstance(value, str) else value
        if type(value) is int and value in range(len(self._words)):
            word = self._words[value]
        if not isinstance(word, str) or word not in self._words:
            refusal = f"is neither {' nor '.join(sorted(self._words))}."
            raise ValidationError([UnknownWord.of(refusal, value, self._words)])
        return self._read(word)


class ResourceType(fields.String):
    """A kind by number, name or noun."""

    def __init__(self, **kwargs: Any) -> None:
        description = "A kind: its number, name or noun, as /api/v1/kinds lists them."
        metadata = {"description": description, "type": ["string", "integer"], "example": "TASK_RESOURCE"}
        missing = "is missing: name a kind by number, name or noun; /api/v1/kinds lists them."
        length = validate.Length(min=1, max=100, error="is no kind; /api/v1/kinds lists them.")
        super().__init__(metadata=metadata, validate=length, error_messages={"required": missing}, **kwargs)

    def _deserialize(self, value: object, attr: str | None, data: Mapping[str, object] | None, **kwargs: object) -> str:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return super()._deserialize(str(value)[:100] if is_number else value, attr, data, **kwargs)


class Whole(fields.Integer):
    """A whole number in plain digits; Python would also read 1_0 and digits of other scripts."""

    def _validated(self, value: object) -> int:
        if isinstance(value, str) and not is_whole_number(value.removeprefix("-")):
            raise self.make_error("invalid", input=value)
        return super()._validated(value)


class Seconds(fields.Float):
    """A length of time in plain digits."""

    def _validated(self, value: object) -> float:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value) is None:
            raise self.make_error("invalid", input=value)
        return super()._validated(value)


class Number(Whole):
    """The number of a revision."""

    def __init__(self, *, least: int = 0, **kwargs: Any) -> None:
        bounds = [
            validate.Range(min=least, error=f"Must be {least} or more."),
            validate.Range(max=2**62, error="Is too large."),  # for a column of a database
        ]
        super().__init__(validate=bounds, **kwargs)


class Duration(fields.Field[timedelta]):
    """A length of time in text, of at most a year."""

    def _deserialize(self, value: object, attr: str | None, data: object, **kwargs: object) -> timedelta:
        if not isinstance(value, str):
            raise ValidationError("is not text: put it in quotes.")
        if value in ("0", "0s"):
            return timedelta()
        try:
            seconds = float(parse_age(value))
        except ValueError:
            reason = "is not a length of time of zero or more, such as 10m, 12h or 3d"
            raise ValidationError(f"'{value[:60]}' {reason}.") from None
        if seconds > 366 * 24 * 3600:
            raise ValidationError(f"'{value[:60]}' is longer than a year.")
        return timedelta(seconds=seconds)


class ScopeQuery(RequestSchema):
    """A scope in a query or a body; a key that is empty by mistake would mean a broader one."""

    domain = fields.String(validate=SCOPE_KEY)
    project = fields.String(validate=SCOPE_KEY)
    workflow = fields.String(validate=SCOPE_KEY)
    launch_plan = fields.String(validate=SCOPE_KEY)


class LevelField(fields.String):
    """The level of the rows that a list has; with the keys of a scope those exactly there."""

    def __init__(self, **kwargs: Any) -> None:
        description = "Only rows of this level; with the keys of a scope those exactly there."
        words = [level.value for level in STORED_LEVELS]
        super().__init__(validate=OneOf(words), metadata={"description": description}, **kwargs)


def token_field() -> fields.String:
    """The field of where a page begins."""
    return fields.String(metadata={"description": "The token of the page before."}, validate=validate.Length(max=4096))


class PageQuery(RequestSchema):
    """A page of a list."""

    limit = Whole(load_default=100, validate=validate.Range(min=1, max=1000))
    token = token_field()


class WriteQuery(RequestSchema):
    """The query of every write."""

    dry_run = Flag(load_default=False, metadata={"description": "Check everything and change nothing."})
