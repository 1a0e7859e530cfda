"""Forms of settings: the fields that the schema of a kind's payload gives, and the change that a form asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from admin.configuration.yaml_files import read_text as read_yaml
from admin.console.filters import compact
from admin.core.problems import Invalid, Problem, dotted, raise_problems

Schema = Mapping[str, Any]

INHERIT, SET, UNSET = "inherit", "set", "unset"
#: Of a text that is YAML or JSON.
_MOST_CHARACTERS = 64 * 1024
#: Empty entries of a map or keyed list that a form offers.
_BLANKS = 2


@dataclass(frozen=True, kw_only=True)
class FormField:
    """One leaf of a payload in a form, or an entry that may be added to a map."""

    path: str  #: dotted; of an entry to be added that of its map
    type: str  #: how it is written: text, number, choice, lines or document
    state: str = INHERIT
    text: str = ""
    words: tuple[str, ...] = ()
    description: str = ""
    takes_null: bool = True
    is_new: bool = False  #: an entry that may be added
    key: str = ""  #: of such an entry, as it was typed
    key_name: str = "name"  #: what such a key is
    above: Any = None  #: what it has where it is inherited, with its origin
    problems: list[str] = field(default_factory=list)


def fields_of(schema: Schema, payload: Any, above: Mapping[str, Any]) -> list[FormField]:
    """The fields of a form for a row; `above` has the leaves of the effective value by path, as answers have them."""
    return list(_walk(schema, payload, (), above))


def _walk(schema: Schema, value: Any, path: tuple[str, ...], above: Mapping[str, Any]) -> Iterator[FormField]:
    if _is_section(schema):
        held = value if isinstance(value, dict) else {}
        for name, part in schema["properties"].items():
            yield from _walk(part, held.get(name, _ABSENT), (*path, name), above)
    elif _entry_schema(schema) is not None:
        yield from _entries(schema, value, path, above)
    else:
        yield _leaf(schema, value, dotted(path), above)


#: What a payload has where a leaf is inherited; null unsets it.
_ABSENT = object()


def _is_section(schema: Schema) -> bool:
    return "properties" in schema and not schema.get("x-rainbow-leaf")


def _entry_schema(schema: Schema) -> Schema | None:
    """The schema of the entries of a map or keyed list; None of all others."""
    if "x-rainbow-keyed-by" in schema:
        parts = {name: part for name, part in schema["items"]["properties"].items() if name != _key_of(schema)}
        # An entry with one field beside its key is written as that field.
        nullable = ["object", "null"]
        return next(iter(parts.values())) if len(parts) == 1 else {**schema["items"], "type": nullable}
    if isinstance(schema.get("additionalProperties"), Mapping) and not schema.get("x-rainbow-leaf"):
        return schema["additionalProperties"]  # type: ignore[no-any-return]
    return None


def _key_of(schema: Schema) -> str:
    return str(schema.get("x-rainbow-keyed-by", "name"))


def _entries(schema: Schema, value: Any, path: tuple[str, ...], above: Mapping[str, Any]) -> Iterator[FormField]:
    """The entries that the row has and those that it inherits, and empty ones."""
    entry = _entry_schema(schema)
    assert entry is not None
    held = _held(schema, value)
    start = f"{dotted(path)}."
    inherited = [name.removeprefix(start) for name in above if name.startswith(start)]
    for key in dict.fromkeys([*held, *inherited]):
        yield _leaf(entry, held.get(key, _ABSENT), start + key, above)
    for number in range(_BLANKS):
        described = {**entry, "description": "" if number else schema.get("description", "")}
        yield replace(_leaf(described, _ABSENT, dotted(path), {}), is_new=True, key_name=_key_of(schema))


def _held(schema: Schema, value: Any) -> dict[str, Any]:
    """The entries of a map or keyed list by their keys."""
    if isinstance(value, dict):
        return value
    held: dict[str, Any] = {}
    for entry in value if isinstance(value, list) else ():
        key = _key_of(schema)
        rest = {name: part for name, part in entry.items() if name != key}
        others = [name for name in schema["items"]["properties"] if name != key]
        is_unset = any(part is None for part in rest.values())
        held[entry[key]] = None if is_unset else rest.get(others[0]) if len(others) == 1 else rest
    return held


def _types(schema: Schema) -> list[str]:
    types = schema.get("type", "string")
    return [types] if isinstance(types, str) else list(types)


def _leaf(schema: Schema, value: Any, path: str, above: Mapping[str, Any]) -> FormField:
    types = _types(schema)
    words: tuple[str, ...] = tuple(word for word in schema.get("enum", ()) if isinstance(word, str))
    kind = "text"
    if words:
        kind = "choice"
    elif "boolean" in types:
        kind, words = "choice", ("true", "false")
    elif "array" in types:
        kind = "document" if "object" in _types(schema.get("items", {})) else "lines"
    elif "object" in types:
        kind = "document"
    elif not {"string"} & set(types):
        kind = "number"
    state = INHERIT if value is _ABSENT else UNSET if value is None else SET
    inherited = above.get(path) if state == INHERIT else None
    return FormField(
        path=path,
        type=kind,
        state=state,
        text=write_text(kind, value) if state == SET else "",
        words=words,
        description=schema.get("description", ""),
        takes_null="null" in types,
        above=inherited,
    )


def write_text(kind: str, value: Any) -> str:
    """A value as a form has it."""
    if kind == "lines" and isinstance(value, list):
        return "\n".join(map(compact, value))
    return as_yaml(value) if kind == "document" else compact(value)


def as_yaml(value: Any) -> str:
    """A value of any shape as YAML, to be edited."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return text.rstrip()


def sent_fields(form: Mapping[str, str], schema: Schema) -> list[FormField]:
    """The fields of a form as they were sent."""
    fields: list[FormField] = []
    for name, path in form.items():
        marker, _, number = name.partition(".")
        if marker not in ("path", "under"):
            continue
        is_new = marker == "under"
        key = form.get(f"key.{number}", "").strip() if is_new else ""
        part = _schema_at(schema, f"{path}.{key or 'name'}" if is_new else path)
        kind = _leaf(part, _ABSENT, path, {})
        text = form.get(f"value.{number}", "").replace("\r\n", "\n")
        state = form.get(f"state.{number}", SET if key or text else INHERIT)
        fields.append(replace(kind, is_new=is_new, key=key, state=state, text=text))
    return fields


def _schema_at(schema: Schema, path: str) -> Schema:
    """The schema of the leaf at a dotted path; Invalid for one that there is not."""
    while path:
        entry = _entry_schema(schema)
        if entry is not None:
            return entry  # all that remains is the key
        name, _, path = path.partition(".")
        if not _is_section(schema) or name not in schema["properties"]:
            raise Invalid(Problem(field=name, reason="is no field of this kind. Load the page again."))
        schema = schema["properties"][name]
    return schema


def patch_of(sent: Iterable[FormField], current: Iterable[FormField]) -> dict[str, Any]:
    """What a form changes of a row, as the body of a PATCH; Invalid with each field that cannot be read."""
    before = {entry.path: entry for entry in current if not entry.is_new}
    changed: dict[str, Any] = {}
    unset: list[str] = []
    inherit: list[str] = []
    problems: list[Problem] = []
    for entry in sent:
        path = f"{entry.path}.{entry.key}" if entry.is_new else entry.path
        was = before.get(path)
        if entry.is_new and not entry.key:
            if entry.text:
                problems.append(Problem(field=entry.path, reason=f"'{entry.text[:60]}' has no name: give it one."))
            continue
        if entry.state == INHERIT and entry.text and not (was and was.text == entry.text):
            reason = "has a value but stands on 'inherit': choose 'set', or empty it."
            problems.append(Problem(field=path, reason=reason))
        elif entry.state == SET and not (was and was.state == SET and was.text == entry.text):
            try:
                changed[path] = read_text(entry)
            except ValueError as error:
                problems.append(Problem(field=path, reason=str(error)))
        elif entry.state == UNSET and not (was and was.state == UNSET):
            unset.append(path)
        elif entry.state == INHERIT and was and was.state != INHERIT:
            inherit.append(path)
    raise_problems(problems)
    return {"set": changed, "unset": unset, "inherit": inherit}


def read_text(entry: FormField) -> Any:
    """The value that a field of a form has; what is no number stays text, which REST refuses by name."""
    match entry.type:
        case "lines":
            return [line.strip() for line in entry.text.split("\n") if line.strip()]
        case "document":
            return read_document(entry.text)
        case "choice" if entry.words == ("true", "false"):
            return {"true": True, "false": False}.get(entry.text, entry.text)
        case "number":
            return _read_number(entry.text.strip())
    return entry.text


def _read_number(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) and not isinstance(value, bool) else text


def check_length(text: str) -> None:
    """ValueError for a text that is too long to be read as YAML here: that takes seconds, in which others wait."""
    if len(text) > _MOST_CHARACTERS:
        reason = f"has {len(text):,} characters, more than {_MOST_CHARACTERS:,}"
        raise ValueError(f"{reason}: use rainbowctl, which reads files of any length.")


def read_document(text: str) -> Any:
    """A value written as YAML or JSON; ValueError where it is neither."""
    check_length(text)
    try:
        value = read_yaml(text)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise ValueError(f"is neither YAML nor JSON{where}: {getattr(error, 'problem', None) or 'too deep'}.") from None
    except UnicodeEncodeError:
        raise ValueError("has half a character: write both halves, or another character.") from None
    return value


def with_patch(fields: Iterable[FormField], patch: Mapping[str, Any]) -> list[FormField]:
    """The fields of a row with what a change wanted of it, so that it can be made again."""
    wanted = {**patch["set"], **dict.fromkeys(patch["unset"], _ABSENT), **dict.fromkeys(patch["inherit"])}
    shown: list[FormField] = []
    for entry in fields:
        if entry.path in patch["set"] and not entry.is_new:
            entry = replace(entry, state=SET, text=write_text(entry.type, wanted.pop(entry.path)))
        elif entry.path in patch["unset"]:
            entry = replace(entry, state=UNSET)
        elif entry.path in patch["inherit"]:
            entry = replace(entry, state=INHERIT, text="")
        elif entry.is_new:
            key = next((path for path in patch["set"] if path in wanted and path.startswith(f"{entry.path}.")), None)
            if key is not None:
                text = write_text(entry.type, wanted.pop(key))
                entry = replace(entry, state=SET, key=key.removeprefix(f"{entry.path}."), text=text)
        shown.append(entry)
    return shown


def with_problems(fields: Iterable[FormField], details: Iterable[Mapping[str, Any]]) -> list[FormField]:
    """The fields with what is wrong about each."""
    reasons: dict[str, list[str]] = {}
    for detail in details:
        if detail.get("field") and detail.get("reason"):
            reasons.setdefault(str(detail["field"]), []).append(str(detail["reason"]))

    def of(entry: FormField) -> list[str]:
        path = f"{entry.path}.{entry.key}" if entry.is_new and entry.key else entry.path
        is_own = not entry.is_new or entry.key or entry.text
        return [
            reason
            for name, of_field in reasons.items()
            for reason in of_field
            if is_own and (name == path or name.startswith(f"{path}."))
        ]

    return [replace(entry, problems=of(entry)) for entry in fields]
