"""Kinds that a platform team declares in configuration: read, checked, and made into registry entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from admin.core import names
from admin.core.fields import (
    Boolean,
    Choice,
    Duration,
    Field,
    Integer,
    Leaf,
    ListOf,
    MapOf,
    Number,
    Quantity,
    Section,
    Text,
    read,
)
from admin.core.problems import Invalid, Problem, unknown_word
from admin.core.settings.builtin_kinds import BUILTIN_KINDS
from admin.core.settings.kinds import Kind, Kinds, Merge, noun_of
from admin.core.settings.scopes import STORED_LEVELS, Level

FIRST_DECLARED_NUMBER = 10

#: Words that the command line uses for other things.
_TAKEN_NOUNS = frozenset(
    {"all", "cluster", "context", "domain", "event", "execution", "kind", "label", "launchplan", "placement", "pool"}
    | {"placement-counts", "project", "revision", "task", "token", "token-pool", "warnings", "workflow"}
)

#: Words that attribute files use beside the fields of a payload.
_TAKEN_FIELDS = frozenset({"domain", "project", "workflow", "launch_plan", "version", "kind", "inherited_from"})

_TYPES = {
    "int": "int",
    "integer": "int",
    "float": "float",
    "number": "float",
    "bool": "bool",
    "boolean": "bool",
    "string": "string",
    "str": "string",
    "quantity": "quantity",
    "duration": "duration",
    "list": "list",
    "map": "map",
}
_BOUNDS = {
    "int": {"minimum", "maximum"},
    "float": {"minimum", "maximum"},
    "string": {"enum", "pattern", "max_length"},
}
_COMMON = {"type", "description", "default"}

_FIELD_DECLARATION = Section(
    also={"min": "minimum", "max": "maximum", "values": "items"},
    fields={
        "type": Text(description="int, float, bool, string, quantity, duration, list or map."),
        "description": Text(description="One sentence for help and documentation."),
        "default": Text(),  # any type: read by the field itself
        "minimum": Number(description="Smallest value, for int and float."),
        "maximum": Number(description="Largest value, for int and float."),
        "enum": ListOf(item=Text(), description="The words allowed, for string."),
        "pattern": Text(description="Regular expression the whole text must match, for string."),
        "max_length": Integer(minimum=1, maximum=65536, description="Most characters, for string."),
        "items": Text(description="Type of each entry, for list and map: int, float, bool, string, …"),
    },
)

KIND_DECLARATION = Section(
    fields={
        "number": Integer(minimum=FIRST_DECLARED_NUMBER, maximum=9999, description="Its number, from 10."),
        "noun": Text(pattern=names.DNS_LABEL, rule=names.DNS_LABEL_RULE, description="Its command-line word."),
        "description": Text(description="One sentence for help and documentation."),
        "levels": ListOf(item=Text(), description="Where it may be set; 'all' or a list of levels."),
        "merge": Choice(words=tuple(merge.value for merge in Merge), description="How rows join: replace or leaf."),
        "fields": MapOf(value=Text(), description="Its fields by name."),
    },
)


def registry(declarations: Mapping[str, Any]) -> Kinds:
    """Every kind of an admin: the built-in ones, adjusted and joined by what configuration declares."""
    problems: list[Problem] = []
    kinds = {kind.name: kind for kind in BUILTIN_KINDS}
    for name, declaration in declarations.items():
        try:
            kinds[name] = _adjusted(kinds[name], declaration) if name in kinds else _declared(name, declaration)
        except Invalid as invalid:
            problems += [_under(f"kinds.{name}", problem) for problem in invalid.problems]
    problems += _clashes(kinds.values())
    if problems:
        raise Invalid(*problems)
    return Kinds(kinds.values())


def _under(prefix: str, problem: Problem) -> Problem:
    return replace(problem, field=f"{prefix}.{problem.field}".rstrip("."))


def _adjusted(kind: Kind, declaration: Any) -> Kind:
    """A built-in kind; only its merge rule may be changed."""
    given = read(Section(fields={"merge": KIND_DECLARATION.fields["merge"]}), declaration)
    merge = Merge(given.get("merge") or kind.merge.value)
    if merge is Merge.LEAF and kind.payload.exclusive:
        choices = " and ".join(kind.payload.exclusive)
        raise Invalid(Problem(field="merge", reason=f"{choices} exclude each other, so rows can only replace."))
    return replace(kind, merge=merge)


def _declared(name: str, declaration: Any) -> Kind:
    problems: list[Problem] = []
    if not names.matches(names.KIND_NAME, name):
        problems.append(Problem(field="", reason=f"'{name}' is not a kind name: use {names.KIND_NAME_RULE}."))
    shape = Section(
        fields={key: item for key, item in KIND_DECLARATION.fields.items() if key not in ("levels", "fields")}
    )
    raw = declaration if isinstance(declaration, dict) else {}
    given = shape.read({key: raw[key] for key in raw if key not in ("levels", "fields")}, (), problems)
    if not isinstance(declaration, dict):
        problems.append(Problem(field="", reason="is not a mapping: give number, fields, merge and levels."))
    if raw.get("number") is None:
        problems.append(Problem(field="number", reason=f"is missing: choose one from {FIRST_DECLARED_NUMBER} on."))
    fields = dict(_fields(raw.get("fields"), problems))
    levels = _levels(raw.get("levels", "all"), problems)
    if problems:
        raise Invalid(*problems)
    payload = Section(fields=fields)
    return Kind(
        number=given["number"],
        name=name,
        noun=given.get("noun") or noun_of(name),
        payload_key=name.lower(),
        payload=payload,
        description=given.get("description") or f"{name}, declared by the platform team.",
        example=_example(fields),
        levels=levels,
        merge=Merge(given.get("merge") or Merge.REPLACE.value),
        declared=True,
    )


def _levels(given: Any, problems: list[Problem]) -> tuple[Level, ...]:
    if given == "all":
        return STORED_LEVELS
    words = {level.value: level for level in STORED_LEVELS}
    if not isinstance(given, list) or not given:
        problems.append(Problem(field="levels", reason=f"give 'all' or a list of {', '.join(words)}."))
        return ()
    for word in given:
        if str(word).replace("_", "-").replace(" ", "-") not in words:
            problems.append(Problem(field="levels", reason=unknown_word("level", str(word), words)))
    chosen = {str(word).replace("_", "-").replace(" ", "-") for word in given}
    return tuple(level for level in STORED_LEVELS if level.value in chosen)


def _fields(given: Any, problems: list[Problem]) -> Iterator[tuple[str, Field]]:
    if not isinstance(given, dict) or not given:
        problems.append(Problem(field="fields", reason="is missing: a kind needs at least one field with its type."))
        return
    for name, declaration in given.items():
        where = f"fields.{name}"
        if not isinstance(name, str) or not names.matches(names.FIELD_NAME, name):
            reason = f"'{name}' is not a field name: use {names.FIELD_NAME_RULE}."
            problems.append(Problem(field=where, reason=reason))
            continue
        if name in _TAKEN_FIELDS:
            reason = f"'{name}' means something else in attribute files; choose another name."
            problems.append(Problem(field=where, reason=reason))
        try:
            yield name, _field({"type": declaration} if isinstance(declaration, str) else declaration)
        except Invalid as invalid:
            problems += [_under(where, problem) for problem in invalid.problems]


def _field(declaration: Any) -> Field:
    problems: list[Problem] = []
    raw = dict(declaration) if isinstance(declaration, dict) else {}
    default = raw.pop("default", None)
    given = _FIELD_DECLARATION.read(raw if isinstance(declaration, dict) else declaration, (), problems)
    if problems:
        raise Invalid(*problems)
    word = given.get("type") or ("string" if "enum" in given else None)
    if word not in _TYPES:
        raise Invalid(Problem(field="type", reason=unknown_word("type", str(word), _TYPES)))
    kind = _TYPES[word]
    for key in given.keys() - _COMMON - _BOUNDS.get(kind, set()) - ({"items"} if kind in ("list", "map") else set()):
        raise Invalid(Problem(field=key, reason=f"has no meaning for the type {kind}."))
    leaf = _leaf(kind, given)
    if default is None:
        return leaf
    if not isinstance(leaf, Leaf):
        raise Invalid(Problem(field="default", reason="a map has no default."))
    read_default = leaf.read(default, ("default",), problems)
    if problems:
        raise Invalid(*problems)
    return replace(leaf, default=read_default)


def _leaf(kind: str, given: dict[str, Any]) -> Field:
    description = given.get("description") or ""
    if kind in ("int", "float"):
        return _number(kind, given, description)
    if kind == "string":
        return _text(given, description)
    if kind in ("list", "map"):
        item = _field({"type": given.get("items") or "string"})
        if not isinstance(item, Leaf) or isinstance(item, ListOf):
            raise Invalid(Problem(field="items", reason="lists and maps hold plain values only."))
        return (
            ListOf(item=item, description=description) if kind == "list" else MapOf(value=item, description=description)
        )
    simple: dict[str, type[Leaf]] = {"bool": Boolean, "quantity": Quantity, "duration": Duration}
    return simple[kind](description=description)


def _number(kind: str, given: dict[str, Any], description: str) -> Leaf:
    kwargs: dict[str, Any] = {key: given[key] for key in ("minimum", "maximum") if given.get(key) is not None}
    if kind == "int" and any(bound != int(bound) for bound in kwargs.values()):
        raise Invalid(Problem(field="minimum", reason="the bounds of an int are whole numbers."))
    bounds = {key: int(bound) if kind == "int" else bound for key, bound in kwargs.items()}
    leaf: Integer | Number = (
        Integer(description=description, **bounds) if kind == "int" else Number(description=description, **bounds)
    )
    if leaf.minimum > leaf.maximum:
        raise Invalid(Problem(field="minimum", reason="is above maximum."))
    return leaf


def _text(given: dict[str, Any], description: str) -> Leaf:
    if given.get("enum"):
        return Choice(words=tuple(given["enum"]), description=description)
    pattern = given.get("pattern")
    if pattern is None:
        return Text(description=description, max_length=given.get("max_length") or 4096)
    if names.pattern_error(pattern):
        raise Invalid(Problem(field="pattern", reason=f"is not a regular expression: {names.pattern_error(pattern)}."))
    return Text(
        description=description,
        max_length=given.get("max_length") or 4096,
        pattern=f"(?:{pattern})",
        rule=f"text that matches {pattern}",
    )


def _example(fields: Mapping[str, Field]) -> dict[str, Any]:
    return {name: _sample(item) for name, item in fields.items()}


def _sample(item: Field) -> Any:
    """Some valid value of a field, to show in help."""
    if isinstance(item, Leaf) and item.default is not None:
        return item.default
    match item:
        case Integer() | Number():
            return min(max(item.minimum, 0), item.maximum)
        case Choice():
            return item.words[0]
        case ListOf():
            return [_sample(item.item)]
        case MapOf():
            return {"name": _sample(item.value)}
        case Boolean():
            return True
        case Duration():
            return "600s"
        case Quantity():
            return "1"
    return "text"


def _clashes(kinds: Iterable[Kind]) -> Iterator[Problem]:
    """Two kinds that could not be told apart, or one from another thing."""
    for kind in kinds:
        if kind.noun in _TAKEN_NOUNS:
            yield Problem(
                field=f"kinds.{kind.name}.noun", reason=f"'{kind.noun}' means something else; choose another."
            )
    for attribute in ("number", "noun", "payload_key"):
        seen: dict[Any, str] = {}
        for kind in kinds:
            value = getattr(kind, attribute)
            if value in seen:
                reason = f"{value} is taken by {seen[value]}; choose another."
                yield Problem(field=f"kinds.{kind.name}.{attribute}", reason=reason)
            seen[value] = kind.name
