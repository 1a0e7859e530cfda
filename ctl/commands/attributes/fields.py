"""Edits of one row: a new payload, or changes of single leaves; and the flags for the fields of a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ctl.cli.options import Option
from ctl.client.answers import Change
from ctl.client.errors import InvalidInput
from ctl.client.kinds import Kind, Schema
from ctl.client.schemas import (
    NULLS,
    Field,
    allowed_values,
    fields,
    find_leaf,
    key_property,
    scalar,
    shape_of,
    type_name,
    types,
    value_property,
)
from ctl.client.scopes import Scope
from ctl.client.words import listed, parse_pair, sentence, spellings

if TYPE_CHECKING:
    from ctl.client.client import Client

_METAVARS = {"integer": "INTEGER", "number": "NUMBER", "boolean": "true|false", "object": "YAML", "objects": "YAML"}


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A change of one row: `payload` replaces it, the others change single leaves."""

    payload: Mapping[str, Any] | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    unset: Sequence[str] = ()
    inherit: Sequence[str] = ()

    def send(self, client: Client, kind: Kind, scope: Scope, **conditions: Any) -> Change:
        """Write it, or try it with `dry_run=True`; `conditions` are those of `Client.put_attribute`."""
        if self.payload is not None:
            return client.put_attribute(kind, scope, self.payload, **conditions)
        return client.patch_attribute(kind, scope, set=self.set, unset=self.unset, inherit=self.inherit, **conditions)


def leaf_options(kind: Kind, taken: set[str]) -> list[click.Parameter]:
    """
    A flag for every field of a kind, by its dotted path in each spelling.

    Spellings that are flags of the command itself are left out; `--set` reaches such a field.
    """
    options: list[click.Parameter] = []
    for entry in fields(kind.schema):
        names = [f"--{word}" for word in spellings(entry.path) if f"--{word}" not in taken]
        if names:
            options.append(
                Option(
                    [*names, parameter_name(entry.path)],
                    metavar=_metavar(entry),
                    multiple=entry.shape in {"list", "map", "keyed", "objects"},
                    help=_help(entry),
                )
            )
    return options


def parameter_name(path: str) -> str:
    """The name click passes a field's flag by."""
    return "leaf_" + path.replace(".", "__").lower()


def edit_from_flags(kind: Kind, values: Mapping[str, Any]) -> Edit:
    """The edit that leaf flags, --set, --unset and --inherit ask for together."""
    changes: dict[str, Any] = {}
    for entry in fields(kind.schema):
        typed = values.get(parameter_name(entry.path))
        if typed is not None and typed != ():
            _assign(changes, entry, _typed_value(entry, typed, f"--{entry.path}"))
    for text in values.get("set_path") or ():
        _set_by_path(kind, changes, text)
    unset = [_leaf(kind, "--unset", path) for path in values.get("unset") or ()]
    inherit = [_leaf(kind, "--inherit", path) for path in values.get("inherit") or ()]
    both = [path for path in unset if path in inherit]
    if both:
        raise InvalidInput(f"{listed(both)} cannot be unset and inherited at once.")
    return Edit(set=changes, unset=tuple(unset), inherit=tuple(inherit))


def _metavar(entry: Field) -> str:
    if entry.is_pairs:
        return "KEY=VALUE"
    if entry.shape == "keyed":
        return "YAML"
    if entry.schema.get("enum"):
        return "|".join(str(member) for member in entry.schema["enum"] if member is not None)
    return _METAVARS.get(entry.shape, str(entry.schema.get("x-rainbow-type", "text")).upper())


def _help(entry: Field) -> str:
    text = str(entry.schema.get("description", "")) or type_name(entry).capitalize() + "."
    if not entry.schema.get("enum") and (allowed := allowed_values(entry.schema)):
        text += f" {allowed.capitalize()}."
    if entry.shape in {"list", "map", "keyed", "objects"}:
        text += " Repeatable."
    if entry.leaf != entry.path:
        text += f" Part of {entry.leaf}, which is replaced as a whole."
    return text


def _typed_value(entry: Field, typed: Any, flag: str) -> Any:
    """The value of a field; `flag` is what was typed for it, which errors name."""
    if entry.shape == "map":
        inner = entry.schema["additionalProperties"]
        return {key: _scalar(flag, inner, value) for key, value in (_pair(flag, text) for text in typed)}
    if entry.is_pairs:
        key_name, value_name = str(key_property(entry.schema)), str(value_property(entry.schema))
        inner = entry.schema["items"]["properties"][value_name]
        pairs = (_pair(flag, text) for text in typed)
        return [{key_name: key, value_name: _scalar(flag, inner, value)} for key, value in pairs]
    if entry.shape in {"keyed", "objects"}:
        return [_flow(flag, entry.schema["items"], text) for text in typed]
    if entry.shape == "object":
        return _flow(flag, entry.schema, typed)
    if entry.shape == "list":
        return [_scalar(flag, entry.schema["items"], text) for text in typed]
    _check_null(entry, typed, flag)
    return _scalar(flag, entry.schema, typed)


def _check_null(entry: Field, typed: str, flag: str) -> None:
    """Refuse what means null in files, for on the command line another flag unsets a field."""
    is_empty_text = typed == "" and entry.schema.get("minLength") == 0
    if typed not in NULLS or "null" not in types(entry.schema) or is_empty_text:
        return
    reason = "is empty" if typed == "" else f"{typed} is no value"
    text = f" A file takes {typed!r} in quotes as text." if typed and entry.shape == "text" else ""
    raise InvalidInput(
        f"{flag} {reason}: give one, or --unset {entry.leaf} to unset it, or --inherit {entry.leaf} to "
        f"inherit it.{text}"
    )


def _pair(flag: str, text: str) -> tuple[str, str]:
    try:
        return parse_pair(text)
    except ValueError as error:
        raise InvalidInput(sentence(f"{flag} {error}")) from None


def _scalar(flag: str, schema: Schema | bool, text: str) -> Any:
    try:
        return scalar(schema if isinstance(schema, Mapping) else {}, text)
    except ValueError as error:
        raise InvalidInput(sentence(f"{flag} {error}")) from None


def _flow(flag: str, schema: Schema, text: str) -> Any:
    from ctl.files.attributes import parse_flow

    return parse_flow(text, schema, flag)


def _assign(changes: dict[str, Any], entry: Field, value: Any) -> None:
    *branches, name = entry.path.split(".")
    for branch in branches:
        changes = changes.setdefault(branch, {})
    earlier = changes.get(name)
    if isinstance(earlier, dict) and isinstance(value, dict):
        earlier.update(value)
    elif entry.shape == "keyed" and isinstance(earlier, list):
        earlier.extend(value)
    else:
        changes[name] = value


def _leaf(kind: Kind, flag: str, typed: str) -> str:
    try:
        return find_leaf(kind.schema, typed)
    except ValueError as error:
        raise InvalidInput(sentence(f"{flag}: {error}")) from None


def _set_by_path(kind: Kind, changes: dict[str, Any], text: str) -> None:
    path, value = _pair("--set", text)
    leaf = _leaf(kind, "--set", path)
    flag = f"--set {leaf}"
    entry = next(entry for entry in fields(kind.schema) if leaf == entry.path or leaf.startswith(f"{entry.path}."))
    key = leaf[len(entry.path) + 1 :]
    if entry.is_pairs:
        _assign(changes, entry, _typed_value(entry, [f"{key}={value}"], flag))
    elif entry.shape == "keyed":
        item = _flow(flag, {**entry.schema["items"], "required": []}, value)
        _assign(changes, entry, [{str(key_property(entry.schema)): key, **item}])
    elif shape_of(entry.schema) in {"list", "objects"}:
        _assign(changes, entry, _flow(flag, entry.schema, value))
    else:
        _assign(changes, entry, _typed_value(entry, value, flag))
