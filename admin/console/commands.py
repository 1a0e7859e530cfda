"""How pages say to rainbowctl which executions are meant, and to REST what its users search for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

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


def sort_options(query: Mapping[str, str]) -> list[str]:
    """The order of a list as options of rainbowctl, which sorts newest first unless it is told otherwise."""
    key = query.get("sort_by.key")
    is_ascending = query.get("sort_by.direction") == "ASCENDING"
    return [*(["--filter.sortBy", key] if key else []), *(["--filter.asc"] if is_ascending else [])]


#: The filters of the history for which rainbowctl has a flag.
_HISTORY_FLAGS = {
    "project": "-p",
    "domain": "-d",
    "workflow": "-w",
    "launch_plan": "--launchplan",
    "after": "--since",
    "before": "--until",
    "actor": "--author",
    "cluster": "--cluster",
    "source": "--source",
}


def history_words(query: Mapping[str, str], noun: str | None) -> list[str]:
    """The command for the history that a query of REST asks for; `noun` is that of its kind."""
    flags = [word for name, flag in _HISTORY_FLAGS.items() if name in query for word in (flag, query[name])]
    flags += [f"--{name}" for name in ("executions", "creations") if query.get(name) == "true"]
    named = [query["name"]] if noun and "name" in query else []
    return ["history", *([noun] if noun else []), *named, *flags]


#: What a request for an execution may say, by its path in REST, as a flag of `rainbowctl create execution`.
_CREATE_FLAGS = {
    "cluster_assignment.cluster_pool_name": "--clusterPool",
    "execution_cluster_label.value": "--executionClusterLabel",
    "cluster": "--cluster",
    "strategy": "--strategy",
    "job.image": "--image",
    "job.resources.requests.cpu": "--cpu",
    "job.resources.requests.memory": "--memory",
    "job.resources.requests.gpu": "--gpu",
    "job.resources.nodes": "--nodes",
    "job.resources.tasks": "--tasks",
    "job.resources.duration": "--duration",
    "retry.on_lost": "--onLost",
}
_CREATE_MAPS = {"job.environment": "--env", "labels.values": "--label", "token_pools": "--tokenPool"}


def create_options(values: Mapping[str, Any]) -> list[str]:
    """What a form for an execution says, by the paths of REST's spec, as options of `rainbowctl create execution`."""
    options: list[str] = []
    for path, value in values.items():
        name = path.removeprefix("spec.")
        if name in _CREATE_FLAGS:
            options += [_CREATE_FLAGS[name], str(value)]
        elif name in _CREATE_MAPS and isinstance(value, Mapping):
            options += [word for key, text in value.items() for word in (_CREATE_MAPS[name], f"{key}={text}")]
        elif name == "retry.attempts" and isinstance(value, int) and value > 0:
            options += ["--retries", str(value - 1)]
        elif name == "overwrite_cache" and value is True:
            options.append("--overwriteCache")
        elif name.startswith("inputs."):
            options += ["--input", f"{name.removeprefix('inputs.')}={json.dumps(value, ensure_ascii=False)}"]
    return options


def tried_and_done(words: Sequence[str]) -> list[list[str]]:
    """A command as a dry run, which shows what it would do, and as the command that does it."""
    return [[*words, "--dryRun"], list(words)]


def update_options(change: Mapping[str, Any]) -> list[str]:
    """A change of a row as options of `rainbowctl update`; of a whole row, whose file is to be written first."""
    if "payload" in change:
        return ["--attrFile", "FILE"]
    options = [word for path, value in change["set"].items() for word in ("--set", f"{path}={_leaf_text(value)}")]
    for name in ("unset", "inherit"):
        options += [word for path in change[name] for word in (f"--{name}", path)]
    return options


def _leaf_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
