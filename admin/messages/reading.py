"""Reading bodies: a plain one at once, any other field by field with every problem that it has.

A body is a `msgspec.Struct`, and that is its only definition. msgspec stops at the first fault and knows one spelling
of a name, so a body that it refuses is read once more along the same definition: names in camelCase are understood,
and all that is wrong is collected, in the words that fit the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from functools import lru_cache
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType, field, inspect
from msgspec.structs import FieldInfo

from admin.core.fields.leaves import known_keys
from admin.core.json_text import JsonObject
from admin.core.problems import Problem, raise_problems, unknown_word
from admin.messages.shared import Json, MessageMeta, described_as

B = TypeVar("B", bound=Struct)
T = TypeVar("T")

_WRONG_TYPE: dict[type[inspect.Type], str] = {
    inspect.StrType: "is not text: put it in quotes.",
    inspect.IntType: "is not a whole number.",
    inspect.FloatType: "is not a number.",
    inspect.BoolType: "is neither true nor false.",
    inspect.ListType: "is not a list: write [ … ], around a single one, too.",
}
_PYTHON_TYPES: dict[type[inspect.Type], tuple[type, ...]] = {
    inspect.StrType: (str,),
    inspect.IntType: (int,),
    inspect.FloatType: (int, float),
    inspect.ListType: (list,),
}


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Body(Struct, metaclass=MessageMeta, forbid_unknown_fields=True, frozen=True):
    """What every body is: unknown fields are refused, and so is null for what may be left out."""

    example: ClassVar[Json]  #: an example, which the OpenAPI document shows


def prepare_bodies() -> None:
    """Have msgspec look at every body's fields now: it crashes where two threads do so first, at the same moment."""
    for body in _subclasses(Body):
        msgspec.json.Decoder(body)


def _subclasses(body: type[Body]) -> Iterator[type[Body]]:
    for subclass in body.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def read(body: type[B], data: object, path: str = "") -> B:
    """A body as it is defined; Invalid with every problem. `path` is where the data stands in the request."""
    try:
        return msgspec.convert(data, body)
    except msgspec.ValidationError:
        problems: list[Problem] = []
        message = _read_fields(body, data, path, problems)
        raise_problems(problems)
        assert message is not None, "what has no problems can be read"
        return message


#: Any JSON but null.
AnyJson = bool | int | float | str | list[Any] | dict[str, Any]
#: JSON that the core reads: parts that are described under a name, values by name, or text.
ExecutionSpec = Annotated[AnyJson, described_as("ExecutionSpec")]
ClusterReport = Annotated[AnyJson, described_as("ClusterReport")]
MatchingPayload = Annotated[AnyJson, described_as("MatchingAttributes")]
InputValues = Annotated[
    AnyJson, Meta(extra_json_schema={"type": "object", "description": "Values by the name of the input."})
]
UnreadText = Annotated[AnyJson, Meta(extra_json_schema={"type": "string"})]
#: The name of something, which may not be one that anything has. `$` alone would let a line break at the end through.
Name = Annotated[str, Meta(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*(?!\n)$")]
Text255 = Annotated[str, Meta(max_length=255)]
#: Who changes something, and why.
Claimant = Annotated[Name, Meta(description="The name that the caller gave, unverified.")]
Message = Annotated[
    str, Meta(max_length=1000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$", description="Why, for the history.")
]
NoOrg = Annotated[
    str,
    Meta(
        max_length=0,
        extra={"error": "there are no organisations here; leave it out."},
        extra_json_schema={"enum": [""]},
    ),
]


def present_fields(body: Body) -> JsonObject:
    """The fields that a body has, by name."""
    values = ((name, getattr(body, name)) for name in body.__struct_fields__)
    return {name: value for name, value in values if value is not UNSET}


def or_none(value: T | UnsetType) -> T | None:
    """None for what was left out."""
    return None if value is UNSET else value


def _read_fields(body: type[B], data: object, path: str, problems: list[Problem]) -> B | None:
    if not isinstance(data, Mapping):
        problems.append(Problem(field=path, reason="is not a mapping: give one with named fields."))
        return None
    fields = _fields(body)
    wrong_names: list[Problem] = []
    present = known_keys(data, fields, (path,) if path else (), wrong_names)
    values: dict[str, Any] = {}
    for name, info in fields.items():
        if name in present:
            values[info.name] = _read_value(info.type, present[name], _join(path, name), problems)
        elif info.default is NODEFAULT and info.default_factory is NODEFAULT:
            problems.append(Problem(field=_join(path, name), reason="is missing."))
    problems.extend(wrong_names)
    return None if problems else body(**values)


# `type_` is an annotation such as `str | None`, here and below.
def _read_value(type_: object, value: object, path: str, problems: list[Problem]) -> object:
    definition, reason = _definition(type_)
    if value is None:
        problems.append(Problem(field=path, reason="is null; leave it out instead."))
        return None
    if isinstance(definition, inspect.StructType):
        return _read_fields(definition.cls, value, path, problems)
    if isinstance(definition, inspect.ListType) and isinstance(value, list) and _has_length(definition, value):
        item_type = _item_type(type_)
        if item_type is Any:
            return value
        return [_read_value(item_type, item, f"{path}.{index}", problems) for index, item in enumerate(value)]
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError:
        refusal = _reason(definition, value, reason)
        if isinstance(definition, inspect.LiteralType):
            problems.append(unknown_word(path, refusal, str(value), map(str, definition.values)))
        else:
            problems.append(Problem(field=path, reason=refusal))
        return None


@lru_cache(maxsize=256)
def _fields(body: type[Struct]) -> dict[str, FieldInfo]:
    return {info.encode_name: info for info in msgspec.structs.fields(body)}


@lru_cache(maxsize=1024)
def _definition(type_: object) -> tuple[inspect.Type, str]:
    """What a type takes, and the reason that its definition gives for refusing what is out of bounds."""
    definition = inspect.type_info(type_)
    if isinstance(definition, inspect.Metadata):
        return definition.type, (definition.extra or {}).get("error", "")
    return definition, ""


def _item_type(type_: object) -> object:
    """The type of a list's items, within whatever is said of the list."""
    if get_origin(type_) is list:
        return get_args(type_)[0]
    return next(filter(None, map(_item_type, get_args(type_))), None)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _has_length(definition: inspect.ListType | inspect.StrType, value: Sized) -> bool:
    return (definition.min_length or 0) <= len(value) and (
        definition.max_length is None or len(value) <= definition.max_length
    )


def _reason(definition: inspect.Type, value: object, reason: str) -> str:
    """What is wrong with a value that its definition refuses; the reason that it gives is for the right type."""
    if isinstance(definition, inspect.LiteralType):
        return f"Must be one of: {', '.join(map(str, definition.values))}."
    expected = _PYTHON_TYPES.get(type(definition))
    if expected is None or not isinstance(value, expected) or isinstance(value, bool):
        return _WRONG_TYPE.get(type(definition), "is not as documented.")
    if reason:
        return reason
    if isinstance(definition, inspect.StrType | inspect.ListType) and isinstance(value, Sized):
        if _has_length(definition, value):
            return "control characters are not allowed."
        return _length(definition.min_length, definition.max_length)
    assert isinstance(definition, inspect.IntType | inspect.FloatType)
    return _range(definition.ge, definition.le)


def _length(least: int | None, most: int | None) -> str:
    if least is None:
        return f"Longer than maximum length {most}."
    return f"Shorter than minimum length {least}." if most is None else f"Length must be between {least} and {most}."


def _range(least: float | None, most: float | None) -> str:
    upper = "" if most is None else f" and less than or equal to {most}"
    return f"Must be greater than or equal to {least}{upper}."
