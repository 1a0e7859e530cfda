"""What a file leaves empty: maps, lists and their entries, of which nobody can tell whether they were forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from admin.configuration.keys import ByDomain, TemplateData
from admin.core.fields.branches import Branch, KeyedList, MapOf, Section
from admin.core.fields.compounds import FreeForm, ListOf, Record
from admin.core.fields.leaves import Boolean, Field, Text, known_keys
from admin.core.problems import Path, Problem, dotted, shorten

_COMPOUND = (Branch, Record, ListOf, FreeForm, TemplateData)


def empty_problems(field: Field, value: Any, path: Path = ()) -> Iterator[Problem]:
    """A problem for each map, list and entry of one that is null; a single value of a section may be."""
    if isinstance(field, Section | Record):
        also = field.also if isinstance(field, Section) else None
        known = known_keys(value, field.fields, path, [], also) if isinstance(value, dict) else {}
        for name, item in known.items():
            inner = field.fields[name]
            if item is None and isinstance(inner, _COMPOUND):
                reason = "is left empty: write what is below it, or remove the line to keep the default."
                yield Problem(field=dotted((*path, name)), reason=reason)
            else:
                yield from empty_problems(inner, item, (*path, name))
        return
    for name, item, inner in _entries(field, value):
        if item is None:
            reason = "is left empty: give a value, or remove the entry."
            yield Problem(field=dotted((*path, name)), reason=reason)
        else:
            yield from empty_problems(inner, item, (*path, name))


def _entries(field: Field, value: Any) -> Iterable[tuple[str, Any, Field]]:
    """The entries of a map or list, each with its key or position and its field."""
    numbered = [(str(position), item) for position, item in enumerate(value)] if isinstance(value, list) else []
    named = [
        (shorten(str(name)), item)
        for mapping in (value if isinstance(value, list) else [value])
        if isinstance(mapping, dict)
        for name, item in mapping.items()
    ]
    match field:
        case ListOf():
            return [(position, item, field.item) for position, item in numbered]
        case KeyedList() if isinstance(value, list):
            return [(position, item, FreeForm()) for position, item in numbered]
        case KeyedList():
            return [(name, item, Text()) for name, item in named]
        case FreeForm() if isinstance(value, list):
            return [(position, item, field) for position, item in numbered]
        case FreeForm():
            return [(name, item, field) for name, item in named]
        case MapOf():
            return [(name, item, field.value) for name, item in named]
        case TemplateData():
            return [(name, item, Text()) for name, item in named]
        case ByDomain():
            return [(name, item, Boolean()) for name, item in named]
    return []
