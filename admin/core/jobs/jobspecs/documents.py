"""What the forms of a jobspec have in common: their fields, commands, durations and annotations."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from admin.core.fields.compounds import DictOf, ListOf
from admin.core.fields.leaves import Duration, Text, known_keys
from admin.core.problems import Path, Problem, add_problem, quoted, shorten
from admin.core.quantities import DURATION_RULE

#: Any text: what a job may hold is checked when it is read as a job.
_TEXT = Text(pattern=r"(?s).*", min_length=0, max_length=2**31)
_TEXTS = ListOf(item=_TEXT, max_items=2**31, unique=False)
_TEXT_MAP = DictOf(key=_TEXT, value=_TEXT, max_entries=2**31)


def read_mapping(value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
    """A mapping with text as keys, empty where the value is none."""
    if not isinstance(value, Mapping):
        add_problem(problems, path, f"{quoted(value)} is not a mapping.")
        return {}
    return {str(key): item for key, item in value.items()}


def read_fields(
    value: Any,
    names: Collection[str],
    path: Path,
    problems: list[Problem],
    also: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The fields of a mapping; unknown and empty ones become problems."""
    fields = known_keys(read_mapping(value, path, problems), dict.fromkeys(names), path, problems, also)
    return without_nulls(fields, path, problems)


def without_nulls(fields: dict[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    """Fields without those that are left empty, which become problems."""
    for name in [name for name, item in fields.items() if item is None]:
        add_problem(problems, (*path, shorten(name)), "is left empty: give a value, or remove the line.")
    return {name: item for name, item in fields.items() if item is not None}


def without_unsupported(
    document: Mapping[str, Any],
    remedies: Mapping[str, str],
    path: Path,
    problems: list[Problem],
    harmless: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document without fields that jobs do not support; these become problems unless their value is harmless."""
    for key in (key for key in document if key in remedies):
        if harmless is None or key not in harmless or document[key] != harmless[key]:
            add_problem(problems, (*path, key), f"is not supported: remove it; {remedies[key]}.")
    return {key: value for key, value in document.items() if key not in remedies}


def check_version(document: Mapping[str, Any], path: Path, problems: list[Problem]) -> None:
    """Report a version other than 1."""
    if document.get("version") != 1 or isinstance(document["version"], bool):
        state = f"{quoted(document['version'])} is not supported" if "version" in document else "is missing"
        add_problem(problems, (*path, "version"), f"{state}: give version 1.")


def only_task(document: Mapping[str, Any], path: Path, problems: list[Problem]) -> tuple[dict[str, Any], Path]:
    """The only task of a jobspec, and its path."""
    if "task" in document:
        if "tasks" in document:
            add_problem(problems, (*path, "task"), "stands beside tasks: give one of the two.")
        return read_mapping(document["task"], (*path, "task"), problems), (*path, "task")
    tasks = document.get("tasks")
    where = (*path, "tasks")
    if not isinstance(tasks, list) or not tasks:
        state = "is missing" if tasks is None else "names no task"
        add_problem(problems, where, f"{state}: give a list of one task.")
        return {"command": ["?"]}, where  # so that the missing task is the only problem
    if len(tasks) > 1:
        reason = f"has {len(tasks)} tasks: give one, and create one execution for each of the others."
        add_problem(problems, where, reason)
    return read_mapping(tasks[0], (*where, "0"), problems), (*where, "0")


def read_command(
    document: Mapping[str, Any], path: Path, problems: list[Problem], may_be_text: bool = True
) -> list[str]:
    """The program and its arguments; a text is split at its spaces as a shell would, but never run by one."""
    where = (*path, "command")
    command = document.get("command")
    if isinstance(command, str) and may_be_text:
        return _split(command, where, problems)
    if not isinstance(command, list) or not command:
        state = f"{quoted(command)} is not a list" if command else "is missing"
        add_problem(problems, where, f"{state}: give the program and its arguments, such as [sleep, '60'].")
        return []
    return _TEXTS.read(command, where, problems) or []


def _split(command: str, path: Path, problems: list[Problem]) -> list[str]:
    if "\n" in command.strip():
        add_problem(problems, path, "has several lines: give a list, such as [sh, -c, 'the lines'].")
        return []
    try:
        words = shlex.split(command)
    except ValueError as error:
        add_problem(problems, path, f"{quoted(command)} cannot be split into words ({error}): give a list.")
        return []
    if not words:
        add_problem(problems, path, "is empty: give the program and its arguments.")
    return words


def read_attributes(attributes: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    """Environment, working directory and duration of a jobspec's attributes, under the job's names."""
    fields: dict[str, Any] = {}
    if "environment" in attributes:
        where = (*path, "environment")
        environment = read_mapping(attributes["environment"], where, problems)
        fields["environment"] = _TEXT_MAP.read(environment, where, problems)
    if "cwd" in attributes:
        fields["working_directory"] = optional_text(attributes, "cwd", path, problems)
    if "duration" in attributes:
        fields["duration"] = read_duration(attributes["duration"], (*path, "duration"), problems)
    return fields


def read_duration(value: Any, path: Path, problems: list[Problem]) -> str | None:
    """A duration from seconds or from text; zero seconds mean none."""
    if value == 0 and not isinstance(value, bool):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
        value = f"{value:.9f}".rstrip("0").rstrip(".") + "s"
    elif not isinstance(value, str):
        add_problem(problems, path, f"{quoted(value)} is neither seconds nor {DURATION_RULE}.")
        return None
    text: str | None = Duration().read(value, path, problems)
    return text


def optional_text(document: Mapping[str, Any], key: str, path: Path, problems: list[Problem]) -> str | None:
    """The text under a key, None where it is absent or no text."""
    text = document.get(key, "")
    if not isinstance(text, str):  # null too, which a leaf would take for unset
        add_problem(problems, (*path, key), f"{quoted(text)} is not text: put it in quotes.")
    return text if isinstance(text, str) and key in document else None


def to_annotations(values: Mapping[str, Any]) -> dict[str, str]:
    """Annotations for values that a job has no field for."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for key, value in values.items()
        if value is not None
    }
