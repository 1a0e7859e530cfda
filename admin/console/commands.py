"""How pages say to rainbowctl which executions are meant, and to REST what its users search for."""

from __future__ import annotations

from collections.abc import Mapping

from admin.core.executions.selectors import MOST_FILTER_LENGTH, filter_parts, quoted_value
from admin.core.names import camel
from admin.core.problems import invalid

_FLAGGED = (
    *("phase", "reason", "cause", "cluster", "pool", "label", "workflow", "launch_plan", "version", "origin"),
    *("origin_scope", "limit_scope", "created_by", "state"),
)
#: The selector fields of REST for which `rainbowctl get execution` has a flag of its own.
_FLAGS = {
    "project": "-p",
    "domain": "-d",
    "created_after": "--since",
    **{name: f"--{camel(name)}" for name in _FLAGGED},
}
#: How a field selector of rainbowctl writes the functions of filters.
_SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "contains": " contains "}
_LISTS = {"value_in": "in", "value_not_in": "not in"}
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\,;=<>()"})


def selector_options(selector: Mapping[str, str], *, has_flags: bool = True) -> list[str]:
    """A selector of REST as options of rainbowctl; without `has_flags`, as a field selector alone."""
    flags = _FLAGS if has_flags else {}
    options = [word for name, value in selector.items() if name in flags for word in (flags[name], value)]
    terms = [
        term
        for name, value in selector.items()
        if name not in flags
        for term in (_filter_terms(value) if name == "filters" else [_plain_term(name, value)])
    ]
    return [*options, "--filter.fieldSelector", ",".join(terms)] if terms else options


def search_filters(filters: str | None, search: str | None) -> str | None:
    """The filters of REST with what is searched for in names; Invalid naming the field of the search."""
    search = (search or "").strip()
    if not search:
        return filters
    if "\0" in search:
        raise invalid("search", "holds a character that no name has.")
    both = "+".join(filter(None, [filters, f"contains(name,{quoted_value(search)})"]))
    if len(both) > MOST_FILTER_LENGTH:
        raise invalid("search", "is too long: a part of the name is enough.")
    return both


def escaped_value(value: str) -> str:
    """Any text as a value of a field selector."""
    return value.translate(_SPECIAL)


def _plain_term(name: str, value: str) -> str:
    if name in ("created_after", "created_before"):
        return _term("gte" if name == "created_after" else "lt", "created_at", [value])
    values = [part.strip() for part in value.split(",")]
    return _term("value_in" if len(values) > 1 else "eq", name, values)


def _filter_terms(filters: str) -> list[str]:
    return [_term(*parts) for parts in filter_parts(filters)]


def _term(function: str, field: str, values: list[str]) -> str:
    written = [escaped_value(value) for value in values]
    if function in _LISTS:
        return f"{field} {_LISTS[function]} ({';'.join(written)})"
    return f"{field}{_SIGNS.get(function, '=')}{';'.join(written)}"
