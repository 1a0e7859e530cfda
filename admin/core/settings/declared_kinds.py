"""Kinds that a platform team declares in configuration, checked and turned into registry entries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from admin.core import names
from admin.core.fields.branches import MapOf, Section, read
from admin.core.fields.compounds import ListOf
from admin.core.fields.leaves import DNS_LABEL, Boolean, Choice, Duration, Field, Integer, Leaf, Number, Quantity, Text
from admin.core.problems import (
    Invalid,
    Problem,
    add_problem,
    dotted,
    invalid,
    raise_problems,
    unknown_problem,
)
from admin.core.settings.builtin_kinds import BUILTIN_KINDS
from admin.core.settings.kinds import Kind, Kinds, Merge
from admin.core.settings.scopes import STORED_LEVELS, Level

FIRST_DECLARED_NUMBER = 10

#: Words that the command line uses for other things; a test compares them with the nouns of `rainbowctl`.
TAKEN_NOUNS = frozenset(
    {"access", "audit", "cluster-group", "grant", "group", "role", "use-grant"}
    | {
        "admin-config",
        "all",
        "clock",
        "cluster",
        "cluster-description",
        "cluster-event",
        "cluster-resources",
        "cluster-state",
        "context",
        "domain",
        "event",
        "health",
    }
    | {"execution", "execution-event", "kind", "label", "launchplan", "no-effect", "output", "placement"}
    | {"placement-counts", "pool", "project", "reconciliation", "revision", "service-account", "task", "token"}
    | {"scope", "session", "token-pool"}
    | {"user", "user-token", "warnings", "workflow"}
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
_PARAMETERS = {
    "int": {"minimum", "maximum"},
    "float": {"minimum", "maximum"},
    "string": {"enum", "pattern", "max_length"},
    "list": {"items"},
    "map": {"items"},
}
_COMMON = {"type", "description", "default"}
#: The types without parameters.
_PLAIN: dict[str, type[Leaf]] = {"bool": Boolean, "quantity": Quantity, "duration": Duration}

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

#: All of a declaration but its levels and fields.
_KIND_DECLARATION = Section(
    fields={
        "number": Integer(minimum=FIRST_DECLARED_NUMBER, maximum=9999, description="Its number, from 10."),
        "noun": replace(DNS_LABEL, description="Its command-line word."),
        "description": Text(description="One sentence for help and documentation."),
        "merge": Choice(words=(Merge.REPLACE.value, Merge.LEAF.value), description="How rows join: replace or leaf."),
    },
)


def registry(declarations: Mapping[str, Any]) -> Kinds:
    """Every kind of an admin: the built-in ones, as configuration adjusts them, and the declared ones."""
    problems: list[Problem] = []
    kinds = {kind.name: kind for kind in BUILTIN_KINDS}
    for name, declaration in declarations.items():
        try:
            kinds[name] = _adjust(kinds[name], declaration) if name in kinds else _declare(name, declaration)
        except Invalid as error:
            problems += [_under(f"kinds.{name}", problem) for problem in error.problems]
    raise_problems([*problems, *_clashes(kinds.values())])
    return Kinds(kinds.values())


def _under(prefix: str, problem: Problem) -> Problem:
    return replace(problem, field=f"{prefix}.{problem.field}".rstrip("."))


def _adjust(kind: Kind, declaration: Any) -> Kind:
    """A built-in kind with the merge rule that configuration gives it; nothing else may be changed."""
    adjusted = read(Section(fields={"merge": _KIND_DECLARATION.fields["merge"]}), declaration)
    merge = Merge(adjusted.get("merge") or kind.merge.value)
    if kind.is_quota and merge is not kind.merge:
        raise invalid("merge", "every row of a quota holds, so none can replace another: leave it out.")
    if merge is Merge.LEAF and kind.payload.exclusive:
        choices = " and ".join(kind.payload.exclusive)
        raise invalid("merge", f"{choices} exclude each other, so rows can only replace.")
    return replace(kind, merge=merge)


def _declare(name: str, declaration: Any) -> Kind:
    problems: list[Problem] = []
    if not names.matches(names.KIND_NAME, name):
        add_problem(problems, (), f"'{name}' is not a kind name: use {names.KIND_NAME_RULE}.")
    document = declaration if isinstance(declaration, dict) else {}
    head = {key: value for key, value in document.items() if key not in ("levels", "fields")}
    entries = _KIND_DECLARATION.read(head, (), problems)
    if not isinstance(declaration, dict):
        add_problem(problems, (), "is not a mapping: give number, fields, merge and levels.")
    if document.get("number") is None:
        add_problem(problems, ("number",), f"is missing: choose one from {FIRST_DECLARED_NUMBER} on.")
    fields = dict(_read_fields(document.get("fields"), problems))
    levels = _read_levels(document.get("levels", "all"), problems)
    raise_problems(problems)
    return Kind(
        number=entries["number"],
        name=name,
        noun=entries.get("noun") or re.sub(r"_+", "-", name.lower()).strip("-"),
        payload_key=name.lower(),
        payload=Section(fields=fields),
        description=entries.get("description") or f"{name}, declared by the platform team.",
        example={field_name: _sample(field) for field_name, field in fields.items()},
        levels=levels,
        merge=Merge(entries.get("merge") or Merge.REPLACE.value),
        declared=True,
    )


def _read_levels(words: Any, problems: list[Problem]) -> tuple[Level, ...]:
    if words == "all":
        return STORED_LEVELS
    names = [level.value for level in STORED_LEVELS]
    if not isinstance(words, list) or not words:
        add_problem(problems, ("levels",), f"give 'all' or a list of {', '.join(names)}.")
        return ()
    spelled = {str(word): str(word).replace("_", "-").replace(" ", "-") for word in words}
    for word, level in spelled.items():
        if level not in names:
            problems.append(unknown_problem("levels", "level", word, names))
    return tuple(level for level in STORED_LEVELS if level.value in spelled.values())


def _read_fields(declarations: Any, problems: list[Problem]) -> Iterator[tuple[str, Field]]:
    if not isinstance(declarations, dict) or not declarations:
        add_problem(problems, ("fields",), "is missing: a kind needs at least one field with its type.")
        return
    for name, declaration in declarations.items():
        where = ("fields", str(name))
        if not isinstance(name, str) or not names.matches(names.FIELD_NAME, name):
            add_problem(problems, where, f"'{name}' is not a field name: use {names.FIELD_NAME_RULE}.")
            continue
        if name in _TAKEN_FIELDS:
            add_problem(problems, where, f"'{name}' means something else in attribute files; choose another name.")
        try:
            yield name, _read_field({"type": declaration} if isinstance(declaration, str) else declaration)
        except Invalid as error:
            problems += [_under(dotted(where), problem) for problem in error.problems]


def _read_field(declaration: Any) -> Field:
    default = None
    if isinstance(declaration, dict):  # a default is of the field's own type, and read by the field
        default = declaration.get("default")
        declaration = {key: value for key, value in declaration.items() if key != "default"}
    entries = read(_FIELD_DECLARATION, declaration)
    word = entries.get("type") or ("string" if "enum" in entries else None)
    if word not in _TYPES:
        raise Invalid(unknown_problem("type", "type", str(word), _TYPES))
    type_ = _TYPES[word]
    for key in entries.keys() - _COMMON - _PARAMETERS.get(type_, set()):
        raise invalid(key, f"has no meaning for the type {type_}.")
    field = _build_field(type_, entries)
    if default is None:
        return field
    if not isinstance(field, Leaf):
        raise invalid("default", "a map has no default.")
    return replace(field, default=read(field, default, ("default",)))


def _build_field(type_: str, entries: dict[str, Any]) -> Field:
    description = entries.get("description") or ""
    match type_:
        case "int" | "float":
            return _build_number(type_, entries, description)
        case "string":
            return _build_text(entries, description)
        case "bool" | "quantity" | "duration":
            return _PLAIN[type_](description=description)
    item = _read_field({"type": entries.get("items") or "string"})
    if not isinstance(item, Leaf) or isinstance(item, ListOf):
        raise invalid("items", "lists and maps hold plain values only.")
    if type_ == "list":
        return ListOf(item=item, description=description)
    return MapOf(value=item, description=description)


def _build_number(type_: str, entries: dict[str, Any], description: str) -> Leaf:
    bounds = {key: entries[key] for key in ("minimum", "maximum") if entries.get(key) is not None}
    if type_ == "int" and any(bound != int(bound) for bound in bounds.values()):
        raise invalid("minimum", "the bounds of an int are whole numbers.")
    leaf: Integer | Number = Number(description=description, **bounds)
    if type_ == "int":
        leaf = Integer(
            description=description,
            minimum=int(bounds.get("minimum", Integer.minimum)),
            maximum=int(bounds.get("maximum", Integer.maximum)),
        )
    if leaf.minimum > leaf.maximum:
        raise invalid("minimum", "is above maximum.")
    return leaf


def _build_text(entries: dict[str, Any], description: str) -> Leaf:
    if entries.get("enum"):
        return Choice(words=tuple(entries["enum"]), description=description)
    text = Text(description=description, max_length=entries.get("max_length") or 4096)
    pattern = entries.get("pattern")
    if pattern is None:
        return text
    try:
        re.compile(pattern)
    except re.error as error:
        raise invalid("pattern", f"is not a regular expression: {error}.") from None
    return replace(text, pattern=f"(?:{pattern})", rule=f"text that matches {pattern}")


def _sample(field: Field) -> Any:
    """A valid value of a field, for the kind's example."""
    if isinstance(field, Leaf) and field.default is not None:
        return field.default
    match field:
        case Integer() | Number():
            return min(max(field.minimum, 0), field.maximum)
        case Choice():
            return field.words[0]
        case ListOf():
            return [_sample(field.item)]
        case MapOf():
            return {"name": _sample(field.value)}
        case Boolean():
            return True
        case Duration():
            return "600s"
        case Quantity():
            return "1"
    return "text"


def _clashes(kinds: Iterable[Kind]) -> Iterator[Problem]:
    """Kinds with the number, noun or payload key of another, and nouns that the command line uses otherwise."""
    for kind in kinds:
        if kind.noun in TAKEN_NOUNS:
            reason = f"'{kind.noun}' means something else; choose another."
            yield Problem(field=f"kinds.{kind.name}.noun", reason=reason)
    for attribute in ("number", "noun", "payload_key"):
        seen: dict[Any, str] = {}
        for kind in kinds:
            value = getattr(kind, attribute)
            if value in seen:
                reason = f"{value} is taken by {seen[value]}; choose another."
                yield Problem(field=f"kinds.{kind.name}.{attribute}", reason=reason)
            seen[value] = kind.name
